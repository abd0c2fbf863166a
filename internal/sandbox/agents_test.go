package sandbox

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sandbox/traffic"
	"github.com/docgauge/docgauge/internal/site/agents"
)

func agentsOf(t testing.TB, s *Sandbox, from, to string) traffic.Agents {
	t.Helper()
	totals, rows, err := s.Agents(DefaultProject, window(from, to))
	check(t, err)
	return traffic.Agents{Totals: totals, Rows: rows}
}

// allAgents pages through the report of a window.
func allAgents(t testing.TB, s *Sandbox, from, to string, limit int) (a traffic.Agents) {
	t.Helper()
	for more, offset := true, 0; more; offset += limit {
		w := get(s, fmt.Sprintf("/v1/analytics/%s/agents?dateFrom=%s&dateTo=%s&limit=%d&offset=%d", DefaultProject,
			from, to, limit, offset))
		var page struct {
			Totals, Agents []analytics.AgentRow
			HasMore        bool
		}
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		totals := page.Totals
		for i := range totals {
			totals[i].Found = true
		}
		if offset > 0 && !slices.Equal(totals, a.Totals) {
			t.Fatalf("totals %v on the page at %d, %v before", totals, offset, a.Totals)
		}
		a.Totals = totals
		a.Rows = append(a.Rows, page.Agents...)
		if more = page.HasMore; more && len(page.Agents) != limit {
			t.Fatalf("the page at %d has %d rows and hasMore", offset, len(page.Agents))
		}
	}
	return a
}

func compareAgents(t *testing.T, what string, want, got traffic.Agents) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want, +got): %s", what, diff)
	}
}

// TestAgents: whatever the scenario, the pages of the report add up, and both reports agree.
func TestAgents(t *testing.T) {
	for _, c := range []Config{{}, {Scenario: Growth, Seed: 3, Pages: 100},
		{Pages: 30, Projects: []string{DefaultProject}}} {
		s := newTest(t, c)
		rng := rand.New(rand.NewPCG(1, 31))
		for range 5 {
			from := date("2026-09-10") + analytics.Date(rng.IntN(20))
			w := analytics.Window{From: from, To: from + analytics.Date(1+rng.IntN(10))}
			got := agentsOf(t, s, w.From.String(), w.To.String())
			if !slices.IsSortedFunc(got.Rows, analytics.AgentRow.Compare) {
				t.Error("the rows are not in order")
			}
			compareAgents(t, "pages", got, allAgents(t, s, w.From.String(), w.To.String(), 1+rng.IntN(250)))
			most, sum, human := int64(0), int64(0), int64(0)
			for _, a := range got.Totals {
				switch a.Audience {
				case analytics.AI:
					most, sum = max(most, a.Visitors), sum+a.Visitors
				case analytics.Human:
					human = a.Visitors
				}
			}
			if n := truth(t, s, w.From.String(), w.To.String()).Totals; n.Human != human || n.AI < most || n.AI > sum {
				t.Errorf("%s: %+v, agents %v", w, n, got.Totals)
			}
		}
	}
}

// TestAgentsDiffer: assistants prefer other pages than coding agents, which become more on a growing site;
// crawlers have more requests than readers; and there are paths that only agents ask for.
func TestAgentsDiffer(t *testing.T) {
	later := func() time.Time { return noon.AddDate(1, 0, 0) }
	share := func(s *Sandbox, from, to string, of func(analytics.AgentRow) bool) float64 {
		coding, all := 0.0, 0.0
		for _, r := range agentsOf(t, s, from, to).Rows {
			if r.Audience == analytics.AI && r.Found && of(r) {
				if all += float64(r.Requests); r.Class == "coding" {
					coding += float64(r.Requests)
				}
			}
		}
		return coding / all
	}
	code := func(r analytics.AgentRow) bool {
		return strings.HasPrefix(r.Path, "/sdks/") || strings.HasPrefix(r.Path, "/api-reference/") ||
			strings.HasPrefix(r.Path, "/reference/")
	}
	prose := func(r analytics.AgentRow) bool { return !code(r) }
	s := newTest(t, Config{})
	if c, p := share(s, "2026-10-01", "2026-10-08", code), share(s, "2026-10-01", "2026-10-08", prose); c < 2*p {
		t.Errorf("coding agents have %.2f of the views of code, %.2f of prose", c, p)
	}
	early := newTest(t, Config{Scenario: Growth, Days: 300})
	late := newTest(t, Config{Scenario: Growth, Now: later})
	if a, b := share(early, "2026-02-01", "2026-02-08", code), share(late, "2027-10-01", "2027-10-08", code); a > b*0.8 {
		t.Errorf("coding agents grow from %.2f to %.2f", a, b)
	}
	got := agentsOf(t, s, "2026-10-01", "2026-10-08")
	for _, a := range got.Totals {
		if a.Audience == agents.Neither && a.Requests < 20*a.Visitors {
			t.Errorf("a crawler with few requests: %+v", a)
		}
	}
	missed := map[string]bool{}
	for _, r := range got.Rows {
		if !r.Found {
			missed[r.Path] = true
			if r.Agent == "browser" || slices.Contains(s.site.Pages, r.Path) {
				t.Errorf("missed: %+v", r)
			}
		}
	}
	if len(missed) < 8 {
		t.Errorf("missed: %v", missed)
	}
}

// TestAgentsInLog: the events of a log name their agents, or not; changes of the log show.
func TestAgentsInLog(t *testing.T) {
	named := func(visitor, agent, path string) string {
		return strings.Replace(line(first, visitor, "ai", path), "{", `{"agent":"`+agent+`",`, 1)
	}
	f := newLogFile(t, line(first, "a", "human", "/x")+line(first, "a", "human", "/x")+line(first, "b", "ai", "/x")+
		named("c", "Claude-User", "/x")+named("d", "claude-user/1.0", "/y"))
	s := f.sandbox()
	row := func(path, agent, class string, audience analytics.Audience, visitors, requests int64) analytics.AgentRow {
		return analytics.AgentRow{Path: path, Agent: agent, Class: class, Audience: audience, Found: true,
			Visitors: visitors, Requests: requests}
	}
	want := traffic.Agents{
		Totals: []analytics.AgentRow{row("", "Claude-User", "answers", "ai", 2, 2), row("", "browser", "human", "human", 1, 2),
			row("", "unnamed", "coding", "ai", 1, 1)},
		Rows: []analytics.AgentRow{row("/x", "Claude-User", "answers", "ai", 1, 1), row("/x", "browser", "human", "human", 1, 2),
			row("/x", "unnamed", "coding", "ai", 1, 1), row("/y", "Claude-User", "answers", "ai", 1, 1)},
	}
	compareAgents(t, "log", want, agentsOf(t, s, "2026-10-05", "2026-10-06"))
	f.write(os.O_APPEND, named("c", "opencode", "/y"))
	want.Totals = append(want.Totals, row("", "opencode", "coding", "ai", 1, 1))
	want.Rows = append(want.Rows, row("/y", "opencode", "coding", "ai", 1, 1))
	slices.SortFunc(want.Totals, analytics.AgentRow.Compare)
	slices.SortFunc(want.Rows, analytics.AgentRow.Compare)
	compareAgents(t, "log that has grown", want, agentsOf(t, s, "2026-10-05", "2026-10-06"))
}
