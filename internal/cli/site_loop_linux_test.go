package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clijobs "github.com/docgauge/docgauge/internal/cli/jobs"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// loopCheck is passed by the word "broken" once its output, which goes back to the agent, is obeyed.
const loopCheck = `[ ! -e broken.md ] || [ -e mended.md ] || { echo "Write the word mended"; exit 1; }`

// TestRealLoop: the real programs, jailed, with a gateway that pretends to be their models, work for prompts of a queue
// at a real Gitea: an edit, a message, a review, a squash merge, a message after it, which leads to a second pull request,
// and that one's merge and outcome. Beside these, a check that fails once, a limit, a dropped stream and a wrong key.
func TestRealLoop(t *testing.T) {
	if os.Getenv("TEST_AGENTS") == "" || os.Getenv("TEST_GITEA") == "" {
		t.Skip("make check TEST_GITEA=1 runs it")
	}
	agents, err := engines.AgentDir()
	engines.Need(t, err)
	gitea, models, docs := engines.RunGitea(t), engines.Models(t), engines.GitRepository(t)
	t.Setenv("PATH", filepath.Join(agents, ".bin")+":"+os.Getenv("PATH"))
	check(t, os.Mkdir(filepath.Join(docs, ".gemini"), 0o755))
	writeText(t, filepath.Join(docs, ".gemini", "settings.json"), `{"general": {"maxAttempts": 1}}`)
	engines.Git(t, docs, "add", ".")
	engines.Git(t, docs, "commit", "--quiet", "-m", "settings")
	gitea.Call(t, "", http.MethodPost, "/admin/users", map[string]string{"username": "writer", "email": "w@example.com",
		"password": "password-of-the-writer"}, nil)
	for agent, env := range map[string]string{
		"claude": "ANTHROPIC_API_KEY,+CLAUDE_CODE_MAX_RETRIES", "codex": "CODEX_API_KEY", "gemini": "GEMINI_API_KEY,+GEMINI_MODEL",
	} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			key, _, _ := strings.Cut(env, ",")
			l := &realLoop{t: t, gitea: gitea, repo: "/repos/" + engines.GiteaUser + "/" + agent}
			dir, site := t.TempDir(), []string{"DOCGAUGE_SITE_LOGS=access.log",
				"DOCGAUGE_SITE_REPO=" + gitea.Repository(t, agent, docs), "DOCGAUGE_SITE_CODE_HOST=gitea",
				"DOCGAUGE_SITE_CODE_HOST_URL=" + gitea.URL + "/api/v1",
				"DOCGAUGE_SITE_TOKEN=" + gitea.Token(t, "write:repository"), "DOCGAUGE_SITE_AGENT=" + agent,
				"DOCGAUGE_SITE_AGENT_TOOLS=" + filepath.Dir(agents), "DOCGAUGE_SITE_AGENT_URL=" + models,
				"DOCGAUGE_SITE_AGENT_ENV=" + env, "DOCGAUGE_SITE_CHECK_COMMAND=" + loopCheck}
			writeText(t, filepath.Join(dir, "access.log"), "")
			p := place{dir, slices.Concat(os.Environ(), site, []string{key + "=sk-fake-0123456789",
				"CLAUDE_CODE_MAX_RETRIES=0", "GEMINI_MODEL=gemini-2.5-flash"})}
			l.key = strings.TrimSpace(string(p.run(t, "site", "keys", "add", "--scope", "admin")))
			p.run(t, "site", "check")
			l.url = p.serve(t, "site", "serve").URL
			l.faults()
			l.pipeline(agent)
		})
	}
}

// realLoop is one agent's site and repository.
type realLoop struct {
	t              *testing.T
	gitea          *engines.Gitea
	url, key, repo string
}

// pull is a pull request at Gitea.
type pull struct {
	Title, Body, State string
	Mergeable          bool
	Link               string `json:"html_url"`
	Head               struct{ Ref string }
	Files              int `json:"changed_files"`
}

// pulls returns the pull requests, the oldest first. The list lacks some of their fields.
func (l *realLoop) pulls() (all []pull) {
	l.gitea.Call(l.t, "", http.MethodGet, l.repo+"/pulls?state=all", nil, &all)
	for i := range all {
		l.gitea.Call(l.t, "", http.MethodGet, fmt.Sprintf("%s/pulls/%d", l.repo, i+1), nil, &all[i])
	}
	return all
}

// job asks the API of the site about a job, or sends a prompt as one.
func (l *realLoop) job(id, prompt string) (job runner.Job) {
	l.t.Helper()
	method, path, body := http.MethodGet, "/"+id, ""
	if id == "" {
		method, path, body = http.MethodPost, "", fmt.Sprintf(`{"prompt": %q}`, prompt)
	}
	r, err := http.NewRequestWithContext(l.t.Context(), method, l.url+"/v2/agent/prj_site/job"+path, strings.NewReader(body))
	check(l.t, err)
	r.Header.Set("Authorization", "Bearer "+l.key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	check(l.t, err)
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&job); err != nil || answer.StatusCode/100 != 2 {
		l.t.Fatalf("%s %s: %s, %v", method, path, answer.Status, err)
	}
	return job
}

// await waits longer than testbed.Await: jobs of real agents take their time on a busy machine.
func (l *realLoop) await(what string, done func() bool) {
	l.t.Helper()
	for end := time.Now().Add(10 * time.Minute); !done(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("waited too long: %s", what)
		}
	}
}

// atRest waits until a job has ended, or is to be tried again later.
func (l *realLoop) atRest(id string) (job runner.Job) {
	l.t.Helper()
	l.await("a job at rest", func() bool {
		job = l.job(id, "")
		return job.Status != runner.Active || job.RetryAt != nil
	})
	return job
}

// faults sends a job for each fault of a model, and for a change that passes the check at its second try.
func (l *realLoop) faults() {
	for word, want := range map[string]struct {
		status  runner.Status
		failure string
	}{
		"limit":  {runner.Active, "limit of its model's service"},
		"drop":   {runner.Active, "error that may pass"},
		"key":    {runner.Failed, "the agent reports an error: "},
		"broken": {runner.Completed, ""},
	} {
		begun := time.Now()
		job := l.atRest(l.job("", "Write the word "+word).ID)
		if job.Status != want.status || !strings.Contains(job.Failure, want.failure) || (job.Failure == "") != (want.failure == "") {
			l.t.Errorf("%s: %s, %s", word, job.Status, job.Failure)
		}
		l.t.Logf("%s: %s in %s: %s", word, job.Status, time.Since(begun).Round(time.Millisecond), job.Failure)
	}
	all := l.pulls()
	if len(all) != 1 || all[0].Title != "Write the word broken" || !strings.Contains(all[0].Body, "I wrote broken, mended.") ||
		all[0].Files != 2 {
		l.t.Fatalf("pull requests of faults: %+v", all)
	}
}

// merge merges the newest pull request as people do, once it has what the agent said.
func (l *realLoop) merge(said string) (merged pull) {
	l.t.Helper()
	n := 0
	l.await("the pull request where the agent says "+said, func() bool {
		all := l.pulls()
		n, merged = len(all), all[len(all)-1]
		return strings.Contains(merged.Body, said) && merged.Mergeable && merged.State == "open"
	})
	path := fmt.Sprintf("%s/pulls/%d", l.repo, n)
	l.gitea.Call(l.t, "writer", http.MethodPost, path+"/reviews", map[string]string{"event": "APPROVED", "body": "Good."}, nil)
	l.gitea.Call(l.t, "", http.MethodPost, path+"/merge",
		map[string]any{"Do": "squash", "delete_branch_after_merge": true}, nil)
	return merged
}

// pipeline sends a prompt with two messages, of which the second comes after a merge, and follows it to its outcome.
func (l *realLoop) pipeline(agent string) {
	t, begun := l.t, time.Now()
	p := place{t.TempDir(), append(os.Environ(), "DOCGAUGE_BASE_URL="+l.url, "DOCGAUGE_PROJECTS=prj_site",
		"DOCGAUGE_API_KEY="+l.key, "DOCGAUGE_BUDGET=0", "DOCGAUGE_PROMPTS_DIR=prompts",
		"DOCGAUGE_PROMPTS_ON_NEW_STATE=submit", "DOCGAUGE_POLL_INTERVAL=1s", "DOCGAUGE_GITEA_URL="+l.gitea.URL+"/api/v1",
		"DOCGAUGE_GITEA_TOKEN="+l.gitea.Token(t, "read:repository"))}
	writePrompt(t, filepath.Join(p.dir, "prompts", "good.md"), "---\ntitle: Say it well\n"+
		"follow_ups: [Write the word better, Write the word best]\n---\nWrite the word good\n")
	var list clijobs.List
	read := func() clijobs.Listed {
		check(t, json.Unmarshal(p.run(t, "jobs", "list", "--json"), &list))
		return list.Jobs[0]
	}
	runUntil := func(what string) {
		t.Helper()
		l.await(what, func() bool { return strings.Contains(string(p.run(t, "jobs", "run")), what) })
	}
	runUntil("1 job created")
	l.atRest(read().JobID)
	runUntil("1 follow-up sent")
	l.atRest(read().JobID)
	first := l.merge("I wrote good, better.")
	if first.Title != "Say it well" || first.Head.Ref != "docgauge/"+read().JobID || first.Files != 2 {
		t.Errorf("first pull request: %+v", first)
	}
	runUntil("1 follow-up sent")
	second := l.merge("I wrote good, better, best.")
	if second.Link == first.Link || second.Files != 1 {
		t.Errorf("second pull request: %+v", second)
	}
	l.atRest(read().JobID)
	runUntil("1 ended")
	p.env = append(p.env, "CLOCK_AHEAD=1h") // pull requests are read every two minutes at most
	l.await("the merge", func() bool {
		p.run(t, "jobs", "run")
		pull := read().Pull
		return pull != nil && pull.State == "merged"
	})
	got := read()
	if got.PRLink != second.Link || got.Pull.Review != "approved" || (got.Cost != nil) != (agent == "claude") || got.Tokens == nil {
		t.Errorf("the job at its end: %+v, %+v", got.Job, got.Pull)
	}
	out := string(p.run(t, "outcomes", "--csv"))
	if !strings.Contains(out, ","+second.Link+",") || !strings.Contains(out, ",/best,") {
		t.Errorf("outcomes: %s", out)
	}
	t.Logf("pipeline in %s:\n%s%s", time.Since(begun).Round(time.Second), p.run(t, "jobs", "list"), out)
}
