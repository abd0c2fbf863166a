package sandbox

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
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

func TestRepositoryThatIsNone(t *testing.T) {
	repo := engines.GitRepository(t)
	token := func() (string, error) { return "t", nil }
	for want, r := range map[string]runner.RepoOptions{
		"owner/name":         {Path: repo, CodeHost: "github", Project: "docs"},
		"GitHub URL":         {Path: repo, CodeHost: "github", Project: "a/b", CodeHostURL: "http://github.example"},
		`no remote "origin"`: {Path: repo, CodeHost: "github", Project: "a/b", Token: token},
		"token: is missing":  {Path: repo, CodeHost: "github", Project: "a/b"},
		"agent timeout":      {Path: repo, Timeout: -1},
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
		for _, target := range []string{"/pr/1", GitHubPath + "/repos/docgauge/sandbox/pulls/1"} {
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
