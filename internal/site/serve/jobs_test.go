package serve

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/runner"
)

func TestMain(m *testing.M) {
	if code, ok := runner.Helper(os.Args[1:]); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// goodJobs are settings of jobs for a repository, without a jail.
func goodJobs(repo string) JobSettings {
	return JobSettings{Repo: repo, Agent: "command", Command: "cat >>new.md", Jail: "none", CodeHost: "none",
		Timeout: time.Minute, Concurrency: 2, MaxDisk: 1 << 30}
}

func TestJobSettings(t *testing.T) {
	token := func() (string, error) { return "t", nil }
	two := []string{"prj_a", "prj_b"}
	tools, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.WriteFile(filepath.Join(tools, "token"), nil, 0o600), os.Symlink(tools, link)); err != nil {
		t.Fatal(err)
	}
	on := func(repo, host, hostURL string, token func() (string, error)) func(*JobSettings) {
		return func(s *JobSettings) {
			s.Repo, s.CodeHost, s.CodeHostURL, s.Token = "prj_a="+repo, host, hostURL, token
		}
	}
	for name, tc := range map[string]struct {
		change func(*JobSettings)
		want   string // part of the error; empty = good
	}{
		"good":     {func(*JobSettings) {}, ""},
		"no agent": {func(s *JobSettings) { s.Agent = "" }, "DOCGAUGE_SITE_REPO: needs DOCGAUGE_SITE_AGENT"},
		"no jobs":  {func(s *JobSettings) { *s = JobSettings{} }, ""},
		"agent":    {func(s *JobSettings) { s.Agent = "gpt" }, "DOCGAUGE_SITE_AGENT: \"gpt\""},
		"preset":   {func(s *JobSettings) { s.Agent, s.Command = "codex", "" }, ""},
		"no hosts": {func(s *JobSettings) { s.Agent, s.Command, s.Jail = "codex", "", "bubblewrap" }, ""},
		"tools around the site": {func(s *JobSettings) {
			s.Jail, s.Tools = "bubblewrap", "/srv/b,/srv/a"
			s.Private = map[string]string{"DOCGAUGE_SITE_DIR": "/srv/a/site"}
		}, "AGENT_TOOLS: /srv/a: has DOCGAUGE_SITE_DIR in it"},
		"tools beside the site": {func(s *JobSettings) {
			s.Jail, s.Tools = "bubblewrap", "/srv/b,/srv/a/sit"
			s.Private = map[string]string{"DOCGAUGE_SITE_DIR": "/srv/a/site"}
		}, ""},
		"tools around the token": {func(s *JobSettings) {
			s.Jail, s.Tools = "bubblewrap", tools
			s.Private = map[string]string{"DOCGAUGE_SITE_TOKEN_FILE": filepath.Join(link, "token")}
		}, "has DOCGAUGE_SITE_TOKEN_FILE in it"},
		"cloud": {func(s *JobSettings) {
			s.Agent, s.Command, s.Jail, s.Env = "claude", "", "bubblewrap", "MODEL_KEY,+CLAUDE_CODE_USE_BEDROCK"
		}, "AGENT_HOSTS: missing"},
		"both":        {func(s *JobSettings) { s.Agent = "claude" }, "DOCGAUGE_SITE_AGENT_COMMAND: has no effect"},
		"command":     {func(s *JobSettings) { s.Command = "" }, "DOCGAUGE_SITE_AGENT_COMMAND: missing"},
		"no repo":     {func(s *JobSettings) { s.Repo = "" }, "DOCGAUGE_SITE_REPO: missing"},
		"project":     {func(s *JobSettings) { s.Repo = "prj_c=/srv/x.git" }, "project prj_c is not one"},
		"which":       {func(s *JobSettings) { s.Repo = "/srv/x.git" }, "which project is it for"},
		"twice":       {func(s *JobSettings) { s.Repo += ",prj_a=/srv/y.git" }, "has a repository already"},
		"two":         {func(s *JobSettings) { s.Repo += ",prj_b=https://git.example/x/y#next" }, ""},
		"password":    {func(s *JobSettings) { s.Repo = "prj_a=https://me:hidden@git.example/x" }, "DOCGAUGE_SITE_TOKEN"},
		"plain http":  {func(s *JobSettings) { s.Repo = "prj_a=http://git.example/x" }, "https"},
		"env form":    {func(s *JobSettings) { s.Env = "A=b" }, "want names of variables"},
		"env of ours": {func(s *JobSettings) { s.Env = "DOCGAUGE_SITE_TOKEN" }, "agents must not see"},
		"env unset":   {func(s *JobSettings) { s.Env = "MODEL_KEY,NO_SUCH_KEY" }, "NO_SUCH_KEY: is not set"},
		"secret":      {func(s *JobSettings) { s.Env = "MODEL_KEY,+MODEL_MODE" }, ""},
		"short":       {func(s *JobSettings) { s.Env = "MODEL_KEY,MODEL_MODE" }, "want +MODEL_MODE"},
		"model":       {func(s *JobSettings) { s.Env = "GEMINI_MODEL" }, "want +GEMINI_MODEL"},
		"plain model": {func(s *JobSettings) { s.Env = "+GEMINI_MODEL" }, ""},
		"allow":       {func(s *JobSettings) { s.Allow = "ci,everything" }, "want ci, hosts, hooks, editors"},
		"hosts":       {func(s *JobSettings) { s.Jail, s.Hosts = "bubblewrap", "10.0.0.1" }, "DOCGAUGE_SITE_AGENT_HOSTS"},
		"localhost":   {func(s *JobSettings) { s.Jail, s.Hosts = "bubblewrap", "localhost:7443" }, "in the jail"},
		"gateway": {func(s *JobSettings) {
			s.Jail, s.Agent, s.Command, s.URL = "bubblewrap", "codex", "", "http://10.0.0.5:4000"
		},
			""},
		"gateway's URL": {func(s *JobSettings) { s.URL = "10.0.0.5:4000" }, "DOCGAUGE_SITE_AGENT_URL: want"},
		"gateway's CA":  {func(s *JobSettings) { s.CA = "/etc/ca.pem" }, "without DOCGAUGE_SITE_AGENT_URL"},
		"CA, no jail": {func(s *JobSettings) { s.URL, s.CA = "https://models.example", "/etc/ca.pem" },
			"no effect with DOCGAUGE_SITE_JAIL=none"},
		"no effect":   {func(s *JobSettings) { s.Hosts = "api.example.com" }, "have no effect"},
		"jail":        {func(s *JobSettings) { s.Jail = "docker" }, "want bubblewrap or none"},
		"timeout":     {func(s *JobSettings) { s.Timeout = 0 }, "DOCGAUGE_SITE_JOB_TIMEOUT"},
		"concurrency": {func(s *JobSettings) { s.Concurrency = 0 }, "DOCGAUGE_SITE_JOB_CONCURRENCY"},
		"one at once": {func(s *JobSettings) { s.Concurrency = 1 }, ""},
		"most":        {func(s *JobSettings) { s.Concurrency = 64 }, ""},
		"too many":    {func(s *JobSettings) { s.Concurrency = 65 }, "DOCGAUGE_SITE_JOB_CONCURRENCY"},
		"unknown host": {func(s *JobSettings) { s.Repo, s.CodeHost = "prj_a=https://git.example/x/y", "" },
			"which code host"},
		"code host": {func(s *JobSettings) { s.CodeHost = "svn" }, "want github, gitlab, gitea or none"},
		"no token":  {on("https://github.com/x/y.git", "", "", nil), "needs DOCGAUGE_SITE_TOKEN"},
		"elsewhere": {on("https://git.example/x/y", "github", "https://api.github.com", token),
			"repositories below https://github.com"},
		"other host": {on("https://git.example/x/y", "gitlab", "https://git.example:8443/api/v4", token), "is for"},
		"other SSH":  {on("git@git.example:x/y", "gitlab", "https://lab.example/api/v4", token), "is for them alone"},
		"no prefix":  {on("https://git.example/x/y", "gitea", "https://git.example/git/api/v1", token), "is for them alone"},
		"no URL":     {on("https://git.example/x/y", "gitea", "", token), "such as https://git.example/api/v1"},
		"http": {on("http://127.0.0.1:3000/x/y", "gitea", "https://127.0.0.1:3000/api/v1", token),
			"is for them alone"},
		"bad URL": {on("https://git.example/x/y", "gitea", "git.example", token), "DOCGAUGE_SITE_CODE_HOST_URL: want"},
		"two guessed": {on("git@github.com:x/y,prj_b=git@gitlab.com:x/y", "", "", token),
			"is for one host"},
		"two of one": {on("git@github.com:x/y,prj_b=https://github.com/x/z", "", "", token), ""},
		"two hosts": {func(s *JobSettings) {
			s.Repo, s.Token = "prj_a=https://a.example/x,prj_b=https://b.example/x", token
		}, "is for one host"},
		"path on GitHub": {func(s *JobSettings) { s.CodeHost, s.Token = "github", token }, "want the URL of the repository"},
	} {
		s := goodJobs("prj_a=/srv/docs.git")
		s.Variables = map[string]string{"MODEL_KEY": "0123456789", "MODEL_MODE": "x", "GEMINI_MODEL": "gemini-2.5-pro"}
		tc.change(&s)
		_, err := ParseJobs(s, two)
		if (err != nil) != (tc.want != "") || err != nil && (!strings.Contains(err.Error(), tc.want) ||
			strings.Contains(err.Error(), "hidden")) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	// The repository on its host, by the URL that git has.
	for _, tc := range []struct{ repo, host, url, want string }{
		{"https://github.com/x/y.git", "", "", "github x/y https://api.github.com"},
		{"https://GitHub.com/x/y/", "", "", "github x/y https://api.github.com"},
		{"git@github.com:x/y.git", "", "", "github x/y https://api.github.com"},
		{"https://ghe.example/x/y", "github", "https://ghe.example/api/v3", "github x/y https://ghe.example/api/v3"},
		{"https://gitlab.com/a/b/c/d.git", "", "", "gitlab a/b/c/d https://gitlab.com/api/v4"},
		{"ssh://git@gitlab.com/a/b/c", "", "", "gitlab a/b/c https://gitlab.com/api/v4"},
		{"https://lab.example:8443/gitlab/a/b", "gitlab", "https://lab.example:8443/gitlab/api/v4",
			"gitlab a/b https://lab.example:8443/gitlab/api/v4"},
		{"ssh://git@lab.example:2222/a/b", "gitlab", "https://lab.example:8443/gitlab/api/v4",
			"gitlab a/b https://lab.example:8443/gitlab/api/v4"},
		{"https://codeberg.org/x/y", "", "", "gitea x/y https://codeberg.org/api/v1"},
		{"https://git.example/forge/x/y", "gitea", "https://git.example/forge/api/v1/",
			"gitea x/y https://git.example/forge/api/v1/"},
		{"http://[::1]:3000/x/y", "gitea", "http://[::1]:3000/api/v1", "gitea x/y http://[::1]:3000/api/v1"},
		{"git@[2001:db8::1]:x/y.git", "gitea", "https://[2001:db8::1]/api/v1", "gitea x/y https://[2001:db8::1]/api/v1"},
		{"https://github.com/x/y", "none", "", "  "},
	} {
		s := goodJobs("")
		on(tc.repo, tc.host, tc.url, token)(&s)
		r, err := ParseJobs(s, two)
		if err != nil {
			t.Errorf("%s: %v", tc.repo, err)
			continue
		}
		o := r.repos["prj_a"]
		if got := o.CodeHost + " " + o.Project + " " + o.CodeHostURL; got != tc.want || o.URL != tc.repo {
			t.Errorf("%s: %s %+v, want %s", tc.repo, got, o, tc.want)
		}
	}
}

// ask sends a request about jobs of prj_a and returns the status and the job.
func askJobs(t *testing.T, j *Jobs, method, target, prompt string, header ...string) (status int, job runner.Job, body string) {
	t.Helper()
	service := api.NewService(api.Options{
		FindKey: func(context.Context, [32]byte) (api.Credential, bool, error) {
			return api.Credential{Scope: "admin"}, true, nil
		},
		HasProject: func(string) bool { return true }, Jobs: j, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	text, err := json.Marshal(map[string]string{"prompt": prompt})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, target, strings.NewReader(string(text)))
	r.Header.Set("Authorization", "Bearer dgs_x")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	service.Handler().ServeHTTP(w, r)
	_ = json.Unmarshal(w.Body.Bytes(), &job) // of an error: nothing
	return w.Code, job, w.Body.String()
}

func openJobs(t *testing.T, s JobSettings, dir string) *Jobs {
	t.Helper()
	r, err := ParseJobs(s, []string{"prj_a", "prj_b"})
	if err != nil {
		t.Fatal(err)
	}
	j, err := OpenJobs(t.Context(), r, dir, time.Now, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

const jobsOfA = "/v2/agent/prj_a/job"

// waitForJob polls a job until it is no longer active.
func waitForJob(t *testing.T, j *Jobs, id string) runner.Job {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		status, job, body := askJobs(t, j, http.MethodGet, jobsOfA+"/"+id, "")
		if status != http.StatusOK || time.Now().After(deadline) {
			t.Fatalf("%d %s", status, body)
		}
		if job.Status != runner.Active {
			return job
		}
	}
}

// TestSiteJobs: a job becomes a branch of its repository, a failed check a failed job; a stopped service
// continues; other projects have none.
func TestSiteJobs(t *testing.T) {
	repo, dir := engines.GitRepository(t), t.TempDir()
	s := goodJobs("prj_a=" + repo)
	s.Check = "! grep -q forbidden new.md"
	j := openJobs(t, s, dir)
	_, titled, _ := askJobs(t, j, http.MethodPost, jobsOfA, "x", "Docgauge-Title", "=?utf-8?q?=C3=A9_line?=")
	waitForJob(t, j, titled.ID)
	if got := engines.Git(t, repo, "log", "-1", "--format=%s", "docgauge/"+titled.ID); got != "é line" {
		t.Errorf("title: %q", got)
	}
	status, job, body := askJobs(t, j, http.MethodPost, jobsOfA, "hello")
	if status != http.StatusCreated || job.Model != "command, not jailed" || job.Source.Ref != "main" {
		t.Fatalf("%d %s", status, body)
	}
	if got := waitForJob(t, j, job.ID); got.Status != runner.Completed || got.PRLink != nil {
		t.Errorf("%+v", got)
	}
	if got := engines.Git(t, repo, "show", "docgauge/"+job.ID+":new.md"); got != "hello" {
		t.Errorf("new.md: %q", got)
	}
	_, bad, _ := askJobs(t, j, http.MethodPost, jobsOfA, "forbidden")
	if got := waitForJob(t, j, bad.ID); got.Status != runner.Failed || !strings.Contains(got.Failure, "SITE_CHECK_COMMAND: ") ||
		engines.Git(t, repo, "branch", "--list",
			"docgauge/"+bad.ID) != "" {
		t.Errorf("does not pass the check: %+v", got)
	}
	if status, _, body := askJobs(t, j, http.MethodPost, "/v2/agent/prj_b/job", "x"); status != http.StatusNotFound ||
		!strings.Contains(body, "has no repository") {
		t.Errorf("without a repository: %d %s", status, body)
	}
	if status, _, _ := askJobs(t, j, http.MethodGet, jobsOfA+"/job_none", ""); status != http.StatusNotFound {
		t.Errorf("no such job: %d", status)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openJobs(t, s, dir)
	defer j.Close() //nolint:errcheck // the test is over
	if status, _, body := askJobs(t, j, http.MethodPost, jobsOfA+"/"+job.ID+"/message", "more"); status != http.StatusOK {
		t.Fatalf("message: %d %s", status, body)
	}
	if got := waitForJob(t, j, job.ID); got.Status != runner.Completed || engines.Git(t, repo, "show",
		"docgauge/"+job.ID+":new.md") != "hellomore" {
		t.Errorf("after the message: %+v", got)
	}
}

// TestJobsWithoutTheirJail: where the jail cannot be had, jobs are refused with a status that says that
// the prompt was not taken, and none is left active.
func TestJobsWithoutTheirJail(t *testing.T) {
	repo, dir := engines.GitRepository(t), t.TempDir()
	programs := t.TempDir()
	for _, name := range []string{"git", "sh"} {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(programs, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s := goodJobs("prj_a=" + repo)
	s.Command = "sleep 1000"
	j := openJobs(t, s, dir)
	_, job, _ := askJobs(t, j, http.MethodPost, jobsOfA, "x")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs)
	s.Jail = "bubblewrap"
	j = openJobs(t, s, dir)
	defer j.Close() //nolint:errcheck // the test is over
	if err := j.Refused(); err == nil || !strings.Contains(err.Error(), "DOCGAUGE_SITE_JAIL=none") {
		t.Errorf("refused: %v", err)
	}
	if status, _, body := askJobs(t, j, http.MethodPost, jobsOfA, "x"); status != http.StatusNotFound ||
		!strings.Contains(body, "jail") {
		t.Errorf("%d %s", status, body)
	}
	if got := waitForJob(t, j, job.ID); got.Status != runner.Failed {
		t.Errorf("%+v", got)
	}
	r, err := ParseJobs(s, []string{"prj_a"})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	err = TryJobs(t.Context(), r, slog.New(slog.DiscardHandler), func(name, detail string, err error) {
		said = append(said, name+" "+detail)
		if (err != nil) != (name == "agent jobs") {
			t.Errorf("%s: %v", name, err)
		}
	})
	if err != nil || len(said) != 2 || !strings.Contains(said[1], "branch main") {
		t.Errorf("%v %q", err, said)
	}
}

// standIn puts a stand-in for claude into PATH, which runs script.
func standIn(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if err := os.WriteFile(filepath.Join(dir, "claude"), []byte("#!/bin/sh\n# a stand-in\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestSiteAgentCost: what an agent reports is in the job object of the API, and unknown is not 0.
func TestSiteAgentCost(t *testing.T) {
	repo := engines.GitRepository(t)
	s := goodJobs("prj_a=" + repo)
	s.Agent, s.Command = "claude", ""
	j := openJobs(t, s, t.TempDir())
	defer j.Close() //nolint:errcheck // the test is over
	for report, want := range map[string]string{
		`,"total_cost_usd":0.25,"usage":{"output_tokens":7}`: `"cost":0.25,"cost_unit":"USD","tokens":7`,
		`,"total_cost_usd":0`:                                `"cost":0,"cost_unit":"USD"`,
		"":                                                   `"archivedAt":null}`,
	} {
		standIn(t, `cat >>new.md; echo '{"type":"result","subtype":"success"`+report+"}'")
		_, job, _ := askJobs(t, j, http.MethodPost, jobsOfA, "x")
		got := waitForJob(t, j, job.ID)
		_, _, body := askJobs(t, j, http.MethodGet, jobsOfA+"/"+job.ID, "")
		if got.Status != runner.Completed || got.Model != "claude, not jailed" || !strings.Contains(body, want) {
			t.Errorf("%s: %s, want %s", report, body, want)
		}
	}
}

// TestJobsWithoutPaths: no answer names a place of this machine, also if nothing can be written.
func TestJobsWithoutPaths(t *testing.T) {
	dir, repo := t.TempDir(), engines.GitRepository(t)
	s := goodJobs("prj_a=" + repo)
	s.Command = `echo x >new.md; git checkout --quiet --detach`
	j := openJobs(t, s, dir)
	defer j.Close() //nolint:errcheck // the test is over
	journal := filepath.Join(dir, "jobs", "jobs.ndjson")
	if err := os.Mkdir(journal, 0o700); err != nil {
		t.Fatal(err)
	}
	var answers []string
	answer := func(want int, method, target, prompt string) runner.Job {
		t.Helper()
		status, job, body := askJobs(t, j, method, target, prompt)
		if status != want {
			t.Errorf("%s %s: %d %s, want %d", method, target, status, body, want)
		}
		answers = append(answers, body)
		return job
	}
	answer(http.StatusInternalServerError, http.MethodPost, jobsOfA, "x")
	if err := os.Remove(journal); err != nil {
		t.Fatal(err)
	}
	job := answer(http.StatusCreated, http.MethodPost, jobsOfA, "x")
	waitForJob(t, j, job.ID)
	engines.Git(t, repo, "checkout", "--quiet", runner.BranchPrefix+job.ID)
	answer(http.StatusOK, http.MethodPost, jobsOfA+"/"+job.ID+"/message", "x") // fails: the branch is checked out
	waitForJob(t, j, job.ID)
	answer(http.StatusOK, http.MethodGet, jobsOfA+"/"+job.ID, "")
	answer(http.StatusNotFound, http.MethodGet, jobsOfA+"/job_none", "")
	answer(http.StatusNotFound, http.MethodPost, "/v2/agent/prj_b/job", "x")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	answer(http.StatusServiceUnavailable, http.MethodPost, jobsOfA, "x")
	for _, body := range answers {
		for _, place := range []string{dir, repo, filepath.Dir(repo), os.TempDir()} {
			if strings.Contains(body, place) {
				t.Errorf("%s is in %s", place, body)
			}
		}
	}
}

// TestTryAgent: site check says the version of the agent, and whether the check command passes without a
// change; the agent is not called. It leaves nothing, and removes what one that was killed has left.
func TestTryAgent(t *testing.T) {
	repo := engines.GitRepository(t)
	t.Setenv("MODEL_KEY", "sk-0123456789abcdef")
	for name, tc := range map[string]struct{ script, check, agent, passes string }{
		"good": {`[ "$*" = --version ] && [ -z "$MODEL_KEY" ] && [ "$HOME" != "$OLD_HOME" ] && echo "2.1.300 (stand-in)"`,
			"test -e readme.md", "claude: 2.1.300 (stand-in)", "prj_a: passes on branch main"},
		"broken":       {"echo no license; exit 1", "echo no linter; exit 3", "exit status 1", "exit status 3: no linter"},
		"hangs around": {"echo 1; sleep 1000 &", "", "claude: 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OLD_HOME", os.Getenv("HOME"))
			standIn(t, tc.script)
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			for _, left := range []string{"docgauge-check-1", "docgauge-jobs-1"} {
				err := errors.Join(os.Mkdir(filepath.Join(temporary, left), 0o700),
					os.WriteFile(filepath.Join(temporary, left, ".owner"), nil, 0o600))
				if err != nil {
					t.Fatal(err)
				}
			}
			s := goodJobs("prj_a=" + repo)
			s.Agent, s.Command, s.Check, s.Env = "claude", "", tc.check, "MODEL_KEY"
			s.Variables = map[string]string{"MODEL_KEY": os.Getenv("MODEL_KEY")}
			r, err := ParseJobs(s, []string{"prj_a"})
			if err != nil {
				t.Fatal(err)
			}
			said := map[string]string{}
			err = TryJobs(t.Context(), r, slog.New(slog.DiscardHandler), func(name, detail string, err error) {
				if said[name] = detail; err != nil {
					said[name] = err.Error()
				}
			})
			if err != nil || !strings.Contains(said["agent"], tc.agent) || !strings.Contains(said["check command"], tc.passes) ||
				(said["check command"] == "") != (tc.check == "") || !strings.Contains(said["repository"], "branch main") {
				t.Errorf("%v %q", err, said)
			}
			if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// TestRightsOfTheToken: site check asks the code host whether the token may write, and opens nothing.
func TestRightsOfTheToken(t *testing.T) {
	repo := engines.GitRepository(t)
	for _, kind := range codehost.Hosts {
		for _, readOnly := range []bool{false, true} {
			host := fake.NewHost(kind.Name, "docs-team/docs", "secret-of-the-tests")
			host.ReadOnly = readOnly
			server := httptest.NewServer(host)
			rules := &JobRules{settings: goodJobs(""), repos: map[string]runner.RepoOptions{"prj_a": {URL: "file://" + repo,
				CodeHost: kind.Name, Project: host.Project, CodeHostURL: server.URL + host.Prefix,
				Token: func() (string, error) { return host.Token, nil }}}}
			var got error
			err := TryJobs(t.Context(), rules, slog.New(slog.DiscardHandler), func(name, _ string, err error) {
				if name == "repository" {
					got = err
				}
			})
			server.Close()
			said := readOnly && kind.Name != "gitea" // which says what the account may do, whatever the token may
			if err != nil || (got != nil) != said || said && (!strings.Contains(got.Error(), "the token ") ||
				strings.Contains(got.Error(), host.Token)) {
				t.Errorf("%s, read only %v: %v, %v", kind.Name, readOnly, err, got)
			}
			if asked := host.Asked(); len(asked) == 0 || slices.Contains(asked, http.MethodPost) {
				t.Errorf("%s: asked %q", kind.Name, asked)
			}
		}
	}
}
