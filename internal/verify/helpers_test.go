package verify

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/memsink"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// book is a ledger in memory.
type book struct {
	entries map[analytics.Key]Entry
	// reading is called before the entries are read, if not nil.
	reading func()
}

func (b *book) Entries(context.Context) ([]Entry, error) {
	if b.reading != nil {
		b.reading()
	}
	var out []Entry
	for _, key := range slices.SortedFunc(maps.Keys(b.entries), byKey) {
		e := b.entries[key]
		e.Sinks = maps.Clone(e.Sinks)
		out = append(out, e)
	}
	return out, nil
}

func (b *book) Amend(_ context.Context, e Entry) error {
	e.Sinks = maps.Clone(e.Sinks)
	b.entries[e.Key] = e
	return nil
}

func (b *book) Forget(_ context.Context, k analytics.Key) error {
	delete(b.entries, k)
	return nil
}

func (b *book) Committed(_ context.Context, rev analytics.Revision, sink string, at time.Time) error {
	e := b.entries[rev.Key]
	if e.Number != rev.Number {
		return fmt.Errorf("%s: committed revision %d, the ledger has %d", rev.Key, rev.Number, e.Number)
	}
	if e.Sinks[sink].IsZero() {
		e.Sinks[sink] = at
	}
	return nil
}

// sink is a memory sink with a name, which can be impossible to list.
type sink struct {
	*memsink.Sink
	name string
	away error
}

func (s *sink) Name() string { return s.name }

func (s *sink) Inspect(ctx context.Context, scope sinks.Scope) iter.Seq2[sinks.Shown, error] {
	if s.away == nil {
		return s.Sink.Inspect(ctx, scope)
	}
	return func(yield func(sinks.Shown, error) bool) { yield(sinks.Shown{}, s.away) }
}

func (s *sink) Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	if s.away == nil {
		return s.Sink.Revisions(ctx)
	}
	return func(yield func(analytics.Revision, error) bool) { yield(analytics.Revision{}, s.away) }
}

// world is a ledger and two sinks.
type world struct {
	*testing.T
	book  *book
	files *sink
	table *sink
	// held are the windows that the spool has.
	held map[analytics.Key]bool
}

var now = time.Date(2026, 11, 20, 13, 37, 11, 0, time.UTC)

func newWorld(t *testing.T, windows int) *world {
	w := &world{
		T: t, book: &book{entries: map[analytics.Key]Entry{}}, held: map[analytics.Key]bool{},
		files: &sink{Sink: memsink.New(), name: "parquet"}, table: &sink{Sink: memsink.New(), name: "clickhouse"},
	}
	for day := range windows {
		w.commit(w.revision(day, 2))
	}
	return w
}

func (w *world) sinks() []sinks.Sink { return []sinks.Sink{w.files, w.table} }

func rows(n int) (out []analytics.Row) {
	for i := range n {
		out = append(out, analytics.Row{Path: fmt.Sprintf("/p%03d", i), Human: int64(i), AI: 1, Total: int64(i) + 1})
	}
	return out
}

func sumOf(rows []analytics.Row) (sum analytics.Sum) {
	for _, r := range rows {
		sum.Add(r)
	}
	return sum
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
	w.book.entries[rev.Key] = Entry{
		Revision: rev, Provenance: analytics.Provenance{Requests: 1, Checksum: sumOf(rows(5)).Checksum.String()},
		Sinks: map[string]time.Time{"parquet": now, "clickhouse": now},
	}
}

func (w *world) look() Report {
	w.Helper()
	r, err := (&Verifier{Ledger: w.book, Sinks: w.sinks()}).Look(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func (w *world) repair() Repaired {
	w.Helper()
	r := Repair{
		Verifier: &Verifier{Ledger: w.book, Sinks: w.sinks()}, Book: w.book, Held: w.isHeld, Dir: w.TempDir(),
		Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	}
	done, err := r.Run(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return done
}

func (w *world) compare() Compared {
	w.Helper()
	c := Comparison{
		Book: w.book, Sinks: w.sinks(), Held: w.isHeld, Dir: w.TempDir(),
		Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	}
	done, err := c.Run(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return done
}

func (w *world) isHeld(rev analytics.Revision) bool { return w.held[rev.Key] }

// brief lists findings as "day sink kind remedy".
func brief(findings []Finding) string {
	var out []string
	for _, f := range findings {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", strings.TrimPrefix(f.Key.From.String(), "2026-10-"), f.Sink, f.Kind, f.Remedy, f.From)))
	}
	return strings.Join(out, "; ")
}
