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
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/api"
)

func agentsOf(t testing.TB, s *Sandbox, from, to string) agentsAnswer {
	t.Helper()
	totals, rows, err := s.Agents(DefaultProject, window(from, to))
	check(t, err)
	return agentsAnswer{totals, rows}
}

// allAgents pages through the report of a window.
func allAgents(t testing.TB, s *Sandbox, from, to string, limit int) (a agentsAnswer) {
	t.Helper()
	for more, offset := true, 0; more; offset += limit {
		w := get(s, fmt.Sprintf("/v1/analytics/%s/agents?dateFrom=%s&dateTo=%s&limit=%d&offset=%d", DefaultProject,
			from, to, limit, offset))
		var page api.AgentsPage
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		var totals []analytics.AgentRow
		for _, x := range page.Totals {
			totals = append(totals, analytics.AgentRow{Agent: x.Agent, Class: x.Class, Audience: x.Audience, Found: true,
				Visitors: x.Visitors, Requests: x.Requests})
		}
		if offset > 0 && !slices.Equal(totals, a.totals) {
			t.Fatalf("totals %v on the page at %d, %v before", totals, offset, a.totals)
		}
		a.totals = totals
		a.rows = append(a.rows, page.Agents...)
		if more = page.HasMore; more && len(page.Agents) != limit {
			t.Fatalf("the page at %d has %d rows and hasMore", offset, len(page.Agents))
		}
	}
	return a
}

// bruteForce counts the agents of events: of the traffic, and beside it.
func bruteForce(t traffic, w analytics.Window) agentsAnswer {
	readers := map[analytics.AgentRow]map[string]bool{} // without numbers
	requests := map[analytics.AgentRow]int64{}
	networks := map[string]map[uint32]bool{}
	add := func(r analytics.AgentRow, who string) {
		if readers[r] == nil {
			readers[r] = map[string]bool{}
		}
		readers[r][who] = true
		requests[r]++
	}
	paths := append(slices.Clone(t.paths()), t.missing()...)
	for d := w.From; d < w.To; d++ {
		for i, e := range slices.Concat(t.day(d), t.beside(d)) {
			visit := i < len(t.day(d))
			r := analytics.AgentRow{Path: paths[e.page], Agent: "unnamed", Class: "coding", Audience: analytics.AI,
				Found: int(e.page) < len(t.paths())}
			if e.agent > 0 {
				a := t.agents()[e.agent-1]
				r.Agent, r.Class = a.Token, string(a.Class)
				if !visit && (a.Class == agents.Search || a.Class == agents.Training) {
					r.Audience = "neither"
				}
			} else if visit && e.who%2 == 0 {
				r.Agent, r.Class, r.Audience = "browser", "human", analytics.Human
			}
			who := fmt.Sprint(visit, e.who/2)
			add(r, who)
			if r.Found {
				r.Path = ""
				add(r, who)
			} else {
				if networks[r.Path] == nil {
					networks[r.Path] = map[uint32]bool{}
				}
				networks[r.Path][e.who/8] = true
			}
		}
	}
	var a agentsAnswer
	for r, who := range readers {
		n := requests[r]
		r.Visitors, r.Requests = int64(len(who)), n
		switch {
		case r.Path == "":
			a.totals = append(a.totals, r)
		case r.Found || len(networks[r.Path]) > 1:
			a.rows = append(a.rows, r)
		}
	}
	slices.SortFunc(a.totals, analytics.AgentRow.Compare)
	slices.SortFunc(a.rows, analytics.AgentRow.Compare)
	return a
}

func compareAgents(t *testing.T, what string, want, got agentsAnswer) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(agentsAnswer{})); diff != "" {
		t.Errorf("%s (-want, +got): %s", what, diff)
	}
}

// TestAgents: whatever the scenario, the report is exact, its pages add up, and both reports agree.
func TestAgents(t *testing.T) {
	for _, c := range []Config{{}, {Scenario: Growth, Seed: 3, Pages: 100},
		{Pages: 30, Projects: []string{DefaultProject}}} {
		s := newTest(t, c)
		rng := rand.New(rand.NewPCG(1, 31))
		for range 5 {
			from := date("2026-09-10") + analytics.Date(rng.IntN(20))
			w := analytics.Window{From: from, To: from + analytics.Date(1+rng.IntN(10))}
			got := agentsOf(t, s, w.From.String(), w.To.String())
			compareAgents(t, "brute force", bruteForce(s.projects[DefaultProject].synthetic, w), got)
			if !slices.IsSortedFunc(got.rows, analytics.AgentRow.Compare) {
				t.Error("the rows are not in order")
			}
			compareAgents(t, "pages", got, allAgents(t, s, w.From.String(), w.To.String(), 1+rng.IntN(250)))
			most, sum, human := int64(0), int64(0), int64(0)
			for _, a := range got.totals {
				switch a.Audience {
				case analytics.AI:
					most, sum = max(most, a.Visitors), sum+a.Visitors
				case analytics.Human:
					human = a.Visitors
				}
			}
			if n := truth(t, s, w.From.String(), w.To.String()).totals; n.Human != human || n.AI < most || n.AI > sum {
				t.Errorf("%s: %+v, agents %v", w, n, got.totals)
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
		for _, r := range agentsOf(t, s, from, to).rows {
			if r.Audience == analytics.AI && r.Found && of(r) {
				if all += float64(r.Requests); r.Class == "coding" {
					coding += float64(r.Requests)
				}
			}
		}
		return coding / all
	}
	code := func(r analytics.AgentRow) bool { return isCode(r.Path) }
	prose := func(r analytics.AgentRow) bool { return !isCode(r.Path) }
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
	for _, a := range got.totals {
		if a.Audience == agents.Neither && a.Requests < 20*a.Visitors {
			t.Errorf("a crawler with few requests: %+v", a)
		}
	}
	missed := map[string]bool{}
	for _, r := range got.rows {
		if !r.Found {
			missed[r.Path] = true
			if r.Agent == "browser" || slices.Contains(s.site.pages, r.Path) {
				t.Errorf("missed: %+v", r)
			}
		}
	}
	if len(missed) < len(guesses)/2 {
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
	want := agentsAnswer{
		[]analytics.AgentRow{row("", "Claude-User", "answers", "ai", 2, 2), row("", "browser", "human", "human", 1, 2),
			row("", "unnamed", "coding", "ai", 1, 1)},
		[]analytics.AgentRow{row("/x", "Claude-User", "answers", "ai", 1, 1), row("/x", "browser", "human", "human", 1, 2),
			row("/x", "unnamed", "coding", "ai", 1, 1), row("/y", "Claude-User", "answers", "ai", 1, 1)},
	}
	compareAgents(t, "log", want, agentsOf(t, s, "2026-10-05", "2026-10-06"))
	f.write(os.O_APPEND, named("c", "opencode", "/y"))
	want = bruteForce(logged(t, s), window("2026-10-05", "2026-10-06"))
	compareAgents(t, "log that has grown", want, agentsOf(t, s, "2026-10-05", "2026-10-06"))
}

// logged is the traffic of the event log.
func logged(t *testing.T, s *Sandbox) traffic {
	t.Helper()
	traffic, _, err := s.log.read(DefaultProject)
	check(t, err)
	return traffic
}
