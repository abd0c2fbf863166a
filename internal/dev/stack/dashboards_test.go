package main

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// quarter is the time range of the dashboards. It has a whole month.
const quarter = 90 * 24 * time.Hour

// mayBeEmpty are the queries, by panel and name, that may find nothing although all is
// well, and why; every other query must find data.
var mayBeEmpty = []struct{ query, why string }{
	{`^Change from the`, "the newest window may be the first, or the one before may have had no visitors"},
	{`^AI share|^Top pages|^Pages of the|^Shares of|^The page in the`, "the chosen window may have no visitors"},
	{`^How fresh the windows are/F`, "only totals of the site may be read"},
	{`^Running windows`, "no running window may be read"},
	{`^(Daily|Weekly|Monthly) readers|^Jobs and AI readers/[AB]`, "windows of this kind may not be exported"},
	{`^Rising|^Falling|^Pages that`, "the two windows may have the same pages, or there is only one"},
	{`^Restated windows`, "no numbers may have changed after they were first read"},
	{`^Oldest job|^Jobs and their|^Prompts by state|^Ended with|^Time to a`, "no such job may be there"},
	{`^Accepted|^Time to merge|^Oldest open|^Cost per merge`, "no such pull request may be there"},
	{`^Readers after a merge|^Verdicts`, "a merge needs 14 days before it, 7 after it and 3 visitors a day"},
	{`^Mean change`, "merges on fewer than 3 dates may have a verdict"},
	{`^Caps on jobs|^Agent requests left|^Budget in use|^Requests left`, "caps and budget may be unlimited"},
	{`^Backlog done|^Time until the backlog|^Due windows/`, "nothing may be due"},
	{`assistants by |^Assistants with|^Agents (of|not)|^Windows of agents`, "the report agents may not be exported"},
	{`^Key expires`, "DOCGAUGE_API_KEY_EXPIRES may not be set"},
	{`^Is all well\?/D`, "there may be no queue"},
	{`^How long (runs|requests)`, "no run or request may have ended in this time"},
	{`^Last commit`, "a new sink may have taken nothing"},
}

func reasonForNothing(q engines.Query) string {
	for _, m := range mayBeEmpty {
		if regexp.MustCompile(m.query).MatchString(q.Panel + "/" + q.Ref) {
			return m.why
		}
	}
	return ""
}

// testDashboards runs every query of every panel, with the values of its
// variables after a project has been chosen.
func testDashboards(t *testing.T, s *stack) {
	queries, toChoose := engines.Queries(slices.DeleteFunc(engines.Dashboards(t, "../../../dashboards/json"),
		func(d engines.Dashboard) bool { return d.UID == "docgauge-history-postgres" })) // the stack has no PostgreSQL
	variables := chosen(t, s, toChoose)
	// Every page is read in a week, not on every day.
	days := maps.Clone(variables)
	days["granularity"] = "day"
	for _, span := range []time.Duration{0, quarter} {
		if err := hasData(t.Context(), s, `docgauge_site_visitors{window="decade"} or docgauge_site_visitors `+
			`/ 0 * 0`, span); !errors.Is(err, errEmpty) {
			t.Errorf("series without a number are data: %v", err)
		}
	}
	for _, q := range queries {
		why := reasonForNothing(q)
		try := func() error { return runQuery(t.Context(), s, q, variables) }
		err := try()
		if errors.Is(err, errEmpty) && why != "" {
			err = runQuery(t.Context(), s, q, days)
		}
		if errors.Is(err, errEmpty) && why != "" {
			t.Logf("%s: no data: %s", q, why)
			continue
		}
		if err != nil {
			err = soon(t, try)
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", q, err, q.Expand(variables))
		}
	}
	t.Logf("%d queries", len(queries))
}

// chosen are values of the variables: a project, and the first result of the
// query of each other variable.
func chosen(t *testing.T, s *stack, variables []engines.Query) map[string]string {
	t.Helper()
	values := map[string]string{"project": projects[0],
		"__from": strconv.FormatInt(time.Now().Add(-quarter).UnixMilli(), 10)}
	for _, q := range variables {
		out, err := s.ClickHouse.Exec(t.Context(), q.Expand(values))
		if err != nil || out == "" {
			t.Errorf("%s: %v, %q\n%s", q, err, out, q.Expand(values))
		}
		first, _, _ := strings.Cut(out, "\n")
		first, _, _ = strings.Cut(first, "\t")
		if name := strings.TrimPrefix(q.Panel, "$"); values[name] == "" {
			values[name] = first
		}
	}
	return values
}

func runQuery(ctx context.Context, s *stack, q engines.Query, variables map[string]string) error {
	if q.Source == engines.ClickHouseSource {
		out, err := s.ClickHouse.Exec(ctx, q.Expand(variables))
		if err == nil && strings.TrimSpace(out) == "" {
			err = errEmpty
		}
		return err
	}
	all := maps.Clone(variables)
	all["project"] = strings.Join(projects, "|")
	if q.Instant {
		return hasData(ctx, s, q.Expand(all), 0)
	}
	return hasData(ctx, s, q.Expand(all), quarter)
}
