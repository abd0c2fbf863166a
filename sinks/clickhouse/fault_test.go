package clickhouse

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// twoBlocks is the rows of a window that takes two blocks.
const twoBlocks = blockRows + 5000

// cutPoints are bytes of a commit of total bytes: some on the way, and many at
// its end, where the marker goes.
func cutPoints(total int64) (points []int64) {
	for i := range int64(3) {
		points = append(points, total*i/3+1)
	}
	for _, left := range []int64{900, 600, 400, 250, 150, 60, 10, 1} {
		points = append(points, total-left)
	}
	return points
}

// TestCut cuts the connection at many points of a commit and lets nobody in
// again. Readers must see the former revision or the new one, and the next
// Replace must heal.
func TestCut(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		dsn := e.DSN(database(t, e))
		s, r := open(t, dsn), newReader(t, dsn)
		if err := s.Replace(t.Context(), windowOf(0, 1, 10)); err != nil {
			t.Fatal(err)
		}
		up, down := lengths(t, dsn)
		var limits []limit
		for _, point := range cutPoints(up) {
			limits = append(limits, limit{up: point, down: -1})
		}
		for _, point := range cutPoints(down) {
			limits = append(limits, limit{up: -1, down: point})
		}
		outcomes := make([]string, len(limits))
		t.Run("at", func(t *testing.T) {
			for i, l := range limits {
				t.Run(fmt.Sprintf("up %d down %d", l.up, l.down), func(t *testing.T) {
					t.Parallel()
					outcomes[i] = cutAt(t, dsn, reader{t, r.conn}, 2+i, l)
				})
			}
		})
		all := strings.Join(outcomes, " ")
		t.Log(all)
		for _, want := range []string{"former+error", "new+error"} {
			if !strings.Contains(all, want) {
				t.Errorf("no cut led to %s", want)
			}
		}
		attemptsAreApart(t, s)
	})
}

// lengths is how many bytes a commit sends and gets.
func lengths(t *testing.T, dsn string) (up, down int64) {
	t.Helper()
	p := newProxy(t, dsn, never)
	if err := open(t, p.dsn(dsn)).Replace(t.Context(), windowOf(1, 2, twoBlocks)); err != nil {
		t.Fatal(err)
	}
	return p.up, p.down
}

// cutAt replaces a former revision by way of a proxy that fails.
func cutAt(t *testing.T, dsn string, r reader, day int, l limit) (outcome string) {
	former, next := windowOf(day, 1, 10), windowOf(day, 2, twoBlocks)
	if err := open(t, dsn).Replace(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, dsn, l)
	s := open(t, p.dsn(dsn))
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	err := s.Replace(ctx, next)
	outcome = map[int32]string{1: "former", 2: "new"}[r.shown(next.rev.Key)]
	if err == nil && outcome != "new" || outcome == "" {
		t.Errorf("Replace = %v, readers see the %s revision", err, outcome)
	}
	if err != nil {
		outcome += "+error"
	}
	p.heal()
	if err := s.Replace(t.Context(), windowOf(day, 3, 20)); err != nil {
		t.Errorf("the next Replace = %v", err)
	}
	if got := r.shown(next.rev.Key); got != 3 {
		t.Errorf("after the next Replace readers see revision %d", got)
	}
	return outcome
}

// TestCutOnce lets the connection after a cut one work: Replace heals by itself.
func TestCutOnce(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		dsn := e.DSN(database(t, e))
		s, r := open(t, dsn), newReader(t, dsn)
		if err := s.Replace(t.Context(), windowOf(0, 1, 10)); err != nil {
			t.Fatal(err)
		}
		up, down := lengths(t, dsn)
		for day, l := range []limit{
			{up: up / 2, down: -1, once: true}, {up: up - 300, down: -1, once: true},
			{up: -1, down: down - 300, once: true}, {up: -1, down: down - 10, once: true},
		} {
			s := open(t, newProxy(t, dsn, l).dsn(dsn))
			w := windowOf(2+day, 2, twoBlocks)
			if err := s.Replace(t.Context(), w); err != nil {
				t.Errorf("%+v: %v", l, err)
			} else if got := r.shown(w.rev.Key); got != 2 {
				t.Errorf("%+v: readers see revision %d", l, got)
			}
		}
		attemptsAreApart(t, s)
	})
}

// TestStall lets a server stand still while it takes rows, and while it answers.
func TestStall(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		dsn := e.DSN(database(t, e))
		s, r := open(t, dsn), newReader(t, dsn)
		if err := s.Replace(t.Context(), windowOf(0, 1, 10)); err != nil {
			t.Fatal(err)
		}
		big := windowOf(0, 2, 300_000)
		big.size = 200 // more than the buffers between hold
		for name, tc := range map[string]struct {
			l limit
			w window
		}{
			"taking rows":       {limit{up: 1 << 20, down: -1, stall: true}, big},
			"before the marker": {limit{up: -1, down: -1, stall: true}, windowOf(0, 2, 10)},
		} {
			t.Run(name, func(t *testing.T) {
				p := newProxy(t, dsn, tc.l)
				defer func() { step = nil }()
				step = func(name string) {
					if name == "rows verified" {
						p.standStill()
					}
				}
				stalled := open(t, p.dsn(dsn)+"?compress=none&dial_timeout=1s&read_timeout=700ms")
				begun := time.Now()
				if err := stalled.Replace(t.Context(), tc.w); err == nil {
					t.Error("Replace = nil")
				}
				if took := time.Since(begun); took > 30*time.Second {
					t.Errorf("Replace took %s", took)
				}
				if got := r.shown(tc.w.rev.Key); got != 1 && got != 2 {
					t.Errorf("readers see revision %d", got)
				}
			})
		}
	})
}

// TestRowsMissing deletes rows between insert and count: a success that was
// none.
func TestRowsMissing(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		s, r := newSink(t, e)
		key := windowOf(0, 1, 0).rev.Key
		if err := s.Replace(t.Context(), windowOf(0, 1, 10)); err != nil {
			t.Fatal(err)
		}
		times := 0
		loses := func(most int) {
			times = 0
			step = func(name string) {
				if name == "rows inserted" && times < most {
					times++
					lose(t, s, key)
				}
			}
		}
		defer func() { step = nil }()
		loses(tries)
		if err := s.Replace(t.Context(), windowOf(0, 2, 500)); err == nil || !strings.Contains(err.Error(), "499 of 500 rows") {
			t.Errorf("Replace = %v", err)
		}
		if got := r.shown(key); got != 1 || times != tries {
			t.Errorf("readers see revision %d after %d tries", got, times)
		}
		loses(1)
		if err := s.Replace(t.Context(), windowOf(0, 3, 500)); err != nil || r.shown(key) != 3 {
			t.Errorf("Replace = %v, readers see revision %d", err, r.shown(key))
		}
		attemptsAreApart(t, s)
	})
}

// lose deletes one row of the newest attempt.
func lose(t *testing.T, s *Sink, key analytics.Key) {
	t.Helper()
	ses, err := s.open(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	err = ses.conn.Exec(t.Context(), fmt.Sprintf("ALTER TABLE %s DELETE WHERE %s AND attempt = %d AND path = '/docs/page-00000003xxxxxxxxxx'",
		ses.in(rowsTable), is(key), s.attempts.last))
	if err == nil {
		err = ses.awaitMutations(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
}

// attemptsAreApart expects each attempt to have at most one marker and no path
// twice, so that none was used twice.
func attemptsAreApart(t *testing.T, s *Sink) {
	t.Helper()
	ses, err := s.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"SELECT toUInt64(count()) FROM (SELECT attempt FROM %s GROUP BY attempt HAVING count() > 1)",
		"SELECT toUInt64(count()) - uniqExact(attempt, path) FROM %s",
	} {
		table := map[bool]string{true: rowsTable, false: windowsTable}[strings.Contains(query, "path")]
		n, err := ses.number(t.Context(), "SELECT toUInt64(n) FROM ("+strings.Replace(fmt.Sprintf(query, ses.in(table)), " FROM", " AS n FROM", 1)+")")
		if err != nil || n != 0 {
			t.Errorf("%s: %d attempts were used twice, %v", table, n, err)
		}
	}
}
