package query_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// putAgents stores a window of agents as a window file.
func putAgents(t interface {
	Helper()
	Fatal(...any)
	Context() context.Context
}, s *sinktest.Memory, rev analytics.Revision, rows ...analytics.AgentRow) {
	t.Helper()
	rev.Report, rev.Totals = analytics.AgentsReport, analytics.Totals{}
	slices.SortFunc(rows, analytics.AgentRow.Compare)
	if !rev.TotalsOnly() {
		rev.Rows = 0
		for _, row := range rows {
			if row.Path != "" {
				rev.Rows++
			}
		}
	}
	file, err := archive.Encode(rev, analytics.Records(sinktest.List(rows...)))
	if err == nil {
		err = s.Replace(t.Context(), file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// randomAgents are rows of a window, many of them equal.
func randomAgents() *rapid.Generator[[]analytics.AgentRow] {
	return rapid.Custom(func(r *rapid.T) (out []analytics.AgentRow) {
		n := rapid.Int64Range(0, 3)
		audiences := map[string][]analytics.Audience{"browser": {"human"}, "Claude-User": {"ai"}, "curl": {"ai", "neither"}}
		for _, path := range []string{"", "/", "/a", "/guides/x", "/guides/y", "=cmd|' /C calc'!A0", "/文档"} {
			for agent, all := range audiences {
				for _, audience := range all {
					for _, found := range []bool{true, false} {
						if path == "" && !found || !rapid.Bool().Draw(r, "read") {
							continue
						}
						visitors := n.Draw(r, "visitors")
						out = append(out, analytics.AgentRow{Path: path, Agent: agent, Class: "of " + agent,
							Audience: audience, Found: found, Visitors: visitors, Requests: visitors + n.Draw(r, "more")})
					}
				}
			}
		}
		slices.SortFunc(out, analytics.AgentRow.Compare)
		return out
	})
}

// line is a row of a list as the test compares it.
func line(rank int, path, agent string, audience analytics.Audience, visitors, requests int64, before string) string {
	return fmt.Sprintf("%d %s %s %s %d %d, before %s", rank, path, agent, audience, visitors, requests, before)
}

func pair(n *view.AgentNumbers) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(n.Visitors, " ", n.Requests)
}

// TestAgentsCounted: whatever the rows, each list is what a count of all rows says.
func TestAgentsCounted(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		before, after := randomAgents().Draw(r, "before"), randomAgents().Draw(r, "after")
		o := query.AgentRanking{
			List:   rapid.SampledFrom([]query.AgentList{"agents", "pages", "misses"}).Draw(r, "list"),
			By:     rapid.SampledFrom([]query.AgentOrder{"readers", "requests"}).Draw(r, "by"),
			N:      rapid.IntRange(1, 9).Draw(r, "n"),
			Offset: rapid.IntRange(0, 3).Draw(r, "offset"),
		}
		if o.List != query.SiteAgents {
			o.Prefix = rapid.SampledFrom([]string{"", "/", "/guides/", "="}).Draw(r, "prefix")
		}
		if o.List == query.AgentPages || o.List == query.Misses && rapid.Bool().Draw(r, "of one agent") {
			o.Agent = rapid.SampledFrom([]string{"browser", "curl"}).Draw(r, "agent")
		}
		s := &sinktest.Memory{}
		put(s, windowOf("prj_a", analytics.Day, 7, 8), page("/visitors", 1)) // is never listed
		put(s, windowOf("prj_a", analytics.Day, 9, 10))
		putAgents(r, s, windowOf("prj_a", analytics.Day, 0, 1), before...)
		putAgents(r, s, windowOf("prj_a", analytics.Day, 7, 8), after...)
		got, err := query.Agents(t.Context(), s, daily, o)
		if _, unknown := errors.AsType[query.NoAnswerError](err); unknown {
			for _, row := range slices.Concat(before, after) {
				if row.Agent == o.Agent {
					r.Fatalf("%+v: %v", row, err)
				}
			}
			return
		}
		if err != nil || len(got) != 1 || got[0].Report != analytics.AgentsReport {
			r.Fatalf("%v, %v", got, err)
		}
		var lines []string
		for _, p := range got[0].Agents {
			lines = append(lines, line(p.Rank, p.Path, p.Agent, p.Audience, p.Visitors, p.Requests, pair(p.Previous)))
		}
		for _, m := range got[0].Misses {
			lines = append(lines, line(m.Rank, m.Path, "", "", m.Visitors, m.Requests, pair(m.Previous)))
			for _, a := range m.Agents {
				lines = append(lines, line(0, "", a.Agent, a.Audience, a.Visitors, a.Requests, ""))
			}
		}
		want, count := counted(o, before, after)
		if diff := gocmp.Diff(want, lines); diff != "" || got[0].Count != count {
			r.Fatalf("%d, want %d; -counted +answered:\n%s", got[0].Count, count, diff)
		}
		gone := []string{}
		for _, row := range before {
			still := slices.ContainsFunc(after, func(a analytics.AgentRow) bool {
				return a.Path == "" && a.Agent == row.Agent
			})
			if row.Path == "" && !still && !slices.Contains(gone, row.Agent) {
				gone = append(gone, row.Agent)
			}
		}
		requests := func(rows []analytics.AgentRow) (n int64) {
			for _, row := range rows {
				if row.Path == "" && row.Audience == analytics.AI {
					n += row.Requests
				}
			}
			return n
		}
		if now, was := got[0].AIRequests, got[0].AIRequestsBefore; o.List != query.SiteAgents && now != nil ||
			o.List == query.SiteAgents && (*now != requests(after) || *was != requests(before)) {
			r.Fatalf("%v requests of AI agents, before %v", now, was)
		}
		slices.Sort(gone)
		if o.List == query.SiteAgents && !slices.Equal(gone, got[0].Gone) {
			r.Fatalf("gone: %q, want %q", got[0].Gone, gone)
		}
	})
}

// counted ranks rows in the plain way.
func counted(r query.AgentRanking, before, after []analytics.AgentRow) (out []string, count int64) {
	asked := func(row analytics.AgentRow) bool {
		switch r.List {
		case query.SiteAgents:
			return row.Path == ""
		case query.AgentPages:
			return row.Path != "" && row.Found && row.Agent == r.Agent && strings.HasPrefix(row.Path, r.Prefix)
		}
		return !row.Found && strings.HasPrefix(row.Path, r.Prefix) && (r.Agent == "" || row.Agent == r.Agent)
	}
	same := func(a, b analytics.AgentRow) bool {
		return a.Path == b.Path && (r.List == query.Misses || a.Agent == b.Agent && a.Audience == b.Audience)
	}
	// total returns the largest readers and all requests of the rows that are as row.
	total := func(rows []analytics.AgentRow, row analytics.AgentRow) (n *view.AgentNumbers) {
		for _, other := range rows {
			if asked(other) && same(row, other) {
				if n == nil {
					n = &view.AgentNumbers{}
				}
				n.Visitors, n.Requests = max(n.Visitors, other.Visitors), n.Requests+other.Requests
			}
		}
		return n
	}
	var all []analytics.AgentRow
	for _, row := range after {
		if asked(row) && !slices.ContainsFunc(all, func(other analytics.AgentRow) bool { return same(row, other) }) {
			all = append(all, row)
		}
	}
	value := func(row analytics.AgentRow) int64 {
		if r.By == query.ByRequests {
			return total(after, row).Requests
		}
		return total(after, row).Visitors
	}
	slices.SortStableFunc(all, func(a, b analytics.AgentRow) int { return cmp.Compare(value(b), value(a)) })
	for i, row := range all {
		if i < r.Offset || i >= r.Offset+r.N {
			continue
		}
		now := total(after, row)
		if r.List != query.Misses {
			out = append(out, line(i+1, row.Path, row.Agent, row.Audience, now.Visitors, now.Requests,
				pair(total(before, row))))
			continue
		}
		out = append(out, line(i+1, row.Path, "", "", now.Visitors, now.Requests, pair(total(before, row))))
		var agents []analytics.AgentRow
		for _, other := range after {
			if asked(other) && same(row, other) {
				agents = append(agents, other)
			}
		}
		slices.SortStableFunc(agents, func(a, b analytics.AgentRow) int { return cmp.Compare(b.Requests, a.Requests) })
		for _, a := range agents {
			out = append(out, line(0, "", a.Agent, a.Audience, a.Visitors, a.Requests, ""))
		}
	}
	return out, int64(len(all))
}

func agentRow(path, agent string, audience analytics.Audience, found bool, visitors int64) analytics.AgentRow {
	return analytics.AgentRow{Path: path, Agent: agent, Class: "answers", Audience: audience, Found: found,
		Visitors: visitors, Requests: 2 * visitors}
}

// TestAgentHistory: the readers and requests of an agent, of each audience apart, on the site and on a page.
func TestAgentHistory(t *testing.T) {
	s := &sinktest.Memory{}
	putAgents(t, s, windowOf("prj_a", "2d", 0, 2), agentRow("", "curl", "ai", true, 1),
		agentRow("", "curl", "neither", true, 8), agentRow("/", "curl", "ai", true, 1))
	totals := windowOf("prj_a", "2d", 2, 4)
	totals.Rows = analytics.TotalsOnlyRows
	putAgents(t, s, totals, agentRow("", "curl", "ai", true, 3), agentRow("", "GPTBot", "neither", true, 5))
	putAgents(t, s, windowOf("prj_a", "2d", 4, 6), agentRow("", "GPTBot", "neither", true, 6),
		agentRow("/", "GPTBot", "neither", true, 4), agentRow("/gone", "curl", "ai", false, 2))
	ask := func(agent, page string) string {
		o := query.HistoryOptions{Selection: query.Selection{Granularity: "2d"}, Page: &page, Last: 5,
			Today: sinktest.Key("", 6).From}
		all, err := query.AgentHistories(t.Context(), s, agent, o)
		if err != nil {
			return err.Error()
		}
		var out []string
		for _, h := range all {
			var steps []string
			for _, w := range h.Windows {
				switch {
				case w.Visitors != nil && w.Change != nil:
					steps = append(steps, fmt.Sprintf("%d/%d%+d", *w.Visitors, *w.Requests, *w.Change))
				case w.Visitors != nil:
					steps = append(steps, fmt.Sprintf("%d/%d", *w.Visitors, *w.Requests))
				case w.Absent:
					steps = append(steps, "absent")
				case w.State == query.Missing:
					steps = append(steps, "missing")
				default:
					steps = append(steps, "unknown")
				}
			}
			out = append(out, string(h.Audience)+": "+strings.Join(steps, " "))
		}
		return strings.Join(out, "; ")
	}
	for _, c := range []struct{ agent, page, want string }{
		{"curl", "", "ai: 1/2 missing 3/6+2 missing absent; neither: 8/16 missing absent missing absent"},
		{"curl", "/", "ai: 1/2 missing unknown missing absent"},
		{"GPTBot", "", "neither: absent missing 5/10 missing 6/12+1"},
		{"GPTBot", "/x", `agent GPTBot did not read page "/x" in the 2d windows asked for: paths are exact, and ` +
			"`docgauge top --agent NAME --prefix PATH` lists them"},
		{"gptbot", "", `agent "gptbot" has no row in the 2d windows asked for; there are GPTBot, curl`},
		{"GPTBots", "", `agent "GPTBots" has no row in the 2d windows asked for; did you mean GPTBot?`},
	} {
		if got := ask(c.agent, c.page); got != c.want {
			t.Errorf("%s on %q:\n%s, want\n%s", c.agent, c.page, got, c.want)
		}
	}
	// Of the window before the newest only the totals are known: its agents, not what they read or missed.
	for compared, r := range map[bool][]query.AgentRanking{
		true: {{N: 1}}, false: {{Agent: "GPTBot", N: 1}, {List: query.Misses, N: 1}},
	} {
		for _, r := range r {
			all, err := query.Agents(t.Context(), s, query.Choice{Selection: query.Selection{Granularity: "2d"}}, r)
			if err != nil || (all[0].Previous != nil) != compared {
				t.Errorf("%+v: %+v, %v", r, all, err)
			}
		}
	}
}

// TestRowsOfName: a name without a row below a prefix, or beyond the end of its list, has an empty list.
func TestRowsOfName(t *testing.T) {
	s := &sinktest.Memory{}
	putAgents(t, s, windowOf("prj_a", analytics.Day, 0, 1), agentRow("", "curl", "ai", true, 1),
		agentRow("/", "curl", "ai", true, 1))
	for _, r := range []query.RowRanking{{Prefix: "/a", N: 1}, {Offset: 1, N: 1}} {
		r.Report, r.Name = analytics.AgentsReport, "curl"
		all, err := query.Rows(t.Context(), s, daily, r)
		if err != nil || len(all) != 1 || len(all[0].Rows) != 0 {
			t.Errorf("%+v: %+v, %v", r, all, err)
		}
	}
}

// TestAgentsMissing: an archive without windows of agents names the setting, and a question that has none is
// refused.
// TestAgentNumbers: lists and histories of agents have the counts of the report, in its order.
func TestAgentNumbers(t *testing.T) {
	counts := analytics.AgentsReport.Shape().Names(analytics.Count)
	for _, row := range []any{view.AgentNumbers{}, query.AgentHistoryNumbers{}} {
		var names []string
		for _, c := range query.Columns(row) {
			if slices.Contains(counts, c.Name) {
				names = append(names, c.Name)
			}
		}
		if !slices.Equal(names, counts) {
			t.Errorf("%T has %v, want %v", row, names, counts)
		}
	}
	n := view.AgentNumbersOf(analytics.Counts{1, 2, 3, -1})
	if n != (view.AgentNumbers{Visitors: 1, Requests: 2, Markdown: 3, Bytes: -1}) || n.Of("markdown") != 3 {
		t.Errorf("%+v", n)
	}
}

func TestAgentsMissing(t *testing.T) {
	s := &sinktest.Memory{}
	ask := func(r query.AgentRanking) error {
		_, err := query.Agents(t.Context(), s, daily, r)
		return err
	}
	check := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	check(ask(query.AgentRanking{}), "the archive memory has no window: run `docgauge export`")
	put(s, windowOf("prj_a", analytics.Day, 0, 1), page("/", 1))
	check(ask(query.AgentRanking{}), "set DOCGAUGE_REPORTS=visitors,agents")
	_, err := query.AgentHistories(t.Context(), s, "x", query.HistoryOptions{
		Selection: query.Selection{Granularity: analytics.Day}, Last: 1})
	check(err, "set DOCGAUGE_REPORTS=visitors,agents")
	totals := windowOf("prj_a", analytics.Day, 0, 1)
	totals.Rows = analytics.TotalsOnlyRows
	putAgents(t, s, totals, agentRow("", "GPTBot", "neither", true, 5))
	check(ask(query.AgentRanking{Agent: "GPTBot"}), "only its totals were read")
	check(ask(query.AgentRanking{List: query.Misses}), "`docgauge top --by agent --window day` shows the agents")
	if err := ask(query.AgentRanking{N: 1}); err != nil {
		t.Error(err)
	}
	for want, r := range map[string]query.AgentRanking{
		"list \"x\": want agents, pages or misses":              {List: "x"},
		"by \"total\": want readers, requests, markdown, bytes": {By: "total"},
		"agent: missing":                             {List: query.AgentPages},
		"agent: want it without list agents":         {List: query.SiteAgents, Agent: "a"},
		"prefix: want it with pages of an agent, or": {Prefix: "/"},
	} {
		check(ask(r), want)
	}
}

// TestNear: the pages that are like a path that is not there.
func TestNear(t *testing.T) {
	pages := []string{
		"/", "/authentication", "/api-reference/errors/list", "/guides/installation", "/guides/rate-limits & quotas",
		"/guides/webhooks/setup", "/quickstart", "/sdks/java/installation", "/sdks/python/installation",
		"/sdks/python/pagination", "/there",
	}
	for i := range 100 {
		pages = append(pages, fmt.Sprintf("/sdks/s%d/topic", i))
	}
	rows := []analytics.AgentRow{agentRow("", "browser", "human", true, 9)}
	for _, path := range pages {
		rows = append(rows, agentRow(path, "browser", "human", true, 9))
	}
	cases := map[string]string{
		"/docs/authentication": "/authentication", "/Quickstart/": "/quickstart", "/quikstart": "/quickstart",
		"/installation": "/guides/installation", "/reference/rate-limits": "/guides/rate-limits & quotas",
		"/sdk/python/install": "/sdks/python/installation", "/webhooks": "/guides/webhooks/setup",
		"/pricing": "", "/there": "/there", "/---": "", "/" + strings.Repeat("long-word/", 90): "",
	}
	for path := range cases {
		rows = append(rows, agentRow(path, "GPTBot", "neither", false, 1))
	}
	// A path that another agent missed too is no page.
	rows = append(rows, agentRow("/docs/authentication-2", "curl", "neither", false, 1))
	cases["/docs/authentication-2"] = "/authentication"
	s := &sinktest.Memory{}
	putAgents(t, s, windowOf("prj_a", analytics.Day, 0, 1), rows...)
	for _, agent := range []string{"", "GPTBot"} {
		all, err := query.Agents(t.Context(), s, daily, query.AgentRanking{List: query.Misses, Agent: agent, N: 99})
		if want := len(cases) - min(len(agent), 1); err != nil || len(all[0].Misses) != want {
			t.Fatalf("%v, %v", all, err)
		}
		for _, m := range all[0].Misses {
			if m.Nearest() != cases[m.Path] || len(m.Near) > 3 {
				t.Errorf("%s: near are %q, want %q", m.Path, m.Near, cases[m.Path])
			}
		}
	}
}

// BenchmarkMisses: 1,000 misses beside 25,000 pages.
func BenchmarkMisses(b *testing.B) {
	rows := []analytics.AgentRow{}
	for i := range 25_000 {
		path := fmt.Sprintf("/section-%d/topic-%d/page-%d-of-the-reference", i%40, i%700, i)
		rows = append(rows, agentRow(path, "browser", "human", true, 1))
		if i%25 == 0 {
			rows = append(rows, agentRow("/docs"+path+strings.Repeat("/more-of-it", 10), "GPTBot", "neither", false, 1))
		}
	}
	s := &sinktest.Memory{}
	putAgents(b, s, windowOf("prj_a", analytics.Day, 0, 1), rows...)
	for b.Loop() {
		all, err := query.Agents(b.Context(), s, daily, query.AgentRanking{List: query.Misses, N: 1000})
		if err != nil || len(all[0].Misses) != 1000 {
			b.Fatal(err)
		}
	}
}

// TestMissedDays: a path that a report lacks was not missed, unless the report has as many paths as it can have.
func TestMissedDays(t *testing.T) {
	s := &sinktest.Memory{}
	missed := func(n int) (rows []analytics.AgentRow) {
		for i := range n {
			rows = append(rows, agentRow(fmt.Sprintf("/%04d", i), "GPTBot", "neither", false, 2),
				agentRow(fmt.Sprintf("/%04d", i), "curl", "neither", false, 2))
		}
		return append(rows, agentRow("/there", "GPTBot", "neither", true, 2))
	}
	for day, n := range []int{analytics.MaxMisses - 1, analytics.MaxMisses} {
		rev := windowOf("prj_a", analytics.Day, day, day+1)
		rev.Settled, rev.Verified = true, true
		putAgents(t, s, rev, missed(n)...)
	}
	first := windowOf("prj_a", analytics.Day, 0, 1).From
	wanted := map[string]bool{"/0000": true, "/other": true, "/there": true}
	got, err := query.MissedDays(t.Context(), s, "prj_a", analytics.Window{From: first, To: first + 2},
		func(analytics.Date) map[string]bool { return wanted })
	want := map[analytics.Date]map[string]int64{first: {"/0000": 8}, first + 1: {"/0000": 8, "/other": -1, "/there": -1}}
	if diff := gocmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// TestMissed: a path is missed if it was not there in the newest window that has it.
func TestMissed(t *testing.T) {
	s := &sinktest.Memory{}
	site := agentRow("", "browser", "human", true, 9)
	putAgents(t, s, windowOf("prj_a", analytics.Day, 0, 1), site, agentRow("/moved", "browser", "human", true, 9),
		agentRow("/back", "GPTBot", "neither", false, 2), agentRow("/old", "GPTBot", "neither", false, 3))
	putAgents(t, s, windowOf("prj_a", analytics.Day, 1, 2), site, agentRow("/part", "GPTBot", "neither", false, 4),
		agentRow("/part", "browser", "human", true, 1), agentRow("/moved", "GPTBot", "neither", false, 5),
		agentRow("/moved", "curl", "neither", false, 6), agentRow("/back", "browser", "human", true, 9))
	all, err := query.Missed(t.Context(), s, daily.Selection, 2)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all[0].Misses {
		got = append(got, fmt.Sprintf("%s %d %v %s %s", m.Path, m.Requests, m.Agents, m.First, m.Last))
	}
	day := windowOf("prj_a", analytics.Day, 0, 1).From
	want := []string{fmt.Sprintf("/moved 22 [GPTBot curl] %s %s", day+1, day+1),
		fmt.Sprintf("/old 6 [GPTBot] %s %s", day, day)}
	if !slices.Equal(got, want) || !slices.Equal(all[0].Pages, []string{"/back", "/part"}) {
		t.Errorf("missed %q, want %q; pages %q", got, want, all[0].Pages)
	}
	if all, err := query.Missed(t.Context(), s, daily.Selection, 1); err != nil || len(all[0].Misses) != 1 {
		t.Errorf("the newest window alone: %+v, %v", all, err)
	}
	for to := range 3 {
		putAgents(t, s, windowOf("prj_a", "2d", to, to+2), site, agentRow("/old", "GPTBot", "neither", false, 3))
	}
	all, err = query.Missed(t.Context(), s, query.Selection{Granularity: "2d"}, 3)
	if err != nil || len(all[0].Misses) != 1 || all[0].Misses[0].Requests != 12 || all[0].From != day {
		t.Errorf("windows that overlap: %+v, %v", all, err)
	}
}
