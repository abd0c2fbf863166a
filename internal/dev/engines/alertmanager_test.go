package engines_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// An alert of a rule arrives at the webhook, and its end too.
func TestAlertmanagerTellsTheWebhook(t *testing.T) {
	statuses := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var message struct {
			Alerts []struct {
				Status string
				Labels map[string]string
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
			t.Error(err)
		}
		for _, a := range message.Alerts {
			statuses <- a.Status + " " + a.Labels["alertname"]
		}
	}))
	t.Cleanup(hook.Close)
	manager := engines.RunAlertmanager(t, hook.URL)
	rules := filepath.Join(t.TempDir(), "rules.yml")
	text := `{groups: [{name: a, rules: [{alert: Up, expr: up == 1}]}]}`
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(target.Close)
	engines.RunPrometheus(t, engines.PrometheusConfig{
		Scrapes: []engines.Scrape{{URL: target.URL, Interval: 500 * time.Millisecond}},
		Rules:   []string{rules}, Evaluate: 100 * time.Millisecond, Alertmanagers: []string{manager.Addr()},
	})
	expect(t, statuses, "firing Up")
	target.Close()
	expect(t, statuses, "resolved Up")
}

func expect(t *testing.T, from <-chan string, want string) {
	t.Helper()
	select {
	case got := <-from:
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("waited in vain for %q", want)
	}
}
