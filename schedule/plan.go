// Package schedule says which windows are due, why, and in which order: the calendar of windows of each
// granularity, the plan of one run, and the arithmetic of its requests.
//
// It guarantees that windows tile the calendar, that a plan names no window twice and no incomplete
// window but the open ones that were asked for, that no project starves, and that every window is read
// a bounded number of times: once when it is complete, and once or twice when it settles.
//
// It does no I/O and, except for Cron.Run, has no clock: the time, the ledger and
// the configuration are passed in as values. It neither spends the budget nor fetches.
//
// A Cron says when a daemon runs, in UTC, and runs it: never two runs at once, and
// neither a panic nor a run that hangs goes unreported or ends the schedule.
package schedule

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Reason is why a window is due: the reason label of docgauge_windows_due.
type Reason string

// The reasons.
const (
	// ReasonMissing: the ledger has no revision of the window, or only totals
	// where rows are wanted, or no sink has it any more.
	ReasonMissing Reason = "missing"
	// ReasonSettle: the window can no longer change and was last read before that.
	ReasonSettle Reason = "settle"
	// ReasonUnverified: the window can no longer change, and its last reading drifted.
	ReasonUnverified Reason = "unverified"
	// ReasonAsked: named by the operator.
	ReasonAsked Reason = "asked"
	// ReasonOpen: the running window, for the gauges; it is never committed.
	ReasonOpen Reason = "open"
)

// Item is one window to read.
type Item struct {
	analytics.Key
	// TotalsOnly asks for the site totals alone, also where the ledger has rows of the
	// window from before its granularity was configured that way.
	TotalsOnly bool
	Reason     Reason
	// Newest reports whether this is the newest complete window of its granularity.
	Newest bool
	// Shared: another window before it in the plan has the same days, and its pages are this one's too.
	Shared bool
	// NotBefore is when the reading may have begun at the earliest; zero: at any time.
	NotBefore time.Time
	// Why explains to people why a window is not simply read.
	Why string
}

// IsEarly reports whether a window is not exported because it begins before the first day with data: unless it was
// named, or is read for the gauges alone.
func (i Item) IsEarly(dataFrom analytics.Date) bool {
	return i.From < dataFrom && i.Reason != ReasonAsked && i.Reason != ReasonOpen
}

// Input is everything a plan depends on.
type Input struct {
	Now      time.Time
	Projects []string
	// Reports are those that are exported; empty: visitors.
	Reports []analytics.Report
	// Lacks reports whether the service does not have a report of a project, as it said lately: nothing
	// of that is due. nil: it has all.
	Lacks func(Source) bool
	// Refused returns when the service refused a source, and until when its windows wait for that reason.
	// nil: it refuses none.
	Refused func(Source) (at, until time.Time)
	// DataFrom returns the first day of which the service has data of a project, and whether that is known: no window
	// that begins before it is due, whatever the ledger has. While there is no data before tomorrow, the newest windows
	// are due, to ask again. nil: not known.
	DataFrom func(project string) (analytics.Date, bool)
	// Specs in configured order. Of two for one granularity, the one that wants rows counts.
	Specs []analytics.Spec
	// Open lists the granularities whose running window is read for the gauges.
	Open []analytics.Granularity
	// Since: windows that begin on or after it are backfilled. The newest complete window
	// of each granularity and the one before it are read even if they begin earlier, but not before DataFrom.
	Since analytics.Date
	// Settle is the time after its end during which a window can still change.
	Settle time.Duration
	// Known returns the newest revision of a window in the ledger. Required.
	Known func(analytics.Key) (analytics.Revision, bool)
	// Provisional lists the windows in the ledger that are not settled, or lost, in any order. That is how windows
	// older than Since are settled; windows of projects and granularities that are not configured are left alone.
	Provisional []analytics.Key
	// Lost reports whether no sink has a window of the ledger any more: it is read again,
	// even if it begins before Since. nil: none is lost.
	Lost func(analytics.Key) bool
	// Began is when a reading of windows named by their dates began; zero: now. [Asked]
	// leaves out windows that were read since.
	Began time.Time
	// Rotate chooses the project that comes first; it grows by one each run.
	Rotate int
	// Aside returns what is known of a window that failed; it is not due before
	// its time. nil: none failed.
	Aside func(analytics.Key) (analytics.Aside, bool)
	// GaveUp reports whether the rows of a window, whose totals the ledger has, were
	// given up because they moved. They are read when it has settled. nil: of none.
	GaveUp func(analytics.Key) bool
	// Policy decides, with Sizes, for which windows only the totals are read
	// now. If Sizes is nil: for none.
	Policy Policy
	Sizes  *Sizes
}

// tier is a class of due windows. A plan lists tier after tier.
type tier int

const (
	tierNewest   tier = iota // newest complete windows, missing; in spec order
	tierOpen                 // running windows; in configured order
	tierPrevious             // the windows before the newest, missing; in spec order
	tierSettling             // provisional windows that can no longer change; rolling ones last
	tierBackfill             // missing day, week and month windows
	tierRolling              // missing rolling windows
	tiers
	notDue = tiers
)

// Plan returns the windows to read now, in order: missing newest windows, open windows, the missing ones before the
// newest, settling windows, backfill, rolling backfill; the last three from new to old. In each of the six, the
// windows of one report follow the windows of another, and of each the projects take turns. No window comes twice;
// of several windows with the same days the first is read for all. If the first window of the plan failed before,
// one that did not precedes it.
//
// It also returns the windows that wait for their time: those that are set aside, alone or with
// their source, and those whose
// totals are known and whose rows are read when they have settled. The Why of each says so.
func Plan(in Input) (due, waiting []Item) {
	p := newPlanner(in)
	queues := make([][tiers][][]Item, len(p.reports))
	for r, report := range p.reports {
		for _, project := range p.projects {
			for t, items := range p.tiers(Source{project, report}) {
				queues[r][t] = append(queues[r][t], items)
			}
		}
	}
	for t := range tiers {
		for r := range queues {
			due = interleave(due, queues[r][t])
			queues[r][t] = nil
		}
	}
	p.lead(due)
	p.share(due)
	return due, p.waiting
}

// tiers returns the due windows of a source, tier by tier.
func (p *planner) tiers(source Source) (items [tiers][]Item) {
	for _, spec := range p.specs {
		wanted := Wanted{source, spec}
		for w := range p.windows(wanted) {
			item, t := p.classify(wanted, w)
			if t != notDue {
				items[t] = append(items[t], item)
			}
		}
	}
	for _, g := range distinct(p.in.Open) {
		w, ok := Open(g, p.today)
		if _, until := p.refused(source); ok && source.Report == analytics.VisitorsReport && !until.After(p.in.Now) {
			key := analytics.Key{Project: source.Project, Granularity: g, Window: w}
			items[tierOpen] = append(items[tierOpen], Item{Key: key, TotalsOnly: true, Reason: ReasonOpen})
		}
	}
	for t := tierSettling; t < tiers; t++ {
		slices.SortStableFunc(items[t], rollingLastThenNewest)
	}
	return items
}

// Wanted names the windows of one granularity that are wanted of a source, and whether without rows.
type Wanted struct {
	Source
	analytics.Spec
}

// Key returns the key of one of the windows.
func (w Wanted) Key(window analytics.Window) analytics.Key {
	return analytics.Key{Project: w.Project, Granularity: w.Granularity, Window: window, Report: w.Report}
}

// Days are the parameters of a request: windows of several granularities can have the same.
type Days struct {
	Source
	analytics.Window
}

// DaysOf returns the days of a window.
func DaysOf(k analytics.Key) Days { return Days{SourceOf(k), k.Window} }

// share marks the windows that get their pages from one before them. Of a window that was
// begun by itself the pages are used.
func (p *planner) share(items []Item) {
	totalsOnly := make(map[Days]bool, len(items)) // of the window that is read
	for i := range items {
		item := &items[i]
		if item.Reason == ReasonOpen {
			continue
		}
		only, before := totalsOnly[DaysOf(item.Key)]
		if item.Shared = before && (!only || item.TotalsOnly) && p.begun(*item) == 0; !item.Shared {
			totalsOnly[DaysOf(item.Key)] = item.TotalsOnly
		}
	}
}

// lead moves the window that is tried first to the front. Until the service has answered, a
// window that failed before is not tried while there is another ([TriedBefore]).
func (p *planner) lead(items []Item) {
	if len(items) == 0 {
		return
	}
	first := 0
	var best analytics.Aside
	for i, item := range items {
		a, failed := p.aside(item.Key)
		if i == 0 || TriedBefore(a, best, p.begun(item), p.begun(items[first])) {
			first, best = i, a
		}
		if !failed {
			break
		}
	}
	item := items[first]
	copy(items[1:], items[:first])
	items[0] = item
}

func (p *planner) begun(item Item) int {
	if p.in.Sizes == nil {
		return 0
	}
	return p.in.Sizes.Begun(item.Key)
}

// TriedBefore reports whether a window with failures a and so many pages in the spool is
// tried before another one, of the same plan and behind it: they take turns, and of two with
// the same number of failures the one that is begun comes first.
func TriedBefore(a, other analytics.Aside, begun, otherBegun int) bool {
	return a.Failures < other.Failures || a.Failures == other.Failures && begun > 0 && otherBegun == 0
}

// Gaps returns the windows that [Plan] calls missing, newest first.
func Gaps(in Input, wanted Wanted) []analytics.Window {
	var gaps []analytics.Window
	p := newPlanner(in)
	for w := range p.windows(wanted) {
		if item, revision, known := p.item(wanted, w); p.isMissing(item, revision, known) {
			gaps = append(gaps, w)
		}
	}
	return gaps
}

// Early returns how many missing windows are not due because they begin before the service has data.
func Early(in Input, wanted Wanted) int {
	p := newPlanner(in)
	previous := Previous(wanted.Granularity, Newest(wanted.Granularity, p.today))
	if from, known := p.dataFrom(wanted.Project); !known || from <= min(in.Since, previous.From) {
		return 0
	}
	all := in
	all.DataFrom = nil
	n := len(Gaps(all, wanted))
	if !p.hasNoData(wanted.Project) {
		n -= len(Gaps(in, wanted))
	}
	return n
}

// Asked returns exactly the windows of the specs that lie wholly inside [from, to) and were not read
// since in.Began, whatever else the ledger knows about them: newest first (ties in spec order), the
// projects taking turns. waiting are those that failed since then and are not tried again yet; all is
// the number of windows inside, those that were read included. Every error is a mistake of the caller:
// from >= to, to after today (UTC), or no window that fits.
func Asked(in Input, from, to analytics.Date) (items, waiting []Item, all int, err error) {
	p := newPlanner(in)
	asked := analytics.Window{From: from, To: to}
	switch {
	case from >= to:
		return nil, nil, 0, fmt.Errorf("window %s is empty: its end is exclusive and must be after its start; "+
			"for the single day %s give the end %s", asked, from, from+1)
	case !asked.Complete(in.Now):
		return nil, nil, 0, fmt.Errorf("window %s is not complete until %s 00:00 UTC: give an end up to %s", asked,
			to, p.today)
	}
	for _, report := range p.reports {
		var queues [][]Item
		for _, project := range p.projects {
			asked, n := p.asked(Source{project, report}, from, to)
			queues = append(queues, asked)
			all += n
		}
		items = interleave(items, queues)
	}
	if all == 0 {
		var names []string
		for _, spec := range p.specs {
			names = append(names, string(spec.Granularity))
		}
		return nil, nil, 0, fmt.Errorf(
			"no window of %s lies wholly inside %s: widen it, or choose a shorter granularity",
			strings.Join(names, ", "), asked)
	}
	p.lead(items)
	p.share(items)
	return items, p.waiting, all, nil
}

// asked returns the windows of a source inside [from, to) that are to be read, and how many there are.
func (p *planner) asked(source Source, from, to analytics.Date) (items []Item, all int) {
	if p.lacks(source) {
		return nil, 0
	}
	for _, spec := range p.specs {
		wanted := Wanted{source, spec}
		if !wanted.Report.HasWindows(wanted.Granularity) {
			continue
		}
		for w := range Within(spec.Granularity, from, to) {
			all++
			item, revision, known := p.item(wanted, w)
			item.Reason, item.NotBefore = ReasonAsked, p.in.Began
			if known && p.wasRead(item, revision) {
				continue
			}
			if p.failedSince(item.Key) && p.waits(&item, known) {
				p.waiting = append(p.waiting, item)
				continue
			}
			items = append(items, item)
		}
	}
	slices.SortStableFunc(items, func(a, b Item) int { return newestFirst(a.Window, b.Window) })
	return items, all
}

func (p *planner) isLost(k analytics.Key) bool { return p.in.Lost != nil && p.in.Lost(k) }

// wasRead reports whether a window was read since the reading began, and a sink still has it. A time in the future
// comes from a wrong clock.
func (p *planner) wasRead(item Item, revision analytics.Revision) bool {
	at := revision.ExportedAt
	return !p.in.Began.IsZero() && !at.Before(p.in.Began) && !at.After(p.in.Now) &&
		(item.TotalsOnly || !revision.TotalsOnly()) &&
		!p.isLost(item.Key)
}

// Settles reports whether a reading of w settles it: it was made at or after w.To + settle, and it is
// verified or an earlier reading was made that late too. So an unverified reading after the settle time
// gets one second chance, in the next run, and no more: the number of requests stays bounded even where
// the service drifts for ever.
//
// readAt is Revision.ExportedAt of the reading, when its first page was requested, and previously is ExportedAt of
// the newest revision before it. previously is the zero time for the first revision, and if the revision before has
// only totals and this reading has rows.
func Settles(w analytics.Window, settle time.Duration, readAt time.Time, verified bool, previously time.Time) bool {
	return ripe(w, settle, readAt) && (verified || ripe(w, settle, previously))
}

// ripe reports whether w can no longer change at the given time.
func ripe(w analytics.Window, settle time.Duration, now time.Time) bool {
	return !now.Before(w.To.Time().Add(settle))
}

// planner is a prepared Input: no duplicates, the projects in the order of this run.
type planner struct {
	in       Input
	today    analytics.Date
	projects []string
	reports  []analytics.Report
	specs    []analytics.Spec
	// older has the complete provisional windows that begin before Since, newest first.
	older map[Series][]analytics.Window
	// waiting collects what would be due if its time had come.
	waiting []Item
}

func newPlanner(in Input) *planner {
	p := &planner{
		in: in, today: analytics.DateOf(in.Now), projects: distinct(in.Projects),
		reports: distinct(in.Reports), older: map[Series][]analytics.Window{},
	}
	if len(p.reports) == 0 {
		p.reports = []analytics.Report{analytics.VisitorsReport}
	}
	if n := len(p.projects); n > 0 {
		first := (in.Rotate%n + n) % n
		p.projects = slices.Concat(p.projects[first:], p.projects[:first])
	}
	for _, spec := range in.Specs {
		i := slices.IndexFunc(p.specs, func(s analytics.Spec) bool { return s.Granularity == spec.Granularity })
		if i < 0 {
			p.specs = append(p.specs, spec)
			continue
		}
		p.specs[i].TotalsOnly = p.specs[i].TotalsOnly && spec.TotalsOnly
	}
	for _, key := range distinct(in.Provisional) {
		if key.From < in.Since && key.To <= p.today {
			p.older[SeriesOf(key)] = append(p.older[SeriesOf(key)], key.Window)
		}
	}
	for _, windows := range p.older {
		slices.SortFunc(windows, newestFirst)
	}
	return p
}

// windows yields the windows that the plan is about, newest first and each once: the
// newest complete one, those that begin on or after Since, the one before the newest,
// and older ones that are provisional. None of a source that the service lacks, or that begins before the service has
// data; while it has none, the newest.
func (p *planner) windows(wanted Wanted) iter.Seq[analytics.Window] {
	return func(yield func(analytics.Window) bool) {
		if p.lacks(wanted.Source) || !wanted.Report.HasWindows(wanted.Granularity) {
			return
		}
		g := wanted.Granularity
		newest := Newest(g, p.today)
		previous := Previous(g, newest)
		if p.hasNoData(wanted.Project) {
			yield(newest)
			return
		}
		if from, known := p.dataFrom(wanted.Project); known {
			all := yield
			yield = func(w analytics.Window) bool { return w.From < from || all(w) }
		}
		early := func(w analytics.Window) bool { return w.From < p.in.Since && w.From < w.To }
		if early(newest) && !yield(newest) {
			return
		}
		for w := range Within(g, p.in.Since, p.today) {
			if !yield(w) {
				return
			}
		}
		if early(previous) && !yield(previous) {
			return
		}
		for _, w := range p.older[Series{wanted.Source, g}] {
			if w != newest && w != previous && !yield(w) {
				return
			}
		}
	}
}

func (p *planner) dataFrom(project string) (analytics.Date, bool) {
	if p.in.DataFrom == nil {
		return 0, false
	}
	return p.in.DataFrom(project)
}

// hasNoData reports whether the service has said that it has no data of a project of any day so far.
func (p *planner) hasNoData(project string) bool {
	from, known := p.dataFrom(project)
	return known && from > p.today
}

func (p *planner) lacks(source Source) bool { return p.in.Lacks != nil && p.in.Lacks(source) }

// isPrevious reports whether w is the window before the newest complete one.
func (p *planner) isPrevious(g analytics.Granularity, w analytics.Window) bool {
	return w == Previous(g, Newest(g, p.today))
}

// classify returns w as an item and its tier, or notDue.
func (p *planner) classify(wanted Wanted, w analytics.Window) (Item, tier) {
	item, revision, known := p.item(wanted, w)
	if p.hasNoData(wanted.Project) {
		item.Why = "exported once the service has data of the project"
	}
	t := tierSettling
	switch {
	case p.isMissing(item, revision, known):
		item.Reason = ReasonMissing
		switch {
		case item.Newest:
			t = tierNewest
		case p.isPrevious(item.Granularity, w):
			t = tierPrevious
		case item.Granularity.RollingDays() > 0:
			t = tierRolling
		default:
			t = tierBackfill
		}
	case !known || revision.Settled || !ripe(w, p.in.Settle, p.in.Now):
		return item, notDue
	case revision.Verified:
		item.Reason = ReasonSettle
	default:
		item.Reason = ReasonUnverified
	}
	if p.waits(&item, known) {
		p.waiting = append(p.waiting, item)
		return item, notDue
	}
	return item, t
}

// waits reports whether a due window is not read now, and notes the decision in it: it is set
// aside; or its rows are read later, in which case its totals are read first.
func (p *planner) waits(item *Item, known bool) bool {
	if _, until := p.refused(SourceOf(item.Key)); until.After(p.in.Now) {
		item.Why = fmt.Sprintf("skipped until %s: the service refuses it", until.UTC().Format(minuteLayout))
		return true
	}
	if a, failed := p.aside(item.Key); failed && p.rests(a) {
		item.Why = fmt.Sprintf("skipped until %s: %s (failure %d)", a.Until.UTC().Format(minuteLayout), a.Reason,
			a.Failures)
		if GivenUp(a) {
			item.Why = fmt.Sprintf("not read again: %s (failure %d); export --again --from %s --to %s reads it",
				a.Reason, a.Failures, a.From, a.To)
		}
		return true
	}
	if item.Reason != ReasonMissing {
		return false
	}
	if p.in.GaveUp != nil && known && !ripe(item.Window, p.in.Settle, p.in.Now) && p.in.GaveUp(item.Key) {
		item.Why = rowsFrom(item.Window, p.in.Settle) + ": they moved while they were read"
		return true
	}
	if p.in.Sizes == nil || item.TotalsOnly {
		return false
	}
	pages, _ := p.in.Sizes.Pages(*item)
	why, totals := p.in.Policy.TotalsFirst(item.Key, pages, p.in.Now)
	if totals {
		item.TotalsOnly, item.Why = true, why
	}
	return totals && known
}

// rests reports whether a window is not read yet because it failed. A window of which the
// service sent no rows is read when it settles, whatever happened before.
func (p *planner) rests(a analytics.Aside) bool {
	return a.Until.After(p.in.Now) && (a.Reason != analytics.AsideEmpty ||
		ripe(a.Window, p.in.Settle, p.failedAt(a)) == ripe(a.Window, p.in.Settle, p.in.Now))
}

// failedAt is when a window that rests failed last.
func (p *planner) failedAt(a analytics.Aside) time.Time { return a.Until.Add(-Rest(a)) }

// failedSince reports whether a window, or its whole source, failed since the reading of named windows began.
func (p *planner) failedSince(k analytics.Key) bool {
	if p.in.Began.IsZero() {
		return false
	}
	at, _ := p.refused(SourceOf(k))
	a, failed := p.aside(k)
	return failed && !p.failedAt(a).Before(p.in.Began) || !at.Before(p.in.Began)
}

func (p *planner) refused(source Source) (at, until time.Time) {
	if p.in.Refused == nil {
		return at, until
	}
	return p.in.Refused(source)
}

// aside returns the record of a window that failed.
func (p *planner) aside(k analytics.Key) (a analytics.Aside, failed bool) {
	if p.in.Aside == nil {
		return a, false
	}
	return p.in.Aside(k)
}

// item returns w as an item without a reason, and its newest revision.
func (p *planner) item(wanted Wanted, w analytics.Window) (Item, analytics.Revision, bool) {
	key := wanted.Key(w)
	revision, known := p.in.Known(key)
	return Item{Key: key, TotalsOnly: wanted.TotalsOnly, Newest: w == Newest(wanted.Granularity, p.today)}, revision, known
}

// isMissing reports whether item should be exported and the ledger does not have it,
// or has only its totals where rows are wanted, or no sink has it any more.
func (p *planner) isMissing(item Item, revision analytics.Revision, known bool) bool {
	if known && p.isLost(item.Key) {
		return true
	}
	if item.From < p.in.Since && !item.Newest && !p.isPrevious(item.Granularity, item.Window) {
		return false
	}
	return !known || revision.TotalsOnly() && !item.TotalsOnly
}

// rollingLastThenNewest keeps ties in their order, the order of the specification.
func rollingLastThenNewest(a, b Item) int {
	aRolls, bRolls := a.Granularity.RollingDays() > 0, b.Granularity.RollingDays() > 0
	switch {
	case aRolls && !bRolls:
		return 1
	case bRolls && !aRolls:
		return -1
	}
	return newestFirst(a.Window, b.Window)
}

func newestFirst(a, b analytics.Window) int { return cmp.Compare(b.To, a.To) }

// interleave appends one item of each queue in turn, until all are empty. There can be
// millions, so items grows once.
func interleave(items []Item, queues [][]Item) []Item {
	sum := 0
	for _, queue := range queues {
		sum += len(queue)
	}
	items = slices.Grow(items, sum)
	for i, left := 0, true; left; i++ {
		left = false
		for _, queue := range queues {
			if i < len(queue) {
				items = append(items, queue[i])
				left = true
			}
		}
	}
	return items
}

// distinct returns the values of s, each at its first place.
func distinct[T comparable](s []T) []T {
	seen := make(map[T]bool, len(s))
	var first []T
	for _, v := range s {
		if !seen[v] {
			seen[v] = true
			first = append(first, v)
		}
	}
	return first
}
