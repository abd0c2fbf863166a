package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-jsonnet"
)

// mixinFile is the mixin; the other paths in here are relative to the repository.
const mixinFile = "mixin/mixin.libsonnet"

// mixed is a mixin as Jsonnet renders it.
type mixed struct {
	Dashboards map[string]any
	Alerts     any
	Rules      any
}

// render evaluates the mixin in a repository, or in what jsonnet-bundler made of one.
func render(t *testing.T, repository, config string) (m mixed) {
	t.Helper()
	vm := jsonnet.MakeVM()
	vm.Importer(&jsonnet.FileImporter{JPaths: []string{repository}})
	text, err := vm.EvaluateAnonymousSnippet("render", `local m =
		(import '`+mixinFile+`') + { _config+:: {`+config+`} };
		{ dashboards: m.grafanaDashboards, alerts: m.prometheusAlerts, rules: m.prometheusRules }`)
	must(t, err)
	must(t, json.Unmarshal([]byte(text), &m))
	return m
}

// files returns the contents that the mixin must have.
func files(t *testing.T) mixed {
	t.Helper()
	m := mixed{Dashboards: map[string]any{}}
	for _, file := range glob(t, top+"/dashboards/json/*.json") {
		var board any
		must(t, json.Unmarshal([]byte(read(t, file)), &board))
		m.Dashboards[filepath.Base(file)] = board
	}
	decode(t, "prometheus/alerts.yaml", &m.Alerts)
	decode(t, "prometheus/recording.yaml", &m.Rules)
	return m
}

// TestMixinInstalls lays out what jsonnet-bundler would: of the mixin and of each
// dependency its folder alone.
func TestMixinInstalls(t *testing.T) {
	var bundle struct {
		Dependencies []struct {
			Source struct {
				Git struct{ Remote, Subdir string }
			}
		}
	}
	must(t, json.Unmarshal([]byte(read(t, top+"/mixin/jsonnetfile.json")), &bundle))
	vendor, folders := t.TempDir(), []string{"mixin"}
	for _, d := range bundle.Dependencies {
		if d.Source.Git.Remote != "https://github.com/docgauge/docgauge.git" {
			t.Errorf("the mixin depends on %s", d.Source.Git.Remote)
		}
		folders = append(folders, d.Source.Git.Subdir)
	}
	for _, folder := range folders {
		must(t, os.CopyFS(filepath.Join(vendor, folder), os.DirFS(filepath.Join(top, folder))))
	}
	if diff := cmp.Diff(files(t), render(t, vendor, "")); diff != "" {
		t.Errorf("-files +mixin:\n%s", diff)
	}
}

// TestMixinConfig: each setting changes what it is for, and nothing else.
func TestMixinConfig(t *testing.T) {
	want := files(t)
	delete(want.Dashboards, "docgauge-history.json")
	delete(want.Dashboards, "docgauge-history-postgres.json")
	for _, board := range want.Dashboards {
		board.(map[string]any)["tags"] = []any{"docs", "team-a"}
		board.(map[string]any)["refresh"] = "5m"
	}
	for _, group := range want.Alerts.(map[string]any)["groups"].([]any) {
		for _, r := range group.(map[string]any)["rules"].([]any) {
			r.(map[string]any)["labels"].(map[string]any)["team"] = "a"
			notes := r.(map[string]any)["annotations"].(map[string]any)
			notes["runbook_url"] = strings.Replace(notes["runbook_url"].(string), strings.TrimSuffix(runbook, "#"),
				"https://wiki.example.com/docs", 1)
		}
	}
	got := render(t, top, `clickhouse: false, postgres: false, dashboardTags: ['docs', 'team-a'], dashboardRefresh: '5m',
		alertLabels: { team: 'a' }, runbookURL: 'https://wiki.example.com/docs'`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +mixin:\n%s", diff)
	}
}
