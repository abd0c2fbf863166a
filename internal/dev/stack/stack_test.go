package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	// patience is the time until everything must show data.
	patience = 10 * time.Minute
	// soonest is the time for one thing once everything has shown data: more than
	// a minute, in which serve exports again.
	soonest = 3 * time.Minute
	// again is the pause before a query without data is repeated.
	again = 500 * time.Millisecond
)

// heard are the lines that the stack has passed to Say.
var heard said

type said struct {
	mu   sync.Mutex
	text string
}

func (s *said) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text += text + "\n"
}

func (s *said) has(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.Contains(s.text, text) {
		return fmt.Errorf("%q was not said, but:\n%s", text, s.text)
	}
	return nil
}

// TestStack brings everything up and runs every query of rules and dashboards.
func TestStack(t *testing.T) {
	engines.Long(t)
	s := up(t)
	t.Run("places", func(t *testing.T) { testPlaces(t, s) })
	t.Run("merges", func(t *testing.T) { testMerges(t, s) })
	t.Run("site jobs", func(t *testing.T) { testSiteJobs(t, s) })
	t.Run("site agents", func(t *testing.T) { testSiteAgents(t, s) })
	t.Run("rules", func(t *testing.T) { testRules(t, s) })
	t.Run("dashboards", func(t *testing.T) { testDashboards(t, s) })
	t.Run("alert", func(t *testing.T) { testAlert(t, s) })
	t.Run("stop", func(t *testing.T) { testStop(t, s) })
}

// up starts a stack with everything in it.
func up(t *testing.T) *stack {
	dir := t.TempDir()
	rules, err := ruleFiles("../../../deploy/prometheus")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCGAUGE_BASE_URL", "https://of-the-person.example")
	s, err := start(t.Context(), options{Binary: engines.Docgauge(t), Dir: filepath.Join(dir, "stack"),
		Rules: rules, Say: heard.say})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	for _, missing := range s.Missing {
		engines.Need(t, missing)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.awaitFirstRun(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestInterrupted: after Ctrl-C, the user does not get the log of the interrupted command.
func TestInterrupted(t *testing.T) {
	engines.Long(t)
	dir := t.TempDir()
	begun := filepath.Join(dir, "begun")
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = export ] || exec %s \"$@\"\necho level=INFO >&2\n: >%s\nexec "+
		"sleep 600\n", engines.Docgauge(t), begun)
	binary := filepath.Join(dir, "docgauge")
	if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := start(ctx, options{Binary: binary, Dir: filepath.Join(dir, "stack")})
		ended <- err
	}()
	if err := soon(t, func() error { _, err := os.Stat(begun); return err }); err != nil {
		t.Fatal(err, <-ended)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "level=") {
		t.Errorf("%v, want only that it was canceled", err)
	}
}

// testSiteJobs: on each code host, only the agent that edited has a pull request and a branch.
func testSiteJobs(t *testing.T, s *stack) {
	want := map[string]string{"edit": "completed", "cheat": "completed", "flood": "failed", "ci": "failed",
		"attack": "failed"}
	if len(s.SiteJobs) != len(codehost.Hosts)*len(want) {
		t.Errorf("%d jobs", len(s.SiteJobs))
	}
	for _, job := range s.SiteJobs {
		if job.Job.Status != want[job.Prompt] || (job.Job.PRLink != "") != (job.Prompt == "edit") {
			t.Errorf("%+v", job)
		}
	}
	for _, kind := range codehost.Hosts {
		found, err := filepath.Glob(s.path("site-"+kind.Name, "repositories", "docs-team", "*"))
		if nested, _ := filepath.Glob(s.path("site-"+kind.Name, "repositories", "docs-team", "web", "docs")); nested != nil {
			found = nested
		}
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		branches := strings.Fields(engines.Git(t, found[0], "for-each-ref", "--format=%(refname:short)"))
		if len(branches) != 2 || !strings.HasPrefix(branches[0], "docgauge/job_") || branches[1] != "main" ||
			!strings.HasSuffix(engines.Git(t, found[0], "show", branches[0]+":index.md"), "Edited.") {
			t.Errorf("%s: branches %q", kind.Name, branches)
		}
	}
	if found, err := filepath.Glob(s.path("written")); err != nil || len(found) > 0 {
		t.Errorf("written outside: %q, %v", found, err)
	}
}

// testPlaces opens every page that `make stack` lists.
func testPlaces(t *testing.T, s *stack) {
	places, err := s.places(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var pulls []string
	for _, place := range places {
		prompt, _ := pullOf(place)
		if place.Name == "pull request" && prompt != onMondays {
			pulls = append(pulls, prompt)
		}
		if strings.HasPrefix(place.Where, "http") && place.Name != "sandbox" {
			address, _, _ := strings.Cut(place.Where, " ")
			if _, err := get(t.Context(), address); err != nil {
				t.Errorf("%s: %v", place.Name, err)
			}
		}
	}
	if text, err := os.ReadFile(s.path("report.html")); err != nil || !strings.Contains(string(text), projects[1]) {
		t.Errorf("the report does not show %s: %v", projects[1], err)
	}
	slices.Sort(pulls)
	if diff := cmp.Diff([]string{"00-authentication.md", "10-wording.md", "20-example.md"}, pulls); diff != "" {
		t.Errorf("prompts with a pull request (-want +got):\n%s", diff)
	}
}

// pullOf returns the prompt and the state of a pull request.
func pullOf(place sight) (prompt, state string) {
	_, of, _ := strings.Cut(place.Where, " (")
	prompt, state, _ = strings.Cut(strings.TrimSuffix(of, ")"), ", ")
	return prompt, state
}

// testMerges: of the pull requests two are merged and one is open, metrics say so, and
// the page that the first one changed has more readers than before.
func testMerges(t *testing.T, s *stack) {
	err := soon(t, func() error {
		places, err := s.places(t.Context())
		states := map[string]int{}
		for _, place := range places {
			if prompt, state := pullOf(place); place.Name == "pull request" && prompt != onMondays {
				states[state]++
			}
		}
		if diff := cmp.Diff(map[string]int{"merged": 2, "open": 1}, states); err == nil && diff != "" {
			err = errors.New(diff)
		}
		return err
	})
	if err != nil {
		t.Errorf("states of the pull requests: %v", err)
	}
	for _, expr := range []string{
		"max(project:docgauge_agent_pull_requests_merged:ratio30d) == 1",
		"max(project:docgauge_agent_job_cost_per_merge:ratio30d) > 0",
		`sum(docgauge_agent_pull_requests{state="merged"}) == 2`,
		`max(docgauge_agent_outcome_change_ratio{path="/authentication", bound="low"}) > 0`,
		`max(docgauge_agent_outcome_change_ratio{path="/authentication", bound="high"}) < 1`,
		`max(docgauge_agent_outcome_verdict{path="/authentication", audience="human", verdict="more readers"}) == 1`,
		`max(docgauge_agent_outcome_comparisons{verdict="more readers"}) > 0`,
	} {
		if err := soon(t, func() error { return hasData(t.Context(), s, expr, 0) }); err != nil {
			t.Errorf("%s: %v", expr, err)
		}
	}
	out, err := s.ClickHouse.Exec(t.Context(), `SELECT avgIf(total, window_start > today() - 34) /
			avgIf(total, window_start < today() - 36)
		FROM docgauge_visitors WHERE project = 'prj_docs' AND granularity = 'day' AND path = '/authentication'`)
	change, bad := strconv.ParseFloat(strings.TrimSpace(out), 64)
	if err = errors.Join(err, bad); err != nil || change < 1.15 || change > 1.5 {
		t.Errorf("readers after the merge by those before it: %v (%v), want about 1.3", change, err)
	}
	testEffect(t, s)
}

// testEffect: docgauge outcomes finds the effect that the sandbox gives the merge, and the
// pages show the same interval.
func testEffect(t *testing.T, s *stack) {
	text, err := s.docgauge(t.Context(), nil, "outcomes", "--json")
	var all view.Outcomes
	if err = errors.Join(err, json.Unmarshal(text, &all)); err != nil {
		t.Fatal(err)
	}
	interval := ""
	for _, e := range all.Merges[len(all.Merges)-1].Effects { // the oldest merge
		if e.Path == "/authentication" && e.Audience == analytics.Human {
			if e.Verdict != view.MoreReaders || e.Low < 0 || e.Change < .15 || e.Change > .45 {
				t.Errorf("%+v, want more readers, about 30 %%", e)
			}
			e.Days = nil
			t.Logf("%+v", e)
			interval = e.Interval()
		}
	}
	if interval == "" {
		t.Fatalf("no effect on /authentication in %s", text)
	}
	report, err := os.ReadFile(s.path("report.html"))
	if err != nil || !strings.Contains(html.UnescapeString(string(report)), interval) {
		t.Errorf("the report does not show %s (%v)", interval, err)
	}
	err = soon(t, func() error {
		page, err := get(t.Context(), s.URL+"/status")
		if err == nil && !strings.Contains(html.UnescapeString(page), interval) {
			err = fmt.Errorf("the status page does not show %s", interval)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// onMondays is the prompt that runs at six on Mondays, which may be now.
const onMondays = "weekly-losers"

// testAlert: alerts of Prometheus reach Say.
func testAlert(t *testing.T, s *stack) {
	post := func() error {
		body := strings.NewReader(`[{"labels": {"alertname": "Tried"}, "annotations": {"summary": "by the test"}}]`)
		response, err := http.Post(s.Alertmanager.URL+"/api/v2/alerts", "application/json", body)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	if err := post(); err != nil {
		t.Fatal(err)
	}
	if err := soon(t, func() error { return heard.has("alert firing: Tried: by the test") }); err != nil {
		t.Error(err)
	}
	var answer struct{ ActiveAlertmanagers []struct{ URL string } }
	err := soon(t, func() error {
		err := ask(t.Context(), s, "/api/v1/alertmanagers", nil, &answer)
		if err == nil && len(answer.ActiveAlertmanagers) == 0 {
			err = errEmpty
		}
		return err
	})
	if err != nil {
		t.Errorf("Prometheus knows no Alertmanager: %v", err)
	}
}

// testStop: nothing listens after Stop.
func testStop(t *testing.T, s *stack) {
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{s.API, s.URL, s.Site, s.Readers, "http://" + s.Web.Addr,
		s.Prometheus.URL, s.Alertmanager.URL,
		"http://" + s.ClickHouse.HTTPAddr()} {
		if _, err := get(t.Context(), address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, want connection refused", address, err)
		}
	}
}

// soon calls try until it returns no error, or time is up.
func soon(t *testing.T, try func() error) error {
	t.Helper()
	deadline := time.Now().Add(soonest)
	for {
		err := try()
		if err == nil || time.Now().After(deadline) || t.Context().Err() != nil {
			return err
		}
		time.Sleep(again)
	}
}

// ask reads an answer of Prometheus' API.
func ask(ctx context.Context, s *stack, path string, parameters url.Values, data any) error {
	text, err := get(ctx, s.Prometheus.URL+path+"?"+parameters.Encode())
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), &struct{ Data any }{data})
}

var errEmpty = errors.New("no data")

// hasData asks for now or, where span is not zero, for a span up to now. Series
// without any number are not data.
func hasData(ctx context.Context, s *stack, expr string, span time.Duration) error {
	path, parameters := "/api/v1/query", url.Values{"query": {expr}}
	if now := time.Now(); span > 0 {
		path = "/api/v1/query_range"
		parameters.Set("start", seconds(now.Add(-span)))
		parameters.Set("end", seconds(now))
		parameters.Set("step", "3600")
	}
	var answer struct{ Result json.RawMessage }
	if err := ask(ctx, s, path, parameters, &answer); err != nil {
		return err
	}
	if !strings.HasPrefix(string(answer.Result), "[{") {
		return errEmpty
	}
	var series []struct {
		Value  [2]any
		Values [][2]any
	}
	if err := json.Unmarshal(answer.Result, &series); err != nil {
		return err
	}
	for _, one := range series {
		if slices.ContainsFunc(append(one.Values, one.Value), isNumber) {
			return nil
		}
	}
	return errEmpty
}

// isNumber reports whether a point, [time, "value"], has a number.
func isNumber(point [2]any) bool {
	v, err := strconv.ParseFloat(fmt.Sprint(point[1]), 64)
	return err == nil && !math.IsNaN(v)
}

func seconds(t time.Time) string { return fmt.Sprintf("%.3f", float64(t.UnixMilli())/1000) }

// rule is the state of a rule in the server.
type rule struct{ Name, Type, Query, Health, LastError string }

// absent are metrics that a healthy stack does not show, and why.
var absent = map[string]string{
	"docgauge_backlog_finish_timestamp_seconds": "nothing is due",
	"docgauge_agent_pull_request_merge_seconds": "the server keeps classic histograms",
}

var metricName = regexp.MustCompile(`\b(docgauge_[a-z0-9_]+|[a-z_]+:[a-z0-9_]+:[a-z0-9_]+)\b`)

// testRules: each rule is evaluated without an error; each recorded series and
// each metric in an expression has data.
func testRules(t *testing.T, s *stack) {
	if len(s.options.Rules) == 0 {
		t.Skip("deploy/prometheus has no rules")
	}
	rules := loadedRules(t, s)
	for _, r := range rules {
		if r.Health != "ok" {
			t.Errorf("%s: %s: %s", r.Name, r.Health, r.LastError)
		}
		names := metricName.FindAllString(r.Query, -1)
		if r.Type == "recording" {
			names = append(names, r.Name)
		}
		for _, name := range names {
			if absent[name] != "" {
				continue
			}
			if err := soon(t, func() error { return hasData(t.Context(), s, name, 0) }); err != nil {
				t.Errorf("%s %s: %s: %v", r.Type, r.Name, name, err)
			}
		}
	}
	t.Logf("%d rules", len(rules))
}

// loadedRules waits until all have been evaluated.
func loadedRules(t *testing.T, s *stack) (rules []rule) {
	t.Helper()
	err := soon(t, func() error {
		var answer struct{ Groups []struct{ Rules []rule } }
		if err := ask(t.Context(), s, "/api/v1/rules", nil, &answer); err != nil {
			return err
		}
		rules = nil
		for _, group := range answer.Groups {
			rules = append(rules, group.Rules...)
		}
		for _, r := range rules {
			if r.Health == "unknown" {
				return fmt.Errorf("%s is not evaluated", r.Name)
			}
		}
		return nil
	})
	if err != nil || len(rules) == 0 {
		t.Fatalf("%d rules: %v", len(rules), err)
	}
	return rules
}
