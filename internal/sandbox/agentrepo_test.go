package sandbox

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/codehosts"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/sandbox/codehost"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// settled polls a job, like a client, until the job is no longer active.
func settled(t testing.TB, s *Sandbox, id string) runner.Job {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if j := readJob(t, s, id); j.Status != runner.Active {
			return j
		}
		if time.Now().After(deadline) {
			t.Fatalf("job %s is still active", id)
		}
	}
}

func fetch(t testing.TB, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	check(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check(t, err)
	return resp.StatusCode, string(text)
}

func TestRealRepository(t *testing.T) {
	repo := engines.GitRepository(t)
	s := newTest(t, Config{Agent: Agent{Repo: &runner.RepoOptions{Path: repo,
		Command: `mkdir -p "<script>alert(1)<"; cat >> "<script>alert(1)<"/script.md`}}})
	server := start(t, s)
	s.config.Agent.PublicURL = server.URL + "/"

	j := createJob(t, s, "Say </pre><script>alert(2)</script>\n")
	first := settled(t, s, j.ID)
	if first.Status != runner.Completed || first.PRLink == nil ||
		first.Source != (runner.Source{Repository: repo, Ref: "main"}) {
		t.Fatalf("%+v, %+v", first, s.Jobs()[0])
	}
	messageJob(t, s, j.ID, "And more\n")
	second := settled(t, s, j.ID)
	if second.PRLink == nil || *second.PRLink != *first.PRLink {
		t.Fatalf("after the follow-up: %+v", second)
	}
	status, body := fetch(t, *second.PRLink)
	if status != http.StatusOK || strings.Contains(body, "<script") ||
		!strings.Contains(body, "&lt;script&gt;alert(1)&lt;/script.md") || !strings.Contains(body, "&#43;And more") {
		t.Errorf("page %d: %s", status, body)
	}
	if log := engines.Git(t, repo, "log", "--format=%s", "main.."+runner.BranchPrefix+j.ID); log != "And more\nSay "+
		"</pre><script>alert(2)</script>" {
		t.Errorf("log: %s", log)
	}
	if status := engines.Git(t, repo, "status", "--porcelain"); status != "" {
		t.Errorf("status: %s", status)
	}

	failed := settled(t, s, createJob(t, s, "x [sandbox:fail]").ID)
	scripted := settled(t, s, createJob(t, s, "x [sandbox:pr]").ID)
	if failed.Status != runner.Failed || scripted.PRLink == nil ||
		!strings.HasSuffix(*scripted.PRLink, "/sandbox/"+filepath.Base(repo)+"/pull/2") {
		t.Errorf("by script: %+v, %+v", failed, scripted)
	}
	files := engines.Git(t, repo, "diff", "--name-only", "main", runner.BranchPrefix+scripted.ID)
	if files != "agent-jobs/"+scripted.ID+".md" {
		t.Errorf("by script: %s", files)
	}
}

func TestGitHubPullRequests(t *testing.T) {
	repo := engines.GitRepository(t)
	remote := filepath.Join(t.TempDir(), "remote.git")
	engines.Git(t, ".", "clone", "--quiet", "--bare", repo, remote)
	engines.Git(t, repo, "remote", "add", "origin", remote)
	host := codehosts.New("github", "team/docs", "ghp_x")
	github := httptest.NewServer(host)
	defer github.Close()
	token := "wrong"
	s := newTest(t, Config{Agent: Agent{Repo: &runner.RepoOptions{
		Path: repo, Command: "cat >> new.md", CodeHost: "github", Project: "team/docs", CodeHostURL: github.URL + host.Prefix,
		Token: func() (string, error) { return token, nil },
	}}})
	j := createJob(t, s, "one\n")
	if got := settled(t, s, j.ID); got.Status != runner.Failed || !strings.Contains(s.Jobs()[0].Failure, "status 401") {
		t.Errorf("wrong token: %+v", s.Jobs()[0])
	}
	token = "ghp_x"
	messageJob(t, s, j.ID, "two\n")
	got := settled(t, s, j.ID)
	if got.PRLink == nil || *got.PRLink != host.Link(1) ||
		got.Source.Repository != "team/docs" {
		t.Errorf("%+v, %+v", got, s.Jobs()[0])
	}
	messageJob(t, s, j.ID, "three\n")
	settled(t, s, j.ID)
	if log := engines.Git(t, remote, "log", "--format=%s", "main.."+runner.BranchPrefix+j.ID); len(host.Pulls()) != 1 ||
		log != "three\ntwo\none" {
		t.Errorf("%d pull requests, log %s", len(host.Pulls()), log)
	}
}

func TestRepositoryThatIsNone(t *testing.T) {
	repo := engines.GitRepository(t)
	token := func() (string, error) { return "t", nil }
	for want, r := range map[string]runner.RepoOptions{
		"want a git repository": {Path: t.TempDir()},
		"owner/name":            {Path: repo, CodeHost: "github", Project: "docs"},
		"GitHub URL":            {Path: repo, CodeHost: "github", Project: "a/b", CodeHostURL: "http://github.example"},
		`no remote "origin"`:    {Path: repo, CodeHost: "github", Project: "a/b", Token: token},
		"token: is missing":     {Path: repo, CodeHost: "github", Project: "a/b"},
		"agent timeout":         {Path: repo, Timeout: -1},
	} {
		if _, err := New(Config{Agent: Agent{Repo: &r}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// Pages are only served under the host names of this sandbox; other names that lead
// here are refused.
func TestHostsOfPages(t *testing.T) {
	s := newTest(t, Config{Agent: Agent{PublicURL: "http://Docs.example:8787"}})
	settled(t, s, createJob(t, s, "x").ID)
	for host, want := range map[string]int{
		"127.0.0.1:8787": 200, "[::1]:8787": 200, "localhost:8787": 200, "sandbox": 200,
		"docs.example:8787": 200, "192.0.2.1": 200,
		"docs.example": 421, "a;b": 421, "evil.example:8787": 421, "127.0.0.1.evil.example": 421,
	} {
		for _, target := range []string{"/pr/1", codehost.APIPath + "/repos/docgauge/sandbox/pulls/1"} {
			r := httptest.NewRequest(http.MethodGet, target, nil)
			r.Host = host
			if w := respond(s, r); w.Code != want {
				t.Errorf("%s of %s: %d, want %d", target, host, w.Code, want)
			}
		}
	}
}

func TestLinksFollowTheReader(t *testing.T) {
	for public, want := range map[string]string{
		"":                      "http://sandbox:1234/docgauge/sandbox/pull/1",
		"https://docs.example/": "https://docs.example/docgauge/sandbox/pull/1",
	} {
		s := newTest(t, Config{Agent: Agent{PublicURL: public}})
		id := createJob(t, s, "x").ID
		settled(t, s, id)
		r := httptest.NewRequest(http.MethodGet, jobs+"/"+id, nil)
		r.Host = "sandbox:1234"
		r.Header.Set("Authorization", "Bearer "+DefaultAPIKey)
		w := respond(s, r)
		if j := wireJob(t, w, http.StatusOK); j.PRLink == nil || *j.PRLink != want {
			t.Errorf("%s: %s", public, w.Body)
		}
	}
}
