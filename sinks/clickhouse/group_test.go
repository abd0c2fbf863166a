package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/sinks"
)

// groupOf are windows of three months, each of so many rows.
func groupOf(number int32, rows int64) (all []window) {
	for _, day := range []int{0, 1, 40, 41, 80} {
		all = append(all, windowOf(day, number, rows))
	}
	return all
}

// ofReport returns the windows as windows of a report.
func ofReport(report analytics.Report, all []window) (out []window) {
	for _, w := range all {
		out = append(out, w.For(report))
	}
	return out
}

// replaceTogether has the windows committed as one group.
func replaceTogether[W sinks.Sealed](t *testing.T, s *Sink, all []W) []error {
	t.Helper()
	s.queue.turn <- struct{}{} // no turn before all have come
	var wait sync.WaitGroup
	errs := make([]error, len(all))
	for i, w := range all {
		wait.Go(func() { errs[i] = s.Replace(t.Context(), w) })
	}
	s.queue.await(len(all))
	<-s.queue.turn
	wait.Wait()
	return errs
}

// await returns when n windows wait.
func (q *queue) await(n int) {
	for waiting := -1; waiting != n; runtime.Gosched() {
		q.mu.Lock()
		waiting = len(q.waiting)
		q.mu.Unlock()
	}
}

// former has the first revisions of the windows of groupOf committed, and makes the
// tables.
func former(t *testing.T, s *Sink) {
	t.Helper()
	for i, err := range replaceTogether(t, s, groupOf(1, 10)) {
		if err != nil {
			t.Fatalf("window %d: %v", i, err)
		}
	}
}

// counted notes the statements that go to the server.
type counted struct {
	driver.Conn
	mu         sync.Mutex
	statements []string
}

func (c *counted) note(query string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	table := ""
	for _, d := range datasets {
		for _, t := range []string{d.rows, d.markers} {
			if strings.Contains(query, t) {
				table = t
			}
		}
	}
	c.statements = append(c.statements, query[:len("INSERT")]+" "+table)
}

func (c *counted) PrepareBatch(
	ctx context.Context, query string, o ...driver.PrepareBatchOption,
) (driver.Batch, error) {
	c.note(query)
	return c.Conn.PrepareBatch(ctx, query, o...)
}

func (c *counted) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	c.note(query)
	return c.Conn.Query(ctx, query, args...)
}

// TestGroup: windows that wait together are committed by one statement of each kind.
func TestGroup(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		s, r := newSink(t, e)
		former(t, s)
		c := &counted{Conn: s.sessions[analytics.VisitorsReport].conn}
		s.sessions[analytics.VisitorsReport].conn = c
		next := append(groupOf(2, 700), windowOf(7, 2, 0), totalsOnly(8))
		for i, err := range replaceTogether(t, s, next) {
			if err != nil {
				t.Errorf("window %d: %v", i, err)
			}
		}
		want := []string{"INSERT " + visitors.rows, "SELECT " + visitors.rows, "INSERT " + visitors.markers, "SELECT " +
			visitors.markers}
		if diff := cmp.Diff(want, c.statements); diff != "" {
			t.Errorf("statements (-want +got):\n%s", diff)
		}
		for _, w := range next {
			sees(t, r, w.Rev.Key, 2)
		}
		attemptsAreApart(t, s)
	})
}

// totalsOnly is a window of which only totals were read.
func totalsOnly(day int) window {
	w := windowOf(day, 2, 0)
	w.Rev.Rows = -1
	return w
}

// spoilt is a window that stops after the given row.
type spoilt struct {
	window
	after int64
	stop  func() error
}

func (s spoilt) Rows() iter.Seq2[analytics.Record, error] {
	return func(yield func(analytics.Record, error) bool) {
		n := int64(0)
		for row := range s.window.Rows() {
			if n++; n == s.after {
				if err := s.stop(); err != nil {
					yield(analytics.Record{}, err)
					return
				}
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// TestGroupWithOneBad has one window of a group fail, which no other is to notice.
func TestGroupWithOneBad(t *testing.T) {
	damaged := errors.New("damaged")
	both(t, func(t *testing.T, e engine) {
		for name, bad := range map[string]struct {
			window
			after int64
			want  string
		}{
			"at its first row":        {windowOf(40, 2, 700), 1, "damaged"},
			"in the middle":           {windowOf(40, 2, 3*smallBlock), 2*smallBlock + 100, "damaged"},
			"a row short":             {short(windowOf(40, 2, 700)), 0, "has 700 rows, its revision says 701"},
			"short and without a row": {short(windowOf(40, 2, 0)), 0, "has 0 rows, its revision says 1"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dsn := e.DSN(database(t, e))
				s, r := openSmall(t, dsn), newReader(t, dsn)
				former(t, s)
				group := []sinks.Sealed{}
				for _, w := range groupOf(2, 900) {
					group = append(group, w)
				}
				const at = 2
				group[at] = spoilt{bad.window, bad.after, func() error { return damaged }}
				for i, err := range replaceTogether(t, s, group) {
					want := int32(2)
					if i == at {
						want = 1
					}
					if (err == nil) != (i != at) || err != nil && !strings.Contains(err.Error(), bad.want) {
						t.Errorf("window %d: %v", i, err)
					}
					sees(t, r, group[i].Revision().Key, want)
				}
				attemptsAreApart(t, s)
			})
		}
	})
}

// short is a window with a row less than its revision says.
func short(w window) window {
	rows := w.Rev.Rows
	w.Lacks, w.Rev.Rows = 1, rows+1
	return w
}

// TestGroupWithOneGone cancels one caller while its window is read.
func TestGroupWithOneGone(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		dsn := e.DSN(database(t, e))
		s, r := openSmall(t, dsn), newReader(t, dsn)
		former(t, s)
		reading, stopReading := context.WithCancel(t.Context())
		waiting, stopWaiting := context.WithCancel(t.Context())
		defer stopReading()
		defer stopWaiting()
		s.queue.turn <- struct{}{}
		var wait sync.WaitGroup
		group := groupOf(2, 2*smallBlock)
		errs := make([]error, len(group))
		for i, w := range group {
			ctx, sealed := t.Context(), sinks.Sealed(w)
			if i == 0 { // the first leads the group, or another does
				ctx, sealed = reading, spoilt{w, smallBlock / 2, func() error { stopReading(); return nil }}
			}
			wait.Go(func() { errs[i] = s.Replace(ctx, sealed) })
		}
		wait.Go(func() { // this one goes before its turn comes
			if err := s.Replace(waiting, windowOf(7, 1, 10)); !errors.Is(err, context.Canceled) {
				t.Errorf("the one that waits: %v", err)
			}
		})
		s.queue.await(len(group) + 1)
		stopWaiting()
		s.queue.await(len(group))
		<-s.queue.turn
		wait.Wait()
		for i, err := range errs {
			want := int32(2)
			if i == 0 {
				want = 1
			}
			if i > 0 && err != nil || i == 0 && !errors.Is(err, context.Canceled) {
				t.Errorf("window %d: %v", i, err)
			}
			sees(t, r, group[i].Rev.Key, want)
		}
	})
}

// TestGroupWithAllGone: a group without callers ends although the server stands
// still, and the next one is committed.
func TestGroupWithAllGone(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		dsn := e.DSN(database(t, e))
		p, r := faults.NewProxy(t, dsn, faults.Limit{Up: -1, Down: -1, Stall: true}), newReader(t, dsn)
		s := open(t, p.DSN(dsn))
		former(t, s)
		ctx, gone := context.WithCancel(t.Context())
		defer gone()
		onStep(s, "rows verified", 1, func() { p.StandStill(); gone() })
		s.queue.turn <- struct{}{}
		var wait sync.WaitGroup
		for _, w := range groupOf(2, 300) {
			wait.Go(func() {
				if err := s.Replace(ctx, w); !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v", w.Rev.Key, err)
				}
			})
		}
		s.queue.await(len(groupOf(2, 0)))
		<-s.queue.turn
		wait.Wait()
		p.Heal()
		for _, w := range groupOf(3, 30) {
			if got := r.shown(w.Rev.Key); got != 1 && got != 2 {
				t.Errorf("%s: readers see revision %d", w.Rev.Key, got)
			}
			shows(t, s, r, w)
		}
	})
}

// TestGroupCut cuts all connections between the rows of a group and their markers.
func TestGroupCut(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		for _, forever := range []bool{false, true} {
			t.Run(fmt.Sprintf("forever %t", forever), func(t *testing.T) {
				t.Parallel()
				dsn := e.DSN(database(t, e))
				p, r := faults.NewProxy(t, dsn, faults.Never), newReader(t, dsn)
				s := open(t, p.DSN(dsn))
				former(t, s)
				onStep(s, "rows verified", 1, func() { p.Fail(forever) })
				want := int32(2)
				if forever {
					want = 1
				}
				group := groupOf(2, 300)
				for i, err := range replaceTogether(t, s, group) {
					if (err == nil) == forever {
						t.Errorf("window %d: %v", i, err)
					}
					sees(t, r, group[i].Rev.Key, want)
				}
				p.Heal()
				for _, w := range groupOf(3, 30) {
					shows(t, s, r, w)
				}
				attemptsAreApart(t, s)
			})
		}
	})
}

// TestGroupRefused: a group that the server refuses is committed window by window.
func TestGroupRefused(t *testing.T) {
	t.Parallel()
	e := modern(t)
	dsn := e.DSN(database(t, e))
	s, r := open(t, dsn+"?max_partitions_per_insert_block=1"), newReader(t, dsn)
	check(t, s.Check(t.Context()))
	c := &counted{Conn: s.sessions[analytics.VisitorsReport].conn}
	s.sessions[analytics.VisitorsReport].conn = c
	group := groupOf(2, 300)
	for i, err := range replaceTogether(t, s, group) {
		if err != nil {
			t.Errorf("window %d: %v", i, err)
		}
	}
	inserts := slices.DeleteFunc(c.statements, func(q string) bool { return q != "INSERT "+visitors.rows })
	if want := 1 + len(group); len(inserts) != want {
		t.Errorf("rows were inserted %d times, want %d", len(inserts), want)
	}
	for _, w := range group {
		sees(t, r, w.Rev.Key, 2)
	}
}

// TestGather: windows that fit together, in the order of arrival.
func TestGather(t *testing.T) {
	wait := func(windows ...window) (all []*delivery) {
		for _, w := range windows {
			all = append(all, &delivery{Sealed: w})
		}
		return all
	}
	months := func(n int) (all []window) {
		for i := range n {
			all = append(all, windowOf(-31*i, 1, 1))
		}
		return all
	}
	for name, tc := range map[string]struct {
		cluster string
		waiting []*delivery
		want    int
	}{
		"one":         {"", wait(windowOf(0, 1, 5)), 1},
		"a large one": {"", wait(windowOf(0, 1, 2*groupRows), windowOf(1, 1, 1)), 1},
		"rows": {"", wait(windowOf(0, 1, groupRows-5),
			windowOf(1, 1, 6), windowOf(2, 1, 5), windowOf(3, 1, 1)), 2},
		"totals only":      {"", wait(windowOf(0, 1, groupRows), totalsOnly(1)), 2},
		"windows":          {"", wait(slices.Repeat([]window{windowOf(0, 1, 1)}, groupWindows+3)...), groupWindows},
		"months":           {"", wait(months(groupMonths + 20)...), groupMonths},
		"months, cluster":  {"c", wait(append(months(3), months(1)...)...), 2},
		"another is alone": {"", append(wait(windowOf(0, 1, 5)), &delivery{Sealed: windowOf(1, 1, 5), alone: true}), 1},
		"another report": {"", wait(windowOf(0, 1, 5), windowOf(0, 1, 5).For(analytics.AgentsReport),
			windowOf(1, 1, 5)), 2},
		"it is alone": {"", append([]*delivery{{Sealed: windowOf(1, 1, 5), alone: true}},
			wait(windowOf(0, 1, 5))...), 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Sink{cluster: tc.cluster, queue: newQueue()}
			s.queue.waiting = slices.Clone(tc.waiting)
			got := s.gather(tc.waiting[0])
			if len(got) != tc.want || got[0] != tc.waiting[0] || len(got)+len(s.queue.waiting) != len(tc.waiting) {
				t.Errorf("%d of %d together, %d left, want %d together",
					len(got), len(tc.waiting), len(s.queue.waiting), tc.want)
			}
			if s.gather(tc.waiting[0]) != nil {
				t.Error("taken twice")
			}
		})
	}
}
