package verify

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// ledger is a ledger in memory.
type ledger struct {
	entries map[analytics.Key]state.Entry
	// reading is called before the entries are read, if not nil.
	reading func()
	on      *faults.Process
}

// callWrite is a write to the ledger or a sink.
const callWrite = "write"

func (b *ledger) Entries(context.Context) ([]state.Entry, error) {
	if b.reading != nil {
		b.reading()
	}
	var out []state.Entry
	for _, key := range slices.SortedFunc(maps.Keys(b.entries), byKey) {
		e := b.entries[key]
		e.Sinks = maps.Clone(e.Sinks)
		out = append(out, e)
	}
	return out, nil
}

func (b *ledger) Amend(_ context.Context, e state.Entry) error {
	return b.on.Do(callWrite, nil, func() error {
		e.Sinks = maps.Clone(e.Sinks)
		b.entries[e.Key] = e
		return nil
	})
}

func (b *ledger) Committed(_ context.Context, rev analytics.Revision, sink string, at time.Time) error {
	return b.on.Do(callWrite, nil, func() error {
		e := b.entries[rev.Key]
		if e.Number != rev.Number {
			return fmt.Errorf("%s: committed revision %d, the ledger has %d", rev.Key, rev.Number, e.Number)
		}
		if e.Sinks[sink].IsZero() {
			e.Sinks = maps.Clone(e.Sinks)
			if e.Sinks == nil {
				e.Sinks = map[string]time.Time{}
			}
			e.Sinks[sink] = at
			b.entries[rev.Key] = e
		}
		return nil
	})
}

// sink is a memory sink with a name, which can be impossible to list.
type sink struct {
	*sinktest.Memory
	name string
	away error
	on   *faults.Process
}

func (s *sink) Name() string { return s.name }

func (s *sink) Replace(ctx context.Context, w sinks.Sealed) error {
	rev := w.Revision()
	return s.on.DoInPart(callWrite, nil, func() error { return s.Memory.Replace(ctx, w) }, func() {
		s.Put(rev, nil, sinks.Fault{Sink: s.name, Key: rev.Key, Kind: sinks.Disagree, Err: errors.New("half")})
	})
}

func (s *sink) Inspect(ctx context.Context, scope sinks.Scope) iter.Seq2[sinks.Shown, error] {
	if s.away == nil {
		return s.Memory.Inspect(ctx, scope)
	}
	return func(yield func(sinks.Shown, error) bool) { yield(sinks.Shown{}, s.away) }
}

func (s *sink) Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	if s.away == nil {
		return s.Memory.Revisions(ctx)
	}
	return func(yield func(analytics.Revision, error) bool) { yield(analytics.Revision{}, s.away) }
}

// world is a ledger and two sinks.
type world struct {
	*testing.T
	ledger *ledger
	files  *sink
	table  *sink
	// spooled are the windows that the spool has.
	spooled map[analytics.Key]bool
	on      *faults.Process
	plan    *faults.Plan // of on
	// known are the windows that were committed.
	known map[analytics.Key]bool
}

var now = time.Date(2026, 11, 20, 13, 37, 11, 0, time.UTC)

func newWorld(t *testing.T, windows int) *world {
	plan := new(faults.Plan)
	on := faults.NewProcess(plan, nil)
	w := &world{
		T: t, plan: plan, ledger: &ledger{entries: map[analytics.Key]state.Entry{}, on: on},
		spooled: map[analytics.Key]bool{}, on: on, known: map[analytics.Key]bool{},
		files: &sink{Memory: sinktest.NewMemory(), name: "parquet", on: on},
		table: &sink{Memory: sinktest.NewMemory(), name: "clickhouse", on: on},
	}
	for day := range windows {
		w.commit(w.revision(day, 2))
	}
	return w
}

func rows(n int) (out []analytics.Row) {
	for i := range n {
		out = append(out, analytics.Row{Path: fmt.Sprintf("/p%03d", i), Totals: analytics.Totals{Human: int64(i), AI: 1,
			Total: int64(i) + 1}})
	}
	return out
}

func sumOf(rows []analytics.Row) analytics.Sum {
	var all []analytics.Record
	for _, r := range rows {
		all = append(all, analytics.RecordOf(r))
	}
	return sumOfRecords(all)
}

func sumOfRecords(rows []analytics.Record) analytics.Sum {
	add, sum := analytics.VisitorsReport.Shape().Sum()
	for _, r := range rows {
		add(r)
	}
	return *sum
}

// revision describes a reading of five rows.
func (w *world) revision(day int, number int32) analytics.Revision {
	rev := sinktest.Revision(sinktest.Key("prj_a", day), number)
	rev.Verified, rev.Settled, rev.Rows = true, true, 5
	return rev
}

// commit puts a window in both sinks and in the ledger.
func (w *world) commit(rev analytics.Revision) {
	w.files.Put(rev, rows(5), nil)
	w.table.Put(rev, rows(5), nil)
	w.known[rev.Key] = true
	w.ledger.entries[rev.Key] = state.Entry{
		Revision: rev, Provenance: analytics.Provenance{Requests: 1, Checksum: sumOf(rows(5)).Checksum.String()},
		Sinks: map[string]time.Time{"parquet": now, "clickhouse": now},
	}
}

func (w *world) verify() Report {
	w.Helper()
	r, err := w.verifier().Verify(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// repair returns the report after the repair, and the counts of the repair.
func (w *world) repair() (Report, Repaired) {
	w.Helper()
	left, err := w.verifier().Repair(w.Context())
	if err != nil && !errors.Is(err, faults.ErrKilled) {
		w.Fatal(err)
	}
	if left.Repair == nil { // killed before it began
		left.Repair = &Repaired{}
	}
	return left, *left.Repair
}

func (w *world) compare() Compared {
	w.Helper()
	done, err := w.verifier().Compare(w.Context())
	if err != nil && !errors.Is(err, faults.ErrKilled) {
		w.Fatal(err)
	}
	return done
}

func (w *world) verifier() *Verifier {
	return &Verifier{
		Ledger: w.ledger, Sinks: []sinks.Sink{w.files, w.table},
		InSpool: func(rev analytics.Revision) (bool, error) { return w.spooled[rev.Key], nil },
		Planned: func(k analytics.Key) (configured, due bool) { return k.Project == "prj_a", true },
		Dir:     w.TempDir(), Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	}
}

// brief lists findings as "day sink kind remedy".
func brief(findings []Finding) string {
	var out []string
	for _, f := range findings {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s",
			strings.TrimPrefix(f.key().From.String(), "2026-10-"), f.Sink, f.Kind, f.Remedy, f.From)))
	}
	return strings.Join(out, "; ")
}

// harm is done to a window that both sinks have, as to the sink named parquet or clickhouse.
type harm func(w *world, rev analytics.Revision)

const parquet, clickhouse = "parquet", "clickhouse"

func (w *world) sink(name string) *sink {
	if name == parquet {
		return w.files
	}
	return w.table
}

// gone: the sinks do not show the window.
func gone(names ...string) harm {
	return func(w *world, rev analytics.Revision) {
		for _, name := range names {
			w.sink(name).Remove(rev.Key)
		}
	}
}

// faulty: the sink shows a fault instead of the window.
func faulty(name string, kind sinks.FaultKind) harm {
	return func(w *world, rev analytics.Revision) {
		w.sink(name).Put(rev, nil, sinks.Fault{Key: rev.Key, Kind: kind, Err: errors.New("bad")})
	}
}

// shows: the sink shows these rows.
func shows(name string, pages []analytics.Row) harm {
	return func(w *world, rev analytics.Revision) { w.sink(name).Put(rev, pages, nil) }
}

// other: the sink shows another revision, of n rows.
func other(name string, number int32, n int) harm {
	return func(w *world, _ analytics.Revision) {
		rev := w.revision(1, number)
		rev.Rows = int64(n)
		w.sink(name).Put(rev, rows(n), nil)
	}
}

// retold: the sink says something else of the rows.
func retold(name string, change func(*analytics.Revision)) harm {
	return func(w *world, rev analytics.Revision) {
		change(&rev)
		w.sink(name).Put(rev, rows(5), nil)
	}
}

// owed: the ledger owes the window to the sinks.
func owed(names ...string) harm {
	return func(w *world, rev analytics.Revision) {
		for _, name := range names {
			w.ledger.entries[rev.Key].Sinks[name] = time.Time{}
		}
	}
}

// undelivered: the ledger does not say that the sinks will have the window.
func undelivered(names ...string) harm {
	return func(w *world, rev analytics.Revision) {
		for _, name := range names {
			delete(w.ledger.entries[rev.Key].Sinks, name)
		}
	}
}

func unknown(w *world, rev analytics.Revision) { delete(w.ledger.entries, rev.Key) }

// unbelieved: the clock was ahead when the window was read.
func unbelieved(w *world, rev analytics.Revision) {
	e := w.ledger.entries[rev.Key]
	e.ExportedAt, e.Settled, e.Verified = analytics.Unbelieved, false, false
	w.ledger.entries[rev.Key] = e
}

func inSpool(w *world, rev analytics.Revision) { w.spooled[rev.Key] = true }

func noChecksum(w *world, rev analytics.Revision) { w.setChecksum(rev, nil) }

// setChecksum stores the checksum of rows in the ledger; nil rows make it unknown.
func (w *world) setChecksum(rev analytics.Revision, rows []analytics.Row) {
	e := w.ledger.entries[rev.Key]
	if e.Checksum = ""; rows != nil {
		e.Checksum = sumOf(rows).Checksum.String()
	}
	w.ledger.entries[rev.Key] = e
}

// changedRows are five rows, one of which has another count.
func changedRows() []analytics.Row {
	pages := rows(5)
	pages[3].Human++
	return pages
}
