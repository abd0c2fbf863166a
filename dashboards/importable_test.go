package dashboards

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestImport does what Grafana does with an importable dashboard: the inputs are
// replaced by what was chosen. The result is the provisioned dashboard whose variables
// of datasources have been chosen and taken away.
func TestImport(t *testing.T) {
	files, err := Importable()
	if err != nil || len(files) != len(all()) {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for name, text := range files {
		var form importable
		if err := json.Unmarshal(text, &form); err != nil {
			t.Fatal(err)
		}
		chosen := map[string]string{}
		for _, i := range form.Inputs {
			chosen[i.Name] = "uid-of-" + i.PluginID
		}
		got := decoded(t, regexp.MustCompile(`\$\{(DS_\w+)\}`).ReplaceAllStringFunc(string(text), func(found string) string {
			return chosen[strings.Trim(found, "${}")] // nothing where there is no such input
		}))
		delete(got, "__inputs")
		delete(got, "__requires")
		if id, ok := got["id"]; !ok || id != nil {
			t.Errorf("%s: id %v, want null", name, id)
		}
		delete(got, "id")
		if diff := cmp.Diff(provisioned(t, name), got); diff != "" {
			t.Errorf("%s (-provisioned +imported):\n%s", name, diff)
		}
	}
}

// provisioned is a dashboard of json/ whose variables of datasources are chosen.
func provisioned(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("json", name))
	if err != nil {
		t.Fatal(err)
	}
	list, chosen := []any{}, []string{}
	for _, v := range decoded(t, string(text))["templating"].(map[string]any)["list"].([]any) {
		if v := v.(map[string]any); v["type"] == "datasource" {
			chosen = append(chosen, "${"+v["name"].(string)+"}", "uid-of-"+v["query"].(string))
		}
	}
	board := decoded(t, strings.NewReplacer(chosen...).Replace(string(text)))
	for _, v := range board["templating"].(map[string]any)["list"].([]any) {
		if v.(map[string]any)["type"] != "datasource" {
			list = append(list, v)
		}
	}
	board["templating"] = map[string]any{"list": list}
	return board
}

func decoded(t *testing.T, text string) (board map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &board); err != nil {
		t.Fatal(err)
	}
	return board
}

// TestRequirements: each datasource is an input, and Grafana, each datasource and
// each kind of panel are required by name and version.
func TestRequirements(t *testing.T) {
	files, err := Importable()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all() {
		var form importable
		if err := json.Unmarshal(files[d.UID+".json"], &form); err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{"grafana grafana": true}
		for _, p := range d.Panels {
			if p.Type == "row" {
				continue
			}
			want["panel "+p.Type], want["datasource "+p.Datasource.Type] = true, true
			if !slices.ContainsFunc(form.Inputs, func(i input) bool { return i.Type == "datasource" && i.PluginID == p.Datasource.Type }) {
				t.Errorf("%s / %s: %s is no input", d.UID, p.Title, p.Datasource.Type)
			}
		}
		got := map[string]bool{}
		for _, r := range form.Requires {
			got[r.Type+" "+r.ID] = true
			if r.Name == "" || r.Version == "" && r.Type != "panel" {
				t.Errorf("%s requires %+v", d.UID, r)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s requires (-used +told):\n%s", d.UID, diff)
		}
	}
}
