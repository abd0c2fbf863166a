package stack

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/dashboards"
)

// quarter is the time range of the dashboards. It has a whole month.
const quarter = 90 * 24 * time.Hour

// testDashboards runs every query of every panel, with the values of its
// variables after a project has been chosen.
func testDashboards(t *testing.T, s *Stack) {
	variables := chosen(t, s)
	// Every page is read in a week, not on every day.
	days := maps.Clone(variables)
	days["granularity"] = "day"
	for _, span := range []time.Duration{0, quarter} {
		if err := hasData(t.Context(), s, `docgauge_site_visitors{window="decade"} or docgauge_site_visitors / 0 * 0`, span); !errors.Is(err, errEmpty) {
			t.Errorf("series without a number are data: %v", err)
		}
	}
	queries := dashboards.Queries()
	for _, q := range queries {
		try := func() error { return runQuery(t.Context(), s, q, variables) }
		err := try()
		if errors.Is(err, errEmpty) && q.MayBeEmpty != "" {
			err = runQuery(t.Context(), s, q, days)
		}
		if errors.Is(err, errEmpty) && q.MayBeEmpty != "" {
			t.Logf("%s: %s %s: no data: %s", q.Dashboard, q.Panel, q.Ref, q.MayBeEmpty)
			continue
		}
		if err != nil {
			err = soon(t, try)
		}
		if err != nil {
			t.Errorf("%s: %s %s: %v\n%s", q.Dashboard, q.Panel, q.Ref, err, q.Expand(variables))
		}
	}
	t.Logf("%d queries", len(queries))
}

// chosen are values of the variables: a project, and the first result of the
// query of each other variable.
func chosen(t *testing.T, s *Stack) map[string]string {
	t.Helper()
	values := map[string]string{"project": Projects[0], "__from": strconv.FormatInt(time.Now().Add(-quarter).UnixMilli(), 10)}
	for _, q := range dashboards.Variables() {
		out, err := s.ClickHouse.Exec(t.Context(), q.Expand(values))
		if err != nil || out == "" {
			t.Errorf("%s: %s: %v, %q\n%s", q.Dashboard, q.Panel, err, out, q.Expand(values))
		}
		first, _, _ := strings.Cut(out, "\n")
		first, _, _ = strings.Cut(first, "\t")
		if name := strings.TrimPrefix(q.Panel, "$"); values[name] == "" {
			values[name] = first
		}
	}
	return values
}

func runQuery(ctx context.Context, s *Stack, q dashboards.Query, variables map[string]string) error {
	if q.Engine == dashboards.ClickHouse {
		out, err := s.ClickHouse.Exec(ctx, q.Expand(variables))
		if err == nil && strings.TrimSpace(out) == "" {
			err = errEmpty
		}
		return err
	}
	all := maps.Clone(variables)
	all["project"] = strings.Join(Projects, "|")
	if q.Instant {
		return hasData(ctx, s, q.Expand(all), 0)
	}
	return hasData(ctx, s, q.Expand(all), quarter)
}
