package dashboards

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/docgauge/docgauge/exporter"
)

var update = flag.Bool("update", false, "write the files of json/")

// TestFiles compares the committed files with the code, so that the other tests
// need only look at the code.
func TestFiles(t *testing.T) {
	want := []string{}
	for _, d := range all() {
		path := filepath.Join("json", d.UID+".json")
		want = append(want, path)
		text, err := d.file()
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(string(text), string(got)); diff != "" {
			t.Errorf("%s differs from the code: run `make docs`\n%s", path, diff)
		}
	}
	have, err := filepath.Glob("json/*")
	if slices.Sort(want); err != nil || !slices.Equal(have, want) {
		t.Errorf("%q, want %q: %v", have, want, err)
	}
}

// TestBoards: names are well formed and unique, and each dashboard links to all others.
func TestBoards(t *testing.T) {
	names := map[string]bool{}
	links := regexp.MustCompile(`/d/([a-z-]+)`)
	for _, d := range all() {
		if names[d.UID] || names[d.Title] || !regexp.MustCompile(`^docgauge-[a-z-]{1,31}$`).MatchString(d.UID) {
			t.Errorf("uid %q, title %q: not a name, or twice", d.UID, d.Title)
		}
		names[d.UID], names[d.Title] = true, true
		if d.Description == "" {
			t.Errorf("%s has no description", d.UID)
		}
	}
	for _, d := range all() {
		to := map[string]bool{d.UID: true}
		for _, l := range d.Links {
			to[strings.TrimPrefix(l.URL, "/d/")] = l.Type == "link" && l.Title != ""
		}
		text, err := d.file()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range links.FindAllStringSubmatch(string(text), -1) {
			if !names[m[1]] {
				t.Errorf("%s links to %s, which does not exist", d.UID, m[1])
			}
		}
		for _, other := range all() {
			if !to[other.UID] {
				t.Errorf("%s does not link to %s", d.UID, other.UID)
			}
		}
	}
}

func TestPanels(t *testing.T) {
	for _, d := range all() {
		ids, titles := map[int]bool{}, map[string]bool{}
		for _, p := range d.Panels {
			if p.ID < 1 || ids[p.ID] || p.Title == "" || titles[p.Title] {
				t.Errorf("%s / %s: id %d or title is missing or there twice", d.Title, p.Title, p.ID)
			}
			ids[p.ID], titles[p.Title] = true, true
			if p.Type != "row" {
				checkPanel(t, d.Title+" / "+p.Title, p)
			}
		}
	}
}

func checkPanel(t *testing.T, name string, p *panel) {
	t.Helper()
	d := p.FieldConfig.Defaults
	if !strings.HasSuffix(p.Description, ".") || len(p.Description) < 20 || d.Unit == "" || d.NoValue == "" {
		t.Errorf("%s: description %q, unit %q or text for no data %q", name, p.Description, d.Unit, d.NoValue)
	}
	if strings.Contains(d.NoValue, "$") {
		t.Errorf("%s: %q has a variable, which Grafana would show as it is", name, d.NoValue)
	}
	steps := d.Thresholds["steps"].([]fields)[1:]
	for i := 1; i < len(steps); i++ {
		if steps[i]["value"].(float64) <= steps[i-1]["value"].(float64) {
			t.Errorf("%s: thresholds do not ascend", name)
		}
	}
	for i, target := range p.Targets {
		if target.Datasource != *p.Datasource || (target.Expr == "") == (target.RawSQL == "") {
			t.Errorf("%s: query %d is of another datasource, or not of one language", name, i)
		}
	}
}

// TestGrid: no panel lies over another or beyond the grid, and each section is full.
func TestGrid(t *testing.T) {
	for _, d := range all() {
		taken := map[[2]int]string{}
		bottom := 0
		for _, p := range d.Panels {
			g := p.Grid
			if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
				t.Errorf("%s / %s: at %+v", d.Title, p.Title, g)
			}
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Fatalf("%s: %s lies over %s", d.Title, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			bottom = max(bottom, g.Y+g.H)
		}
		if len(taken) != 24*bottom {
			t.Errorf("%s has holes: %d of %d cells", d.Title, len(taken), 24*bottom)
		}
	}
}

// TestVariables: every variable that is used exists, the datasources among them.
func TestVariables(t *testing.T) {
	used := regexp.MustCompile(`\$\{?([a-z]+)`)
	for _, d := range all() {
		kinds, text := map[string]any{}, ""
		for _, v := range d.Templating.List {
			if v.Label == "" || v.Description == "" || v.Name == "" {
				t.Errorf("%s: variable %q without label or description", d.Title, v.Name)
			}
			kinds[v.Name] = v.Query
			text += fmt.Sprint(v.Query)
			if v.Datasource != nil {
				text += v.Datasource.UID
			}
		}
		for _, p := range d.Panels {
			text += p.Title + p.Description
			for _, target := range p.Targets {
				text += target.Expr + target.RawSQL + target.Datasource.UID
				if name := strings.Trim(target.Datasource.UID, "${}"); kinds[name] != target.Datasource.Type {
					t.Errorf("%s / %s: the datasource %v is no variable", d.Title, p.Title, target.Datasource)
				}
			}
		}
		for _, m := range used.FindAllStringSubmatch(text+"$project", -1) {
			if kinds[m[1]] == nil {
				t.Errorf("%s: $%s is not defined", d.Title, m[1])
			}
		}
	}
}

// TestNames: every name of a metric is one that the exporter has, every label one
// of that metric or of the scrape; and every metric is on some panel.
func TestNames(t *testing.T) {
	shown := map[string]bool{}
	for _, q := range Queries() {
		if q.Engine != Prometheus {
			continue
		}
		expr, err := promQL.ParseExpr(q.Expand(nil))
		if err != nil {
			t.Errorf("%s / %s: %v", q.Dashboard, q.Panel, err)
			continue
		}
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			s, ok := n.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			name := strings.TrimSuffix(s.Name, "_bucket")
			i := slices.IndexFunc(exporter.Metrics(), func(m exporter.Metric) bool { return m.Name == name })
			if i < 0 {
				t.Errorf("%s / %s: the exporter has no %s", q.Dashboard, q.Panel, s.Name)
				return nil
			}
			shown[name] = true
			for _, m := range s.LabelMatchers {
				if !slices.Contains(append([]string{"__name__", "instance"}, exporter.Metrics()[i].Labels...), m.Name) {
					t.Errorf("%s / %s: %s has no label %s", q.Dashboard, q.Panel, name, m.Name)
				}
			}
			return nil
		})
	}
	for _, m := range exporter.Metrics() {
		if !shown[m.Name] && m.Name != exporter.ExportLastStart {
			t.Errorf("no panel shows %s", m.Name)
		}
	}
}

func TestExpand(t *testing.T) {
	q := Query{defaults: map[string]string{"project": ".*", "page": "top"}}
	vars := map[string]string{"project": "a/b'", "__from": "1790000000000", "__to": "1790086400000"}
	for expr, want := range map[string]string{
		`x{p=~"$project"}[$__range]`:                  `x{p=~"a/b'"}[86400s]`,
		`'${project:percentencode}' ${project} $page`: `'a%2Fb%27' a/b' top`,
		`$__dateFilter(d)`:                            `d >= toDate('2026-09-21') AND d <= toDate('2026-09-22')`,
		`label_replace(x, "a", "$1", "b", "(.*)")`:    `label_replace(x, "a", "$1", "b", "(.*)")`,
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
