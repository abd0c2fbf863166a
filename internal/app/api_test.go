package app

import (
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
)

var check = testbed.Check

// TestMinInterval: DOCGAUGE_MIN_INTERVAL passes between two requests of the client.
func TestMinInterval(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close") // an idle connection would keep the time of the test from passing
		w.Header()["Date"] = nil              // another clock than the test's
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"totals": {"human": 1, "ai": 1, "total": 2}, "visitors": [], "hasMore": false}`)
	}))
	defer service.Close()
	t.Setenv("DOCGAUGE_BASE_URL", service.URL)
	t.Setenv("DOCGAUGE_API_KEY", "adm_secret")
	t.Setenv("DOCGAUGE_PROJECTS", "prj_a")
	t.Setenv("DOCGAUGE_STATE_DIR", t.TempDir())
	t.Setenv("DOCGAUGE_MIN_INTERVAL", "37s")
	synctest.Test(t, func(t *testing.T) {
		c, err := config.ReadSource(config.EnvFile{}, nil).Load(config.NeedProjects|config.NeedAPI, time.Now())
		check(t, err)
		db, err := state.Open(c.StateDir)
		check(t, err)
		defer db.Close()
		a := &App{Config: c, State: db, Log: slog.New(slog.DiscardHandler), Now: time.Now}
		if traces, err := a.FindTraces(t.Context(), 0, maps.Keys(map[*state.Entry]bool{})); err != nil || traces.Older {
			t.Errorf("a state without a run is older: %t, %v", traces.Older, err)
		}
		api, err := NewAPI(c, db, slog.New(slog.DiscardHandler), time.Now, 0, 0)
		check(t, err)
		began, day := time.Now(), analytics.DateOf(time.Now())-1
		for range 2 {
			q := docsapi.PageQuery{Project: "prj_a", Window: analytics.Window{From: day, To: day + 1}}
			if _, err := api.Client.Page(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 37*time.Second {
			t.Errorf("the second request was answered after %v", took)
		}
	})
}
