package export

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
)

// memory is a ledger and its gauges in memory, with the semantics of the state
// database: each method is one transaction.
type memory struct {
	mu       sync.Mutex
	windows  map[analytics.Key][]entry // oldest revision first
	counters map[string]int64
	open     map[analytics.Key]analytics.Totals
	pages    map[analytics.Key][]analytics.Record
	aside    map[analytics.Key]analytics.Aside
	learned  schedule.Learned
	perPage  map[schedule.Source]int
}

type entry struct {
	rev   analytics.Revision
	prov  analytics.Provenance
	sinks map[string]bool // true: has it, false: is owed
}

func newMemory() *memory {
	return &memory{windows: map[analytics.Key][]entry{}, counters: map[string]int64{},
		open: map[analytics.Key]analytics.Totals{}, pages: map[analytics.Key][]analytics.Record{},
		aside: map[analytics.Key]analytics.Aside{}, learned: schedule.Learned{}, perPage: map[schedule.Source]int{}}
}

func (m *memory) find(rev analytics.Revision) int {
	return slices.IndexFunc(m.windows[rev.Key], func(e entry) bool { return e.rev.Number == rev.Number })
}

func (m *memory) Record(
	ctx context.Context, rev analytics.Revision, prov analytics.Provenance, sinks []string, top ...state.TopRows,
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.find(rev) >= 0 {
		return nil
	}
	e := entry{rev, prov, map[string]bool{}}
	for _, s := range sinks {
		e.sinks[s] = false
	}
	m.windows[rev.Key] = append(m.windows[rev.Key], e)
	delete(m.aside, rev.Key)
	for _, l := range top {
		m.pages[l.Key] = l.Rows
	}
	return nil
}

func (m *memory) SetAside(_ context.Context, a analytics.Aside) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.aside[a.Key] = a
	return nil
}

func (m *memory) asides() map[analytics.Key]analytics.Aside {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.aside)
}

func (m *memory) SetMovement(_ context.Context, moved state.Movement) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.learned.Set(seriesOf(moved), schedule.Fact(moved.Kind), moved.Times, moved.At)
	return nil
}

func seriesOf(m state.Movement) schedule.Series {
	return schedule.Series{Source: schedule.Source{Project: m.Project, Report: m.Report}, Granularity: m.Granularity}
}

func (m *memory) SetPageSize(_ context.Context, s state.PageSize) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.perPage[schedule.Source{Project: s.Project, Report: s.Report}] = s.Rows
	return nil
}

func (m *memory) Committed(ctx context.Context, rev analytics.Revision, sink string, _ time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.find(rev); i >= 0 {
		m.windows[rev.Key][i].sinks[sink] = true
	}
	return nil
}

func (m *memory) Forget(_ context.Context, rev analytics.Revision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.find(rev); i >= 0 {
		m.windows[rev.Key] = slices.Delete(m.windows[rev.Key], i, i+1)
	}
	return nil
}

func (m *memory) SetOpen(_ context.Context, w analytics.OpenWindow) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[w.Key] = w.Totals
	return nil
}

func (m *memory) SetTop(_ context.Context, l state.TopRows) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pages[l.Key] = l.Rows
	return nil
}

func (m *memory) Count(_ context.Context, name string, n int64, labels ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counters[strings.Join(append([]string{name}, labels...), " ")] += n
	return nil
}

// newest returns the newest entry of a window.
func (m *memory) newest(k analytics.Key) (entry, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.windows[k]
	if len(all) == 0 {
		return entry{}, false
	}
	return slices.MaxFunc(all, func(a, b entry) int { return int(a.rev.Number - b.rev.Number) }), true
}

func (m *memory) known(k analytics.Key) (analytics.Revision, bool) {
	e, ok := m.newest(k)
	return e.rev, ok
}

func (m *memory) keys() []analytics.Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.windows))
}

func (m *memory) owed() iter.Seq[*state.Entry] {
	out := map[analytics.Key]state.Entry{}
	for _, k := range m.keys() {
		e, ok := m.newest(k)
		if !ok {
			continue
		}
		o := state.Entry{Revision: e.rev, Sinks: map[string]time.Time{}}
		for sink, has := range e.sinks {
			if o.Sinks[sink] = (time.Time{}); has {
				o.Sinks[sink] = e.rev.ExportedAt
			}
		}
		out[k] = o
	}
	return each(out)
}

// each yields each of them.
func each(all map[analytics.Key]state.Entry) iter.Seq[*state.Entry] {
	return func(yield func(*state.Entry) bool) {
		for _, o := range all {
			if !yield(&o) {
				return
			}
		}
	}
}

func (m *memory) provisional() []analytics.Key {
	return slices.DeleteFunc(m.keys(), func(k analytics.Key) bool {
		rev, ok := m.known(k)
		return !ok || rev.Settled
	})
}

// entriesOf returns the newest entry of each window of a ledger in the state.
func entriesOf(t tb, db *state.DB) map[analytics.Key]state.Entry {
	t.Helper()
	all, err := db.Entries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	entries := map[analytics.Key]state.Entry{}
	for _, e := range all {
		entries[e.Key] = e
	}
	return entries
}
