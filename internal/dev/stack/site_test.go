package main

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// logged is a line that the web server wrote.
var logged = regexp.MustCompile(
	`(?m)^\S+ 127\.0\.0\.1 \[(\d{4}-\d\d-\d\d)T\S+\] "GET (\S+) HTTP/1\.1" (\d+) "(.*)" "(.*)" "(.*)"$`)

// agentsOf are the agent, class and audience of each user agent, as labels, for HTML and for Markdown.
var agentsOf = map[string][2]string{
	visitors[0]: {"unconfirmed human human", "unnamed coding ai"},
	visitors[1]: {"unconfirmed human human", "unnamed coding ai"},
	visitors[2]: {"Claude-User answers ai", "Claude-User answers ai"},
	visitors[3]: {"claude-code coding ai", "claude-code coding ai"},
	visitors[4]: {"ChatGPT-User answers ai", "ChatGPT-User answers ai"},
	visitors[5]: {"curl tool neither", "curl tool ai"},
	visitors[6]: {"Googlebot search neither", "Googlebot search neither"},
	visitors[7]: {"GPTBot training neither", "GPTBot training neither"},
	visitors[8]: {"unknown unknown neither", "unknown unknown neither"},
}

// counts are the requests of each reader of an agent.
type counts map[string]map[string]int

// countLog counts the lines of some days, the last one not among them, by agent, class and audience: of pages that
// are there, without GPTBot from other networks than its own.
func countLog(text string, from, to time.Time) counts {
	all := counts{}
	for _, line := range logged.FindAllStringSubmatch(text, -1) {
		day, err := time.Parse(time.DateOnly, line[1])
		target, status, userAgent, accept, address := line[2], line[3], line[4], line[5], line[6]
		if err != nil || day.Before(from) || !day.Before(to) || status != "200" ||
			userAgent == visitors[7] && !strings.HasPrefix(address, "192.0.2.") {
			continue
		}
		as := agentsOf[userAgent][0]
		if strings.HasSuffix(target, ".md") || strings.HasPrefix(accept, "text/markdown") {
			as = agentsOf[userAgent][1]
		}
		if all[as] == nil {
			all[as] = map[string]int{}
		}
		all[as][address+" "+userAgent]++
	}
	return all
}

// testSiteAgents: the queries of the dashboard of assistants answer with the numbers that the lines of the web server
// have, in the newest window of each granularity.
func testSiteAgents(t *testing.T, s *stack) {
	text, err := os.ReadFile(s.Web.Log("access"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines != len(logged.FindAllString(string(text), -1)) {
		t.Errorf("not all of %d lines are understood", lines)
	}
	boards := engines.Dashboards(t, "../../../dashboards/json")
	queries, _ := engines.Queries(slices.DeleteFunc(boards, func(d engines.Dashboard) bool {
		return d.UID != "docgauge-assistants"
	}))
	queries = slices.DeleteFunc(queries, func(q engines.Query) bool {
		// The log of the web server has no windows that are due, and neither referrers nor bytes.
		return regexp.MustCompile("docgauge_(windows_due|site_(source|views|agent_(markdown|bytes)))").MatchString(q.Expr)
	})
	if len(queries) == 0 {
		t.Fatal("no dashboard of assistants")
	}
	for _, window := range []string{"day", "week", "month", "28d"} {
		for _, q := range queries {
			err := soon(t, func() error {
				from, to, err := newest(t, s, window)
				if err != nil {
					return err
				}
				got, err := answered(t, s, q.Expand(map[string]string{"project": siteProject, "window": window}))
				if diff := cmp.Diff(shown(q.Expr, countLog(string(text), from, to)), got); err == nil && diff != "" {
					err = fmt.Errorf("%s to %s: the log (-) and the dashboard (+):\n%s", from, to, diff)
				}
				return err
			})
			if err != nil {
				t.Fatalf("%s, %s: %v", q, window, err)
			}
		}
	}
}

// shown is what a query must answer for the counted lines.
func shown(expr string, counted counts) map[string]float64 {
	want := map[string]float64{}
	// There are fewer than 40 agents, and no path is missed.
	if strings.Contains(expr, "_not_shown") || strings.Contains(expr, "_missed_path_") {
		return map[string]float64{"": 0}
	}
	visitors, requests := strings.Contains(expr, "agent_visitors"), strings.Contains(expr, "agent_requests")
	for as, readers := range counted {
		sum := 0
		for _, n := range readers {
			sum += n
		}
		person := strings.HasPrefix(as, "unconfirmed")
		switch {
		case person && strings.Contains(expr, `agent!~"browser|unconfirmed"`):
		case !person && strings.Contains(expr, `agent=~"browser|unconfirmed"`):
		case person && strings.Contains(expr, "by (project, agent) "):
			want["unconfirmed"] = float64(len(readers))
		case visitors && requests:
			want[as] = float64(sum) / float64(len(readers))
		case visitors:
			want[as] = float64(len(readers))
		case requests:
			want[as] = float64(sum)
		}
	}
	return want
}

// newest is the newest complete window in the metrics of the site's export.
func newest(t *testing.T, s *stack, window string) (from, to time.Time, err error) {
	var at [2]time.Time
	for i, end := range []string{"start", "end"} {
		all, err := answered(t, s, fmt.Sprintf("docgauge_window_%s_timestamp_seconds{project=%q,window=%q}", end,
			siteProject, window))
		if err != nil || len(all) != 1 {
			return from, to, fmt.Errorf("%s of the %s: %v, %w", end, window, all, err)
		}
		for seconds := range maps.Values(all) {
			at[i] = time.Unix(int64(seconds), 0).UTC()
		}
	}
	return at[0], at[1], nil
}

// answered are the values of an instant query, by the labels agent, class and audience.
func answered(t *testing.T, s *stack, expr string) (map[string]float64, error) {
	var answer struct {
		Result []struct {
			Metric struct{ Agent, Class, Audience string }
			Value  [2]any
		}
	}
	if err := ask(t.Context(), s, "/api/v1/query", url.Values{"query": {expr}}, &answer); err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for _, one := range answer.Result {
		value, err := strconv.ParseFloat(fmt.Sprint(one.Value[1]), 64)
		if err != nil {
			return nil, err
		}
		all[strings.TrimSpace(one.Metric.Agent+" "+one.Metric.Class+" "+one.Metric.Audience)] = value
	}
	return all, nil
}
