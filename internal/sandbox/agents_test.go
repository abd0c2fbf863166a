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
	"github.com/docgauge/docgauge/internal/site/facts"
)

func agentsOf(t testing.TB, s *Sandbox, from, to string) facts.Agents {
	t.Helper()
	totals, rows, err := s.Agents(DefaultProject, window(from, to))
	check(t, err)
	return facts.Agents{Totals: totals, Rows: rows}
}

// allAgents pages through the report of a window.
func allAgents(t testing.TB, s *Sandbox, from, to string, limit int) (a facts.Agents) {
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

func compareAgents(t *testing.T, what string, want, got facts.Agents) {
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
			var requests analytics.Totals
			for _, a := range got.Totals {
				switch requests.Total += a.Requests; a.Audience {
				default:
					requests.Total -= a.Requests
				case analytics.AI:
					requests.AI += a.Requests
					most, sum = max(most, a.Visitors), sum+a.Visitors
				case analytics.Human:
					human += a.Visitors
					requests.Human += a.Requests
				}
			}
			if n := truth(t, s, w.From.String(), w.To.String()).Totals; n.Human != human || n.AI < most || n.AI > sum {
				t.Errorf("%s: %+v, agents %v", w, n, got.Totals)
			}
			views, rows, err := s.Views(DefaultProject, w)
			check(t, err)
			if views != requests || len(rows) == 0 {
				t.Errorf("%s: %+v views, the agents have %+v requests", w, views, requests)
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

// TestAgentsInLog: the events of a log name their agents, or not, and say what else they know; changes of the log show.
func TestAgentsInLog(t *testing.T) {
	saying := func(what, visitor, kind, path string) string {
		return strings.Replace(line(first, visitor, kind, path), "{", "{"+what+",", 1)
	}
	f := newLogFile(t, line(first, "a", "human", "/x")+line(first, "a", "human", "/x")+
		saying(`"evidence":true,"bytes":7,"referrer":"https://chatgpt.com/"`, "e", "human", "/x")+
		saying(`"bytes":5,"referrer":"https://news.example/"`, "e", "human", "/y")+line(first, "e", "human", "/y")+
		saying(`"bytes":6`, "e", "human", "/y")+line(first, "b", "ai", "/x")+
		saying(`"agent":"Claude-User","markdown":true,"bytes":3`, "c", "ai", "/x")+
		saying(`"agent":"claude-user/1.0","bytes":4`, "d", "ai", "/y"))
	s := f.sandbox()
	row := func(path, agent, class string, audience analytics.Audience, numbers ...int64) analytics.AgentRow {
		return analytics.AgentRow{Path: path, Agent: agent, Class: class, Audience: audience, Found: true,
			Visitors: numbers[0], Requests: numbers[1], Markdown: numbers[2], Bytes: numbers[3]}
	}
	want := facts.Agents{
		Totals: []analytics.AgentRow{row("", "Claude-User", "answers", "ai", 2, 2, 1, 7),
			row("", "browser", "human", "human", 1, 4, 0, -1), row("", "unconfirmed", "human", "human", 1, 2, 0, -1),
			row("", "unnamed", "coding", "ai", 1, 1, 0, -1)},
		Rows: []analytics.AgentRow{row("/x", "Claude-User", "answers", "ai", 1, 1, 1, 3),
			row("/x", "browser", "human", "human", 1, 1, 0, 7), row("/x", "unconfirmed", "human", "human", 1, 2, 0, -1),
			row("/x", "unnamed", "coding", "ai", 1, 1, 0, -1), row("/y", "Claude-User", "answers", "ai", 1, 1, 0, 4),
			row("/y", "browser", "human", "human", 1, 3, 0, -1)},
	}
	compareAgents(t, "log", want, agentsOf(t, s, "2026-10-05", "2026-10-06"))
	from := func(path, source, class, agent string, visitors, requests int64) analytics.SourceRow {
		return analytics.SourceRow{Path: path, Source: source, Class: class, Agent: agent, Visitors: visitors,
			Requests: requests}
	}
	var sources struct{ Sources []analytics.SourceRow }
	w := get(s, "/v1/analytics/"+DefaultProject+"/sources?dateFrom=2026-10-05&dateTo=2026-10-06")
	if err := json.Unmarshal(w.Body.Bytes(), &sources); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	came := []analytics.SourceRow{from("/x", "chatgpt", "assistant", "browser", 1, 1),
		from("/x", "none", "none", "unconfirmed", 1, 2), from("/y", "none", "none", "browser", 1, 2),
		from("/y", "other", "other", "browser", 1, 1)}
	if diff := cmp.Diff(came, sources.Sources); diff != "" {
		t.Errorf("sources (-want, +got): %s", diff)
	}
	f.write(os.O_APPEND, saying(`"agent":"opencode"`, "c", "ai", "/y"))
	want.Totals = append(want.Totals, row("", "opencode", "coding", "ai", 1, 1, 0, -1))
	want.Rows = append(want.Rows, row("/y", "opencode", "coding", "ai", 1, 1, 0, -1))
	slices.SortFunc(want.Totals, analytics.AgentRow.Compare)
	slices.SortFunc(want.Rows, analytics.AgentRow.Compare)
	compareAgents(t, "log that has grown", want, agentsOf(t, s, "2026-10-05", "2026-10-06"))
}

// TestModes: confirmed people are fewer than claimed ones, and the number of people who are claimed is the same for
// every share of programs; each other report has the same numbers in both modes, but for the audience of the
// unconfirmed.
func TestModes(t *testing.T) {
	w := analytics.Window{From: date("2026-10-01"), To: date("2026-10-08")}
	claims := func(c Config) (human int64, byAgent map[string]int64) {
		s := newTest(t, c)
		n, _, err := s.Visitors(DefaultProject, w)
		check(t, err)
		totals, _, err := s.Agents(DefaultProject, w)
		check(t, err)
		byAgent = map[string]int64{}
		for _, a := range totals {
			if a.Class == "human" {
				byAgent[a.Agent+" "+string(a.Audience)] = a.Visitors
			}
		}
		return n.Human, byAgent
	}
	all, honest := claims(Config{})
	same, forged := claims(Config{Forged: 0.5})
	fewer, confirmed := claims(Config{Forged: 0.5, Humans: analytics.Confirmed})
	got := [...]int64{same, forged["browser human"] + forged["unconfirmed human"], fewer, confirmed["browser human"],
		confirmed["unconfirmed neither"]}
	want := [...]int64{all, all, forged["browser human"], fewer, all - fewer}
	if got != want || fewer*10 < all*4 || fewer*10 > all*6 || honest["browser human"]*10 < all*9 {
		t.Errorf("got %v, want %v: %v without forged ones, %v with", got, want, honest, forged)
	}
	for what, c := range map[string]Config{"forged share": {Forged: 1.5}, "humans": {Humans: "all"}} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
