package daemon

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/events"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// hearer is a webhook and a monitor.
type hearer struct {
	mu     sync.Mutex
	events []view.Event
	pings  []string
	// ahead is the time by which the daemon's clock is ahead.
	ahead time.Duration
}

func (h *hearer) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Method == http.MethodGet {
		h.pings = append(h.pings, r.RequestURI)
		return
	}
	var e view.Event
	if body, err := io.ReadAll(r.Body); err == nil && json.Unmarshal(body, &e) == nil {
		h.events = append(h.events, e)
	}
}

// heard returns the events of a kind.
func (h *hearer) heard(kind string) (out []view.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.Event == kind {
			out = append(out, e)
		}
	}
	return out
}

// eventsFor is a daemon whose events and pings the hearer gets.
func eventsFor(t *testing.T, change func(*config.Config)) (*daemon, *hearer) {
	t.Helper()
	h := &hearer{}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 30, Pages: 60})
	c := configFor(t, s.URL)
	c.NotifyURL, c.PingURL = config.Secret(server.URL+"/hook"), config.Secret(server.URL+"/ping")
	change(&c)
	d, _ := daemonFor(t, c)
	d.app.Now = func() time.Time { return time.Now().Add(h.ahead) }
	var err error
	if d.events, err = events.Open(t.Context(), d.app, d.started); err != nil {
		t.Fatal(err)
	}
	return d, h
}

// TestDigest: a digest has the sink's numbers, by the one definition of movers.
func TestDigest(t *testing.T) {
	t.Parallel()
	d, h := eventsFor(t, func(c *config.Config) {
		c.Windows = config.Windows{{Granularity: analytics.Week}}
		c.Since.Date = testbed.DaysAgo(29)
		check(t, c.Digest.UnmarshalText([]byte("* * * * *")))
	})
	d.export(t.Context())
	h.ahead = 2 * time.Minute // the next firing has come
	d.events.Report(t.Context())
	d.events.Report(t.Context())
	got := h.heard("digest")
	if len(got) != 1 || got[0].Project != sandbox.DefaultProject || got[0].Digest == nil || got[0].Digest.Pages == nil {
		t.Fatalf("heard %+v", got)
	}
	l, err := coverage.Read(t.Context(), d.app.State, d.app.Now())
	check(t, err)
	weeks := slices.Collect(l.Series(schedule.Series{
		Source: schedule.Source{Project: sandbox.DefaultProject}, Granularity: analytics.Week}))
	week, before := weeks[0].Revision, weeks[1].Revision
	digest := got[0].Digest
	if digest.From != week.From || digest.Totals != week.Totals || *digest.Before != before.Totals ||
		digest.Change.AI != week.Totals.AI-before.Totals.AI {
		t.Errorf("%+v, want %+v and before it %+v", digest, week, before)
	}
	var rows [2][]analytics.Row
	for i, rev := range []analytics.Revision{before, week} {
		if rows[i], err = sinks.Top(t.Context(), d.app.Sinks[0], rev, 1000, t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	m, err := analytics.FindMovers(analytics.ByPath(rows[0]), analytics.ByPath(rows[1]), analytics.Everyone, 3)
	check(t, err)
	paths := func(changes []analytics.Change) (out []string) {
		for _, c := range changes {
			out = append(out, c.Path)
		}
		return out
	}
	shown := func(pages []view.DigestPage) (out []string) {
		for _, p := range pages {
			out = append(out, p.Path)
		}
		return out
	}
	if !slices.Equal(paths(m.Rising.First), shown(digest.Pages.Rising)) || len(digest.Pages.Rising) == 0 ||
		!slices.Equal(paths(m.Falling.First), shown(digest.Pages.Falling)) ||
		m.Appeared.Count != digest.Pages.Appeared || m.Vanished.Count != digest.Pages.Vanished {
		t.Errorf("%+v, want %+v", digest.Pages, m)
	}
}

// TestMonitorIsPinged after each run of serve, and not for one that a stop cut short.
func TestMonitorIsPinged(t *testing.T) {
	t.Parallel()
	d, h := eventsFor(t, func(*config.Config) {})
	d.export(t.Context())
	d.app.Config.Projects = config.Projects{"prj_unknown"}
	d.export(t.Context())
	stopped, stop := context.WithCancel(t.Context())
	stop()
	d.export(stopped)
	if got := strings.Join(h.pings, " "); got != "/ping /ping/fail" {
		t.Errorf("pinged %s", got)
	}
}
