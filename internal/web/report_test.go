package web_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

var islands = regexp.MustCompile(`(?s)<script type="application/json">(.*?)</script>`)

// series is the data of a chart that the script reads.
type series struct {
	Days                          []string
	Total, Human, AI, Both, Share []*int64
	States                        []string
	Jobs                          [][]string
}

func charts(t *testing.T, page string) (out []series) {
	t.Helper()
	for _, m := range islands.FindAllStringSubmatch(page, -1) {
		var s series
		if err := json.Unmarshal([]byte(m[1]), &s); err != nil {
			t.Fatalf("%v in %.200s", err, m[1])
		}
		out = append(out, s)
	}
	return out
}

// TestCharts: each window has its numbers, and only those that are known.
func TestCharts(t *testing.T) {
	r := demoReport()
	got := charts(t, write(t, r))
	if len(got) != len(r.Projects[0].Grids) {
		t.Fatalf("%d charts", len(got))
	}
	for i, l := range r.Projects[0].Grids {
		var want series
		for _, c := range l.Cells {
			var v [4]*int64
			state := "missing"
			if rev := c.Revision; rev != nil {
				both := rev.Totals.Human + rev.Totals.AI - rev.Totals.Total
				v = [4]*int64{&rev.Totals.Total, &rev.Totals.Human, &rev.Totals.AI, &both}
				state = map[bool]string{true: "settled",
					false: "provisional"}[rev.Settled] + map[bool]string{false: ", unverified"}[rev.Verified]
			}
			want.Total, want.Human, want.AI, want.Both = append(want.Total, v[0]), append(want.Human,
				v[1]), append(want.AI, v[2]), append(want.Both, v[3])
			want.States = append(want.States, state)
		}
		have := got[i]
		have.Days, have.Share, have.Jobs = nil, nil, nil
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%s (-report +page):\n%s", l.Granularity, diff)
		}
	}
	day := got[0]
	if n := slices.Index(day.Days, "Mon 5 Oct 2026"); n != len(day.Days)-1 {
		t.Errorf("the newest day is %d of %d", n, len(day.Days))
	}
	var ended []string
	for _, jobs := range day.Jobs {
		ended = append(ended, jobs...)
	}
	want := []string{"completed: Fix typos in the guides", "completed: One page on authentication",
		"completed without a pull request: Look for dead links",
		"completed: Rewrite the quickstart for agents", "failed: Examples for webhooks", "completed: Write llms.txt"}
	if diff := cmp.Diff(want, ended); diff != "" {
		t.Errorf("jobs of the days (-want +got):\n%s", diff)
	}
}

// TestReportNumbers: every number of the value is on the page beside its name, and no
// large number is there that is not one of them: nothing was summed.
func TestReportNumbers(t *testing.T) {
	r := demoReport()
	page := write(t, r)
	got := seen(page)
	known := map[int64]bool{2026: true}
	for _, l := range r.Projects[0].Grids {
		rev := l.Cells[len(l.Cells)-1].Revision
		before := l.EndingAt(l.Granularity.ComparedWith(rev.Window).To)
		if before != nil {
			change := float64(rev.Totals.Total-before.Totals.Total) / float64(before.Totals.Total) * 100
			arrow := map[bool]string{true: "▲", false: "▼"}[change > 0]
			wants(t, got, fmt.Sprintf("%s %.1f%% on the previous", arrow, max(change, -change)))
		}
		both := rev.Totals.Human + rev.Totals.AI - rev.Totals.Total
		wants(t, got, commas(rev.Totals.Total)+" readers", figures(l, inTotal))
		for _, n := range []int64{rev.Totals.Total, rev.Totals.Human, rev.Totals.AI, both} {
			known[n] = true
		}
		pages := r.Pages[rev.Key]
		if pages == nil {
			continue
		}
		m := pages.Movers
		for _, c := range slices.Concat(m.Top, ten(m.Rising), ten(m.Falling), m.Appeared.First, m.Vanished.First) {
			change := c.By(analytics.Everyone)
			for _, n := range []int64{c.Before.Total, c.After.Human, c.After.AI, c.After.Total, max(change, -change)} {
				known[n] = true
			}
		}
		for _, c := range m.Top {
			wants(t, got, fmt.Sprintf("%s %s %s %s ", c.Path, commas(c.After.Human),
				commas(c.After.AI), commas(c.After.Total)))
		}
		for _, c := range ten(m.Rising) {
			wants(t, got, fmt.Sprintf("%s %s %s +%s ", c.Path, commas(c.Before.Total),
				commas(c.After.Total), commas(c.By(analytics.Everyone))))
		}
		for _, c := range ten(m.Falling) {
			wants(t, got, fmt.Sprintf("%s %s %s −%s ", c.Path, commas(c.Before.Total),
				commas(c.After.Total), commas(-c.By(analytics.Everyone))))
		}
	}
	wants(t, got, "Appeared 1 page without readers", "Vanished 1 page with readers", "/old/launch-notes",
		"/docs/agents/mcp-server")
	for _, word := range regexp.MustCompile(`[0-9][0-9,]*`).FindAllString(got, -1) {
		if n, err := strconv.ParseInt(strings.ReplaceAll(word, ",", ""), 10, 64); err == nil && n >= 1000 && !known[n] {
			t.Errorf("%s is not a number of the report", word)
		}
	}
}

// ten are those that are shown.
func ten(r analytics.Ranking) []analytics.Change { return r.First[:min(10, len(r.First))] }

// TestReportWords checks the sentences about data, jobs and exports by their numbers.
func TestReportWords(t *testing.T) {
	got := seen(write(t, demoReport()))
	wants(t, got,
		"Documentation readers of Product docs", "8,575 readers during 28 Sep – 4 Oct 2026, "+
			"down 4.1% on the previous week, people down 5.2%, AI down 2.5%; 43.5% were AI agents.",
		"185 of 188 windows 182 settled 3 provisional 1 unverified 3 missing",
		"Missing: Sun 23 Aug 2026 to Tue 25 Aug 2026.",
		"7 jobs begun, 6 ended", "4 completed 1 completed without a pull request 1 failed",
		"median time to a pull request", "Pages that lost readers weekly/losing-readers.md active",
		"Look for dead links links completed without a pull request", "#419",
		"the service says: the check of the build failed",
		"The newest export started 14 min ago and succeeded", "Generated 2026-10-06 10:31 UTC Documentation",
		"Only the totals of the site are read")
	got = seen(write(t, several()))
	wants(t, got, "Only windows that begin on or after 2025-09-01.", "Project developer-hub", "Project odd",
		"9 readers on Mon 5 Oct 2026; 44.4% were AI agents.",
		"Person and AI –", "No complete window has been read yet.", "No earlier window to compare with", "37 older jobs not shown",
		"and failed . The last", "paused since 2026-10-05 10:31 UTC")
	ended := several().Projects[2]
	for i, total := range []int64{7, 0, 0} {
		w := analytics.Window{From: testbed.Today - 3 + analytics.Date(i), To: testbed.Today - 2 + analytics.Date(i)}
		ended.Grids[0].Cells = append(ended.Grids[0].Cells[:i], view.Cell{Window: w, Revision: &analytics.Revision{
			Key: analytics.Key{Window: w}, Totals: analytics.Totals{Human: total, Total: total}}})
	}
	ended.Grids = ended.Grids[:1]
	ended.Grids[0].Count()
	wants(t, seen(write(t, web.Report{Made: now, Projects: []view.Project{ended}})),
		"0 readers on Mon 5 Oct 2026. No readers since Sat 3 Oct 2026. provisional")
	r := demoReport()
	r.State = nil
	got = seen(write(t, r))
	wants(t, got, "Without a state directory")
	if strings.Contains(got, "Agent jobs") {
		t.Error("jobs without a state")
	}
}

// TestText: whatever comes from outside is text, in the page and in the data.
func TestReportText(t *testing.T) {
	const hostile = `</script><script>alert(1)</script><!--"'` + "\u2028\x00\xff" + `{{.}}`
	r := demoReport()
	r.Title, r.Version = hostile, hostile
	r.Projects = r.Projects[:1]
	r.Projects[0].ID, r.Projects[0].Name = hostile, hostile
	for _, l := range r.Projects[0].Grids {
		if pages := r.Pages[l.Newest.Key]; pages != nil {
			m := pages.Movers
			m.Top[0].Path, m.Rising.First[0].Path, m.Vanished.First[0].Path = hostile, hostile, hostile
		}
	}
	r.State.Queue.Paused, r.State.Runs[0].Outcome, r.State.Runs[0].Message = hostile, hostile, hostile
	r.State.Queue.Jobs[1] = view.Job{
		Project: hostile, Prompt: hostile, Title: hostile, State: hostile, Result: "pr", Reason: hostile,
		PRLink: "javascript:alert(1)//" + hostile,
		Begun:  now.Add(-50 * time.Hour), Created: now.Add(-50 * time.Hour), Ended: now.Add(-49 * time.Hour),
	}
	page := write(t, r)
	if n := strings.Count(page, "<script"); n != len(r.Projects[0].Grids)+1 {
		t.Errorf("%d scripts", n)
	}
	for _, bad := range []string{"<script>alert", "</script><script>", "<!--", `href="javascript:`, "\x00", "\xff",
		"ZgotmplZ"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, s := range charts(t, page) {
		for _, jobs := range s.Jobs {
			for _, j := range jobs {
				if strings.Contains(j, "alert") && !strings.Contains(j, `</script><script>alert(1)</script><!--"'`) {
					t.Errorf("the data has %q", j)
				}
			}
		}
	}
}

// TestReportPolicy: the page allows its own style and script, and nothing it loads.
func TestReportPolicy(t *testing.T) {
	page := write(t, several())
	header := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`)
	policy := html.UnescapeString(header.FindStringSubmatch(page)[1])
	for _, of := range []struct{ tag, directive string }{{"style", "style-src"}, {"script", "script-src"}} {
		body := regexp.MustCompile(`(?s)<` + of.tag + `>(.*?)</` + of.tag + `>`).FindStringSubmatch(page)
		if body == nil {
			t.Fatalf("no %s", of.tag)
		}
		sum := sha256.Sum256([]byte(body[1]))
		wants(t, policy, of.directive+" 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	wants(t, policy, "default-src 'none'")
	for _, bad := range []string{"unsafe", " https:", " *"} {
		if strings.Contains(policy, bad) {
			t.Errorf("the policy has %q: %s", bad, policy)
		}
	}
	loads := regexp.MustCompile(`(src|srcset|action|poster)="|style="| on[a-z]+="|url\(|@import`)
	if found := loads.FindString(page); found != "" {
		t.Errorf("the page has %q", found)
	}
}

// TestReportSize: a page of ten years of days and long paths stays small.
func TestReportSize(t *testing.T) {
	r := demoReport()
	l := &r.Projects[0].Grids[0]
	old := l.Cells[0].Revision
	for d := l.Cells[0].From - 1; len(l.Cells) < 3650; d-- {
		l.Cells = slices.Insert(l.Cells, 0, view.Cell{Window: analytics.Window{From: d, To: d + 1}, Revision: old})
	}
	top := r.Pages[l.Newest.Key].Movers.Top
	for i := range top {
		top[i].Path += strings.Repeat("x", 100_000)
	}
	if page := write(t, r); len(page) > 1<<20 {
		t.Errorf("%d bytes", len(page))
	}
}

// TestCompare: numbers and pages are compared with the requested window, and the page
// says so if that window was not read.
func TestCompare(t *testing.T) {
	memory := sinktest.NewMemory()
	week := analytics.Window{From: testbed.Today - 8, To: testbed.Today - 1}
	for ago, total := range map[analytics.Date]int64{0: 300, 1: 200, 2: 100, 52: 600} {
		r := analytics.Revision{
			Key: analytics.Key{Project: "p", Granularity: analytics.Week,
				Window: analytics.Window{From: week.From - 7*ago, To: week.To - 7*ago}},
			Number: 1, Settled: true, Verified: true, Rows: 1, Totals: analytics.Totals{Human: total,
				Total: total}, ExportedAt: testbed.Now,
		}
		memory.Put(r, []analytics.Row{{Path: "/", Totals: analytics.Totals{Human: total, Total: total}}}, nil)
	}
	for _, tc := range []struct {
		against web.Comparison
		want    []string
	}{
		{web.Comparison{}, []string{"up 50.0% on the previous week", "▲ 50.0% on the previous week",
			"/ 200 300 +100 +50.0%", "compared with 21–27 Sep 2026"}},
		{web.Comparison{Windows: 2}, []string{"up 200% on 14–20 Sep 2026", "/ 100 300 +200 +200%",
			"compared with 14–20 Sep 2026"}},
		{web.Comparison{Year: true}, []string{"down 50.0% on 29 Sep – 5 Oct 2025", "/ 600 300 −300 −50.0%",
			"compared with 29 Sep – 5 Oct 2025"}},
		{web.Comparison{Windows: 3}, []string{"300 readers during 28 Sep – 4 Oct 2026; 0.0%",
			"No reading of 7–13 Sep 2026 to compare with", "The pages of 7–13 Sep 2026 are not known"}},
	} {
		r, err := web.ReadReport(t.Context(), memory,
			web.ReportOptions{Now: testbed.Now, Against: tc.against, Pages: 5})
		must(t, err)
		wants(t, seen(write(t, r)), tc.want...)
	}
}

// TestReportAgents: a report of an archive and the pages of a server show the same agents with the change, and
// what they missed; a path from strangers stays text. Without windows of agents there is nothing.
func TestReportAgents(t *testing.T) {
	sink := weeksOfAgents(t)
	r, err := web.ReadReport(t.Context(), sink, web.ReportOptions{Now: monday.Time().Add(time.Hour), Pages: 9, Missed: true})
	must(t, err)
	s := &view.Snapshot{At: r.Made, Projects: r.Projects}
	s.Others = []view.RowsWindow{{Revision: *s.Projects[0].Others[0].Newest, Rows: []analytics.Record{analytics.RecordOf(
		analytics.AgentRow{Agent: "Claude-User", Class: "answers", Audience: "ai", Visitors: 200, Requests: 1554})}}}
	site := &web.Site{Current: func() *view.Snapshot { return s }, Version: "v1"}
	must(t, site.Refresh(t.Context(), s, []sinks.Sink{sink}))
	pages := site.Handlers()
	_, served := visit(t, pages["/"], "/")
	_, status := visit(t, pages["/status"], "/status")
	for name, page := range map[string]string{"report": write(t, r), "live": served, "status": status} {
		text := seen(page)
		wants(t, text, "26 Oct – 1 Nov 2026 Agent Readers Change Requests Claude-User AI assistant 200 +100 "+
			"+100% 1,554", "Did not read since 19–25 Oct 2026: Aider .", "compare requests")
		if missed := strings.Contains(text, "Asked for and not there"); missed != (name != "live") {
			t.Errorf("%s: what agents missed is there: %t", name, missed) // the page of all agents has it
		} else if !missed {
			continue
		}
		if name == "report" {
			wants(t, text, "What assistants look for and do not find Asked for and not there 19 Oct – 1 Nov 2026, 2 paths",
				"/<script>alert(1)</script>\"'&", "no rule may have such a path asked by Claude-User 120 2026-10-19 2026-11-01",
				"/guide/a likely: /guides/a , the only page with this name asked by Claude-User 60 2026-10-19 2026-11-01")
		} else {
			wants(t, text, "Asked for and not there 26 Oct – 1 Nov 2026, 2 paths",
				"/<script>alert(1)</script>\"'&", " no page is near asked by Claude-User 80 80 +40 +100%",
				"/guide/a nearest page: /guides/a asked by Claude-User 30 30 0")
		}
		if strings.Contains(page, "<script>alert") || strings.Contains(page, "&#8238;") {
			t.Errorf("%s: a path is not only text", name)
		}
		for _, link := range []string{`href="agent?agent=Claude-User&amp;project=prj_a&amp;window=week"`,
			`href="agent?agent=Aider&amp;project=prj_a&amp;window=week"`} {
			if strings.Contains(page, link) != (name != "report") {
				t.Errorf("%s: %s", name, link)
			}
		}
		linked := strings.Contains(page, `href="page?path=%2Fguides%2Fa&amp;project=prj_a&amp;window=week"`)
		if linked != (name != "report") {
			t.Errorf("%s: the nearest page leads to its numbers: %t", name, linked)
		}
	}
	r, err = web.ReadReport(t.Context(), sinks.VisitorsOf(sink), web.ReportOptions{Now: r.Made})
	must(t, err)
	if text := seen(write(t, r)); strings.Contains(text, "Assistants") || strings.Contains(text, "agent browser") {
		t.Error("agents without a window of agents")
	}
}
