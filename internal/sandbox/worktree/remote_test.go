package worktree

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/sandbox/agent"
)

func TestPushAndCatchUp(t *testing.T) {
	repo := newRepository(t)
	remote := filepath.Join(t.TempDir(), "remote.git")
	gitIn(t, ".", "clone", "--quiet", "--bare", repo, remote)
	gitIn(t, repo, "remote", "add", "origin", remote)
	r := open(t, Config{Path: repo, Command: "cat >> new.md", Remote: "origin"})
	push := func(c agent.Change) {
		t.Helper()
		if err := r.Push(t.Context(), c.Branch); err != nil {
			t.Fatal(err)
		}
		if at := gitIn(t, remote, "rev-parse", c.Branch); at != c.Head {
			t.Errorf("remote at %s, want %s", at, c.Head)
		}
	}
	first := edit(t, r, agent.Task{Job: "job_1", Prompt: "one\n"})
	push(first)
	push(first)

	reviewer := filepath.Join(t.TempDir(), "reviewer")
	gitIn(t, ".", "clone", "--quiet", "--branch", first.Branch, remote, reviewer)
	gitIn(t, reviewer, "commit", "--quiet", "--allow-empty", "-m", "reviewed")
	gitIn(t, reviewer, "push", "--quiet")
	second := edit(t, r, agent.Task{Job: "job_1", Prompt: "two\n", Last: first})
	push(second)
	if diff := cmp.Diff([]string{"one", "reviewed", "two"}, second.Messages); diff != "" {
		t.Error(diff)
	}

	gitIn(t, remote, "branch", "-D", first.Branch) // merged
	push(edit(t, r, agent.Task{Job: "job_1", Prompt: "three\n", Last: second}))

	gitIn(t, reviewer, "commit", "--quiet", "--amend", "--allow-empty", "-m", "rewritten")
	gitIn(t, reviewer, "push", "--quiet", "--force")
	if _, _, err := r.Edit(t.Context(), agent.Task{Job: "job_1", Prompt: "four\n", Last: second}); err == nil || !strings.Contains(err.Error(), "rewritten on the remote") {
		t.Errorf("rewritten: %v", err)
	}
	if err := r.Push(t.Context(), first.Branch); err == nil || !strings.Contains(err.Error(), "git push") {
		t.Errorf("push over it: %v", err)
	}
}

// The password goes to the URLs it is for, and into no error.
func TestLogin(t *testing.T) {
	repo := newRepository(t)
	t.Setenv("no_proxy", "127.0.0.1")
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Authorization"))
		http.NotFound(w, r)
	}))
	defer server.Close()
	r := open(t, Config{Path: repo, Remote: "http://user:hidden@" + strings.TrimPrefix(server.URL, "http://") + "/x/y"})
	c := edit(t, r, agent.Task{Job: "job_1", Prompt: "x"})
	for _, prefix := range []string{server.URL + "/", "https://elsewhere.example/"} {
		r.config.Login = func() (string, string, string, error) { return prefix, "x-access-token", "s3cret", nil }
		err := r.Push(t.Context(), c.Branch)
		if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%v", err)
		}
	}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:s3cret"))
	if len(asked) < 2 || asked[0] != want || asked[len(asked)-1] == want {
		t.Errorf("asked with %q", asked)
	}
}
