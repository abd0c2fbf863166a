// Package coverage answers three questions without sending anything: which windows
// are there, which are due, and what reading them costs. It arranges the ledger and
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
)

// Ledger is the state's entries, arranged for planning, and facts about the service. A reading
// that claims the future was made while the clock was ahead, and is not
// believed: its entry was exported at analytics.Unbelieved, [Ledger.Series] leaves it out,
// and its window is missing.
type Ledger struct {
	// series has the entries, oldest first. There can be millions.
	series map[schedule.Series][]state.Entry
	Asides map[analytics.Key]analytics.Aside
	// Learned is what earlier runs learned about each series.
	Learned schedule.Learned
	// Sizes estimate how many requests a window takes.
	Sizes *schedule.Sizes
}

// Read reads the ledger as of now. [Selection.Plan] adds to the estimates what the spool has.
func Read(ctx context.Context, db *state.DB, now time.Time) (Ledger, error) {
	l := Ledger{
		series: map[schedule.Series][]state.Entry{},
		Asides: map[analytics.Key]analytics.Aside{}, Learned: schedule.Learned{},
	}
	err := db.EachEntry(ctx, func(e state.Entry) {
		if !isBelieved(e.Revision, now) {
			e.Settled, e.Verified = false, false
			e.ExportedAt, e.Provenance = analytics.Unbelieved, analytics.Provenance{}
		}
		series := schedule.SeriesOf(e.Key)
		l.series[series] = append(l.series[series], e)
	})
	if err != nil {
		return l, err
	}
	perPage, err := db.PageRows(ctx)
	if err != nil {
		return l, err
	}
	l.Sizes = schedule.NewSizes(perPage)
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
		if m.Kind == string(schedule.DayPages) {
			l.Sizes.SetChecked(m.Project, m.Times)
			continue
		}
		l.Learned.Set(schedule.Series{Project: m.Project, Granularity: m.Granularity}, schedule.Fact(m.Kind), m.Times,
			m.At)
	}
	return l, nil
}

// countPagesInSpool tells the estimates how many pages are in the spool already. Pages
// of another revision do not count, nor those read before the window could settle once
// it can: such readings begin anew.
func (l Ledger) countPagesInSpool(stateDir string, now time.Time, settle time.Duration) error {
	underWay, err := spool.ListUnderWay(stateDir)
	for _, u := range underWay {
		if u.Revision != l.number(u.Key)+1 {
			continue
		}
		settles := u.To.Time().Add(settle)
		if !now.Before(settles) && u.Started.Before(settles) || clock.IsFuture(u.Started, now) {
			continue
		}
		l.Sizes.SetBegun(u.Key, u.Pages)
	}
	return err
}

// isBelieved reports whether a reading was made in the past, of a window that was complete.
func isBelieved(r analytics.Revision, now time.Time) bool {
	return r.ExportedAt != analytics.Unbelieved && !clock.IsFuture(r.ExportedAt, now) &&
		!clock.IsFuture(r.To.Time(), now)
}

// believed returns the window's last reading, if there is one and it is believed.
func (l Ledger) believed(k analytics.Key) (analytics.Revision, bool) {
	rev, ok := l.Known(k)
	return rev, ok && rev.ExportedAt != analytics.Unbelieved
}

// Known returns the window's last reading, if there is one. Where it is not believed, the
// next one has a greater number all the same.
func (l Ledger) Known(k analytics.Key) (analytics.Revision, bool) {
	if e := l.find(k); e != nil {
		return e.Revision, true
	}
	return analytics.Revision{}, false
}

// number is that of the window's last reading, 0 if there is none.
func (l Ledger) number(k analytics.Key) int32 {
	rev, _ := l.Known(k)
	return rev.Number
}

// Entry returns what the ledger has of a window, if it has anything.
func (l Ledger) Entry(k analytics.Key) (state.Entry, bool) {
	if e := l.find(k); e != nil {
		return *e, true
	}
	return state.Entry{}, false
}

func (l Ledger) find(k analytics.Key) *state.Entry {
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

// All yields the entries, those of a series oldest first.
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

// Series yields the entries of one project and granularity, newest first.
func (l Ledger) Series(project string, g analytics.Granularity) iter.Seq[*state.Entry] {
	return func(yield func(*state.Entry) bool) {
		entries := l.series[schedule.Series{Project: project, Granularity: g}]
		for i := range slices.Backward(entries) {
			if e := &entries[i]; e.ExportedAt != analytics.Unbelieved && !yield(e) {
				return
			}
		}
	}
}

// Newest returns the newest complete window of a series that was read, nil if there
// is none.
func (l Ledger) Newest(project string, g analytics.Granularity, now time.Time) *analytics.Revision {
	for e := range l.Series(project, g) {
		if e.Complete(now) {
			return &e.Revision
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

// Lacking counts the windows that each sink lacks.
func (l Ledger) Lacking(sinks []string) map[string]int {
	out := map[string]int{}
	for _, name := range sinks {
		out[name] = 0
		for e := range l.All() {
			if e.Sinks[name].IsZero() {
				out[name]++
			}
		}
	}
	return out
}

// Unverified lists the windows of the projects whose last reading is not verified, the
// newest first.
func (l Ledger) Unverified(projects []string) []state.Entry {
	var out []state.Entry
	for e := range l.All() {
		if !e.Verified && e.ExportedAt != analytics.Unbelieved && slices.Contains(projects, e.Project) {
			out = append(out, *e)
		}
	}
	slices.SortFunc(out, func(a, b state.Entry) int { return newestFirst(a.Key, b.Key) })
	return out
}

// SetAside lists the configured windows that are set aside at the plan's time, the
// newest first. A running window is never among them: every run asks for it.
func (l Ledger) SetAside(in schedule.Input) []analytics.Aside {
	out := []analytics.Aside{}
	for k, a := range l.Asides {
		configured := slices.Contains(in.Projects, k.Project) &&
			slices.ContainsFunc(in.Specs, func(s analytics.Spec) bool { return s.Granularity == a.Granularity })
		if configured && a.Until.After(in.Now) && a.Complete(in.Now) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b analytics.Aside) int { return newestFirst(a.Key, b.Key) })
	return out
}

func newestFirst(a, b analytics.Key) int {
	return cmp.Or(cmp.Compare(b.To, a.To), cmp.Compare(a.Project, b.Project),
		cmp.Compare(a.Granularity, b.Granularity), cmp.Compare(a.From, b.From))
}
