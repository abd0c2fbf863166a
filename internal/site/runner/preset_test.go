package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// forms returns the forms of a preset's output, by the names of their files.
func forms(t testing.TB, preset string) map[string]string {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", preset+".txtar"))
	check(t, err)
	all := map[string]string{}
	for _, f := range archive.Files {
		all[f.Name] = strings.ReplaceAll(string(f.Data), "@HUGE@", strings.Repeat(`ü\"\\\u00e9{}\n`, 60_000))
	}
	return all
}

// standIns returns a directory of stand-ins for all presets, first in PATH.
func standIns(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script, err := os.ReadFile(filepath.Join("testdata", "stand-in.sh"))
	check(t, err)
	for _, preset := range Presets() {
		check(t, os.WriteFile(filepath.Join(dir, preset), script, 0o755))
		for name, text := range forms(t, preset) {
			write(t, filepath.Join(dir, "forms-"+preset, name), text)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// said is what a report says: session, cost and tokens, ? for what is unknown.
func said(r *Report) string {
	session, cost, tokens := "?", "?", "?"
	if r.Session != nil {
		session = r.Session.ID[:4]
	}
	if r.Cost != nil {
		cost = fmt.Sprint(*r.Cost)
	}
	if r.Tokens != nil {
		tokens = fmt.Sprint(*r.Tokens)
	}
	return session + " $" + cost + " " + tokens
}

// TestReports: what is read in the forms of the output of each preset, in pieces of any size. What is not
// known is unknown, not 0.
func TestReports(t *testing.T) {
	for preset, want := range map[string]map[string]struct {
		said  string
		ended error
	}{
		"claude": {
			"success": {"8d1c $0.5 3250", nil}, "resumed": {"8d1c $0.75 10", nil}, "huge": {"8d1c $0.5 40", nil},
			"error": {"8d1c $2.5 7", errReported}, "limit": {"8d1c $0.125 0", errLimit},
			"garbage": {"? $? ?", errNoReport}, "truncated": {"? $? ?", errNoReport}, "impossible": {"? $? ?", nil},
			"most":      {"8d1c $1e+06 1000000000000", nil},
			"real-edit": {"d08e $0.019200000000000002 2080", nil}, "real-limit": {"455a $0 0", errLimit},
			"real-drop": {"9261 $0.0048000000000000004 1040", errPasses}, "real-key": {"823a $0 0", errReported},
		},
		"codex": {
			"success": {"0199 $? 105", nil}, "resumed": {"0199 $? 155", nil}, "huge": {"0199 $? 105", nil},
			"error": {"0199 $? ?", errReported}, "limit": {"0199 $? ?", errLimit},
			"garbage": {"? $? ?", errNoReport}, "truncated": {"0199 $? ?", errNoReport}, "impossible": {"? $? ?", nil},
			"real-edit": {"01a2 $? 4160", nil}, "real-limit": {"01a2 $? ?", errLimit},
			"real-drop": {"01a2 $? ?", errPasses}, "real-key": {"01a2 $? ?", errReported},
		},
		"gemini": {
			"success": {"5f0e $? 78", nil}, "resumed": {"5f0e $? 22", nil}, "huge": {"5f0e $? 78", nil},
			"error": {"5f0e $? ?", errReported}, "limit": {"5f0e $? ?", errLimit},
			"garbage": {"? $? ?", errNoReport}, "truncated": {"? $? ?", errNoReport}, "impossible": {"? $? ?", nil},
			"real-edit": {"b9a8 $? 2080", nil}, "real-limit": {"bbd1 $? ?", errLimit},
			"real-drop": {"bfe1 $? ?", errPasses}, "real-key": {"4a67 $? ?", errReported},
		},
	} {
		files := forms(t, preset)
		for form, want := range want {
			for _, size := range []int{1, 100, 64 << 20} {
				if form == "huge" {
					size = max(size, 1000) // a byte at once takes long
				}
				l := &listener{preset: presets[preset]}
				for name, stderr := range map[string]bool{form + ".out": false, form + ".err": true} {
					w := l.stream(stderr)
					for text := files[name]; text != ""; {
						n := min(size, len(text))
						_, err := w.Write([]byte(text[:n]))
						check(t, err)
						text = text[n:]
					}
					if kept := cap(w.(*objects).kept); kept > 4*maxObject {
						t.Errorf("%s, %s: keeps %d bytes of %d", preset, form, kept, len(files[name]))
					}
				}
				r, ended := l.report(nil, nil)
				if got := said(r); got != want.said || !errors.Is(ended, want.ended) {
					t.Errorf("%s, %s, %d bytes at once: %s %v, want %s %v", preset, form, size, got, ended, want.said, want.ended)
				}
			}
		}
	}
}

// TestLongStrings: an object stays JSON wherever a string of it is cut.
func TestLongStrings(t *testing.T) {
	for n := range 20 {
		var got string
		o := &objects{found: func(object []byte) { got = string(object) }}
		_, err := o.Write([]byte(`{"a":"` + strings.Repeat("x", n) + strings.Repeat(`\u00e9\"\\ü`, maxString) + `"}`))
		if check(t, err); !json.Valid([]byte(got)) || len(got) > maxString+100 {
			t.Errorf("%d bytes: …%s", len(got), got[max(0, len(got)-100):])
		}
	}
}

// TestResumedReports: what was reported of a session before is not counted twice.
func TestResumedReports(t *testing.T) {
	half, hundred := 0.5, int64(100)
	for _, tc := range []struct {
		preset string
		before session
		cost   float64
		tokens int64
		want   string
	}{
		{"claude", session{Cost: &half, Tokens: &hundred}, 0.75, 150, "sess $0.25 150"},
		{"claude", session{Cost: &half, Tokens: &hundred}, 0.5, 150, "sess $0 150"},
		{"claude", session{Cost: &half, Tokens: &hundred}, 0.25, 50, "sess $0.25 50"}, // an older one begins at 0
		{"claude", session{}, 0.75, 150, "sess $? 150"},
		{"codex", session{Tokens: &hundred}, 0, 150, "sess $0 50"},
		{"codex", session{}, 0, 150, "sess $0 ?"},
		{"gemini", session{Tokens: &hundred}, 0, 150, "sess $0 150"},
	} {
		l := &listener{preset: presets[tc.preset]}
		l.heard = heard{session: "session", cost: &tc.cost, tokens: &tc.tokens, ended: true}
		r, ended := l.report(&tc.before, nil)
		if got := said(r); got != tc.want || ended != nil || *r.Session.Cost != tc.cost || *r.Session.Tokens != tc.tokens {
			t.Errorf("%s %+v: %s %v %+v, want %s", tc.preset, tc.before, got, ended, r.Session, tc.want)
		}
	}
}

// TestPresets: jobs of stand-ins for the agents, jailed and not.
func TestPresets(t *testing.T) {
	for _, jailed := range []bool{true, false} {
		for _, preset := range Presets() {
			t.Run(fmt.Sprintf("%s, jailed %t", preset, jailed), func(t *testing.T) {
				if !jailed {
					engines.Long(t)
				}
				dir, repo := standIns(t), engines.GitRepository(t)
				o := RepoOptions{Path: repo, Preset: preset, OwnHome: true, Check: "! grep -q broken new.md"}
				if jailed {
					o.Jail = newJail(t, JailOptions{Tools: []string{dir}})
				}
				testPreset(t, preset, repo, openRepo(t, o))
			})
		}
	}
}

func testPreset(t *testing.T, preset, repo string, r *Repo) {
	dir, now := t.TempDir(), noon
	options := Options{Dir: dir, Editor: r, Now: func() time.Time { return now }}
	q := open(t, options)
	costs := map[string][3]any{
		"claude": {0.75, 3260., 0.625}, "codex": {nil, 155., nil}, "gemini": {nil, 100., nil},
	}[preset]
	unknown := [2]any{nil, nil}

	// A change, and a follow-up that resumes the session.
	first := create(t, q, "form success, write one")
	untilEnded(t, q, first)
	send(t, q, first, "form resumed, write two")
	expectJob(t, untilEnded(t, q, first), Completed, "", [2]any{costs[0], costs[1]})
	if got := engines.Git(t, repo, "show", BranchPrefix+first+":new.md"); got != "one\ntwo" {
		t.Errorf("new.md: %q", got)
	}
	arguments, err := os.ReadFile(filepath.Join(r.place(first).home(), "arguments"))
	check(t, err)
	lines := strings.Split(string(arguments), "\n")
	session := q.jobs[first].session.ID
	if len(lines) != 3 || strings.Contains(lines[0], "resume") || !strings.Contains(lines[1], "resume "+session) ||
		strings.Contains(lines[1], "danger-full-access") != (preset == "codex" && r.options.Jail != nil) {
		t.Errorf("arguments: %s", arguments)
	}

	// In a jail, and only there, the agent trusts the workspace.
	for name, file := range map[string]string{"claude": ".claude.json", "codex": ".codex/config.toml"} {
		text, _ := os.ReadFile(filepath.Join(r.place(first).home(), file))
		if trusted := strings.Contains(string(text), `"/workspace"`); trusted != (name == preset && r.options.Jail != nil) {
			t.Errorf("%s: %s: %s", preset, file, text)
		}
	}

	// Errors, whatever the exit code; a change counts nevertheless.
	for form, want := range map[string]string{
		"error": "reports an error", "garbage": "has no report", "truncated": "has no report",
	} {
		id := create(t, q, "form "+form)
		got := untilEnded(t, q, id)
		if form == "error" {
			if got.Status != Failed || !strings.Contains(got.Failure, want) {
				t.Errorf("%s: %+v", form, got)
			}
		} else {
			expectJob(t, got, Failed, want, unknown)
		}
		send(t, q, id, "form "+form+", write more")
		if got := untilEnded(t, q, id); got.Status != Completed {
			t.Errorf("%s with a change: %+v", form, got)
		}
	}
	if got := untilEnded(t, q, create(t, q, "form success")); got.Status != Completed || link(got) != "" {
		t.Errorf("nothing to do: %+v", got)
	}

	// A limit is waited for, also by the next process, and after a change that is broken.
	for _, text := range []string{"", ", write broken"} {
		id := create(t, q, "form limit then success"+text)
		for q.waits(id).IsZero() {
			time.Sleep(time.Millisecond)
		}
		if job, err := q.Get("p", id); err != nil || job.Status != Active || job.RetryAt == nil ||
			!job.RetryAt.Equal(now.Add(firstRetry).Truncate(time.Millisecond)) {
			t.Errorf("waiting: %+v %v", job, err)
		}
		closeQueue(t, q)
		now = now.Add(firstRetry)
		q = open(t, options)
		got := untilEnded(t, q, id)
		if want := (map[bool]Status{true: Completed, false: Failed})[text == ""]; got.Status != want || got.RetryAt != nil {
			t.Errorf("after a limit: %+v, want %s", got, want)
		}
		if preset == "claude" && (got.Cost == nil || *got.Cost != costs[2]) {
			t.Errorf("after a limit: cost %v", got.Cost)
		}
	}
	closeQueue(t, q)
	if left := branches(t, repo); strings.Count(left, "\n") != 3 {
		t.Errorf("branches: %s", left)
	}
}

// waits returns when a job is tried again, zero if it does not wait.
func (q *Queue) waits(id string) (at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j := q.jobs[id]; j.RetryAt != nil {
		at = *j.RetryAt
	}
	return at
}

// expectJob compares a job, with its cost and tokens.
func expectJob(t testing.TB, got Job, status Status, failure string, costs [2]any) {
	t.Helper()
	text, err := json.Marshal(got)
	check(t, err)
	var shown map[string]any
	check(t, json.Unmarshal(text, &shown))
	if got.Status != status || !strings.Contains(got.Failure, failure) || shown["cost"] != costs[0] ||
		shown["tokens"] != costs[1] || (shown["cost_unit"] == costUnit) != (costs[0] != nil) {
		t.Errorf("%s, %+v, want %s %q %v", text, got, status, failure, costs)
	}
}

// untilEnded waits until a job is not active any more.
func untilEnded(t testing.TB, q *Queue, id string) Job {
	t.Helper()
	for {
		j, err := q.Get("p", id)
		check(t, err)
		if j.Status != Active {
			return j
		}
		time.Sleep(time.Millisecond)
	}
}

// TestHomes: homes of jobs that are not at work take at most MaxDisk together; the oldest go first, and a follow-up in
// a home that is gone begins a new session.
func TestHomes(t *testing.T) {
	dir, bin, repo := filepath.Join(t.TempDir(), "jobs"), t.TempDir(), engines.GitRepository(t)
	write(t, filepath.Join(bin, "claude"), `#!/bin/sh
		head -c 800000 /dev/zero >~/kept; chmod 0 ~; echo "arguments: $*"
		echo '{"type": "result", "subtype": "success", "session_id": "next", "total_cost_usd": 1}'`)
	check(t, os.Chmod(filepath.Join(bin, "claude"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	o := RepoOptions{Path: repo, Preset: "claude", OwnHome: true, MaxDisk: 2 << 20}
	r := openRepo(t, o, in(dir))
	expect := func(want string) {
		t.Helper()
		homes, err := filepath.Glob(filepath.Join(dir, "*", "home"))
		check(t, err)
		var got []string
		for _, home := range homes {
			got = append(got, filepath.Base(filepath.Dir(home)))
			if info, err := os.Stat(filepath.Dir(home)); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("other users may enter: %v %v", info.Mode(), err)
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("homes of %s, want %s", got, want)
		}
	}
	for _, step := range []struct {
		job     string
		resumed bool
		homes   string
	}{
		{"job_1", false, "job_1"}, {"job_2", false, "job_1 job_2"}, {"job_1", true, "job_1 job_2"},
		{"job_3", false, "job_1 job_3"}, {"job_2", false, "job_2 job_3"}, {"job_3", true, "job_2 job_3"},
	} {
		task := Task{Job: step.job, Prompt: "x", Session: &session{Agent: "claude", ID: "before", Cost: new(0.25)}}
		result, err := r.Edit(t.Context(), task)
		check(t, err)
		cost := map[bool]float64{true: 0.75, false: 1}[step.resumed]
		if strings.Contains(result.Output, "resume") != step.resumed || result.NewSession == step.resumed ||
			*result.Report.Cost != cost {
			t.Errorf("%s: new session %t, cost %v, output %s", step.job, result.NewSession, *result.Report.Cost,
				result.Output)
		}
		expect(step.homes)
	}
	r.options.Instead = func(_ string, task Task) (bool, error) { // a home whose job is at work stays
		if task.Job != "job_2" {
			return false, nil
		}
		for _, job := range []string{"job_4", "job_5"} {
			_, err := r.Edit(t.Context(), Task{Job: job, Prompt: "x"})
			check(t, err)
		}
		expect("job_2 job_4 job_5")
		return true, nil
	}
	_, err := r.Edit(t.Context(), Task{Job: "job_2", Prompt: "x"})
	check(t, err)
	expect("job_2 job_5")
	check(t, r.Close())
	o.MaxDisk = 1 << 20
	openRepo(t, o, in(dir))
	expect("job_2")
}

// FuzzObjects: an object is found whatever was printed before its line and after it.
func FuzzObjects(f *testing.F) {
	f.Add("text {", "more }")
	f.Add(`{"a`, `"}`)
	f.Add("{\n  {", "\\")
	f.Fuzz(func(t *testing.T, before, after string) {
		const object = `{"a":{"b":"\"}{\\"},"c":[{}]}`
		var all []string
		o := &objects{lineStart: true, found: func(object []byte) { all = append(all, string(object)) }}
		_, _ = o.Write([]byte(before + "\n" + object + after + "\n" + object))
		found := 0
		for _, text := range all {
			if text == object {
				found++
			}
		}
		if found < 2 {
			t.Errorf("found %d in %q", found, all)
		}
	})
}

func TestCheckAccess(t *testing.T) {
	for _, name := range Presets() {
		check(t, CheckAccess(name, presets[name].keys, DefaultHosts(name, presets[name].keys), true))
	}
	for _, tc := range []struct{ preset, env, hosts, want string }{
		{"claude", "ANTHROPIC_API_KEY", "api.anthropic.com", ""}, {"claude", "ANTHROPIC_API_KEY", "*.anthropic.com", ""},
		{"claude", "CLAUDE_CODE_USE_BEDROCK", "bedrock-runtime.eu-west-1.amazonaws.com", ""},
		{"claude", "ANTHROPIC_API_KEY", "example.com", "needs api.anthropic.com"},
		{"codex", "OPENAI_API_KEY", "api.openai.com", "want CODEX_API_KEY"}, {"gemini", "GEMINI_API_KEY", "", "needs gen"},
	} {
		err := CheckAccess(tc.preset, []string{"X", tc.env}, strings.Fields(tc.hosts), true)
		if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}
