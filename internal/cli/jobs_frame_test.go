package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/jobs/journal"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestFrame(t *testing.T) {
	active := journal.Job{Seq: 1, Prompt: "guides/typos.md", State: journal.Active, JobID: "job_1", Status: "thinking", Begun: noon.Add(-83 * time.Second), Accepted: noon, Sent: 1, Messages: 2}
	ended := journal.Job{Seq: 2, Prompt: "done", State: journal.Completed, JobID: "job_2", PRLink: "https://example.com/pr/7", Begun: noon.Add(-2 * time.Hour), Ended: noon.Add(-time.Hour)}
	empty := ended
	empty.Prompt, empty.PRLink, empty.Ended = "nothing", "", noon.Add(-time.Minute)
	old := ended
	old.Prompt, old.Ended = "old", noon.Add(-24*time.Hour)
	unknown := journal.Job{Seq: 4, Prompt: "lost-answer", State: journal.Unknown, Reason: "no answer", Begun: noon.Add(-30 * time.Second)}
	s := standingNow{
		since: noon.Add(-3 * time.Hour), caps: "at work 2 of 3", budgets: "agent budget: 3 of 90 left",
		planned: []jobs.Planned{
			{ID: "next", Project: "prj_a", State: journal.Pending, Place: 1},
			{ID: "later", Project: "prj_a", State: journal.Pending, Why: jobs.WhyPerDay, Reason: "10 jobs in 24 h", Until: noon.Add(90 * time.Minute)},
			{ID: "bad", Project: "prj_a", State: journal.Invalid, Reason: "bad.md:2: tilte: unknown key"},
			{ID: active.Prompt, Project: "prj_a", State: active.State, Job: &active},
			{ID: unknown.Prompt, Project: "prj_a", State: unknown.State, Reason: "look for it", Job: &unknown},
			{ID: ended.Prompt, Project: "prj_a", State: ended.State, Job: &ended},
			{ID: empty.Prompt, Project: "prj_a", State: empty.State, Job: &empty},
			{ID: old.Prompt, Project: "prj_a", State: old.State, Job: &old},
			{ID: "again", Project: "prj_a", State: journal.Pending, Job: &old, Reason: "next firing", Until: noon.Add(24 * time.Hour)},
		},
		queue: journal.Queue{Paused: journal.PausedOperator, Detail: "somebody\x1b[2Jsaid so"}, settling: 2, stopping: true,
	}
	want := `prompt           project  state      age    why, or pull request
guides/typos.md  prj_a    active     1m23s  job_1, thinking, follow-up 1 of 2
lost-answer      prj_a    unknown    30s    look for it
next             prj_a    pending    -      goes with the next pass
later            prj_a    pending    -      10 jobs in 24 h
again            prj_a    pending    -      next firing
bad              prj_a    invalid    -      bad.md:2: tilte: unknown key
nothing          prj_a    completed  1h59m  no pull request
done             prj_a    completed  1h00m  https://example.com/pr/7
9 prompts: 3 pending, 1 active, 1 unknown, 1 invalid, 3 completed · at work 2 of 3
agent budget: 3 of 90 left · more may be sent at 13:30:00 UTC, in 1h30m
2 files have just changed: looked at again soon · paused: somebody` + "\uFFFD" + `[2Jsaid so
stopping once what is being sent is answered`
	if diff := cmp.Diff(want, strings.Join(s.frame(noon, 100, 24), "\n")); diff != "" {
		t.Error(diff)
	}
	// Half of the room that jobs at work leave is for those that have just ended.
	want = `prompt          state      age    why, or pull request
guides/typos.…  active     1m23s  job_1, thinking, follow-…
lost-answer     unknown    30s    look for it
next            pending    -      goes with the next pass
nothing         completed  1h59m  no pull request
… and 4 prompts`
	if diff := cmp.Diff(want, strings.Join(s.frame(noon, 59, 13)[:6], "\n")); diff != "" {
		t.Error(diff)
	}
}

// TestFrameFits: whatever there is to show, in whatever terminal, nothing but
// what can be printed is shown, no line is too wide, and the cursor has a line.
func TestFrameFits(t *testing.T) {
	states := []journal.State{journal.Pending, journal.Active, journal.Completed, journal.Unknown, journal.Invalid, journal.Submitting}
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,200}`), rapid.SampledFrom([]string{"\x1b]0;gone\x07", "日本語のページ", "a\u009b31mb", "a\r\nb\u202e"}))
	rapid.Check(t, func(r *rapid.T) {
		s := standingNow{since: noon.Add(-time.Hour), caps: text.Draw(r, "caps"), budgets: "agent budget", settling: rapid.IntRange(0, 3).Draw(r, "settling")}
		for range rapid.IntRange(0, 30).Draw(r, "prompts") {
			p := jobs.Planned{ID: text.Draw(r, "id"), Project: text.Draw(r, "project"), State: rapid.SampledFrom(states).Draw(r, "state"), Reason: text.Draw(r, "reason")}
			if p.State != journal.Pending && p.State != journal.Invalid {
				p.Job = &journal.Job{State: p.State, JobID: text.Draw(r, "job"), Status: text.Draw(r, "status"), PRLink: text.Draw(r, "link"), Begun: noon.Add(-time.Minute), Ended: noon}
			}
			s.planned = append(s.planned, p)
		}
		width, height := rapid.IntRange(10, 200).Draw(r, "width"), rapid.IntRange(6, 60).Draw(r, "height")
		shown := drawn(t, s.frame(noon, width, height), width, height)
		for _, line := range shown.text() {
			if twwidth.Width(line) > width {
				r.Fatalf("%q is %d columns wide, on a terminal of %d", line, twwidth.Width(line), width)
			}
		}
		if len(shown.odd) > 0 || len(shown.text()) > height-1 {
			r.Fatalf("%q, %d lines on a terminal of %d", shown.odd, len(shown.text()), height)
		}
	})
}

// drawn is what a terminal shows after a frame.
func drawn(t *testing.T, lines []string, width, height int) *glass {
	t.Helper()
	shown := &glass{}
	s := &screen{out: shown, size: func() (int, int) { return width, height }}
	if err := s.draw(lines); err != nil {
		t.Fatal(err)
	}
	return shown
}

// glass is a terminal that is only asked for what it shows, on which nothing was
// drawn before.
type glass struct {
	lines []string
	odd   []string
}

func (g *glass) Write(p []byte) (int, error) {
	text, ok := strings.CutPrefix(string(p), hideCursor+noWrap+"\r")
	body, done := strings.CutSuffix(text, eraseBelow+wrap+showCursor)
	if !ok || !done {
		return 0, errors.New("no frame")
	}
	for line := range strings.Lines(body) {
		line, ended := strings.CutSuffix(line, eraseRight+"\n")
		if !ended || plain(line) != line {
			g.odd = append(g.odd, line)
		}
		g.lines = append(g.lines, line)
	}
	return len(p), nil
}

func (g *glass) text() []string { return g.lines }

func TestScreen(t *testing.T) {
	var out strings.Builder
	width := 20
	s := &screen{out: &out, size: func() (int, int) { return width, 5 }}
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return s.draw([]string{"one", "two"}) }, "\r" + "one\x1b[K\ntwo\x1b[K\n"},
		{func() error { return s.draw([]string{"three"}) }, "\r\x1b[2A" + "three\x1b[K\n"},
		{func() error { _, err := io.WriteString(s, "log line\n"); return err }, "\r\x1b[1A\x1b[J" + wrap + "log line\n" + noWrap + "three\x1b[K\n"},
		{func() error { return s.draw([]string{"1", "2", "3", "4", "5", strings.Repeat("x", 30)}) }, "\r\x1b[1A" + "1\x1b[K\n2\x1b[K\n3\x1b[K\n4\x1b[K\n"},
		{func() error { return s.draw([]string{strings.Repeat("x", 30)}) }, "\r\x1b[4A" + strings.Repeat("x", 19) + "…\x1b[K\n"},
		// A terminal that has become narrower shows the line on three.
		{func() error { width = 8; return s.clear() }, "\r\x1b[3A"},
	} {
		out.Reset()
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), hideCursor+noWrap+step.want+eraseBelow+wrap+showCursor; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestRenewed(t *testing.T) {
	before := journal.Job{Seq: 1, Version: 1, Prompt: "a", Attempt: 1, State: journal.Pending}
	now := before
	now.Version, now.State, now.Reason = 2, journal.Active, ""
	other := journal.Job{Seq: 2, Version: 1, Prompt: "b", Attempt: 1, State: journal.Active}
	gone := journal.Job{Seq: 3, Version: 1, Prompt: "c", Attempt: 1, State: journal.Completed}
	planned := []jobs.Planned{{ID: "a", State: journal.Pending, Reason: "its turn", Job: &before}, {ID: "d", State: journal.Pending}}
	var got []string
	for _, p := range renewed(planned, []journal.Job{now, other, gone}) {
		got = append(got, fmt.Sprintf("%s %s %q", p.ID, p.State, p.Reason))
	}
	if diff := cmp.Diff([]string{`a active ""`, `d pending ""`, `b active ""`}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"as it is, Zürich 日本": "as it is, Zürich 日本", "a\x1b[2Jb": "a\uFFFD[2Jb", "a\u009b2J": "a\uFFFD2J", "two\r\nlines\t": "two  lines ", "\xff": "\uFFFD", "\u202eabc": "\uFFFDabc",
	} {
		if got := plain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, tc := range []struct {
		text  string
		width int
		want  string
	}{{"abcdef", 6, "abcdef"}, {"abcdef", 5, "abcd…"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"}, {"abc", 1, "…"}} {
		if got := cut(tc.text, tc.width); got != tc.want {
			t.Errorf("%q in %d columns: %q, want %q", tc.text, tc.width, got, tc.want)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m01s", 90 * time.Minute: "1h30m", 99 * time.Hour: "99h00m", 240 * time.Hour: "10d",
	} {
		if got := age(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
