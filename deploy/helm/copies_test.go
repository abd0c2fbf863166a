package helm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// linked are the files that the chart has as symbolic links.
var linked = map[string][]string{
	"rules":      {"../prometheus/alerts.yaml", "../prometheus/recording.yaml"},
	"dashboards": {"../../dashboards/json/*.json"},
}

// TestRulesArrive: PrometheusRule has every group of the sources, unchanged by
// the templates, whose language is that of the alerts' texts.
func TestRulesArrive(t *testing.T) {
	var want []any
	for _, path := range linked["rules"] {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Groups []any }
		if err := yaml.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		want = append(want, file.Groups...)
	}
	rules := find(manifests(t, "deployment-full"), "PrometheusRule")
	if len(rules) != 1 {
		t.Fatalf("%d PrometheusRules", len(rules))
	}
	got := rules[0].at("spec", "groups")
	if diff := cmp.Diff(strings.Split(asJSON(t, want), "\n"), strings.Split(asJSON(t, got), "\n")); diff != "" {
		t.Error(diff)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// configMapLimit is how much kubectl apply can note of an object on the client's side.
const configMapLimit = 256 << 10

// TestDashboardsArrive: each is a ConfigMap that Grafana's sidecar finds, and the
// same JSON.
func TestDashboardsArrive(t *testing.T) {
	arrived := map[string]string{}
	for _, o := range find(manifests(t, "deployment-full"), "ConfigMap") {
		if o.text("metadata", "labels", "grafana_dashboard") != "1" {
			continue
		}
		for name, text := range o.sub("data") {
			arrived[name], _ = text.(string)
		}
		if n := len(asJSON(t, o)); n > configMapLimit {
			t.Errorf("%s has %d bytes: kubectl apply takes %d", o.id(), n, configMapLimit)
		}
	}
	sources, err := filepath.Glob(linked["dashboards"][0])
	if err != nil || len(sources) != len(arrived) {
		t.Errorf("%d dashboards, %d ConfigMaps, %v", len(sources), len(arrived), err)
	}
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if json.Unmarshal(text, &want) != nil || json.Unmarshal([]byte(arrived[filepath.Base(path)]), &got) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is not what arrives", path)
		}
	}
}
