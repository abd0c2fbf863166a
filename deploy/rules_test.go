package deploy

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/site/serve"
)

// ruleFiles are the rules. The alerts need the recording rules.
var ruleFiles = []string{"prometheus/recording.yaml", "prometheus/alerts.yaml"}

// rule is a rule in a rules file.
type rule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string

	group string
	query query
}

func (r rule) String() string { return r.Alert + r.Record }

// rules reads all rules.
func rules(t *testing.T) (all []rule) {
	t.Helper()
	for _, file := range ruleFiles {
		var doc struct {
			Groups []struct {
				Name  string
				Rules []rule
			}
		}
		decode(t, file, &doc)
		for _, g := range doc.Groups {
			for _, r := range g.Rules {
				r.group, r.query = g.Name, parse(t, r.Expr)
				all = append(all, r)
			}
		}
	}
	return all
}

// query describes a query: its metrics, the labels that select them, the labels
// of by, without, on and ignoring, and whether it aggregates, or calls what could add up.
type query struct {
	metrics []string
	matched map[string][]string // by metric
	grouped []string
	made    []string // by label_replace
	calls   bool
}

func parse(t *testing.T, expr string) query {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v", expr, err)
		return query{}
	}
	q := query{matched: map[string][]string{}}
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			q.metrics = append(q.metrics, n.Name)
			for _, m := range n.LabelMatchers {
				if m.Name != "__name__" {
					q.matched[n.Name] = append(q.matched[n.Name], m.Name)
				}
			}
		case *parser.AggregateExpr:
			q.calls, q.grouped = true, append(q.grouped, n.Grouping...)
		case *parser.Call:
			q.calls = q.calls || n.Func.Name != "last_over_time" // which adds nothing up
			if n.Func.Name == "label_replace" {
				q.made = append(q.made, n.Args[1].(*parser.StringLiteral).Val)
			}
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				q.grouped = slices.Concat(q.grouped, n.VectorMatching.MatchingLabels, n.VectorMatching.Include)
			}
		}
		return nil
	})
	return q
}

// scraped are the labels that every scraped series has.
var scraped = []string{"job", "instance"}

// known maps every metric that a rule may read to its labels.
func known(all []rule) map[string][]string {
	out := map[string][]string{
		"up": scraped, "ALERTS": append([]string{"alertname"}, scraped...),
		"node_textfile_scrape_error": scraped, // node_exporter
		"push_time_seconds":          scraped, // Pushgateway
	}
	for _, m := range exporter.Metrics() {
		labels := slices.Concat(scraped, m.Labels)
		out[m.Name] = labels
		if m.Type == "histogram" {
			out[m.Name+"_bucket"] = append([]string{"le"}, labels...)
			out[m.Name+"_sum"], out[m.Name+"_count"] = labels, labels
		}
	}
	for _, m := range serve.Metrics {
		out[m.Name] = slices.Concat(scraped, m.Labels)
	}
	for _, r := range all {
		if r.Record != "" {
			out[r.Record] = r.query.labels(out)
		}
	}
	return out
}

// labels are the labels of the metrics that a query reads.
func (q query) labels(metrics map[string][]string) (all []string) {
	for _, name := range q.metrics {
		all = append(all, metrics[name]...)
	}
	return all
}

// check holds the names in a query against the metrics that there are.
func (q query) check(t *testing.T, where string, metrics map[string][]string) {
	t.Helper()
	for _, name := range q.metrics {
		if metrics[name] == nil {
			t.Errorf("%s reads %s, which is no metric", where, name)
		}
		mustHave(t, where, metrics[name], q.matched[name])
	}
	mustHave(t, where, append(q.labels(metrics), q.made...), q.grouped)
}

func mustHave(t *testing.T, where string, have, want []string) {
	t.Helper()
	for _, label := range want {
		if !slices.Contains(have, label) {
			t.Errorf("%s mentions the label %s; there are %v", where, label, have)
		}
	}
}

// TestEveryNameExists: the exporter has what rules, dashboards and the queries of the runbook
// name, and each of its metrics is on a panel.
func TestEveryNameExists(t *testing.T) {
	mentioned := regexp.MustCompile(`\$labels\.(\w+)`)
	all := rules(t)
	metrics := known(all)
	for _, r := range all {
		r.query.check(t, r.String(), metrics)
		for _, text := range r.Annotations {
			for _, m := range mentioned.FindAllStringSubmatch(text, -1) {
				mustHave(t, r.String(), r.query.labels(metrics), m[1:])
			}
		}
	}
	found := 0
	for _, b := range regexp.MustCompile("(?ms)^```promql\n(.*?)^```$").FindAllStringSubmatch(read(t,
		"../docs/runbook.md"), -1) {
		for line := range strings.Lines(b[1]) {
			found++
			parse(t, line).check(t, line, metrics)
		}
	}
	if found < 10 {
		t.Errorf("only %d queries of the runbook were found", found)
	}
	shown := []string{"docgauge_export_last_start_timestamp_seconds"}
	boards := engines.Dashboards(t, "../dashboards/json")
	panels, variables := engines.Queries(boards)
	for _, q := range append(panels, variables...) {
		if q.Source == engines.PrometheusSource {
			query := parse(t, q.Expand(nil))
			query.check(t, q.String(), metrics)
			shown = append(shown, query.metrics...)
		}
	}
	for _, d := range boards {
		for _, m := range regexp.MustCompile(`label_values\((\w+), (\w+)\)`).FindAllStringSubmatch(d.Text, -1) {
			mustHave(t, d.UID, metrics[m[1]], m[2:])
		}
	}
	for _, m := range exporter.Metrics() {
		if !slices.Contains(shown, m.Name) && !slices.Contains(shown, m.Name+"_bucket") {
			t.Errorf("no panel shows %s", m.Name)
		}
	}
}

// Unique visitors cannot be added up, averaged or counted over anything.
func TestVisitorsAreNotAggregated(t *testing.T) {
	for _, r := range rules(t) {
		for _, name := range r.query.metrics {
			if strings.Contains(name, "visitors") && r.query.calls {
				t.Errorf("%s calls a function of %s", r, name)
			}
		}
	}
}

// TestRecordedMetrics: the name is level:metric:operation. Alerts read it, unless its group is for
// dashboards.
func TestRecordedMetrics(t *testing.T) {
	shape := regexp.MustCompile(`^[a-z_]+:docgauge_[a-z_]+:[a-z0-9]+$`)
	used := []string{}
	for _, r := range rules(t) {
		used = append(used, r.query.metrics...)
	}
	for _, r := range rules(t) {
		forBoards := r.group == "docgauge-readers" || r.group == "docgauge-reviews"
		if r.Record != "" && (!shape.MatchString(r.Record) || !forBoards && !slices.Contains(used, r.Record)) {
			t.Errorf("%s is not level:metric:operation, or nothing reads it", r)
		}
	}
}

const runbook = "https://github.com/docgauge/docgauge/blob/main/docs/runbook.md#"

// TestEveryAlertSaysWhatToDo: each alert has a severity, a summary and a description, and its
// section of the runbook; and each section has its alert.
func TestEveryAlertSaysWhatToDo(t *testing.T) {
	var anchors, alerts []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (Docgauge\w+)$`).FindAllStringSubmatch(read(t, "../docs/runbook.md"),
		-1) {
		anchors = append(anchors, strings.ToLower(m[1]))
	}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		summary, description := r.Annotations["summary"], r.Annotations["description"]
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) ||
			summary == "" || description == "" {
			t.Errorf("%s: severity %q, summary %q, description %q", r, r.Labels["severity"], summary, description)
		}
		anchor := strings.ToLower(r.Alert)
		alerts = append(alerts, anchor)
		if r.Annotations["runbook_url"] != runbook+anchor {
			t.Errorf("%s: runbook_url %s, want %s", r, r.Annotations["runbook_url"], runbook+anchor)
		}
	}
	slices.Sort(anchors)
	if slices.Sort(alerts); !slices.Equal(alerts, anchors) {
		t.Errorf("alerts   %v\nsections %v", alerts, anchors)
	}
}

const alertmanager = "alertmanager/alertmanager.yml"

func TestChecksOfTheTools(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		slices.Concat([]string{"check", "rules", "--lint=all", "--lint-fatal"}, ruleFiles),
		{"check", "config", "prometheus/prometheus.yml"},
	} {
		succeed(t, tool(t, "promtool", args...))
	}
	succeed(t, tool(t, "amtool", "check-config", alertmanager))
	// The example holds back alerts by their names.
	all := rules(t)
	for _, name := range regexp.MustCompile(`Docgauge\w+`).FindAllString(read(t, alertmanager), -1) {
		if !slices.ContainsFunc(all, func(r rule) bool { return r.Alert == name }) {
			t.Errorf("%s is no alert", name)
		}
	}
}

// TestRules runs the tests of promtool. In them every alert is seen to fire and
// not to fire, and every recorded metric is asked for.
func TestRules(t *testing.T) {
	fires, silent, recorded := map[string]bool{}, map[string]bool{}, ""
	for _, file := range glob(t, "prometheus/tests/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			succeed(t, tool(t, "promtool", "test", "rules", file))
		})
		var doc struct {
			Tests []struct {
				Alerts []struct {
					Name   string `yaml:"alertname"`
					Alerts []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
				Exprs []struct{ Expr string } `yaml:"promql_expr_test"`
			}
		}
		decode(t, file, &doc)
		for _, test := range doc.Tests {
			for _, a := range test.Alerts {
				fires[a.Name] = fires[a.Name] || len(a.Alerts) > 0
				silent[a.Name] = silent[a.Name] || len(a.Alerts) == 0
			}
			for _, e := range test.Exprs {
				recorded += e.Expr + "\n"
			}
		}
	}
	for _, r := range rules(t) {
		if r.Alert != "" && (!fires[r.Alert] || !silent[r.Alert]) {
			t.Errorf("%s: seen to fire %v, not to fire %v", r, fires[r.Alert], silent[r.Alert])
		}
		if r.Record != "" && !strings.Contains(recorded, r.Record) {
			t.Errorf("%s has no test", r)
		}
	}
}
