package main

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestImport does what Grafana does with an importable dashboard: the inputs are replaced
// by what was chosen. The result is the dashboard of dashboards/json whose variables of
// datasources have been chosen and taken away. Grafana, and each datasource and kind of
// panel that it uses, are required by name and version.
func TestImport(t *testing.T) {
	for _, board := range engines.Dashboards(t, "dashboards/json") {
		text := importable([]byte(board.Text))
		var form struct {
			Inputs   []struct{ Name, Type, PluginID string }    `json:"__inputs"`
			Requires []struct{ Type, ID, Name, Version string } `json:"__requires"`
		}
		decode(t, text, &form)
		chosen := map[string]string{}
		for _, i := range form.Inputs {
			chosen[i.Name] = "uid-of-" + i.PluginID
		}
		var got, want object
		decode(t, regexp.MustCompile(`\$\{(DS_\w+)\}`).ReplaceAllFunc(text, func(found []byte) []byte {
			return []byte(chosen[strings.Trim(string(found), "${}")]) // empty without such an input
		}), &got)
		if id, ok := got["id"]; !ok || id != nil {
			t.Errorf("%s: id %v, want null", board.UID, id)
		}
		for _, key := range []string{"__inputs", "__requires", "id"} {
			delete(got, key)
		}
		used, required := map[string]bool{"grafana grafana": true}, map[string]bool{}
		provisioned := board.Text
		for _, v := range board.Templating.List {
			if v.Type == "datasource" {
				provisioned = strings.ReplaceAll(provisioned, "${"+v.Name+"}", "uid-of-"+v.Query.(string))
			}
		}
		decode(t, []byte(provisioned), &want)
		templating := want["templating"].(object)
		templating["list"] = slices.DeleteFunc(templating["list"].([]any), func(v any) bool {
			return v.(object)["type"] == "datasource"
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-provisioned +imported):\n%s", board.UID, diff)
		}
		for _, p := range board.Panels {
			if p.Type != "row" {
				used["panel "+p.Type], used["datasource "+p.Datasource.Type] = true, true
				if !slices.Contains(slices.Collect(maps.Values(chosen)), "uid-of-"+p.Datasource.Type) {
					t.Errorf("%s / %s: %s is no input", board.UID, p.Title, p.Datasource.Type)
				}
			}
		}
		for _, r := range form.Requires {
			required[r.Type+" "+r.ID] = true
			if r.Name == "" || r.Version == "" && r.Type != "panel" {
				t.Errorf("%s requires %+v", board.UID, r)
			}
		}
		if diff := cmp.Diff(used, required); diff != "" {
			t.Errorf("%s (-uses +requires):\n%s", board.UID, diff)
		}
	}
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}
