package deploy

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

// waits is how long an alert waits before it fires.
var waits = regexp.MustCompile(`(?m)^(\s+for:) \S+$`)

// An alert goes all the way: from a metric of the exporter through Prometheus and
// Alertmanager to a webhook, with what people need to know. So does its end.
func TestAlertsArriveAtAWebhook(t *testing.T) {
	t.Parallel()
	told := told{arrived: make(chan alert, 100), latest: map[string]alert{}}
	hook := httptest.NewServer(receiver(t, told.arrived))
	t.Cleanup(hook.Close)
	var values exporter.Values
	values.Publish(healthy(time.Now()))
	target := httptest.NewServer(values.Handler())
	t.Cleanup(target.Close)
	serve(t, target.URL, engines.RunAlertmanager(t, hook.URL))

	refused := healthy(time.Now())
	refused.Keys[0].Rejected = true
	values.Publish(refused)
	got := told.await(t, "DocgaugeKeyRejected", "firing")
	instance := got.Labels["instance"]
	want := alert{
		Status: "firing",
		Labels: map[string]string{
			"alertname": "DocgaugeKeyRejected", "severity": "critical", "key": "admin", "job": "docgauge", "instance": instance,
		},
		Annotations: map[string]string{
			"summary":     "The service refuses the admin API key",
			"description": "The last request with the admin key was answered with 401 or 403. Requests with it fail until the key is replaced.",
			"runbook_url": runbook + "docgaugekeyrejected",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}

	values.Publish(healthy(time.Now()))
	told.await(t, "DocgaugeKeyRejected", "resolved")

	target.Close()
	if got := told.await(t, "DocgaugeDown", "firing"); got.Labels["instance"] != instance {
		t.Errorf("%v, want %s", got, instance)
	}
}

// alert is what Alertmanager tells of one.
type alert struct {
	Status              string
	Labels, Annotations map[string]string
}

func receiver(t *testing.T, alerts chan<- alert) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var message struct{ Alerts []alert }
		if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
			t.Error(err)
		}
		for _, a := range message.Alerts {
			alerts <- a
		}
	})
}

// told is what the webhook was told.
type told struct {
	arrived chan alert
	latest  map[string]alert // of each name
}

// unscraped are the alerts that a busy machine may bring, where alerts wait for a
// second only: there is nothing before the first scrape, and one may fail.
var unscraped = []string{"DocgaugeAbsent", "DocgaugeDown"}

// await returns an alert once the newest message of it has the status. No other
// may arrive.
func (told told) await(t *testing.T, name, status string) alert {
	t.Helper()
	timeout := time.After(patience)
	for told.latest[name].Status != status {
		select {
		case a := <-told.arrived:
			got := a.Labels["alertname"]
			if told.latest[got] = a; got != name && !slices.Contains(unscraped, got) {
				t.Errorf("%v, want only %s", a, name)
			}
		case <-timeout:
			t.Fatalf("%s is not %s, but %v arrived", name, status, told.latest)
		}
	}
	return told.latest[name]
}

// serve starts a server with the rules, whose alerts wait for a second only.
func serve(t *testing.T, target string, to *engines.Alertmanager) *engines.Prometheus {
	t.Helper()
	config := engines.PrometheusConfig{
		Scrapes:  []engines.Scrape{{URL: target, Interval: 500 * time.Millisecond}},
		Evaluate: 200 * time.Millisecond,
	}
	if to != nil {
		config.Alertmanagers = []string{to.Addr()}
	}
	for _, file := range ruleFiles {
		path := filepath.Join(t.TempDir(), filepath.Base(file))
		write(t, path, waits.ReplaceAllString(read(t, file), "$1 1s"), 0o600)
		config.Rules = append(config.Rules, path)
	}
	return engines.RunPrometheus(t, config)
}

// healthy has something of everything, and nothing to alert on.
func healthy(now time.Time) exporter.Snapshot {
	today := analytics.DateOf(now)
	window := exporter.Window{Revision: analytics.Revision{
		Key: analytics.Key{Project: "prj_a", Granularity: analytics.Day,
			Window: analytics.Window{From: today - 1, To: today}},
		Totals: analytics.Totals{Human: 8, AI: 4, Total: 10}, Rows: 3, Verified: true,
	}, Previous: &analytics.Totals{Human: 6, AI: 4, Total: 8}}
	earlier := now.Add(-time.Minute)
	return exporter.Snapshot{
		At:        now,
		Projects:  []exporter.Project{{ID: "prj_a"}},
		Windows:   []exporter.Window{window},
		Due:       []exporter.Due{{Project: "prj_a", Granularity: analytics.Day, Reason: "missing"}},
		Budgets:   []exporter.Budget{{Name: "analytics", Limit: 90, Remaining: 80}},
		Keys:      []exporter.Key{{Name: "admin", Expires: now.AddDate(0, 3, 0)}},
		Sinks:     []exporter.Sink{{Name: "parquet", LastCommit: earlier}},
		LastStart: earlier, LastCompletion: earlier, LastSuccess: earlier,
		Queue: &exporter.Queue{
			Prompts: []exporter.Prompts{
				{Project: "prj_a", State: "unknown"}, {Project: "prj_a", State: "invalid"}, {Project: "prj_a", State: "pending",
					Count: 1},
			},
			Jobs: []exporter.Job{{Project: "prj_a", Prompt: "weekly.md", ID: "job_1", State: "active", Status: "active",
				Created: earlier}},
			Caps: []exporter.Cap{{Name: "day", Limit: 10, Used: 2}, {Name: "active", Limit: 3, Used: 1}},
		},
	}
}
