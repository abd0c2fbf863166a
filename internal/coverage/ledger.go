// Package coverage answers three questions without sending anything: which windows
// exist, which are due, and how many requests they cost. It arranges the ledger and
// facts about the service for the plan, and fills a lost ledger from the
// sinks.
package coverage

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// Ledger is the state's entries, arranged for planning, and facts about the service. A reading
// that claims the future was made while the clock was ahead, and is not believed: its entry is
// marked analytics.Unbelieved, [Ledger.Series] leaves it out, and its window counts as missing.
type Ledger struct {
	// series has the entries, oldest first. There can be millions.
	series map[schedule.Series][]state.Entry
	Asides map[analytics.Key]analytics.Aside
	// Learned is what earlier runs learned about each series.
	Learned schedule.Learned
	// Sizes estimate how many requests a window takes.
	Sizes *schedule.Sizes
}

// Read reads the ledger as of now. [Selection.Plan] adds the pages
// in the spool to the estimates.
func Read(ctx context.Context, db *state.DB, now time.Time) (Ledger, error) {
	l := Ledger{
		series: map[schedule.Series][]state.Entry{},
		Asides: map[analytics.Key]analytics.Aside{}, Learned: schedule.Learned{},
	}
	err := db.EachEntry(ctx, func(e state.Entry) {
		// Made in the past, of a window that was complete.
		if e.ExportedAt.Equal(analytics.Unbelieved) || clock.IsFuture(e.ExportedAt, now) ||
			clock.IsFuture(e.To.Time(), now) {
			e.Settled, e.Verified = false, false
			e.ExportedAt, e.Provenance = analytics.Unbelieved, analytics.Provenance{}
		}
		series := schedule.SeriesOf(e.Key)
		l.series[series] = append(l.series[series], e)
	})
	if err != nil {
		return l, err
	}
	sizes, err := db.PageSizes(ctx)
	if err != nil {
		return l, err
	}
	l.Sizes = schedule.NewSizes(nil)
	for e := range l.All() {
		if e.ExportedAt != analytics.Unbelieved {
			l.Sizes.Learn(e.Key, e.Rows)
		}
	}
	asides, err := db.Asides(ctx)
	if err != nil {
		return l, err
	}
	for _, a := range asides {
		if a.Until.After(now.Add(schedule.Rest(a))) {
			a.Since, a.Until = now, now // the clock was ahead: the pause is over
		}
		l.Asides[a.Key] = a
	}
	movements, err := db.Movements(ctx)
	if err != nil {
		return l, err
	}
	for _, m := range movements {
		if clock.IsFuture(m.At, now) {
			continue
		}
		of := schedule.Series{Source: schedule.Source{Project: m.Project, Report: m.Report}, Granularity: m.Granularity}
		if m.Kind == string(schedule.DayPages) {
			l.Sizes.SetChecked(of.Source, m.Times)
			continue
		}
		l.Learned.Set(of, schedule.Fact(m.Kind), m.Times, m.At)
	}
	for _, s := range sizes {
		if of := (schedule.Source{Project: s.Project, Report: s.Report}); l.Learned.KnowsPageSize(of, now) {
			l.Sizes.SetPerPage(of, s.Rows)
		}
	}
	return l, nil
}

// countPagesInSpool adds the number of pages in the spool to the estimates. Pages
// of another revision do not count, nor those read before the window could settle once
// it can: such readings begin anew.
func (l Ledger) countPagesInSpool(stateDir string, now time.Time, settle time.Duration) error {
	underWay, err := spool.ListUnderWay(stateDir)
	for _, u := range underWay {
		former, _ := l.Known(u.Key)
		settles := u.To.Time().Add(settle)
		anew := !now.Before(settles) && u.Started.Before(settles)
		if u.Revision == former.Number+1 && !anew && !clock.IsFuture(u.Started, now) {
			l.Sizes.SetBegun(u.Key, u.Pages)
		}
	}
	return err
}

// Known returns the window's last reading, if there is one. Where it is not believed, the
// next one has a greater number all the same.
func (l Ledger) Known(k analytics.Key) (analytics.Revision, bool) {
	if e := l.Entry(k); e != nil {
		return e.Revision, true
	}
	return analytics.Revision{}, false
}

// Entry returns the entry of a window, or nil.
func (l Ledger) Entry(k analytics.Key) *state.Entry {
	entries := l.series[schedule.SeriesOf(k)]
	at, known := slices.BinarySearchFunc(entries, k.Window, func(e state.Entry, w analytics.Window) int {
		return cmp.Or(cmp.Compare(e.From, w.From), cmp.Compare(e.To, w.To))
	})
	if !known {
		return nil
	}
	return &entries[at]
}

// IsEmpty reports whether no window was ever read.
func (l Ledger) IsEmpty() bool { return len(l.series) == 0 }

// All yields the entries, within a series the oldest first.
func (l Ledger) All() iter.Seq[*state.Entry] {
	return func(yield func(*state.Entry) bool) {
		for _, entries := range l.series {
			for i := range entries {
				if !yield(&entries[i]) {
					return
				}
			}
		}
	}
}

// Series yields the entries of one series, newest first.
func (l Ledger) Series(series schedule.Series) iter.Seq[*state.Entry] {
	return func(yield func(*state.Entry) bool) {
		entries := l.series[series]
		for i := range slices.Backward(entries) {
			if e := &entries[i]; e.ExportedAt != analytics.Unbelieved && !yield(e) {
				return
			}
		}
	}
}

// NewestWeek returns the newest complete week of visitors that was read, or nil.
func (l Ledger) NewestWeek(project string, now time.Time) *state.Entry {
	return l.Newest(schedule.Series{Source: schedule.Source{Project: project}, Granularity: analytics.Week}, now)
}

// Newest returns the newest complete window of a series that was read, or nil.
func (l Ledger) Newest(series schedule.Series, now time.Time) *state.Entry {
	for e := range l.Series(series) {
		if e.Complete(now) {
			return e
		}
	}
	return nil
}

// Cost is how many requests the items will probably take.
func (l Ledger) Cost(items []schedule.Item) int {
	sum := 0
	for _, item := range items {
		n, _ := l.Sizes.Requests(item)
		sum += n
	}
	return sum
}

// setAside lists the configured windows that are set aside at the plan's time, the
// newest first. A running window is never among them: every run asks for it.
func (l Ledger) setAside(in schedule.Input) []analytics.Aside {
	out := []analytics.Aside{}
	for k, a := range l.Asides {
		if isConfigured(k, in.Projects, in.Reports, in.Specs) && a.Until.After(in.Now) && a.Complete(in.Now) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b analytics.Aside) int { return newestFirst(a.Key, b.Key) })
	return out
}

func isConfigured(
	k analytics.Key, projects []string, reports []analytics.Report, specs []analytics.Spec,
) bool {
	return slices.Contains(projects, k.Project) && sinks.Offers(reports, k.Report) &&
		slices.ContainsFunc(specs, func(s analytics.Spec) bool { return s.Granularity == k.Granularity })
}

func newestFirst(a, b analytics.Key) int {
	return cmp.Or(cmp.Compare(b.To, a.To), cmp.Compare(a.Project, b.Project),
		cmp.Compare(a.Report, b.Report), cmp.Compare(a.Granularity, b.Granularity), cmp.Compare(a.From, b.From))
}
