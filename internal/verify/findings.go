package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
)

// Kind is the kind of a finding. Faults have the kinds of [sinks.FaultKind].
type Kind string

const (
	missing     Kind = "missing"     // the sink does not show it
	extra       Kind = "extra"       // the ledger does not know it
	otherRev    Kind = "revision"    // another revision is shown
	otherRows   Kind = "rows"        // not as many rows as were committed
	otherTotals Kind = "totals"      // other site totals are shown
	otherSum    Kind = "checksum"    // other rows are shown
	implausible Kind = "implausible" // counts that contradict each other
	suspect     Kind = "suspect"     // pages that add up to less than the site
	unlisted    Kind = "unlisted"    // the sink could not be inspected
)

// Finding is something wrong with one window.
type Finding struct {
	// Key is the window; empty for a finding about the whole sink.
	Key analytics.Key `json:"-"`
	// Sink is where; empty for counts that the service sent.
	Sink   string `json:"sink,omitempty"`
	Kind   Kind   `json:"kind"`
	Detail string `json:"detail"`
	Remedy Remedy `json:"remedy"`
	// From is the sink that Remedy copies from.
	From string `json:"remedy_from,omitempty"`
	// Rows is how many rows the window has, for Remedy Read.
	Rows int64 `json:"-"`
	// emptied: the sink shows none of its windows.
	emptied bool
}

// Report lists the findings.
type Report struct {
	// Windows counts those that the ledger has in scope, Shown those that each sink shows.
	Windows int
	Shown   map[string]int
	// Findings are in the order of their windows.
	Findings []Finding
	// Remarks are of kind suspect: nothing is damaged, and nothing has to be done.
	Remarks []Finding
	// Busy are windows that were written each time while they were inspected.
	Busy []analytics.Key
	// unrecorded are revisions that a sink shows whole, by sink, and the ledger does not say so.
	unrecorded map[string][]analytics.Revision
}

// ofSinks returns the findings about whole sinks.
func (w *survey) ofSinks() []Finding {
	out := w.strays
	for _, name := range w.order {
		if err := w.unlisted[name]; err != nil {
			out = append(out, Finding{Sink: name, Kind: unlisted, Detail: err.Error(), Remedy: byHand})
		}
		if n := w.emptied(name); n > 0 {
			out = append(out, Finding{Sink: name, Kind: unlisted, Remedy: byHand, emptied: true, Detail: fmt.Sprintf(
				"it shows nothing, and the ledger says that it has %d windows: is it the right place, and mounted? %s",
				n, adviceEmptied)})
		}
	}
	return out
}

// keys returns all windows of the survey.
func (w *survey) keys() []analytics.Key {
	all := map[analytics.Key]bool{}
	for key := range w.ledger {
		all[key] = true
	}
	for _, name := range w.order {
		for key := range w.shown[name] {
			all[key] = true
		}
		for key := range w.faults[name] {
			all[key] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), byKey)
}

// findings compares each window, in the sinks to verify.
func (w *survey) findings() (out []Finding) {
	for _, key := range w.keys() {
		first := len(out)
		for _, s := range w.chosen() {
			out = append(out, w.compare(key, s.Name())...)
		}
		if len(out) == first {
			continue
		}
		p := w.plan(key)
		for i := first; i < len(out); i++ {
			out[i].Remedy, out[i].From, out[i].Rows = p.remedy, p.from(), p.rows
		}
	}
	return out
}

// compare returns the findings of a window in a sink.
func (w *survey) compare(key analytics.Key, sink string) (out []Finding) {
	e, known := w.ledger[key]
	shown, there := w.shown[sink][key]
	fault, faulty := w.faults[sink][key]
	found := func(kind Kind, detail string, args ...any) []Finding {
		return append(out, Finding{Key: key, Sink: sink, Kind: kind, Detail: fmt.Sprintf(detail, args...)})
	}
	switch {
	case known && !has(e, sink) && w.spooled[key]:
		return nil // the next export delivers it
	case faulty:
		return found(Kind(fault.Kind), "%s", fault.Err)
	case !there && (!known || w.unlisted[sink] != nil):
		return nil // it may be there
	case !there && has(e, sink):
		return found(missing, "revision %d, committed at %s, is gone", e.Number, clock(e.Sinks[sink]))
	case !there && owes(e, sink):
		return found(missing, "revision %d was not delivered to this sink, and is no longer in the spool", e.Number)
	case !there && e.Lost():
		return found(missing, "revision %d is lost", e.Number)
	case !there:
		return found(missing, "revision %d was never delivered to this sink", e.Number)
	case !known:
		return found(extra, "the ledger does not know it: %s", describe(shown.Revision))
	case !sameReading(shown.Revision, e.Revision):
		return found(otherRev, "%s is shown; the ledger has %s", describe(shown.Revision), describe(e.Revision))
	}
	checksum, by := w.reference(key)
	switch {
	case shown.Rows != e.Rows:
		out = found(otherRows, "%s are announced; the ledger has %s", rowCount(shown.Rows), rowCount(e.Rows))
	case shown.Sum.Rows != max(e.Rows, 0):
		out = found(otherRows, "%s are shown; %s were committed", rowCount(shown.Sum.Rows), rowCount(max(e.Rows, 0)))
	case e.TotalsOnly():
	case checksum != "" && checksum != shown.Sum.Checksum.String():
		out = found(otherSum, "the rows have the checksum %s; %s %s", shown.Sum.Checksum, by, checksum)
	case checksum == "" && by != "":
		out = found(otherSum, "the rows differ between %s, and nothing says which are right", by)
	}
	if shown.Totals != e.Totals {
		out = found(otherTotals, "%s are shown; the ledger has %s", totals(shown.Totals), totals(e.Totals))
	}
	return out
}

// unrecorded returns, by sink, the windows that a sink shows as the ledger has them although
// the ledger does not say that the sink has them: a process was killed between the two.
func (w *survey) unrecorded() map[string][]analytics.Revision {
	out := map[string][]analytics.Revision{}
	for key, e := range w.ledger {
		for _, name := range w.order {
			_, there := w.shown[name][key]
			if there && !has(e, name) && !w.spooled[key] && len(w.compare(key, name)) == 0 {
				out[name] = append(out[name], e.Revision)
			}
		}
	}
	return out
}

// reference returns the checksum that the rows of a known window must have, and who says so:
// the ledger, or else a sink that keeps it beside the rows. Otherwise it compares the sinks that
// show the same revision: without a checksum, by names those that disagree.
func (w *survey) reference(key analytics.Key) (checksum, by string) {
	e := w.ledger[key]
	if e.Checksum != "" {
		return e.Checksum, "the ledger has"
	}
	var whole []string
	sums := map[analytics.Checksum]bool{}
	for _, name := range w.order {
		shown, there := w.shown[name][key]
		if !there || !sameReading(shown.Revision, e.Revision) || !shown.Whole() {
			continue
		}
		if shown.Checksum != "" {
			return shown.Checksum, name + " keeps"
		}
		whole, sums[shown.Sum.Checksum] = append(whole, name), true
	}
	if len(sums) > 1 {
		return "", strings.Join(whole, " and ")
	}
	return "", ""
}

// same reports whether a and b are one revision, to the microsecond that sinks keep.
func same(a, b analytics.Revision) bool {
	return sameReading(a, b) && a.Rows == b.Rows && a.Totals == b.Totals
}

// sameReading leaves out rows and totals.
func sameReading(a, b analytics.Revision) bool {
	return a.Key == b.Key && a.Number == b.Number && a.Settled == b.Settled && a.Verified == b.Verified &&
		a.ExportedAt.Truncate(time.Microsecond).Equal(b.ExportedAt.Truncate(time.Microsecond))
}

func describe(r analytics.Revision) string {
	if r.ExportedAt.Equal(analytics.Unbelieved) {
		return fmt.Sprintf("revision %d, read while the clock was ahead: it is read again when its day has come",
			r.Number)
	}
	return fmt.Sprintf("revision %d of %s (%s)", r.Number, clock(r.ExportedAt), r.StateText())
}

func clock(t time.Time) string { return t.UTC().Format(time.DateTime) }

func totals(t analytics.Totals) string {
	return fmt.Sprintf("%d human, %d ai, %d total", t.Human, t.AI, t.Total)
}

func rowCount(n int64) string {
	if n == analytics.TotalsOnlyRows {
		return "totals only"
	}
	return format.Plural(n, "row")
}

// implausible returns verified counts that contradict each other, of windows that are
// not damaged, and remarks on those whose pages add up to less than the site. That is not an
// error of ours: a service may count visitors approximately.
func (w *survey) implausible(damaged map[analytics.Key]bool) (out, remarks []Finding) {
	found := func(key analytics.Key, detail string, args ...any) {
		out = append(out, Finding{Key: key, Kind: implausible, Remedy: none, Detail: fmt.Sprintf(detail, args...)})
	}
	days, longer := map[string][]analytics.Revision{}, []analytics.Revision{}
	for _, key := range w.keys() {
		name, ok := w.holder(key)
		if !ok || damaged[key] {
			continue
		}
		shown := w.shown[name][key]
		if !shown.Verified {
			continue
		}
		if !shown.Totals.Plausible() {
			found(key, "the site's %s: total must lie between the larger of human and ai and their sum",
				totals(shown.Totals))
		}
		if n := shown.Sum.Implausible; n > 0 {
			found(key, "the counts of %s contradict each other, such as those of %.200q",
				format.Plural(n, "page"), shown.Sum.Example)
		}
		if !shown.Totals.AtLeast(shown.Sum.Largest) {
			found(key, "a page has more visitors than the site: %s at most, of the site %s", totals(shown.Sum.Largest),
				totals(shown.Totals))
		}
		switch {
		case shown.LacksRows():
			found(key, "no page has a visitor, and the site has %s", totals(shown.Totals))
		case shown.Rows > 0 && !shown.Sum.Covers(shown.Totals):
			remarks = append(remarks, Finding{Key: key, Kind: suspect, Remedy: none, Detail: fmt.Sprintf(
				"the pages add up to less than the site, %s: %s; pages may be missing", totals(shown.Totals),
				totals(shown.Sum.Added))})
		}
		if key.Granularity == analytics.Day {
			days[key.Project] = append(days[key.Project], shown.Revision)
		} else {
			longer = append(longer, shown.Revision)
		}
	}
	for _, long := range longer {
		for _, day := range inside(days[long.Project], long) {
			found(long.Key, "it has fewer visitors than its day %s: %s; the day %s", day.From,
				totals(long.Totals), totals(day.Totals))
		}
	}
	return out, remarks
}

// holder returns the first sink that shows the window as the ledger has it.
func (w *survey) holder(key analytics.Key) (string, bool) {
	e, known := w.ledger[key]
	for _, name := range w.order {
		shown, there := w.shown[name][key]
		if _, faulty := w.faults[name][key]; there && !faulty && known && same(shown.Revision, e.Revision) {
			return name, true
		}
	}
	return "", false
}

// inside returns the days within a longer window that have more visitors than it,
// unless it was read before them. Days are in the order of their dates.
func inside(days []analytics.Revision, long analytics.Revision) (out []analytics.Revision) {
	begin, _ := slices.BinarySearchFunc(days, long.From, func(r analytics.Revision, d analytics.Date) int {
		return cmp.Compare(r.From, d)
	})
	for _, day := range days[begin:] {
		if day.To > long.To {
			break
		}
		later := long.Settled || !long.ExportedAt.Before(day.ExportedAt)
		if later && !long.Totals.AtLeast(day.Totals) {
			out = append(out, day)
		}
	}
	return out
}
