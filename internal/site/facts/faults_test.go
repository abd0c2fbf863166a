package facts

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

var (
	faultsFrom = analytics.NewDate(2026, 1, 30)
	faultsTo   = analytics.NewDate(2026, 2, 4)
	// closing is the epoch that the days before February have in common.
	closing = EpochOf(faultsFrom) - 1
)

// TestMain has readers counted in several ranges, as on large sites.
func TestMain(m *testing.M) {
	perRange = 4
	os.Exit(m.Run())
}

// clone copies the model and its directory as they are now, as if kill -9 had ended the process here.
func (m *model) clone(t *testing.T) *model {
	c := *m
	c.Store, c.dir = nil, t.TempDir()
	check(t, os.CopyFS(c.dir, os.DirFS(m.dir)))
	c.visits, c.pages, c.agents = slices.Clone(m.visits), slices.Clone(m.pages), slices.Clone(m.agents)
	c.from = slices.Clone(m.from)
	c.keys = maps.Clone(m.keys)
	return &c
}

// differs is nil if every window is as in the model.
func (m *model) differs(t *testing.T) (err error) {
	for day := faultsFrom; day < faultsTo && err == nil; day++ {
		if err = m.compare(t, day, faultsTo); day+1 < faultsTo {
			err = errors.Join(m.compare(t, day, day+1), err)
		}
	}
	return err
}

// sound fails if a file is damaged, or there but for nothing.
func (m *model) sound(t *testing.T, about string) {
	t.Helper()
	problems, err := m.Verify(t.Context())
	rows, rowsErr := m.segments(t.Context(), "true")
	files, _ := filepath.Glob(filepath.Join(m.dir, segmentDir, "*"))
	if err := errors.Join(err, rowsErr); err != nil || len(problems) > 0 || len(files) != len(rows) {
		t.Errorf("%s: %d files for %d segments, %v, %v", about, len(files), len(rows), problems, err)
	}
}

// TestCommitWithoutFolder: a segment that cannot be written is an error, and the log's position stays.
func TestCommitWithoutFolder(t *testing.T) {
	m := newModel(t)
	before := m.position(t)
	check(t, os.RemoveAll(filepath.Join(m.dir, segmentDir)))
	b, _ := m.batch(t, randomDay(rand.New(rand.NewPCG(4, 30)), faultsFrom, 7))
	b.Positions["log"] = []byte("added")
	if err := m.Commit(t.Context(), b); !errors.Is(err, os.ErrNotExist) || m.position(t) != before {
		t.Errorf("%v; the position is %q", err, m.position(t))
	}
}

// TestEveryStep kills the process before and after each durable step of each thing that the store does, has the
// step fail, and has it fail although it was done. All or nothing of it is there then, with the position of the
// log; and done again, it is whole, and leaves nothing.
func TestEveryStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 30))
	base := newModel(t)
	for day := faultsFrom; day < faultsTo; day++ {
		commits := 1
		if day == faultsFrom {
			commits = few
		}
		for range commits {
			base.commit(t, randomDay(rng, day, 7))
		}
	}
	added := slices.Concat(randomDay(rng, faultsFrom, 5), randomDay(rng, faultsTo-1, 9),
		[]visit{{who: "reader 1", path: "/a new page", day: faultsTo - 1, kind: Human}})
	nothing := func(*model) {}
	for name, op := range map[string]struct {
		do   func(m *model) func() error // called again if it fails
		then func(m *model)
	}{
		"commit": {func(m *model) func() error {
			n, before := len(m.visits), m.position(t)
			if before == "added" {
				return func() error { return nil }
			}
			m.pages, m.agents, m.from = m.pages[:len(base.pages)], m.agents[:len(base.agents)], m.from[:len(base.from)]
			b, _ := m.batch(t, added)
			m.visits = m.visits[:n]
			b.Positions["log"] = []byte("added")
			return func() error {
				if m.position(t) != before {
					return nil
				}
				return m.Commit(t.Context(), b)
			}
		}, func(m *model) { m.visits = append(m.visits, added...) }},
		"merge": {func(m *model) func() error {
			return func() error { return m.Merge(t.Context()) }
		}, nothing},
		"merge a day": {func(m *model) func() error {
			return func() error { return m.MergeDay(t.Context(), faultsFrom) }
		}, nothing},
		"close": {func(m *model) func() error {
			return func() error {
				open, err := m.OpenEpochs(t.Context())
				if err == nil && slices.ContainsFunc(open, func(o OpenEpoch) bool { return o.Epoch == closing }) {
					err = m.CloseEpoch(t.Context(), project, closing)
				}
				if err == nil {
					_, err = m.Forget(t.Context())
				}
				return err
			}
		}, nothing},
		"drop": {func(m *model) func() error {
			return func() error { return m.DropBefore(t.Context(), faultsFrom+2) }
		}, func(m *model) {
			m.visits = slices.DeleteFunc(m.visits, func(v visit) bool { return v.day < faultsFrom+2 })
		}},
		"keep": {func(m *model) func() error {
			q := Question{analytics.VisitorsReport, project, analytics.Claimed, analytics.Window{From: faultsFrom, To: faultsTo}}
			return func() error { return m.Keep(t.Context(), q, 7, []byte("answer")) }
		}, nothing},
		"open": {func(m *model) func() error {
			return func() error {
				_, _, err := m.Keys(t.Context(), project, closing+9, time.Unix(0, 0))
				return errors.Join(err, m.Commit(t.Context(), Batch{}))
			}
		}, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// agrees says whether it was done: all or nothing was.
			agrees := func(m *model, about string) (done bool) {
				t.Helper()
				after := *m
				after.visits = slices.Clone(m.visits)
				op.then(&after)
				if done = after.differs(t) == nil; !done {
					if err := m.differs(t); err != nil {
						t.Errorf("%s: %v", about, err)
					}
				}
				if name == "commit" && done != (m.position(t) == "added") {
					t.Errorf("%s: the facts are there: %v, the position is %s", about, done, m.position(t))
				}
				return done
			}
			again := func(m *model, do func() error, about string) {
				t.Helper()
				agrees(m, about)
				if err := do(); err != nil {
					t.Errorf("%s, again: %v", about, err)
				}
				check(t, m.settle(t.Context()))
				if !agrees(m, about+", again") {
					t.Errorf("%s: is not done", about)
				}
				m.sound(t, about)
				if n := m.leads(t, closing); name == "close" && n > 0 {
					t.Errorf("%s: %d keys and ids are left", about, n)
				}
			}
			open := func(at func(*model) func(string) error) (m *model, do func() error) {
				m = base.clone(t)
				m.reopen(t)
				do = op.do(m)
				m.at = at(m)
				return m, do
			}
			closed := func(m *model, about string) {
				t.Helper()
				m.reopen(t)
				m.sound(t, about)
				again(m, op.do(m), about)
				check(t, m.Close())
			}
			var mu sync.Mutex
			var steps []string
			m, do := open(func(*model) func(string) error {
				return func(step string) error {
					mu.Lock()
					defer mu.Unlock()
					steps = append(steps, step)
					return nil
				}
			})
			check(t, do())
			check(t, m.Close())
			tried := 0
			for i, step := range steps {
				if i > 1 && i+2 < len(steps) && steps[i-2] == step && steps[i+2] == step {
					continue // one of many
				}
				tried++
				about := fmt.Sprintf("at step %d, %s", i+1, step)
				n := 0
				var killed *model
				m, do := open(func(m *model) func(string) error {
					return func(string) error {
						mu.Lock()
						defer mu.Unlock()
						if n++; n == i+1 {
							killed = m.clone(t)
							return errFault
						}
						return nil
					}
				})
				if err := do(); !errors.Is(err, errFault) {
					t.Errorf("%s: %v", about, err)
				}
				failed := m.clone(t)
				again(m, do, "failed "+about)
				check(t, m.Close())
				closed(killed, "killed "+about)
				closed(failed, "failed and killed "+about)
			}
			t.Logf("%d of %d steps", tried, len(steps))
		})
	}
}

var errFault = errors.New("fault")

// position is the position in the log.
func (m *model) position(t *testing.T) string {
	r, err := m.Resume(t.Context())
	check(t, err)
	return string(r.Positions["log"])
}
