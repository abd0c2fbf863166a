package dashboards

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/exporter"
)

// board is a committed file, as far as Grafana's rules need it.
type board struct {
	ID            *int
	UID           string
	Title         string
	Description   string
	SchemaVersion int
	Inputs        any `json:"__inputs"`
	Requires      any `json:"__requires"`
	Time          struct{ From, To string }
	Templating    struct {
		List []struct {
			Name, Label, Description, Type string
			Query                          any
			Datasource                     *source
			AllValue                       string
		}
	}
	Links  []struct{ Type, Title, URL string }
	Panels []panel
}

type source struct{ Type, UID string }

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	Datasource               *source
	Targets                  []struct {
		RefID      string
		Datasource source
		Expr       string
		RawSQL     string `json:"rawSql"`
		EditorType string
		Format     any
	}
	FieldConfig struct {
		Defaults struct {
			Unit, NoValue string
			Thresholds    struct {
				Mode  string
				Steps []struct {
					Color string
					Value *float64
				}
			}
		}
		Overrides []struct {
			Properties []struct {
				ID    string
				Value any
			}
		}
	}
}

// boards reads the committed files.
func boards(t *testing.T) (all []board) {
	t.Helper()
	files, err := filepath.Glob("json/*.json")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d files, want 4: %v", len(files), err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var b board
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatal(err)
		}
		if want := b.UID + ".json"; filepath.Base(path) != want {
			t.Errorf("%s is of the dashboard %s", path, b.UID)
		}
		all = append(all, b)
	}
	return all
}

func TestBoards(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range boards(t) {
		if seen[b.UID] || seen[b.Title] || !regexp.MustCompile(`^docgauge-[a-z-]{1,31}$`).MatchString(b.UID) {
			t.Errorf("uid %q, title %q: not a name, or twice", b.UID, b.Title)
		}
		seen[b.UID], seen[b.Title] = true, true
		if b.ID != nil || b.Inputs != nil || b.Requires != nil || b.Description == "" || b.Time.To != "now" {
			t.Errorf("%s: id, __inputs or __requires are there, or no description or time", b.UID)
		}
		if b.SchemaVersion < 39 || b.SchemaVersion > 41 {
			t.Errorf("%s: schema version %d", b.UID, b.SchemaVersion)
		}
	}
}

var dashboardAddress = regexp.MustCompile(`/d/([a-z-]+)`)

// Every address of a dashboard is of one of ours, and each leads to all others.
func TestLinks(t *testing.T) {
	all := boards(t)
	for _, b := range all {
		to := map[string]bool{}
		for _, l := range b.Links {
			to[strings.TrimPrefix(l.URL, "/d/")] = l.Type == "link" && l.Title != ""
		}
		for _, other := range all {
			if to[other.UID] != (other.UID != b.UID) {
				t.Errorf("%s: does it link to %s? %v", b.UID, other.UID, to[other.UID])
			}
		}
		for _, m := range dashboardAddress.FindAllStringSubmatch(marshal(t, b), -1) {
			if !slices.ContainsFunc(all, func(o board) bool { return o.UID == m[1] }) {
				t.Errorf("%s links to %s, which is not there", b.UID, m[1])
			}
		}
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPanels(t *testing.T) {
	for _, b := range boards(t) {
		ids, titles := map[int]bool{}, map[string]bool{}
		for _, p := range b.Panels {
			name := fmt.Sprintf("%s / %s", b.Title, p.Title)
			if p.ID < 1 || ids[p.ID] || p.Title == "" || titles[p.Title] {
				t.Errorf("%s: id %d or title is missing or there twice", name, p.ID)
			}
			ids[p.ID], titles[p.Title] = true, true
			if p.Type != "row" {
				checkPanel(t, name, p)
			}
		}
	}
}

func checkPanel(t *testing.T, name string, p panel) {
	t.Helper()
	d := p.FieldConfig.Defaults
	if !strings.HasSuffix(p.Description, ".") || len(p.Description) < 20 || d.Unit == "" || d.NoValue == "" {
		t.Errorf("%s: description %q, unit %q or text for no data %q", name, p.Description, d.Unit, d.NoValue)
	}
	if strings.Contains(d.NoValue, "$") {
		t.Errorf("%s: %q has a variable, which Grafana would show as it is", name, d.NoValue)
	}
	steps := d.Thresholds.Steps
	if d.Thresholds.Mode != "absolute" || len(steps) == 0 || steps[0].Value != nil {
		t.Errorf("%s: thresholds must begin with a colour without a value", name)
	}
	for i := 1; i < len(steps); i++ {
		if steps[i].Value == nil || i > 1 && *steps[i].Value <= *steps[i-1].Value {
			t.Errorf("%s: thresholds do not ascend", name)
		}
	}
	if p.Datasource == nil || len(p.Targets) == 0 {
		t.Errorf("%s: no datasource or no query", name)
	}
	for i, target := range p.Targets {
		if target.RefID != string(rune('A'+i)) || target.Datasource != *p.Datasource || (target.Expr == "") == (target.RawSQL == "") || target.Format == nil {
			t.Errorf("%s: query %d is not complete", name, i)
		}
		if sql := target.RawSQL != ""; sql != (target.Datasource.Type == "grafana-clickhouse-datasource") || sql != (target.EditorType == "sql") {
			t.Errorf("%s: query %d is for %s", name, i, target.Datasource.Type)
		}
	}
	for _, o := range p.FieldConfig.Overrides {
		for _, property := range o.Properties {
			if property.ID == "" || property.Value == nil {
				t.Errorf("%s: an override without name or value", name)
			}
		}
	}
}

// No panel lies over another or beyond the grid, and each section is full.
func TestGrid(t *testing.T) {
	for _, b := range boards(t) {
		taken := map[[2]int]string{}
		bottom := 0
		for _, p := range b.Panels {
			g := p.GridPos
			if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
				t.Errorf("%s / %s: at %+v", b.Title, p.Title, g)
			}
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Fatalf("%s: %s lies over %s", b.Title, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			bottom = max(bottom, g.Y+g.H)
		}
		if len(taken) != 24*bottom {
			t.Errorf("%s has holes: %d of %d cells", b.Title, len(taken), 24*bottom)
		}
	}
}

// Datasources are variables, never somebody's uid, and every variable that is
// used exists.
func TestVariables(t *testing.T) {
	used := regexp.MustCompile(`\$\{?([a-z]+)`)
	for _, b := range boards(t) {
		defined := map[string]string{}
		for _, v := range b.Templating.List {
			if v.Label == "" || v.Description == "" || v.Name == "" {
				t.Errorf("%s: variable %q without label or description", b.Title, v.Name)
			}
			defined["${"+v.Name+"}"] = v.Type
			if v.Type == "datasource" {
				defined["type "+v.Name] = fmt.Sprint(v.Query)
			}
		}
		sources := []*source{}
		text := ""
		for _, v := range b.Templating.List {
			sources = append(sources, v.Datasource)
			text += fmt.Sprint(v.Query)
		}
		for _, p := range b.Panels {
			sources = append(sources, p.Datasource)
			text += p.Title + p.Description
			for _, target := range p.Targets {
				sources = append(sources, &target.Datasource)
				text += target.Expr + target.RawSQL
			}
		}
		for _, s := range sources {
			if s != nil && (defined[s.UID] != "datasource" || defined["type "+strings.Trim(s.UID, "${}")] != s.Type) {
				t.Errorf("%s: the datasource %v is no variable", b.Title, *s)
			}
		}
		for _, m := range used.FindAllStringSubmatch(text, -1) {
			if defined["${"+m[1]+"}"] == "" {
				t.Errorf("%s: $%s is not defined", b.Title, m[1])
			}
		}
		if defined["${project}"] == "" {
			t.Errorf("%s has no project", b.Title)
		}
	}
}

// Every name of a metric is one that the exporter has, every label one of that
// metric or of the scrape; and every metric is on some panel.
func TestNames(t *testing.T) {
	shown := map[string]bool{}
	for _, q := range Queries() {
		if q.Engine != Prometheus {
			continue
		}
		n, err := parsePromQL(q.Expand(nil))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, s := range selectors(n) {
			name := strings.TrimSuffix(s.name, "_bucket")
			i := slices.IndexFunc(exporter.Metrics(), func(m exporter.Metric) bool { return m.Name == name })
			if i < 0 {
				t.Errorf("%s / %s: the exporter has no %s", q.Dashboard, q.Panel, s.name)
				continue
			}
			shown[name] = true
			for _, m := range s.matchers {
				if m.label != "instance" && !slices.Contains(exporter.Metrics()[i].Labels, m.label) {
					t.Errorf("%s / %s: %s has no label %s", q.Dashboard, q.Panel, name, m.label)
				}
			}
		}
	}
	for _, m := range exporter.Metrics() {
		if !shown[m.Name] && m.Name != exporter.ExportLastStart {
			t.Errorf("no panel shows %s", m.Name)
		}
	}
}

func selectors(n *node) (all []*node) {
	if n.kind == selector {
		return []*node{n}
	}
	for _, a := range n.args {
		all = append(all, selectors(a)...)
	}
	return all
}

func TestExpand(t *testing.T) {
	q := Query{defaults: map[string]string{"project": ".*", "page": "top"}}
	vars := map[string]string{"project": "a/b'", "__from": "1790000000000", "__to": "1790086400000"}
	for expr, want := range map[string]string{
		`x{p=~"$project"}[$__range]`:                   `x{p=~"a/b'"}[86400s]`,
		`rate(x[$__rate_interval]) $__interval`:        `rate(x[5m]) 1h`,
		`'${project:percentencode}' ${project} $page`:  `'a%2Fb%27' a/b' top`,
		`$__dateFilter(window_start)`:                  `window_start >= toDate('2026-09-21') AND window_start <= toDate('2026-09-22')`,
		`$__timeFilter(at) AND $__fromTime, $__toTime`: `at >= toDateTime(1790000000) AND at <= toDateTime(1790086400) AND toDateTime(1790000000), toDateTime(1790086400)`,
		`label_replace(x, "a", "$1", "b", "(.*)")`:     `label_replace(x, "a", "$1", "b", "(.*)")`,
		`$unknown`: `$unknown`,
	} {
		q.Expr = expr
		if got := q.Expand(vars); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", expr, got, want)
		}
	}
	q.Expr = "$project"
	if got := q.Expand(nil); got != ".*" {
		t.Errorf("%s, want the preset", got)
	}
}
