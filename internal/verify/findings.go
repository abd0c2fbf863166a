package verify

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// The kinds of findings. Faults have the kinds of [sinks.FaultKind].
const (
	missing     = "missing"     // the sink does not show it
	extra       = "extra"       // the ledger does not know it
	otherRev    = "revision"    // another revision is shown
	otherRows   = "rows"        // not as many rows as were committed
	otherTotals = "totals"      // other site totals are shown
	otherSum    = "checksum"    // other rows are shown
	implausible = "implausible" // counts that contradict each other
	suspect     = "suspect"     // pages that add up to less than the site
	unlisted    = "unlisted"    // the sink could not be inspected
)

// The remedies.
const (
	copyOver  = "copy"      // a sink has the window whole, and the others are filled from there
	adopt     = "adopt"     // the whole window of a sink enters the ledger; others are filled from there
	read      = "read"      // no sink has the window whole; a repair makes it due
	due       = "due"       // the next export reads it
	later     = "later"     // read while the clock was ahead; an export reads it again when its day has come
	ask       = "export"    // it is too old to be due; an export that names it reads it
	configure = "configure" // its project or granularity is not configured, so no export reads it
	byHand    = "by_hand"   // a person must decide, by the finding's detail
	wait      = "wait"      // a sink that may have it cannot be inspected now
	none      = "none"      // nothing is damaged; the service counted so
)

// advices are the remedies, for people.
var advices = map[string]string{
	copyOver: "`docgauge verify --repair` copies it from {source}",
	adopt:    "`docgauge verify --repair` enters it in the ledger as {source} shows it",
	read:     "`docgauge verify --repair` makes it due for the next export",
	due:      "it is due: the next `docgauge export` reads it",
	later:    "the first `docgauge export` from {to} on reads it again",
	ask:      "`docgauge export --from {from} --to {to} --windows {granularity} --project {project}` reads it",
	configure: "no export reads it: put it back into DOCGAUGE_PROJECTS and DOCGAUGE_WINDOWS and verify again, " +
		"or remove it from the sink and run `docgauge status --rebuild`",
	wait: "mend the sink that cannot be inspected; until then nothing is concluded",
	none: "none: the service counted so, and nothing is damaged",
}

// adviceEmptied is for a sink that shows none of its windows.
const adviceEmptied = "If it is really gone: `docgauge verify --repair` copies what another sink has, " +
	"and `docgauge status --rebuild` forgets the rest, so that what DOCGAUGE_SINCE allows is due again"

// Finding is something wrong with one window; its JSON keys are stable.
type Finding struct {
	// Key is the window; nil for a finding about the whole sink.
	*analytics.Key
	// Sink is where; empty for counts that the service sent.
	Sink   string `json:"sink,omitempty"`
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy"`
	// From is the sink that Remedy copies from.
	From string `json:"remedy_from,omitempty"`
	// Advice is the remedy; empty if Detail has it.
	Advice string `json:"advice,omitempty"`

	// rows is how many rows the window has, for the remedy read.
	rows int64
	// emptied: the sink shows none of its windows.
	emptied bool
}

// key is the window; zero for a finding about the whole sink.
func (f Finding) key() (key analytics.Key) {
	if f.Key != nil {
		key = *f.Key
	}
	return key
}

func (f Finding) advice() string {
	key := f.key()
	return strings.NewReplacer("{source}", f.From, "{from}", key.From.String(), "{to}", key.To.String(),
		"{granularity}", string(key.Granularity), "{project}", key.Project).Replace(advices[f.Remedy])
}

// ofSinks returns the findings about whole sinks.
func (w *survey) ofSinks() []Finding {
	out := []Finding{}
	for _, l := range w.inspected {
		for _, fault := range l.strays {
			kind, detail := string(fault.Kind), fault.Err.Error()
			out = append(out, Finding{Sink: l.sink, Kind: kind, Detail: detail, Remedy: byHand})
		}
	}
	for _, l := range w.inspected {
		if l.err != nil {
			out = append(out, Finding{Sink: l.sink, Kind: unlisted, Detail: l.err.Error(), Remedy: byHand})
		}
		if n := w.emptied(l); n > 0 {
			out = append(out, Finding{Sink: l.sink, Kind: unlisted, Remedy: byHand, emptied: true, Detail: fmt.Sprintf(
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
	for _, l := range w.inspected {
		for key := range l.shown {
			all[key] = true
		}
		for key := range l.faults {
			all[key] = true
		}
	}
	return sorted(all)
}

// findings compares each window, in the sinks to verify.
func (w *survey) findings() (out []Finding) {
	for _, key := range w.keys() {
		first := len(out)
		for _, s := range w.v.chosen() {
			out = append(out, w.compare(key, s.Name())...)
		}
		if len(out) == first {
			continue
		}
		p := w.plan(key)
		for i := first; i < len(out); i++ {
			out[i].Remedy, out[i].rows = p.remedy, p.rows
			if len(p.sources) > 0 {
				out[i].From = p.sources[0].Name()
			}
		}
	}
	return out
}

// compare returns the findings of a window in a sink.
func (w *survey) compare(key analytics.Key, sink string) (out []Finding) {
	l := w.bySink[sink]
	e, known := w.ledger[key]
	shown, there := l.shown[key]
	fault, faulty := l.faults[key]
	found := func(kind, detail string, args ...any) []Finding {
		return append(out, Finding{Key: &key, Sink: sink, Kind: kind, Detail: fmt.Sprintf(detail, args...)})
	}
	switch {
	case known && !e.Has(sink) && w.spooled[key]:
		return nil // the next export delivers it
	case faulty:
		return found(string(fault.Kind), "%s", fault.Err)
	case !there && (!known || l.err != nil):
		return nil // it may be there
	case !there && e.Has(sink):
		return found(missing, "revision %d, committed at %s, is gone", e.Number, clock(e.Sinks[sink]))
	case !there && e.Owes(sink):
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
	case !e.HasRows():
	case checksum != "" && checksum != shown.Sum.Checksum.String():
		out = found(otherSum, "the rows have the checksum %s; %s %s", shown.Sum.Checksum, by, checksum)
	case checksum == "" && by != "":
		out = found(otherSum, "the rows differ between %s, and nothing says which are right", by)
	}
	if shown.Totals != e.Totals {
		out = found(otherTotals, "%s are shown; the ledger has %s", totals(shown.Totals), totals(e.Totals))
	}
	if shown.Humans != e.Humans {
		out = found(otherTotals, "people are shown as %s; the ledger has %s", shown.Humans.Said(), e.Humans.Said())
	}
	return out
}

// unrecorded returns, by sink, the windows that a sink shows as the ledger has them although
// the ledger does not say that the sink has them: a process was killed between the two.
func (w *survey) unrecorded() map[string][]analytics.Revision {
	out := map[string][]analytics.Revision{}
	for key, e := range w.ledger {
		for _, l := range w.inspected {
			_, there := l.shown[key]
			if there && !e.Has(l.sink) && !w.spooled[key] && len(w.compare(key, l.sink)) == 0 {
				out[l.sink] = append(out[l.sink], e.Revision)
			}
		}
	}
	return out
}

// reference returns the checksum that the rows of a known window must have, and its source:
// the ledger, or else a sink that keeps it beside the rows. Otherwise it compares the sinks that
// show the same revision: without a checksum, by names the sinks that disagree.
func (w *survey) reference(key analytics.Key) (checksum, by string) {
	e := w.ledger[key]
	if e.Checksum != "" {
		return e.Checksum, "the ledger has"
	}
	var names []string
	sums := map[analytics.Checksum]bool{}
	for _, l := range w.inspected {
		shown, there := l.shown[key]
		if !there || !sameReading(shown.Revision, e.Revision) || !shown.Whole() {
			continue
		}
		if shown.Checksum != "" {
			return shown.Checksum, l.sink + " keeps"
		}
		names, sums[shown.Sum.Checksum] = append(names, l.sink), true
	}
	if len(sums) > 1 {
		return "", strings.Join(names, " and ")
	}
	return "", ""
}

// sameReading is [analytics.Revision.Same], but for rows, totals and their mode.
func sameReading(a, b analytics.Revision) bool {
	b.Rows, b.Totals, b.Humans = a.Rows, a.Totals, a.Humans
	return a.Same(b)
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
// not damaged, and remarks on those whose pages add up to less than the site. Those are not
// an error of ours: a service may count visitors approximately.
func (w *survey) implausible(ctx context.Context, damaged map[analytics.Key]bool) (out, remarks []Finding) {
	remarks = []Finding{}
	found := func(key analytics.Key, detail string, args ...any) {
		out = append(out, Finding{Key: &key, Kind: implausible, Remedy: none, Detail: fmt.Sprintf(detail, args...)})
	}
	alike, newest := map[string]*analytics.Alike{}, map[string]analytics.Key{}
	days, longer := map[schedule.Source][]countedRevision{}, []countedRevision{}
	count := func(rev analytics.Revision, counts analytics.Counts) {
		if c := (countedRevision{rev, counts}); rev.Granularity == analytics.Day {
			source := schedule.SourceOf(c.Key)
			days[source] = append(days[source], c)
		} else {
			longer = append(longer, c)
		}
	}
	for _, key := range w.keys() {
		shown, ok := w.shownAsKnown(key)
		if !ok || damaged[key] || !shown.Verified {
			continue
		}
		shape, counts := key.Report.Shape(), shown.Totals.Counts()
		if shape.Site {
			w.implausibleSite(ctx, shown, found)
			if key.Report == analytics.AgentsReport && shown.Settled && shown.Humans != "" {
				count(shown.Revision, analytics.Counts{shown.Sum.Confirmed})
			}
			continue
		}
		if key.Report == analytics.VisitorsReport {
			if alike[key.Project] == nil {
				alike[key.Project] = &analytics.Alike{}
			}
			alike[key.Project].Add(shown.Revision)
			if n, ok := newest[key.Project]; !ok || key.To > n.To {
				newest[key.Project] = key
			}
		}
		if n := shown.Sum.Implausible; n > 0 {
			found(key, "the counts of %s contradict each other, such as those of %.200q",
				format.Plural(n, "page"), shown.Sum.Example)
		}
		if shape.Additive {
			w.implausibleSum(ctx, shown, found)
			continue
		}
		if !shape.Plausible(shown.Totals) {
			found(key, "the site's %s: total must lie between the larger of human and ai and their sum",
				totals(shown.Totals))
		}
		if !counts.AtLeast(shown.Sum.Largest.Counts()) {
			found(key, "a page has more visitors than the site: %s at most, of the site %s", totals(shown.Sum.Largest),
				totals(shown.Totals))
		}
		switch {
		case shown.LacksRows():
			found(key, "no page has a visitor, and the site has %s", totals(shown.Totals))
		case shown.Rows > 0 && !shown.Sum.Covers(shown.Totals):
			remarks = append(remarks, Finding{Key: &key, Kind: suspect, Remedy: none, Detail: fmt.Sprintf(
				"the pages add up to less than the site, %s: %s; pages may be missing", totals(shown.Totals),
				totals(shown.Sum.Added))})
		}
		count(shown.Revision, counts)
	}
	for _, project := range slices.Sorted(maps.Keys(alike)) {
		if same, yes := alike[project].Totals(); yes {
			found(newest[project], "it and all other windows of the project have the same totals (%s), whatever their "+
				"length: does the service, or a cache in front of it, ignore the dates? `docgauge check` tries it",
				totals(same))
		}
	}
	for _, long := range longer {
		inside := days[schedule.SourceOf(long.Key)] // in the order of their dates
		begin, _ := slices.BinarySearchFunc(inside, long.From, func(r countedRevision, d analytics.Date) int {
			return cmp.Compare(r.From, d)
		})
		for _, day := range inside[begin:] {
			if day.To > long.To {
				break
			}
			// A longer window that was read before its day may have fewer visitors.
			later := long.Settled || !long.ExportedAt.Before(day.ExportedAt)
			if later && !long.counts.AtLeast(day.comparable(long.Revision)) {
				found(long.Key, "it has fewer %s than its day %s: %s; the day %s", long.noun(), day.From, long, day)
			}
		}
	}
	return out, remarks
}

// shownAsKnown returns what the first sink shows that has the window as the ledger has it.
func (w *survey) shownAsKnown(key analytics.Key) (sinks.Shown, bool) {
	if e, known := w.ledger[key]; known {
		for _, l := range w.inspected {
			if l.shows(e) {
				return l.shown[key], true
			}
		}
	}
	return sinks.Shown{}, false
}
