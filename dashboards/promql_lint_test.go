package dashboards

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/exporter"
)

// visitorMetrics are numbers of unique visitors, and the labels by which they
// are told apart: no two series of them may become one.
var visitorMetrics = func() map[string][]string {
	site := []string{exporter.LabelProject, exporter.LabelWindow}
	audience := append(slices.Clone(site), exporter.LabelAudience)
	return map[string][]string{
		exporter.SiteVisitors: audience, exporter.SiteVisitorsDeduplicated: site,
		exporter.PreviousSiteVisitors: audience, exporter.PreviousSiteVisitorsDeduplicated: site,
		exporter.OpenSiteVisitors: audience, exporter.OpenSiteVisitorsDeduplicated: site,
		exporter.PageVisitors:             append(slices.Clone(audience), exporter.LabelPath),
		exporter.PageVisitorsDeduplicated: append(slices.Clone(site), exporter.LabelPath),
	}
}()

// TestVisitorMetrics finds every metric that counts visitors.
func TestVisitorMetrics(t *testing.T) {
	for _, m := range exporter.Metrics() {
		_, known := visitorMetrics[m.Name]
		if known != strings.HasPrefix(m.Help, "Unique visitors") {
			t.Errorf("%s: %s; is it in visitorMetrics?", m.Name, m.Help)
		}
		if known && len(visitorMetrics[m.Name]) != len(m.Labels) {
			t.Errorf("%s has the labels %q, visitorMetrics says %q", m.Name, m.Labels, visitorMetrics[m.Name])
		}
	}
}

// TestNothingIsAddedUp checks every PromQL.
func TestNothingIsAddedUp(t *testing.T) {
	checked := 0
	for _, q := range Queries() {
		if q.Engine != Prometheus {
			continue
		}
		if err := checkPromQL(q.Expand(nil)); err != nil {
			t.Errorf("%s / %s / %s: %v", q.Dashboard, q.Panel, q.Ref, err)
		}
		if strings.Contains(q.Expr, "visitors") {
			checked++
		}
	}
	if checked < 20 {
		t.Errorf("only %d queries are of visitors", checked)
	}
}

// carried is a selector of visitors that an expression's values come from.
type carried struct {
	metric string
	// free are the labels by which series still differ; window: each series is of
	// one granularity.
	free   []string
	window bool
}

// checkPromQL says where an expression makes one number of several numbers of
// unique visitors, or mixes granularities.
func checkPromQL(expr string) error {
	n, err := parsePromQL(expr)
	if err != nil {
		return err
	}
	all, err := check(n)
	for _, c := range all {
		if !c.window {
			err = errors.Join(err, fmt.Errorf("%s without %s=: it mixes granularities", c.metric, exporter.LabelWindow))
		}
	}
	return err
}

func check(n *node) ([]carried, error) {
	if n.kind == selector {
		return selected(n)
	}
	var sides [][]carried
	for _, a := range n.args {
		side, err := check(a)
		if err != nil {
			return nil, err
		}
		if len(side) > 0 {
			sides = append(sides, side)
		}
	}
	if len(sides) == 0 {
		return nil, nil
	}
	switch n.kind {
	case call:
		// Only what keeps every series, and of time only the newest sample.
		if !slices.Contains([]string{"last_over_time", "round", "sort", "sort_desc"}, n.name) {
			return nil, fmt.Errorf("%s() of %s", n.name, sides[0][0].metric)
		}
	case binary:
		if len(sides) == 2 && slices.Contains([]string{"+", "*", "^"}, n.name) {
			return nil, fmt.Errorf("%s %s %s", sides[0][0].metric, n.name, sides[1][0].metric)
		}
	case aggregation:
		return grouped(n, sides[0])
	}
	return slices.Concat(sides...), nil
}

// selected looks at a selector; one without a name could be of any metric.
func selected(n *node) ([]carried, error) {
	if n.name == "" {
		return nil, errors.New("a selector without a metric's name")
	}
	labels, ok := visitorMetrics[n.name]
	if !ok {
		return nil, nil
	}
	c := carried{metric: n.name}
	for _, label := range labels {
		pinned := slices.ContainsFunc(n.matchers, func(m matcher) bool { return m.label == label && m.op == "=" && m.value != "" })
		if !pinned {
			c.free = append(c.free, label)
		}
		c.window = c.window || pinned && label == exporter.LabelWindow
	}
	return []carried{c}, nil
}

// grouped looks at an aggregation: it may merge what several instances show
// alike, and nothing else.
func grouped(n *node, all []carried) ([]carried, error) {
	if n.name == "topk" || n.name == "bottomk" {
		return all, nil
	}
	for i, c := range all {
		if n.name != "max" {
			return nil, fmt.Errorf("%s of %s", n.name, c.metric)
		}
		for _, label := range c.free {
			if n.by != slices.Contains(n.labels, label) {
				return nil, fmt.Errorf("%s of %s across %s", n.name, c.metric, label)
			}
			if n.by && label == exporter.LabelWindow {
				all[i].window = true
			}
		}
	}
	return all, nil
}

// TestCheckPromQL holds the check against good and bad queries.
func TestCheckPromQL(t *testing.T) {
	const site, page = exporter.SiteVisitorsDeduplicated, exporter.PageVisitorsDeduplicated
	for expr, want := range map[string]string{
		`max by (project) (last_over_time(` + site + `{window="day"}[1h]))`:             "",
		`max without (instance, job) (` + site + `{window="day"})`:                      "",
		`max by (project, window) (` + site + `)`:                                       "",
		`topk(10, max by (project, path) (` + page + `{window="$window"}))`:             "",
		`max(` + site + `{project="p", window="day"})`:                                  "",
		`1 - ` + site + `{window="day"} / (` + site + `{window="week"} > 0)`:            "",
		`sum(docgauge_agent_prompts) + sum by (state) (docgauge_agent_prompts[5m] @ 7)`: "",
		site + `{window="day"} and on (project) docgauge_pages`:                         "",
		`sum(` + site + `{window="day"})`:                                               "sum of",
		`sum by (project) (` + page + `{window="day"})`:                                 "sum of",
		`sum(` + page + `{window="day"}) by (project, path)`:                            "sum of",
		`avg by (project, path) (` + page + `{window="day"})`:                           "avg of",
		`count(` + page + `{window="day"})`:                                             "count of",
		`quantile(0.5, ` + page + `{window="day"})`:                                     "quantile of",
		`max by (project) (` + page + `{window="day"})`:                                 "across path",
		`max without (path) (` + page + `{window="day"})`:                               "across path",
		`max(` + site + `{window="day"})`:                                               "across project",
		`max by (window) (` + site + `{project=~"p"})`:                                  "across project",
		`max by (project) (` + site + `)`:                                               "across window",
		`max by (project) (` + site + `{window=~"day|week"})`:                           "across window",
		`max by (project, window) (` + exporter.SiteVisitors + `)`:                      "across audience",
		site:                     "without window=",
		site + `{project="p"}`:   "without window=",
		site + `{window=""}`:     "without window=",
		site + `{window!="day"}`: "without window=",
		`topk(3, ` + page + `)`:  "without window=",
		`sum_over_time(` + site + `{window="day"}[7d])`:                                  "sum_over_time() of",
		`avg_over_time((` + site + `{window="day"})[7d:1d])`:                             "avg_over_time() of",
		`increase(` + site + `{window="day"}[7d])`:                                       "increase() of",
		`label_replace(` + site + `{window="day"}, "path", "x", "", "")`:                 "label_replace() of",
		`max by (project) (docgauge_pages) / sum(` + site + `{window="day"} offset 1d)`:  "sum of",
		site + `{window="day"} + ` + site + `{window="week"}`:                            " + ",
		site + `{window="day"} + on (project) group_left () ` + site + `{window="week"}`: " + ",
		`{__name__="` + site + `"}`:                                                      "without a metric's name",
		`max by (project) (`:                                                             "unexpected end",
		site + `{window="day"} )`:                                                        "unexpected",
		`~`:                                                                              "no token",
	} {
		err := checkPromQL(expr)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\ngot %v, want %q", expr, err, want)
		}
	}
}
