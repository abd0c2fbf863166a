package state_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
)

// model is the ledger as maps.
type model struct {
	revisions  map[analytics.Key]map[int32]analytics.Revision
	provenance map[analytics.Key]map[int32]analytics.Provenance
	sinks      map[analytics.Key]map[int32]map[string]time.Time
	committed  map[string]int64 // by labels
	rows       map[string]int64
}

func newModel() *model {
	return &model{
		map[analytics.Key]map[int32]analytics.Revision{}, map[analytics.Key]map[int32]analytics.Provenance{},
		map[analytics.Key]map[int32]map[string]time.Time{}, map[string]int64{}, map[string]int64{},
	}
}

func (m *model) insert(r analytics.Revision, prov analytics.Provenance) {
	if m.revisions[r.Key] == nil {
		m.revisions[r.Key], m.provenance[r.Key] = map[int32]analytics.Revision{}, map[int32]analytics.Provenance{}
	}
	if _, known := m.revisions[r.Key][r.Number]; !known {
		m.revisions[r.Key][r.Number], m.provenance[r.Key][r.Number] = r, prov
	}
}

// delivery returns the sinks of a revision; this one is at least owed.
func (m *model) delivery(r analytics.Revision, sink string) map[string]time.Time {
	if m.sinks[r.Key] == nil {
		m.sinks[r.Key] = map[int32]map[string]time.Time{}
	}
	if m.sinks[r.Key][r.Number] == nil {
		m.sinks[r.Key][r.Number] = map[string]time.Time{}
	}
	d := m.sinks[r.Key][r.Number]
	if _, known := d[sink]; !known {
		d[sink] = time.Time{}
	}
	return d
}

func (m *model) record(r analytics.Revision, prov analytics.Provenance, sinks []string) {
	m.insert(r, prov)
	for _, sink := range sinks {
		m.delivery(r, sink)
	}
}

func (m *model) commit(r analytics.Revision, sink string, at time.Time) {
	if d := m.delivery(r, sink); d[sink].IsZero() {
		d[sink] = at
		m.committed[state.Labels("project", r.Project, "sink", sink)]++
		m.rows[state.Labels("sink", sink)] += max(r.Rows, 0)
	}
}

func (m *model) restore(sink string, revs []analytics.Revision) {
	for _, r := range revs {
		m.insert(r, analytics.Provenance{})
		if d := m.delivery(r, sink); d[sink].IsZero() {
			d[sink] = r.ExportedAt
		}
	}
}

// forget reports whether the revision may be forgotten.
func (m *model) forget(r analytics.Revision) bool {
	for _, at := range m.sinks[r.Key][r.Number] {
		if !at.IsZero() {
			return false
		}
	}
	delete(m.sinks[r.Key], r.Number)
	for n := range m.revisions[r.Key] {
		if n < r.Number { // else the window is lost, not forgotten
			delete(m.revisions[r.Key], r.Number)
			break
		}
	}
	return true
}

func (m *model) enter(e state.Entry) {
	m.insert(e.Revision, e.Provenance)
	m.provenance[e.Key][e.Number] = e.Provenance
	for sink, at := range e.Sinks {
		m.delivery(e.Revision, sink)[sink] = at
	}
}

func (m *model) entries() []state.Entry {
	var out []state.Entry
	for k, revs := range m.revisions {
		if len(revs) == 0 {
			continue
		}
		n := slices.Max(slices.Collect(maps.Keys(revs)))
		e := state.Entry{Revision: revs[n], Provenance: m.provenance[k][n], Sinks: map[string]time.Time{}}
		maps.Copy(e.Sinks, m.sinks[k][n])
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b state.Entry) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Granularity, b.Granularity),
			cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Report, b.Report))
	})
	return out
}

var sinkNames = []string{"clickhouse", "memory", "parquet"}

func drawKey(t *rapid.T) analytics.Key {
	from := analytics.Date(rapid.IntRange(-2, 1).Draw(t, "from"))
	return analytics.Key{
		Project:     rapid.SampledFrom([]string{"a", "b'"}).Draw(t, "project"),
		Granularity: rapid.SampledFrom([]analytics.Granularity{analytics.Day, "28d"}).Draw(t, "granularity"),
		Window:      analytics.Window{From: from, To: from + analytics.Date(rapid.IntRange(1, 2).Draw(t, "days"))},
		Report: rapid.SampledFrom([]analytics.Report{analytics.VisitorsReport, analytics.AgentsReport}).
			Draw(t, "report"),
	}
}

func drawRevision(t *rapid.T) analytics.Revision {
	count := func(name string) int64 { return rapid.Int64Range(0, 1<<62).Draw(t, name) }
	return analytics.Revision{
		Key: drawKey(t), Number: rapid.Int32Range(1, 3).Draw(t, "number"),
		Settled: rapid.Bool().Draw(t, "settled"), Verified: rapid.Bool().Draw(t, "verified"),
		Totals:     analytics.Totals{Human: count("human"), AI: count("ai"), Total: count("total")},
		Humans:     rapid.SampledFrom([]analytics.Humans{"", analytics.Claimed, analytics.Confirmed}).Draw(t, "humans"),
		Rows:       rapid.Int64Range(analytics.TotalsOnlyRows, 1000).Draw(t, "rows"),
		ExportedAt: drawTime(t),
	}
}

func drawProvenance(t *rapid.T) analytics.Provenance {
	return analytics.Provenance{
		Requests:  rapid.IntRange(0, 100).Draw(t, "requests"),
		Checksum:  rapid.SampledFrom([]string{"", "0123456789abcdef"}).Draw(t, "checksum"),
		MovedRows: rapid.Int64Range(0, 9).Draw(t, "moved"), RepeatedRows: rapid.Int64Range(0, 9).Draw(t, "repeated"),
	}
}

func drawEntry(t *rapid.T) state.Entry {
	e := state.Entry{Revision: drawRevision(t), Provenance: drawProvenance(t), Sinks: map[string]time.Time{}}
	for _, sink := range rapid.SliceOfDistinct(rapid.SampledFrom(sinkNames), rapid.ID[string]).Draw(t, "sinks") {
		if e.Sinks[sink] = (time.Time{}); rapid.Bool().Draw(t, "committed") {
			e.Sinks[sink] = drawTime(t)
		}
	}
	return e
}

func drawTime(t *rapid.T) time.Time {
	return now.Add(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "time")) * time.Microsecond)
}

// TestLedgerIsAMap compares every step of the ledger with maps.
func TestLedgerIsAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		db, err := state.OpenExisting("nowhere") // in memory
		if err != nil {
			rt.Fatal(err)
		}
		defer db.Close()
		m := newModel()
		rt.Repeat(ledgerActions(t, db, m))
	})
}

func ledgerActions(t *testing.T, db *state.DB, m *model) map[string]func(*rapid.T) {
	ctx := t.Context()
	must := func(rt *rapid.T, err error) {
		if err != nil {
			rt.Fatal(err)
		}
	}
	return map[string]func(*rapid.T){
		"record": func(rt *rapid.T) {
			r, prov := drawRevision(rt), drawProvenance(rt)
			owed := rapid.SliceOfDistinct(rapid.SampledFrom(sinkNames), rapid.ID[string]).Draw(rt, "sinks")
			must(rt, db.Record(ctx, r, prov, owed))
			m.record(r, prov, owed)
		},
		"commit": func(rt *rapid.T) {
			r, sink, at := drawRevision(rt), rapid.SampledFrom(sinkNames).Draw(rt, "sink"), drawTime(rt)
			for range rapid.IntRange(1, 2).Draw(rt, "times") {
				must(rt, db.Committed(ctx, r, sink, at))
				m.commit(r, sink, at)
			}
		},
		"forget": func(rt *rapid.T) {
			r := drawRevision(rt)
			if err := db.Forget(ctx, r); (err == nil) != m.forget(r) {
				rt.Fatalf("forget %s: %v", r.Key, err)
			}
		},
		"restore": func(rt *rapid.T) {
			sink := rapid.SampledFrom(sinkNames).Draw(rt, "sink")
			revs := rapid.SliceOfN(rapid.Custom(drawRevision), 0, 3).Draw(rt, "revisions")
			must(rt, db.Restore(ctx, sink, revs))
			m.restore(sink, revs)
		},
		"amend": func(rt *rapid.T) {
			e := drawEntry(rt)
			must(rt, db.Amend(ctx, e))
			clear(m.revisions[e.Key])
			clear(m.sinks[e.Key])
			m.enter(e)
		},
		"replace": func(rt *rapid.T) {
			key := func(e state.Entry) analytics.Key { return e.Key }
			entries := rapid.SliceOfNDistinct(rapid.Custom(drawEntry), 0, 3, key).Draw(rt, "entries")
			must(rt, db.ReplaceLedger(ctx, entries))
			clear(m.revisions)
			clear(m.sinks) // also of revisions that were never recorded
			for _, e := range entries {
				m.enter(e)
			}
		},
		"": func(rt *rapid.T) {
			got, err := db.Entries(ctx)
			must(rt, err)
			if d := gocmp.Diff(m.entries(), got); d != "" {
				rt.Fatalf("entries (-want +got):\n%s", d)
			}
			counts, err := db.Counters(ctx)
			must(rt, err)
			if d := gocmp.Diff(m.counts(), counts); d != "" {
				rt.Fatalf("counters (-want +got):\n%s", d)
			}
		},
	}
}

func (m *model) counts() []state.Count {
	var out []state.Count
	for _, of := range []struct {
		name   string
		values map[string]int64
	}{{"rows_written_total", m.rows}, {"windows_committed_total", m.committed}} {
		for _, labels := range slices.Sorted(maps.Keys(of.values)) {
			out = append(out, state.Count{Name: of.name, Labels: labels, Value: of.values[labels]})
		}
	}
	return out
}

// TestChangesTogether: changes that are made at the same time share transactions, and each
// still stands for itself. One that fails changes nothing and is the only one to fail; one
// whose caller has gone is not begun.
func TestChangesTogether(t *testing.T) {
	db := open(t, t.TempDir())
	ctx := t.Context()
	gone, leave := context.WithCancel(ctx)
	leave()
	kept := revision(day(1), 1)
	check(t, db.Record(ctx, kept, analytics.Provenance{}, nil))
	check(t, db.Committed(ctx, kept, "parquet", now))
	const changes = 60
	var errs [changes]error
	var group sync.WaitGroup
	for i := range changes {
		group.Go(func() {
			rev := revision(day(2+i), 1)
			switch i % 3 {
			case 0:
				errs[i] = errors.Join(db.Record(ctx, rev, analytics.Provenance{}, []string{"parquet", "clickhouse"}),
					db.Committed(ctx, rev, "clickhouse", now))
			case 1:
				errs[i] = db.Forget(ctx, kept) // a sink has it: refused
			default:
				errs[i] = db.Record(gone, rev, analytics.Provenance{}, nil)
			}
		})
	}
	group.Wait()
	for i, err := range errs {
		switch i % 3 {
		case 0:
			check(t, err)
		case 1:
			wantMessage(t, err, kept.Key.String(), "revision 1", "has committed it")
		default:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("change %d, whose caller has gone: %v", i, err)
			}
		}
	}
	entries := must(db.Entries(ctx))(t)
	if len(entries) != 1+changes/3 {
		t.Errorf("the ledger has %d windows, want %d", len(entries), 1+changes/3)
	}
	if got := counter(t, db, "windows_committed_total", "project", "prj_a", "sink", "clickhouse"); got != changes/3 {
		t.Errorf("%d windows are counted, want %d", got, changes/3)
	}
}
