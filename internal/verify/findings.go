package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// general are the findings about whole sinks.
func (w *view) general() []Finding {
	out := w.strays
	for _, name := range w.order {
		if err := w.unlisted[name]; err != nil {
			out = append(out, Finding{Sink: name, Kind: Unlisted, Detail: err.Error(), Remedy: ByHand})
		}
		if n := w.emptied(name); n > 0 {
			out = append(out, Finding{Sink: name, Kind: Unlisted, Remedy: ByHand, emptied: true, Detail: fmt.Sprintf(
				"it shows nothing, and the ledger says that it has %d windows: is it the right place, and mounted? %s", n, ifEmptied)})
		}
	}
	return out
}

// keys are all windows of the view.
func (w *view) keys() []analytics.Key {
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
func (w *view) findings() (out []Finding) {
	chosen := w.chosen()
	for _, key := range w.keys() {
		var found []Finding
		for _, s := range chosen {
			found = append(found, w.compare(key, s.Name())...)
		}
		if len(found) == 0 {
			continue
		}
		p := w.plan(key)
		for i := range found {
			found[i].Remedy, found[i].From, found[i].Rows = p.remedy, p.from, p.rows
		}
		out = append(out, found...)
	}
	return out
}

// compare returns what is wrong with a window in a sink.
func (w *view) compare(key analytics.Key, sink string) []Finding {
	e, known := w.ledger[key]
	shown, there := w.shown[sink][key]
	fault, faulty := w.faults[sink][key]
	found := func(kind Kind, detail string, args ...any) Finding {
		return Finding{Key: key, Sink: sink, Kind: kind, Detail: fmt.Sprintf(detail, args...)}
	}
	switch {
	case known && !e.has(sink) && w.held[key]:
		return nil // the next export delivers it
	case faulty:
		return []Finding{found(Kind(fault.Kind), "%s", fault.Err)}
	case !there && known && w.unlisted[sink] != nil:
		return nil // it may be there
	case !there && known && e.has(sink):
		return []Finding{found(Missing, "revision %d, committed at %s, is gone", e.Number, clock(e.Sinks[sink]))}
	case !there && known && e.owed(sink):
		return []Finding{found(Missing, "revision %d was not delivered to this sink, and is no longer in the spool", e.Number)}
	case !there && known && e.lost():
		return []Finding{found(Missing, "revision %d is lost", e.Number)}
	case !there && known:
		return []Finding{found(Missing, "revision %d was never delivered to this sink", e.Number)}
	case !there:
		return nil
	case !known:
		return []Finding{found(Extra, "the ledger does not know it: %s", said(shown.Revision))}
	case !sameReading(shown.Revision, e.Revision):
		return []Finding{found(Reading, "%s is shown; the ledger has %s", said(shown.Revision), said(e.Revision))}
	}
	var out []Finding
	switch ref := w.reference(key); {
	case shown.Rows != e.Rows:
		out = append(out, found(Rows, "%s are announced; the ledger has %s", rowCount(shown.Rows), rowCount(e.Rows)))
	case shown.Sum.Rows != max(e.Rows, 0):
		out = append(out, found(Rows, "%s are shown; %s were committed", rowCount(shown.Sum.Rows), rowCount(max(e.Rows, 0))))
	case e.TotalsOnly():
	case ref.checksum != "" && ref.checksum != shown.Sum.Checksum.String():
		out = append(out, found(Checksum, "the rows have the checksum %s; %s %s", shown.Sum.Checksum, ref.by, ref.checksum))
	case ref.checksum == "" && ref.other != "":
		out = append(out, found(Checksum, "the rows are not the same in %s, and nothing tells which are right", ref.other))
	}
	if shown.Totals != e.Totals {
		out = append(out, found(Totals, "%s are shown; the ledger has %s", totals(shown.Totals), totals(e.Totals)))
	}
	return out
}

// taken returns the windows that a sink shows as the ledger has them although the ledger does
// not say that it has them: a process was killed between the two.
func (w *view) taken() (out []delivery) {
	for key, e := range w.ledger {
		for _, name := range w.order {
			if _, there := w.shown[name][key]; there && !e.has(name) && !w.held[key] && len(w.compare(key, name)) == 0 {
				out = append(out, delivery{e.Revision, name})
			}
		}
	}
	return out
}

// reference is the checksum that the rows of a window must have.
type reference struct {
	checksum, by string
	// other names the sinks that disagree, where nothing says which is right.
	other string
}

// reference takes the checksum from the ledger, or else from a sink that keeps it
// beside the rows; or else it compares the sinks that show the same revision.
func (w *view) reference(key analytics.Key) reference {
	e, known := w.ledger[key]
	if !known {
		return reference{}
	}
	if e.Checksum != "" {
		return reference{checksum: e.Checksum, by: "the ledger has"}
	}
	var of []string
	sums := map[analytics.Checksum]bool{}
	for _, name := range w.order {
		shown, there := w.shown[name][key]
		if !there || !sameReading(shown.Revision, e.Revision) || !shown.Whole() {
			continue
		}
		if shown.Checksum != "" {
			return reference{checksum: shown.Checksum, by: name + " keeps"}
		}
		of = append(of, name)
		sums[shown.Sum.Checksum] = true
	}
	if len(sums) > 1 {
		return reference{other: strings.Join(of, " and ")}
	}
	return reference{}
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

func said(r analytics.Revision) string {
	if r.ExportedAt.Equal(analytics.Unbelieved) {
		return fmt.Sprintf("revision %d, read while the clock was ahead: it is read again when its day has come", r.Number)
	}
	return fmt.Sprintf("revision %d of %s (%s)", r.Number, clock(r.ExportedAt), r.StateText())
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

func totals(t analytics.Totals) string {
	return fmt.Sprintf("%d human, %d ai, %d total", t.Human, t.AI, t.Total)
}

func rowCount(n int64) string {
	if n == analytics.TotalsOnlyRows {
		return "totals only"
	}
	return plural(n, "row")
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// implausible returns verified counts that contradict each other, of windows that are
// not damaged, and remarks on those whose pages add up to less than the site. That is not an
// error of ours: a service may count visitors approximately.
func (w *view) implausible(damaged map[analytics.Key]bool) (out, remarks []Finding) {
	found := func(key analytics.Key, detail string, args ...any) {
		out = append(out, Finding{Key: key, Kind: Implausible, Remedy: Approximate, Detail: fmt.Sprintf(detail, args...)})
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
			found(key, "the site's %s: total must lie between the larger of human and ai and their sum", totals(shown.Totals))
		}
		if n := shown.Sum.Implausible; n > 0 {
			found(key, "the counts of %s contradict each other, such as those of %.200q", plural(n, "page"), shown.Sum.Example)
		}
		if !shown.Totals.AtLeast(shown.Sum.Largest) {
			found(key, "a page has more visitors than the site: %s at most, of the site %s", totals(shown.Sum.Largest), totals(shown.Totals))
		}
		switch {
		case shown.LacksRows():
			found(key, "no page has a visitor, and the site has %s", totals(shown.Totals))
		case shown.Rows > 0 && !shown.Sum.Covers(shown.Totals):
			remarks = append(remarks, Finding{Key: key, Kind: Suspect, Remedy: Approximate, Detail: fmt.Sprintf(
				"the pages add up to less than the site, %s: %s; pages may be missing", totals(shown.Totals), totals(shown.Sum.Added))})
		}
		if key.Granularity == analytics.Day {
			days[key.Project] = append(days[key.Project], shown.Revision)
		} else {
			longer = append(longer, shown.Revision)
		}
	}
	for _, long := range longer {
		for _, day := range inside(days[long.Project], long) {
			found(long.Key, "it has fewer visitors than its day %s: %s; the day %s", day.From, totals(long.Totals), totals(day.Totals))
		}
	}
	return out, remarks
}

// holder returns the first sink that shows the window as the ledger has it.
func (w *view) holder(key analytics.Key) (string, bool) {
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
	begin, _ := slices.BinarySearchFunc(days, long.From, func(r analytics.Revision, d analytics.Date) int { return cmp.Compare(r.From, d) })
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
