package clickhouse

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// twoBlocks is the rows of a window that takes two blocks of a sink that
// openSmall has opened.
const twoBlocks = smallBlock + 500

// commits are commits of windows of a report, of so many rows, by sinks that open opens.
type commits struct {
	open   func(*testing.T, string, ...analytics.Report) *Sink
	rows   int64
	report analytics.Report
}

func ofSmallBlocks(report analytics.Report) commits { return commits{openSmall, twoBlocks, report} }

// lengths is the number of bytes that a commit sends and gets.
func (c commits) lengths(t *testing.T, dsn string) (up, down int64) {
	t.Helper()
	p := faults.NewProxy(t, dsn, faults.Never)
	check(t, c.open(t, p.DSN(dsn), c.report).Replace(t.Context(), windowOf(1, 2, c.rows).For(c.report)))
	return p.Passed()
}

// cutting is a failure in the middle of a commit.
type cutting struct {
	commits
	at faults.Limit
}

// cuts are at bytes of a commit that goes in two blocks: some on the way, and
// many at its end, where the marker goes. Large blocks, which no buffer between
// holds, are cut on their way. The reports take turns.
func cuts(t *testing.T, dsn string) (all []cutting) {
	t.Helper()
	onTheWay := func(total int64) []int64 { return []int64{1, total/3 + 1, total*2/3 + 1} }
	for i, report := range analytics.Reports {
		small := ofSmallBlocks(report)
		up, down := small.lengths(t, dsn)
		ups, downs := onTheWay(up), onTheWay(down)
		for _, left := range []int64{900, 600, 400, 250, 150, 60, 10, 1} {
			ups, downs = append(ups, up-left), append(downs, down-left)
		}
		for n := range ups {
			if turn(t, n+i) == analytics.Reports[0] {
				all = append(all, cutting{small, faults.Limit{Up: ups[n], Down: -1}},
					cutting{small, faults.Limit{Up: -1, Down: downs[n]}})
			}
		}
	}
	large := commits{open, blockRows + 5000, analytics.VisitorsReport}
	up, _ := large.lengths(t, dsn)
	for _, point := range onTheWay(up)[1:] {
		all = append(all, cutting{large, faults.Limit{Up: point, Down: -1}})
	}
	return all
}

// TestCut cuts the connection at many points of a commit and refuses new ones. Readers must see
// the former revision or the new one, and the next Replace must heal.
func TestCut(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		dsn := e.DSN(database(t, e))
		s, r := open(t, dsn, analytics.Reports...), newReader(t, dsn)
		check(t, s.Check(t.Context())) // makes the tables
		all := cuts(t, dsn)
		outcomes := make([]string, len(all))
		t.Run("at", func(t *testing.T) {
			for i, c := range all {
				t.Run(fmt.Sprintf("%s, up %d down %d of %d rows", c.report, c.at.Up, c.at.Down, c.rows), func(t *testing.T) {
					t.Parallel()
					outcomes[i] = c.try(t, dsn, reader{t, r.conn}, 2+i)
				})
			}
		})
		ways := map[bool]string{}
		for i, c := range all {
			ways[c.at.Up < 0] += outcomes[i] + " "
		}
		for down, way := range ways {
			t.Logf("on the way down %t: %s", down, way)
			for _, want := range []string{"former+error", "new+error"} {
				if !strings.Contains(way, want) {
					t.Errorf("on the way down %t no cut led to %s", down, want)
				}
			}
		}
		attemptsAreApart(t, s)
	})
}

// try replaces a former revision by way of a proxy that fails.
func (c cutting) try(t *testing.T, dsn string, r reader, day int) (outcome string) {
	former, next := windowOf(day, 1, 10).For(c.report), windowOf(day, 2, c.rows).For(c.report)
	replace(t, c.open(t, dsn, c.report), former)
	p := faults.NewProxy(t, dsn, c.at)
	return sinktest.CutOff(t, c.open(t, p.DSN(dsn), c.report), r, next, func() {}, p.Heal)
}

// TestCutOnce lets the connection after a cut one work: Replace heals by itself.
func TestCutOnce(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		dsn := e.DSN(database(t, e))
		report := turn(t, 0)
		s, r := open(t, dsn, report), newReader(t, dsn)
		check(t, s.Check(t.Context())) // makes the tables
		up, down := ofSmallBlocks(report).lengths(t, dsn)
		t.Run("at", func(t *testing.T) {
			for i, l := range []faults.Limit{
				{Up: up / 2, Down: -1, Once: true}, {Up: up - 300, Down: -1, Once: true},
				{Up: -1, Down: down - 300, Once: true}, {Up: -1, Down: down - 10, Once: true},
			} {
				t.Run(fmt.Sprintf("up %d down %d", l.Up, l.Down), func(t *testing.T) {
					t.Parallel()
					s := openSmall(t, faults.NewProxy(t, dsn, l).DSN(dsn), report)
					w := windowOf(2+i, 2, twoBlocks).For(report)
					if err := s.Replace(t.Context(), w); err != nil {
						t.Error(err)
					} else if got := (reader{t, r.conn}).shown(w.Rev.Key); got != 2 {
						t.Errorf("readers see revision %d", got)
					}
				})
			}
		})
		attemptsAreApart(t, s)
	})
}

// TestStall lets a server stand still while it takes rows, and while it answers.
func TestStall(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		dsn := e.DSN(database(t, e))
		big := windowOf(0, 2, 100_000)
		big.Size = 400 // more than the buffers between hold
		t.Run("taking rows", func(t *testing.T) {
			stalls(t, dsn, faults.Limit{Up: 1 << 20, Down: -1, Stall: true},
				big)
		})
		t.Run("before the marker", func(t *testing.T) {
			stalls(t, dsn, faults.Limit{Up: -1, Down: -1, Stall: true},
				windowOf(1, 2, 10))
		})
	})
}

func stalls(t *testing.T, dsn string, l faults.Limit, w window) {
	t.Parallel()
	former := w
	former.Rev.Number, former.Rev.Rows = 1, 10
	replace(t, open(t, dsn), former)
	p := faults.NewProxy(t, dsn, l)
	s := open(t, p.DSN(dsn)+"?compress=none&dial_timeout=1s&read_timeout=700ms")
	s.step = func(name string) {
		if name == "rows verified" {
			p.StandStill()
		}
	}
	begun := time.Now()
	if err := s.Replace(t.Context(), w); err == nil {
		t.Error("Replace = nil")
	}
	if took := time.Since(begun); took > readTimeout {
		t.Errorf("Replace took %s", took)
	}
	if got := newReader(t, dsn).shown(w.Rev.Key); got != 1 && got != 2 {
		t.Errorf("readers see revision %d", got)
	}
}

// TestRowsMissing deletes rows between insert and count: a success that was
// none.
func TestRowsMissing(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		s, r := newSink(t, e)
		key := windowOf(0, 1, 0).Rev.Key
		replace(t, s, windowOf(0, 1, 10))
		times := 0
		loses := func(most int) {
			times = 0
			s.step = func(name string) {
				if name == "rows inserted" && times < most {
					times++
					lose(t, s, key)
				}
			}
		}
		loses(tries)
		if err := s.Replace(t.Context(), windowOf(0, 2, 500)); err == nil ||
			!strings.Contains(err.Error(), "499 of 500 rows") {
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
	ses, err := s.open(t.Context(), analytics.VisitorsReport)
	if err != nil {
		t.Error(err)
		return
	}
	err = ses.conn.Exec(t.Context(),
		fmt.Sprintf("ALTER TABLE %s DELETE WHERE %s AND attempt = %d AND path = '/docs/page-00000003xxxxxxxxxx'",
			ses.in(visitors.rows), is(key), s.attempts.last))
	if err == nil {
		err = ses.awaitMutations(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
}

// attemptsAreApart expects each attempt to have at most one marker and no row
// twice, so that none was used twice.
func attemptsAreApart(t *testing.T, s *Sink) {
	t.Helper()
	for _, d := range s.datasets {
		ses, err := s.open(t.Context(), d.report)
		check(t, err)
		row := strings.Join(append([]string{"attempt", "path"}, d.Order...), ", ")
		for table, query := range map[string]string{
			d.markers: "SELECT toUInt64(count()) AS n FROM (SELECT attempt FROM %s GROUP BY attempt HAVING count() > 1)",
			d.rows:    "SELECT toUInt64(count()) - uniqExact(" + row + ") AS n FROM %s",
		} {
			n, err := ses.number(t.Context(), "SELECT toUInt64(n) FROM ("+fmt.Sprintf(query, ses.in(table))+")")
			if err != nil || n != 0 {
				t.Errorf("%s: %d attempts were used twice, %v", table, n, err)
			}
		}
	}
}

// TestProxy: while a proxy before the server cannot ask it, a window is tried again; what it refuses otherwise is named.
func TestProxy(t *testing.T) {
	t.Parallel()
	e := start26(t, t.TempDir())
	must(t, e, "CREATE DATABASE docs")
	server, err := url.Parse(e.DSN("docs"))
	check(t, err)
	var refusals, status atomic.Int64
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server.Host})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusals.Add(-1) >= 0 {
			http.Error(w, "<html>nginx</html>", int(status.Load()))
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	dsn := strings.Replace(e.DSN("docs"), server.Host, strings.TrimPrefix(proxy.URL, "http://"), 1)
	s := open(t, dsn)
	check(t, s.Check(t.Context()))
	for i, tc := range []struct {
		status, refusals int
		want             string
	}{
		{503, 1, ""}, {502, 2, ""}, {504, 1000, "is the server running? (HTTP 504)"},
		{413, 1, "client_max_body_size of nginx) (HTTP 413)"}, {403, 1, "refuses the request (HTTP 403)"},
	} {
		status.Store(int64(tc.status))
		refusals.Store(int64(tc.refusals))
		err := s.Replace(t.Context(), seal(int32(i+1), 30))
		if (err != nil) != (tc.want != "") || err != nil && !strings.HasSuffix(err.Error(), tc.want) {
			t.Errorf("%d times %d: %v, want %q", tc.refusals, tc.status, err, tc.want)
		}
		refusals.Store(0)
	}
	status.Store(502)
	refusals.Store(1000)
	if err := open(t, dsn).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "is the server running") {
		t.Error(err)
	}
}
