package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// house is the ClickHouse server of the torture test, and what it must show.
type house struct {
	t       *testing.T
	server  *engines.ClickHouse
	service *sandbox.Sandbox
	looking sync.Mutex // not while the tables are emptied
}

// newHouse starts a server, or returns nil where none is installed.
func newHouse(t *testing.T, service *sandbox.Sandbox) *house {
	t.Helper()
	if !engines.Has("clickhouse-server") && os.Getenv("CI") != "true" {
		t.Log("ClickHouse is not here: only Parquet is tortured; `make engines` installs it")
		return nil
	}
	return &house{t: t, server: engines.RunClickHouse(t), service: service}
}

// sinks are the variables that let docgauge write there too.
func (h *house) sinks() []string {
	if h == nil {
		return nil
	}
	return []string{"DOCGAUGE_SINKS=clickhouse,parquet", "DOCGAUGE_CLICKHOUSE_DSN=" + h.server.DSN("default")}
}

// watch polls the view until stop: every window it shows must be whole.
func (h *house) watch() (stop func() (looks int)) {
	if h == nil {
		return func() int { return 0 }
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	looks := 0
	wait.Go(func() {
		for ctx.Err() == nil {
			h.look(ctx)
			looks++
		}
	})
	stop = func() int { cancel(); wait.Wait(); return looks }
	h.t.Cleanup(func() { stop() }) // where the test has failed before
	return stop
}

// look expects every window that has totals to have its rows, all of them.
func (h *house) look(ctx context.Context) {
	h.looking.Lock()
	defer h.looking.Unlock()
	listed := h.read(ctx, "SELECT granularity, window_start, window_end FROM docgauge_totals WHERE page_count > 0")
	shown := h.read(ctx, `SELECT granularity, window_start, window_end, toString(count()), uniqExact(path), uniqExact(revision)
		FROM docgauge_visitors GROUP BY granularity, window_start, window_end`)
	if ctx.Err() != nil {
		return
	}
	whole := map[string]bool{}
	for _, f := range shown {
		window := analytics.Window{From: date(h.t, f[1]), To: date(h.t, f[2])}
		_, want, err := h.service.Visitors(sandbox.DefaultProject, window)
		if err != nil {
			h.t.Error(err)
		}
		if n := fmt.Sprint(len(want)); f[3] != n || f[4] != n || f[5] != "1" {
			h.t.Errorf("a reader of ClickHouse sees of %s %s: %s rows, %s paths, %s revisions; the service has %s rows", f[0], window, f[3], f[4], f[5], n)
		}
		whole[strings.Join(f[:3], " ")] = true
	}
	for _, f := range listed {
		if !whole[strings.Join(f, " ")] {
			h.t.Errorf("a reader of ClickHouse sees totals of %s, but no rows", f)
		}
	}
}

func (h *house) read(ctx context.Context, query string) (rows [][]string) {
	out, err := h.server.Exec(ctx, query)
	if err != nil && ctx.Err() == nil && !strings.Contains(err.Error(), "doesn't exist") {
		h.t.Errorf("a reader of ClickHouse: %v", err)
	}
	if err == nil {
		for line := range strings.Lines(out) {
			rows = append(rows, strings.Fields(line))
		}
	}
	return rows
}

func date(t *testing.T, s string) analytics.Date {
	d, err := analytics.ParseDate(s)
	if err != nil {
		t.Error(err)
	}
	return d
}

// compare expects the windows and rows that Parquet has, with the service's
// sums, and empties the tables.
func (h *house) compare(windows, rows int) {
	if h == nil {
		return
	}
	h.t.Helper()
	got := h.exec("SELECT count(), sum(page_count > 0 ? page_count : 0) FROM docgauge_totals")
	if want := fmt.Sprintf("%d\t%d", windows, rows); got != want {
		h.t.Errorf("ClickHouse has windows and rows %q, Parquet %q", got, want)
	}
	for line := range strings.Lines(h.exec("SELECT window_start, window_end, sum(human), sum(ai), sum(total) FROM docgauge_visitors GROUP BY window_start, window_end")) {
		f := strings.Fields(line)
		window := analytics.Window{From: date(h.t, f[0]), To: date(h.t, f[1])}
		if want := h.sums(window); strings.Join(f[2:], " ") != want {
			h.t.Errorf("ClickHouse has sums %s of %s, the service %s", f[2:], window, want)
		}
	}
	h.looking.Lock()
	defer h.looking.Unlock()
	h.exec("TRUNCATE TABLE docgauge_windows")
	h.exec("TRUNCATE TABLE docgauge_visitors_rows")
}

// sums adds up the rows of a window, as a fingerprint of them.
func (h *house) sums(w analytics.Window) string {
	_, rows, err := h.service.Visitors(sandbox.DefaultProject, w)
	if err != nil {
		h.t.Error(err)
	}
	var human, ai, total int64
	for _, r := range rows {
		human, ai, total = human+r.Human, ai+r.AI, total+r.Total
	}
	return fmt.Sprint(human, ai, total)
}

func (h *house) exec(sql string) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	out, err := h.server.Exec(ctx, sql)
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}
