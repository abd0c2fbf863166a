package cli

import (
	"database/sql"
	"errors"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/state"
)

// TestAllErrorsAreTold: that the run cannot be entered in the state hides neither its
// summary nor that its metrics could not be delivered.
func TestAllErrorsAreTold(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 10, Pages: 40})
	textfile := filepath.Join(t.TempDir(), "gone", "docgauge.prom")
	p := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_SINCE="+testbed.DaysAgo(4).String(),
		"DOCGAUGE_TEXTFILE="+textfile)
	dir := filepath.Join(p.dir, "state")
	db, err := state.Open(dir)
	check(t, err)
	raw, err := sql.Open("sqlite", filepath.Join(dir, state.FileName))
	check(t, err)
	_, err = raw.Exec(`CREATE TRIGGER broken BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'no end'); END`)
	check(t, errors.Join(err, raw.Close(), db.Close()))
	for _, flags := range [][]string{nil, {"--json"}} {
		code, out, log := p.try(t, append([]string{"export"}, flags...)...)
		if code != exitFailed {
			t.Errorf("exit code %d", code)
		}
		want := []string{"no end", "textfile " + textfile, "success: "}
		if flags != nil {
			want[2] = `"outcome": "success"`
		}
		for _, text := range want {
			if !strings.Contains(out+log, text) {
				t.Errorf("want %q in\n%s%s", text, out, log)
			}
		}
	}
}

// TestCheckOfSinkThatIsDown: check asks a sink that is down once, also if the ledger has windows of it.
func TestCheckOfSinkThatIsDown(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 10, Pages: 40})
	var asked atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			asked.Add(1)
			c.Close()
		}
	}()
	p := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_SINCE="+testbed.DaysAgo(4).String())
	p.run(t, "export")
	p.env = append(p.env, "DOCGAUGE_SINKS=parquet,clickhouse", "DOCGAUGE_CLICKHOUSE_DSN=clickhouse://"+l.Addr().String()+"/x")
	count := func() int32 {
		asked.Store(0)
		code, out, log := p.try(t, "check")
		if code != exitFailed || !strings.Contains(out, "FAIL  sink clickhouse") {
			t.Errorf("exit code %d:\n%s%s", code, out, log)
		}
		return asked.Load()
	}
	want := count()
	db, err := state.Open(filepath.Join(p.dir, "state"))
	check(t, err)
	entries, err := db.Entries(t.Context())
	check(t, err)
	for _, e := range entries {
		check(t, db.Committed(t.Context(), e.Revision, "clickhouse", time.Now()))
	}
	check(t, db.Close())
	if got := count(); got != want || want == 0 {
		t.Errorf("%d connections, want %d", got, want)
	}
}

// TestCheckTriesDates: check warns of a service that ignores the dates or counts the day of dateTo, and asks only once
// where it does not.
func TestCheckTriesDates(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 10, Pages: 40})
	behind, err := url.Parse(s.URL)
	check(t, err)
	yesterday, today := testbed.DaysAgo(1).String(), testbed.DaysAgo(0).String()
	for name, c := range map[string]struct {
		rewrite func(q url.Values)
		warns   bool
	}{
		"as specified": {func(url.Values) {}, false},
		"dates ignored": {func(q url.Values) {
			q.Set("dateFrom", yesterday)
			q.Set("dateTo", today)
		}, true},
		"dateTo inclusive": {func(q url.Values) {
			if q.Get("dateTo") == yesterday {
				q.Set("dateTo", today)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
				requests.Add(1)
				r.SetURL(behind)
				q := r.In.URL.Query()
				c.rewrite(q)
				r.Out.URL.RawQuery = q.Encode()
			}})
			defer front.Close()
			p := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_BASE_URL="+front.URL)
			for i, want := range []int32{2, 3} {
				if c.warns && i == 1 {
					want = 4
				}
				code, out, log := p.try(t, "check")
				if code != 0 || strings.Contains(out, "\nwarn  api") != c.warns || requests.Load() != want {
					t.Errorf("exit code %d after %d requests, want %d:\n%s%s", code, requests.Load(), want, out, log)
				}
			}
		})
	}
}
