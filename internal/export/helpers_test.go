package export

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

const (
	settle   = 72 * time.Hour
	topPages = config.MaxTopPages
)

// tb is the common part of tests and properties.
type tb interface {
	Context() context.Context
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// world is the environment of a pipeline. Each process has a new pipeline; the world
// outlives it.
type world struct {
	tb
	root        string // for directories of the test
	dir         string // the state directory
	service     *service
	ledger      *memory
	sink        sinks.Sink
	reader      sinks.Sink   // whose readers are asked what they see
	more        []sinks.Sink // further sinks
	now         time.Time    // zero: the real time
	concurrency int
	spoolMax    int64
	predict     int
	// told is called at each step; faults says what goes wrong with the nth call (or
	// step) of a process, from 1. Both may be nil.
	told func(Event)
	// report is the report of the windows that day names.
	report analytics.Report
	// keyRefused: the last of hourly runs found the key refused.
	keyRefused bool
	// source and book replace service and ledger where they are not nil.
	source pageReader
	book   windowLedger
	// on is the newest process.
	on     *power
	faults faults.Plan
}

func newWorld(t tb, dir string) *world {
	mem := sinktest.NewMemory()
	return &world{
		tb: t, root: dir, dir: filepath.Join(dir, "state"), service: newService(), ledger: newMemory(), sink: mem,
		reader: mem,
		now:    noon(1), concurrency: 1,
	}
}

// oneWindow is a world whose service has one window, of n rows.
func oneWindow(t *testing.T, n, version int) (*world, analytics.Key) {
	t.Helper()
	w, k := newWorld(t, t.TempDir()), day("prj_a", 0)
	w.service.put(k, n, version)
	return w, k
}

// bubble runs f with a fake clock, with the flags of this process.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	testbed.Bubble(t, f, fmt.Sprintf("-long=%t", *long), fmt.Sprintf("-economy=%t", *economyTable))
}

// noon is 12:00 UTC, some days after 2026-10-01.
func noon(day int) time.Time { return time.Date(2026, 10, 1+day, 12, 0, 0, 0, time.UTC) }

// day names the day window of project that begins some days after 2026-10-01.
func day(project string, n int) analytics.Key {
	from := analytics.NewDate(2026, 10, 1+n)
	return analytics.Key{Project: project, Granularity: analytics.Day,
		Window: analytics.Window{From: from, To: from + 1}}
}

// day names a day window of the report that the world is about.
func (w *world) day(project string, n int) analytics.Key {
	return sinktest.Of(w.report, day(project, n))
}

func asked(keys ...analytics.Key) []schedule.Item {
	var items []schedule.Item
	for _, k := range keys {
		items = append(items, schedule.Item{Key: k, Reason: schedule.ReasonAsked, Newest: true})
	}
	return items
}

// process opens the spool and returns a pipeline, as a new process does.
func (w *world) process() *Exporter {
	w.Helper()
	sp, err := spool.Open(w.dir)
	if err != nil {
		w.Fatal(err)
	}
	on := newPower(w)
	w.on = on
	a := &app.App{
		Config: config.Config{
			Concurrency: config.Count(w.concurrency), Settle: config.Duration(settle),
			SpoolMax: config.Bytes(w.spoolMax),
		},
		Now: w.time, Spool: sp,
	}
	for _, s := range slices.Concat([]sinks.Sink{w.sink}, w.more) {
		a.Sinks = append(a.Sinks, wiredSink{s, on})
	}
	through := wire{w.ledger, on}
	if w.book != nil {
		through.windowLedger = w.book
	}
	e := exporterOf(a, through, through)
	e.observed = on.observe
	return e
}

// exporterOf returns an exporter that logs nothing.
func exporterOf(a *app.App, s pageReader, l windowLedger) *Exporter {
	a.Log = slog.New(slog.DiscardHandler)
	e := New(a, nil, noProgress{}, nil)
	e.service, e.ledger = s, l
	return e
}

// reading lets an exporter read once, and recovering lets it recover.
func reading(ctx context.Context, e *Exporter, work work) Summary {
	e.summary = Summary{}
	e.read(ctx, work)
	return e.summary
}

func recovering(
	ctx context.Context, e *Exporter, ledger iter.Seq[*state.Entry],
) (delivered int, failures []error, err error) {
	e.summary = Summary{}
	_, err = e.recover(ctx, ledger)
	return e.summary.Recovered, e.summary.Errors, err
}

func (w *world) time() time.Time {
	if w.now.IsZero() {
		return time.Now()
	}
	return w.now
}

// work returns the input of a run.
func (w *world) work(items []schedule.Item) work {
	sizes := schedule.NewSizes(nil)
	for _, item := range items {
		if w.predict > 0 {
			sizes.Learn(item.Key, int64(w.predict*analytics.PageRows))
		}
	}
	underWay, err := spool.ListUnderWay(w.dir)
	if err != nil {
		w.Fatal(err)
	}
	for _, u := range underWay {
		sizes.SetBegun(u.Key, u.Pages)
	}
	return work{Free: w.service.room, Items: items, Known: w.ledger.known, Sizes: sizes,
		Policy: schedule.Policy{Settle: settle}, Learned: schedule.Learned{}, Asides: w.ledger.asides()}
}

// run is one process that reads the items without Recover before it.
func (w *world) run(items ...schedule.Item) Summary {
	w.Helper()
	return reading(w.Context(), w.process(), w.work(items))
}

// failing makes the nth call of that name fail, in one process.
func (w *world) failing(call string, nth int, f faults.Fault) {
	w.faults = faults.Nth(call, nth, f)
}

// recovered is a process that recovers the spool, which must not fail.
func (w *world) recovered() (*Exporter, int) {
	w.Helper()
	p := w.process()
	n, failures, err := recovering(w.Context(), p, w.ledger.owed())
	if err != nil || len(failures) > 0 {
		w.Fatalf("Recover: %v %v", failures, err)
	}
	return p, n
}

// clean fails if a run had an error.
func (w *world) clean(r Summary) Summary {
	w.Helper()
	for _, err := range r.Errors {
		w.Fatalf("run: %v", err)
	}
	return r
}

// shows fails unless readers see the rows the service has now, under the
// given revision, and returns that revision.
func (w *world) shows(k analytics.Key, number int32) analytics.Revision {
	w.Helper()
	rev := w.shown(k)
	if rev.Number != number || rev.Humans != analytics.Claimed {
		w.Fatalf("%s: revision %d is shown, want %d, counting %q people", k, rev.Number, number, rev.Humans)
	}
	if diff := rowsDiffer(w.service.all(k), w.rows(k)); diff != "" {
		w.Fatalf("%s (-service +sink):\n%s", k, diff)
	}
	return rev
}

// verified is shows of a revision that is verified.
func (w *world) verified(k analytics.Key, number int32) {
	w.Helper()
	if rev := w.shows(k, number); !rev.Verified {
		w.Fatalf("not verified: %+v", rev)
	}
}

// sent fails unless so many requests were sent, charged unless the ledger says so of a window.
func (w *world) sent(want int) {
	w.Helper()
	if got := w.service.requests(); got != want {
		w.Fatalf("%d requests, want %d", got, want)
	}
}

func (w *world) charged(k analytics.Key, want int) {
	w.Helper()
	if e, _ := w.ledger.newest(k); e.prov.Requests != want {
		w.Fatalf("the ledger says %d requests, want %d", e.prov.Requests, want)
	}
}

// input returns the input for a plan of the day windows of prj_a.
func (w *world) input(since analytics.Date) schedule.Input {
	return schedule.Input{
		Now: w.now, Projects: []string{"prj_a"}, Specs: []analytics.Spec{{Granularity: analytics.Day}}, Since: since,
		Reports: []analytics.Report{analytics.VisitorsReport, w.report},
		Lacks:   func(of schedule.Source) bool { _, yes := w.ledger.learned.Lacks(of, w.now); return yes },
		Refused: w.ledger.learned.Refused,
		Settle:  settle, Known: w.ledger.known, Provisional: w.ledger.provisional(),
		Aside: func(k analytics.Key) (analytics.Aside, bool) { a, ok := w.ledger.asides()[k]; return a, ok },
	}
}

// due plans the day window of 2026-10-01; with rested, although it was set aside.
func (w *world) due(rested bool) []schedule.Item {
	k := w.day("prj_a", 0)
	in := w.input(k.From)
	if rested {
		in.Aside = nil
	}
	items, _ := schedule.Plan(in)
	return slices.DeleteFunc(items, func(i schedule.Item) bool { return i.Key != k })
}

// shown returns the revision that readers see, the zero revision for none.
func (w *world) shown(k analytics.Key) (rev analytics.Revision) {
	w.Helper()
	for seen, err := range w.reader.Inspect(w.Context(), sinks.Scope{Keys: map[analytics.Key]bool{k: true}}) {
		if err != nil {
			w.Fatal(err)
		}
		rev = seen.Revision
	}
	return rev
}

// rows returns the rows that readers see, except the rows of the site, as rows of visitors.
func (w *world) rows(k analytics.Key) []analytics.Row {
	w.Helper()
	rev := w.shown(k)
	if rev.Number == 0 || rev.TotalsOnly() {
		return nil
	}
	shown, done, err := w.reader.Window(w.Context(), rev, w.root)
	if err != nil {
		w.Fatal(err)
	}
	var rows []analytics.Row
	for r, err := range shown.Rows() {
		if err != nil {
			w.Fatal(err)
		}
		if !k.Report.Shape().IsOfSite(r) {
			rows = append(rows, rowOf(k.Report, r))
		}
	}
	if err := done(); err != nil {
		w.Fatal(err)
	}
	return rows
}

// totals are those that a reading of k has in the ledger.
func (w *world) totals(k analytics.Key) analytics.Totals {
	if k.Report.Shape().Site {
		return analytics.Totals{} // they are rows
	}
	return totalsOf(w.service.all(k))
}

func rowsDiffer(want, got []analytics.Row) string {
	byPath := func(a, b analytics.Row) int { return strings.Compare(a.Path, b.Path) }
	want, got = slices.SortedFunc(slices.Values(want), byPath), slices.SortedFunc(slices.Values(got), byPath)
	if slices.Equal(want, got) {
		return ""
	}
	if len(want)+len(got) > 20 {
		return cmp.Diff(len(want), len(got)) + "the rows differ"
	}
	return cmp.Diff(want, got)
}

// files returns the files below the spool.
func (w *world) files() []string {
	var out []string
	err := filepath.WalkDir(filepath.Join(w.dir, "spool"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return out
}

// emptySpool fails unless the spool is empty.
func (w *world) emptySpool() {
	w.Helper()
	if left := w.files(); len(left) > 0 {
		w.Fatalf("left in the spool: %v", left)
	}
}

func pagesOf(rows int) int { return schedule.Requests(int64(rows), analytics.PageRows) }

var _ tb = (*testing.T)(nil)
