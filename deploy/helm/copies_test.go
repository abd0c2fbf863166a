package helm

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// copies say where the chart's files come from: a chart can read only its own.
var copies = map[string][]string{
	"rules":      {"../prometheus/alerts.yaml", "../prometheus/recording.yaml"},
	"dashboards": {"../../dashboards/json/*.json"},
}

// TestCopies holds the chart's rules and dashboards against their sources, or
// with -update copies them.
func TestCopies(t *testing.T) {
	for folder, sources := range copies {
		var known []string
		for _, pattern := range sources {
			paths, err := filepath.Glob(pattern)
			if err != nil || len(paths) == 0 {
				t.Fatalf("%s: nothing there, %v", pattern, err)
			}
			for _, path := range paths {
				known = append(known, filepath.Base(path))
				sameFile(t, path, filepath.Join(chart, "files", folder, filepath.Base(path)))
			}
		}
		have, err := filepath.Glob(filepath.Join(chart, "files", folder, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range have {
			if !slices.Contains(known, filepath.Base(path)) {
				t.Errorf("%s has no source any more: remove it", path)
			}
		}
	}
}

func sameFile(t *testing.T, source, target string) {
	t.Helper()
	want, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(target, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(target); err != nil || !bytes.Equal(have, want) {
		t.Errorf("%s is not %s (%v): `make docs` copies it", target, source, err)
	}
}

// TestRulesArrive: PrometheusRule has every group of the sources, unchanged by
// the templates, whose language is that of the alerts' texts.
func TestRulesArrive(t *testing.T) {
	var want []any
	for _, path := range copies["rules"] {
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
	sources, err := filepath.Glob(copies["dashboards"][0])
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
