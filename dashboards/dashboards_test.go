// Package dashboards tests docgauge's Grafana dashboards, the files of json/. They
// are edited in Grafana: see docs/grafana.md. The tests run each query on a real
// Prometheus, ClickHouse or PostgreSQL, hold names against the exporter's metrics, and see to it
// that panels look alike and that nothing adds up unique visitors. No test runs
// Grafana, so how it draws a panel is untested.
package dashboards

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

var must = engines.Must

// queries returns the queries of all panels and of all variables that pass.
func queries(t *testing.T, pass func(engines.Query) bool) []engines.Query {
	t.Helper()
	panels, variables := engines.Queries(engines.Dashboards(t, "json"))
	return slices.DeleteFunc(append(variables, panels...), func(q engines.Query) bool { return !pass(q) })
}

func isSQL(q engines.Query) bool    { return !isPromQL(q) }
func isPromQL(q engines.Query) bool { return q.Source == engines.PrometheusSource }

// TestBoards: names are well formed and unique, the boards are alike, each links to all
// others, and nothing is left of the Grafana in which a board was edited.
func TestBoards(t *testing.T) {
	boards := engines.Dashboards(t, "json")
	files, _ := filepath.Glob("json/*")
	names, links := map[string]bool{}, regexp.MustCompile(`/d/([a-z-]+)`)
	for i, d := range boards {
		if names[d.UID] || names[d.Title] || !regexp.MustCompile(`^docgauge-[a-z-]{1,31}$`).MatchString(d.UID) ||
			len(files) != len(boards) || files[i] != filepath.Join("json", d.UID+".json") {
			t.Errorf("%q: uid %q, title %q: not a name, there twice, or not the file's", files, d.UID, d.Title)
		}
		names[d.UID], names[d.Title] = true, true
		// Schema 39 belongs to Grafana 10.4, the oldest version that docs/grafana.md names.
		if d.Description == "" || d.SchemaVersion != 39 || d.Timezone != "utc" || d.WeekStart != "monday" ||
			d.Refresh != "1m" || d.GraphTooltip != 1 || !slices.Equal(d.Tags, []string{"docgauge"}) {
			t.Errorf("%s: want a description, the tag docgauge and the schema, times, refresh and tooltip of the "+
				"others", d.UID)
		}
		if d.ID != nil {
			t.Errorf("%s has the id %v of the Grafana in which it was edited: remove it", d.UID, d.ID)
		}
	}
	for _, d := range boards {
		linked := map[string]bool{d.Title: true}
		for _, l := range d.Links {
			// The histories take one project where the others offer several.
			several := !strings.HasPrefix(l.URL, "/d/docgauge-history")
			linked[l.Title] = l.Type == "link" && l.KeepTime && l.IncludeVars == several &&
				slices.ContainsFunc(boards, func(to engines.Dashboard) bool {
					return l.URL == "/d/"+to.UID && l.Title == to.Title && l.Tooltip == to.Description
				})
		}
		for _, to := range boards {
			if !linked[to.Title] {
				t.Errorf("%s does not link to %s by its title, description, time and variables", d.UID, to.UID)
			}
		}
		for _, m := range links.FindAllStringSubmatch(d.Text, -1) {
			if !names[m[1]] {
				t.Errorf("%s links to %s, which does not exist", d.UID, m[1])
			}
		}
	}
}

// TestHistories: the two histories look alike but for the panel of which PostgreSQL has no data.
func TestHistories(t *testing.T) {
	panels := map[string]map[string]*engines.Panel{}
	for _, d := range engines.Dashboards(t, "json") {
		panels[d.UID] = map[string]*engines.Panel{}
		for _, p := range d.Panels {
			p.Datasource, p.Targets = engines.Panel{}.Datasource, nil
			panels[d.UID][p.Title] = p
		}
	}
	other := panels["docgauge-history-postgres"]
	for title, p := range panels["docgauge-history"] {
		if diff := cmp.Diff(p, other[title]); diff != "" && title != "Restated windows" {
			t.Errorf("%s (-ClickHouse +PostgreSQL):\n%s", title, diff)
		}
	}
}

// TestVariables: every variable that is used exists, the datasources among them, and
// holds no value of the Grafana in which it was edited.
func TestVariables(t *testing.T) {
	for _, d := range engines.Dashboards(t, "json") {
		kinds := map[string]any{}
		for _, v := range d.Templating.List {
			kinds[v.Name] = v.Query
			if v.Label == "" || v.Description == "" || v.Name == "" {
				t.Errorf("%s: variable %q has no label or no description", d.UID, v.Name)
			}
			chosen := fmt.Sprint(v.Current.Value)
			if len(v.Options) > 0 || !slices.Contains([]string{"<nil>", "week", "9999-12-31", "top", "[$__all]"},
				chosen) {
				t.Errorf("%s: variable %s has the value %v or options: of your Grafana?", d.UID, v.Name,
					v.Current.Value)
			}
		}
		for _, m := range regexp.MustCompile(`\$\{?([a-z]+)`).FindAllStringSubmatch(d.Text+"$project", -1) {
			if kinds[m[1]] == nil {
				t.Errorf("%s: $%s is not defined", d.UID, m[1])
			}
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				source := target.Datasource
				if source != p.Datasource || kinds[strings.Trim(source.UID, "${}")] != source.Type ||
					(target.Expr != "") != (source.Type == "prometheus") ||
					(target.Expr == "") == (target.RawSQL == "") {
					t.Errorf("%s / %s / %s: datasource %v: want the panel's, a variable of the query's language",
						d.UID, p.Title, target.RefID, source)
				}
			}
		}
	}
}

// style are the options that all panels of a kind have.
var style = map[string]map[string]string{
	"stat":           {"colorMode": "value", "graphMode": "none", "reduceOptions.calcs": "[lastNotNull]"},
	"bargauge":       {"displayMode": "gradient", "orientation": "horizontal", "reduceOptions.calcs": "[lastNotNull]"},
	"timeseries":     {"legend.placement": "bottom", "legend.calcs": "[]", "tooltip.mode": "multi"},
	"state-timeline": {"mergeValues": "true", "legend.showLegend": "false"},
	"table":          {"cellHeight": "sm", "footer.show": "false"},
	"row":            {},
}

// TestPanels: panels look alike, and ids and titles are unique. No panel lies over
// another or beyond the grid, and each section is full.
func TestPanels(t *testing.T) {
	for _, d := range engines.Dashboards(t, "json") {
		ids, titles, taken, bottom := map[int]bool{}, map[string]bool{}, map[[2]int]string{}, 0
		for _, p := range d.Panels {
			name := d.UID + " / " + p.Title
			if p.ID < 1 || ids[p.ID] || p.Title == "" || titles[p.Title] {
				t.Errorf("%s: id %d or title is missing or there twice", name, p.ID)
			}
			ids[p.ID], titles[p.Title] = true, true
			for x := p.Grid.X; x < p.Grid.X+p.Grid.W; x++ {
				for y := p.Grid.Y; y < p.Grid.Y+p.Grid.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x < 0 || x > 23 {
						t.Fatalf("%s lies beyond the grid or over %q", name, other)
					}
					taken[[2]int{x, y}] = p.Title
					bottom = max(bottom, y+1)
				}
			}
			if p.Type != "row" {
				checkPanel(t, name, p)
			} else if len(p.Panels) > 0 {
				t.Errorf("%s is collapsed", name)
			}
		}
		if len(taken) != 24*bottom {
			t.Errorf("%s has holes: %d of %d cells", d.UID, len(taken), 24*bottom)
		}
	}
}

func checkPanel(t *testing.T, name string, p *engines.Panel) {
	t.Helper()
	d := p.FieldConfig.Defaults
	if !strings.HasSuffix(p.Description, ".") || len(p.Description) < 20 || d.Unit == "" || d.NoValue == "" {
		t.Errorf("%s: description %q, unit %q or text for no data %q", name, p.Description, d.Unit, d.NoValue)
	}
	if strings.Contains(d.NoValue, "$") {
		t.Errorf("%s: %q has a variable, which Grafana would show as it is", name, d.NoValue)
	}
	for i, step := range d.Thresholds.Steps {
		if (step.Value == nil) != (i == 0) || i > 1 && *step.Value <= *d.Thresholds.Steps[i-1].Value {
			t.Errorf("%s: thresholds do not ascend from the base", name)
		}
	}
	want, ok := style[p.Type]
	if !ok {
		t.Errorf("%s: no style is known for a %s", name, p.Type)
	}
	for path, value := range want {
		if got := option(p.Options, path); got != value {
			t.Errorf("%s: option %s is %s, must be %s as in other panels", name, path, got, value)
		}
	}
	if p.Type == "timeseries" && (option(d.Custom, "axisSoftMin") != "0" || option(d.Custom, "spanNulls") != "false") {
		t.Errorf("%s: its axis does not begin at 0, or gaps are bridged", name)
	}
}

// option returns the value at a path of options.
func option(options map[string]any, path string) string {
	head, rest, nested := strings.Cut(path, ".")
	if inner, ok := options[head].(map[string]any); ok && nested {
		return option(inner, rest)
	}
	return fmt.Sprint(options[head])
}
