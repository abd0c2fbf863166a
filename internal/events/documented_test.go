package events

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/view"
)

const page = "../../docs/operations.md"

// TestDocumented: the examples in the documentation match the messages that are sent, and
// its table has every event.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, nil)
	w.run("success", "")
	for range 3 {
		w.now = w.now.Add(time.Hour)
		w.run("failed", "docs.example.com: no such host")
	}
	w.check(w.w.evaluateAll(t.Context()))
	d := view.Digest{
		Week: view.Week{
			From: analytics.NewDate(2026, 11, 9), To: analytics.NewDate(2026, 11, 16), Settled: true,
			Totals: analytics.Totals{Human: 4203, AI: 2285, Total: 6242},
			Before: &analytics.Totals{Human: 4100, AI: 2190, Total: 6114},
			Change: &analytics.Totals{Human: 103, AI: 95, Total: 128},
		},
		Pages: &view.DigestPages{
			Rising: []view.DigestPage{{Path: "/quickstart", Totals: analytics.Totals{Human: 790, AI: 501, Total: 1228},
				Before: analytics.Totals{Human: 742, AI: 490, Total: 1165}}},
			Falling: []view.DigestPage{{Path: "/api/errors", Totals: analytics.Totals{Human: 288, AI: 130, Total: 402},
				Before: analytics.Totals{Human: 301, AI: 133, Total: 421}}},
			Appeared: 12, Vanished: 3,
		},
		Agents: []view.RankedAgent{{Rank: 2, Agent: "Claude-User", Class: "answers", Audience: analytics.AI,
			AgentNumbers: view.AgentNumbers{Visitors: 548, Requests: 2036, Markdown: 1203, Bytes: 31_402_118},
			AgentChange: view.AgentChange{Previous: &view.AgentNumbers{Visitors: 524, Requests: 1990, Markdown: 1150, Bytes: 30_110_442},
				Change: new(int64(24)), Percent: new(4.6)}}},
		Sources: []view.DigestSource{{Source: "claude", Agent: "browser", Visitors: 61, Change: new(int64(7)),
			Reads: new(int64(2114))}},
		Misses: []view.Miss{{Rank: 1, Path: "/docs/getting-started", AgentNumbers: view.AgentNumbers{Visitors: 19,
			Requests: 43, Bytes: -1}, Agents: []view.MissAgent{{Agent: "Claude-User", Class: "answers", Audience: analytics.AI,
			AgentNumbers: view.AgentNumbers{Visitors: 19, Requests: 43, Bytes: -1}}}, Near: []string{"/getting-started"}}},
		Missed: &view.DigestMissed{Paths: 31, Sure: 4},
		Jobs: []view.DigestJob{{Prompt: "typos.md", Title: "Fix all typos", Result: "pr",
			PRLink: "https://github.com/acme/docs/pull/12", Ended: time.Date(2026, 11, 12, 9, 30, 0, 0, time.UTC)}},
		Outcomes: &view.OutcomeSummary{Project: "prj_a", Merges: 40, Comparisons: 78, More: 9, Fewer: 2, ByChance: 3.9,
			TooEarly: 6, NotEnoughData: 14, Merged: 44,
			Cost: view.Cost{Reported: []view.Amount{{Amount: 55.88, Unit: "USD"}}, Jobs: 46, Unknown: 1},
			Mean: &view.MeanChange{Change: .06, Low: .02, High: .1, Comparisons: 70, Dates: 31}},
	}
	e := &evaluation{w: w.w, now: w.now}
	w.check(e.enter(view.Event{Event: digest, Project: "prj_a", Digest: &d}))
	r := view.ReadersChange{
		Week: view.Week{
			From: analytics.NewDate(2026, 11, 9), To: analytics.NewDate(2026, 11, 16),
			Totals: analytics.Totals{Human: 4203, AI: 3085, Total: 6842},
			Before: &analytics.Totals{Human: 4100, AI: 2190, Total: 6114},
			Change: &analytics.Totals{Human: 103, AI: 895, Total: 728},
		},
		Threshold: 20, AIShare: true,
		Pages: []view.DigestPage{
			{Path: "/quickstart", Totals: analytics.Totals{Human: 790, AI: 912, Total: 1583},
				Before: analytics.Totals{Human: 742, AI: 490, Total: 1165}},
			{Path: "/api/faults", Before: analytics.Totals{Human: 301, AI: 133, Total: 421}},
		},
	}
	w.check(e.enter(view.Event{Event: readersChanged, Project: "prj_a", Readers: &r}))
	w.check(w.app.State.Report(t.Context(), e.out))
	notes, err := w.app.State.Events(t.Context(), 10)
	w.check(err)
	if len(notes) != 3 {
		t.Fatalf("%d notes", len(notes))
	}
	for _, n := range notes {
		compareBlock(t, string(text), n.Kind, config.NotifyJSON, n)
	}
	compareBlock(t, string(text), "readers_changed in Slack", config.NotifySlack, notes[2])
	_, members, _ := strings.Cut(string(text), "With `DOCGAUGE_NOTIFY_FORMAT=json`,")
	var rows []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		rows = append(rows, row[1])
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[view.Event]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if paragraph, _, _ := strings.Cut(members, "\n\n"); !strings.Contains(paragraph, "`"+name+"`") {
			t.Errorf("%s: what is said of the JSON of an event lacks %s", page, name)
		}
	}
	for _, event := range table {
		if !slices.Contains(rows, event.name) {
			t.Errorf("%s: the table of events lacks %s", page, event.name)
		}
	}
}

// compareBlock compares the block behind a comment with what is sent.
func compareBlock(t *testing.T, text, name string, f config.NotifyFormat, n journal.Event) {
	t.Helper()
	_, rest, found := strings.Cut(text, "<!-- compared with "+name+": TestDocumented in internal/events "+
		"-->\n\n```json\n")
	block, _, closed := strings.Cut(rest, "\n```")
	var want, got any
	err := json.Unmarshal([]byte(block), &want)
	if !found || !closed || err != nil {
		t.Errorf("%s: no example of %s: %v", page, name, err)
	}
	if err := json.Unmarshal(Encode(f, n), &got); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		var sent bytes.Buffer
		_ = json.Indent(&sent, Encode(f, n), "", "  ")
		t.Errorf("%s: %s (-documented +sent):\n%s\n%s", page, name, diff, sent.String())
	}
}
