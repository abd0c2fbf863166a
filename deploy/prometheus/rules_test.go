package prometheus

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/exporter"
)

// scraped are the labels that every scraped series has.
var scraped = []string{"job", "instance"}

// foreign are the metrics of others that rules may ask for, with their labels.
var foreign = map[string][]string{
	"up":                         nil,
	"ALERTS":                     {"alertname"},
	"node_textfile_scrape_error": nil, // node_exporter
	"push_time_seconds":          nil, // Pushgateway
}

func rules(t *testing.T) []rule {
	t.Helper()
	all, err := read()
	if err != nil || len(all) == 0 {
		t.Fatalf("%d rules, %v", len(all), err)
	}
	return all
}

// known maps every metric that a rule may read to its labels.
func known(all []rule) map[string][]string {
	out := maps.Clone(foreign)
	for _, m := range exporter.Metrics() {
		out[m.Name] = m.Labels
		if m.Type == exporter.TypeHistogram {
			out[m.Name+"_bucket"] = append([]string{"le"}, m.Labels...)
			out[m.Name+"_sum"], out[m.Name+"_count"] = m.Labels, m.Labels
		}
	}
	for _, r := range all {
		if r.Record != "" {
			out[r.Record] = labels(r, out)
		}
	}
	return out
}

// labels returns the labels of what a rule reads.
func labels(r rule, metrics map[string][]string) []string {
	all := slices.Clone(scraped)
	for _, s := range parse(r.Expr).selectors {
		all = append(all, metrics[s.Metric]...)
	}
	return all
}

var mentioned = regexp.MustCompile(`\$labels\.(\w+)`)

func TestEveryNameExists(t *testing.T) {
	all := rules(t)
	metrics := known(all)
	for _, r := range all {
		for _, s := range parse(r.Expr).selectors {
			own, ok := metrics[s.Metric]
			if !ok {
				t.Errorf("%s%s reads %s, which is no metric", r.Alert, r.Record, s.Metric)
			}
			mustHave(t, r, slices.Concat(scraped, own), s.Labels)
		}
		mustHave(t, r, labels(r, metrics), parse(r.Expr).grouped)
		for _, text := range r.Annotations {
			for _, m := range mentioned.FindAllStringSubmatch(text, -1) {
				mustHave(t, r, labels(r, metrics), m[1:])
			}
		}
	}
}

func mustHave(t *testing.T, r rule, have, want []string) {
	t.Helper()
	for _, label := range want {
		if !slices.Contains(have, label) {
			t.Errorf("%s%s mentions the label %s; there are %v", r.Alert, r.Record, label, have)
		}
	}
}

// Unique visitors cannot be added up, averaged or counted over anything.
func TestVisitorsAreNotAggregated(t *testing.T) {
	for _, r := range rules(t) {
		names := parse(r.Expr)
		for _, s := range names.selectors {
			if strings.Contains(s.Metric, "visitors") && len(names.functions) > 0 {
				t.Errorf("%s%s: %v over %s", r.Alert, r.Record, names.functions, s.Metric)
			}
		}
	}
}

// level:metric:operation, and the level names labels.
func TestNamesOfRecordedMetrics(t *testing.T) {
	shape := regexp.MustCompile(`^([a-z_]+):docgauge_[a-z_]+:[a-z0-9]+$`)
	var labels []string
	for _, m := range exporter.Metrics() {
		labels = append(labels, m.Labels...)
	}
	labels = append(labels, scraped...)
	for _, r := range rules(t) {
		if r.Record == "" {
			continue
		}
		parts := shape.FindStringSubmatch(r.Record)
		if parts == nil {
			t.Errorf("%s is not level:metric:operation", r.Record)
			continue
		}
		for level := range strings.SplitSeq(parts[1], "_") {
			if !slices.Contains(labels, level) {
				t.Errorf("%s: %s is no label", r.Record, level)
			}
		}
	}
}

// What alerts do not ask for is for dashboards, and says so by its group.
func TestEveryRecordedMetricIsOfUse(t *testing.T) {
	all := rules(t)
	var read []string
	for _, r := range all {
		for _, s := range parse(r.Expr).selectors {
			read = append(read, s.Metric)
		}
	}
	for _, r := range all {
		if r.Record != "" && r.group != "docgauge-readers" && !slices.Contains(read, r.Record) {
			t.Errorf("nobody reads %s", r.Record)
		}
	}
}

const runbook = "https://github.com/docgauge/docgauge/blob/main/docs/runbook.md#"

func TestEveryAlertSaysWhatToDo(t *testing.T) {
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	var anchors, alerts []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (Docgauge\w+)$`).FindAllSubmatch(text, -1) {
		anchors = append(anchors, strings.ToLower(string(m[1])))
	}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		anchor := strings.ToLower(r.Alert)
		alerts = append(alerts, anchor)
		switch {
		case !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]):
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		case r.Annotations["summary"] == "" || r.Annotations["description"] == "":
			t.Errorf("%s: summary %q, description %q", r.Alert, r.Annotations["summary"], r.Annotations["description"])
		case r.Annotations["runbook_url"] != runbook+anchor:
			t.Errorf("%s: runbook_url %s, want %s", r.Alert, r.Annotations["runbook_url"], runbook+anchor)
		}
	}
	if slices.Sort(alerts); !slices.Equal(alerts, slices.Sorted(slices.Values(anchors))) {
		t.Errorf("alerts   %v\nsections %v", alerts, anchors)
	}
}

func TestExpressions(t *testing.T) {
	all, err := Expressions()
	if err != nil || len(all) != len(rules(t)) {
		t.Fatalf("%d expressions, %v", len(all), err)
	}
	alerts := 0
	for _, e := range all {
		if e.Name == "" || e.Group == "" || len(e.Selectors()) == 0 {
			t.Errorf("%+v", e)
		}
		if e.Alert {
			alerts++
		}
	}
	if alerts == 0 || alerts == len(all) {
		t.Errorf("%d alerts of %d rules", alerts, len(all))
	}
}
