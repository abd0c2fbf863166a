package runner

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// gitServer serves bare repositories below root over HTTP, to those who have the token.
func gitServer(t *testing.T, root, authorization string) *httptest.Server {
	t.Helper()
	handler, err := engines.GitServer(root, authorization)
	check(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// TestTokenStaysWithGit: a command that turns each setting and hook of the repository and
// the user against git gets no token: the branch goes to the remote, and comes back from it,
// without them.
func TestTokenStaysWithGit(t *testing.T) {
	engines.Long(t)
	const token = "s3cret-token-of-the-tests"
	basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token))
	repo := engines.GitRepository(t)
	t.Setenv("no_proxy", "")
	root := t.TempDir()
	bare := filepath.Join(root, "docs.git")
	engines.Git(t, ".", "clone", "--quiet", "--bare", repo, bare)
	engines.Git(t, bare, "config", "http.receivepack", "true")
	server := gitServer(t, root, "Basic "+basic)
	var mu sync.Mutex
	var proxied []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		proxied = append(proxied, r.Method+" "+r.URL.String())
		http.Error(w, "no", http.StatusBadGateway)
	}))
	defer proxy.Close()
	engines.Git(t, repo, "remote", "add", "origin", server.URL+"/docs.git")

	seen := filepath.Join(t.TempDir(), "seen")
	spy := filepath.Join(t.TempDir(), "spy")
	write(t, spy, "#!/bin/sh\n{ env; echo; cat /proc/$PPID/environ 2>/dev/null | tr '\\0' '\\n'; } >> "+seen+"\nexit "+
		"1\n")
	if err := os.Chmod(spy, 0o755); err != nil {
		t.Fatal(err)
	}
	elsewhere := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	hostile := map[string]string{
		"pushurl": "git config remote.origin.pushurl 'ext::" + spy + " %S'; git config protocol.ext.allow always",
		"url":     "git config remote.origin.url 'ext::" + spy + " %S'; git config protocol.ext.allow always",
		"instead": "git config url.'ext::" + spy + " '.insteadOf " + server.URL +
			"; git config protocol.ext.allow always",
		"push instead": "git config url." + elsewhere + "/.pushInsteadOf " + server.URL +
			"/; git config http." + elsewhere +
			"/.proxy " + proxy.URL + "; git config http.extraHeader 'X: y'",
		"proxy":        "git config http.proxy " + proxy.URL,
		"remote proxy": "git config remote.origin.proxy " + proxy.URL,
		"credentials":  "git config credential.helper '!" + spy + "'",
		"ask pass":     "git config core.askPass " + spy,
		"ssh":          "git config core.sshCommand " + spy + "; git config remote.origin.pushurl ssh://localhost/x",
		"receive-pack": "git config remote.origin.receivepack " + spy + "; git config remote.origin.uploadpack " + spy,
		"helper":       "git config remote.origin.vcs spy; git config alias.remote-spy '!" + spy + "'",
		"hooks": "mkdir -p ../hooks; for h in pre-push post-merge reference-transaction; do cp " + spy +
			" ../hooks/$h; cp " + spy + " $(git rev-parse --git-common-dir)/hooks/$h; done; git config " +
			"core.hooksPath $PWD/../hooks",
		"user": "git config --global http.proxy " + proxy.URL +
			"; git config --global credential.helper '!" + spy + "'",
		"filter": "echo '* filter=spy' > .gitattributes; git config filter.spy.clean " + spy +
			"; git config filter.spy.smudge " + spy,
		"signature": "git config gpg.program " + spy + "; git config push.gpgSign true",
	}
	for name, command := range hostile {
		t.Run(name, func(t *testing.T) {
			config, err := os.ReadFile(filepath.Join(repo, ".git", "config"))
			check(t, err)
			defer func() {
				for path, text := range map[string]string{
					filepath.Join(repo, ".git", "config"):          string(config),
					filepath.Join(os.Getenv("HOME"), ".gitconfig"): "",
				} {
					write(t, path, text)
				}
			}()
			r := openRepo(t, RepoOptions{Path: repo, Remote: "origin", Command: "cat >> new.md; " + command},
				func(r *Repo) {
					r.login = func() (string, string, string, error) {
						return server.URL + "/",
							"x-access-token", token, nil
					}
				})
			job := "job_" + strings.ReplaceAll(name, " ", "_")
			first := edit(t, r, Task{Job: job, Prompt: "one\n"})
			if err := r.push(t.Context(), first); err != nil {
				t.Error(err)
			}
			if at := engines.Git(t, bare, "rev-parse", first.Branch); at != first.Head {
				t.Errorf("the remote is at %s, want %s", at, first.Head)
			}
			edit(t, r, Task{Job: job, Prompt: "two\n", Last: first}) // it catches up
			if text, _ := os.ReadFile(seen); strings.Contains(string(text), basic) ||
				strings.Contains(string(text), token) {
				t.Errorf("the token was seen:\n%s", text)
			}
		})
	}
	mu.Lock()
	defer mu.Unlock()
	if len(proxied) > 0 {
		t.Errorf("asked through the proxy of the command: %q", proxied)
	}
}

// TestTokenStaysAtItsHost: a redirect is followed, as GitLab has one to a path with .git, and takes the token to no other
// host.
func TestTokenStaysAtItsHost(t *testing.T) {
	root := t.TempDir()
	bare := filepath.Join(root, "docs.git")
	engines.Git(t, ".", "clone", "--quiet", "--bare", engines.GitRepository(t), bare)
	engines.Git(t, bare, "config", "http.receivepack", "true")
	const token = "s3cret-token-of-the-tests"
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:"+token))
	handler, err := engines.GitServer(root, basic)
	check(t, err)
	open, err := engines.GitServer(root, "")
	check(t, err)
	var seen atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			seen.Store(true)
			r.Header.Del("Authorization")
		}
		open.ServeHTTP(w, r)
	}))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, moved := strings.CutPrefix(r.URL.Path, "/moved.git")
		below, short := strings.CutPrefix(r.URL.Path, "/docs/")
		switch {
		case moved:
			http.Redirect(w, r, other.URL+"/docs.git"+rest+"?"+r.URL.RawQuery, http.StatusMovedPermanently)
		case short:
			http.Redirect(w, r, "/docs.git/"+below+"?"+r.URL.RawQuery, http.StatusMovedPermanently)
		default:
			handler.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	for _, path := range []string{"/docs", "/moved.git"} {
		r, err := OpenRepo(t.Context(), RepoOptions{URL: server.URL + path, Path: filepath.Join(t.TempDir(), "copy"),
			Token: func() (string, error) { return token, nil }}, "")
		check(t, err)
		if err := r.Check(t.Context()); err != nil || seen.Load() {
			t.Errorf("%s: %v, the token reached another host: %t", path, err, seen.Load())
		}
		check(t, r.Close())
	}
}

// TestRemoteTriedAgain: fetch and push are tried again while errors can pass, and find what a lost answer has done.
func TestRemoteTriedAgain(t *testing.T) {
	root := t.TempDir()
	bare := filepath.Join(root, "docs.git")
	engines.Git(t, ".", "clone", "--quiet", "--bare", engines.GitRepository(t), bare)
	engines.Git(t, bare, "config", "http.receivepack", "true")
	handler, err := engines.GitServer(root, "")
	check(t, err)
	var faults []string // of the next requests with "at" in their URL
	var at string
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Method+" "+r.URL.String(), at) {
			handler.ServeHTTP(w, r)
			return
		}
		fault := ""
		if asked++; len(faults) > 0 {
			fault, faults = faults[0], faults[1:]
		}
		switch fault {
		case "":
			handler.ServeHTTP(w, r)
		case "drop":
			panic(http.ErrAbortHandler)
		case "lost":
			handler.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			code, err := strconv.Atoi(fault)
			check(t, err)
			w.WriteHeader(code)
		}
	}))
	defer server.Close()
	r := openRepo(t, RepoOptions{Path: filepath.Join(t.TempDir(), "copy.git"), URL: server.URL + "/docs.git",
		Command: "cat >>new.md", Remote: server.URL + "/docs.git"}, func(r *Repo) { r.options.Remote = r.options.URL })
	const fetch, push, send = "service=git-upload-pack", "service=git-receive-pack", "POST /docs.git/git-receive-pack"
	for i, tc := range []struct {
		at, faults string
		tries      int // 0 = as many as it takes
		fails      bool
	}{
		{fetch, "502", 0, false}, {fetch, "429 503 drop", 0, false}, {fetch, "404", 1, true}, {fetch, "403", 1, true},
		{push, "502", 2, false}, {push, "429", 2, false}, {push, "drop", 0, false}, {send, "lost", 0, false},
		{send, "500", 0, false}, {push, "403", 1, true}, {push, "502 502 502 502 502", 4, true},
	} {
		t.Run(tc.at+" "+tc.faults, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at, faults, asked = tc.at, strings.Fields(tc.faults), 0
				job := fmt.Sprintf("job_%d", i)
				result, err := r.Edit(t.Context(), Task{Job: job, Prompt: "x\n"})
				if err == nil {
					_, err = r.Propose(t.Context(), Job{ID: job, Prompts: []string{"x"}}, result.Change, "")
				}
				if (err != nil) != tc.fails || tc.tries > 0 && asked != tc.tries {
					t.Fatalf("asked %d times: %v", asked, err)
				}
				if at = "never"; !tc.fails && engines.Git(t, bare, "rev-parse", result.Change.Branch) != result.Change.Head {
					t.Error("the remote lacks the commit")
				}
			})
		})
	}
}

// TestTryPush: a remote that lets everybody read and nobody write does not pass, and a try leaves no branch.
func TestTryPush(t *testing.T) {
	root, repo := t.TempDir(), engines.GitRepository(t)
	bare := filepath.Join(root, "docs.git")
	engines.Git(t, ".", "clone", "--quiet", "--bare", repo, bare)
	server := gitServer(t, root, "")
	for _, writes := range []bool{true, false} {
		engines.Git(t, bare, "config", "http.receivepack", strconv.FormatBool(writes))
		r, err := OpenRepo(t.Context(), RepoOptions{URL: server.URL + "/docs.git", Path: filepath.Join(t.TempDir(), "copy")}, "")
		check(t, err)
		if err := r.Check(t.Context()); (err == nil) != writes || err != nil && (!strings.Contains(err.Error(), "403") ||
			!strings.Contains(err.Error(), "DOCGAUGE_SITE_TOKEN")) {
			t.Errorf("writes %t: %v", writes, err)
		}
		check(t, r.Close())
	}
	if got := branches(t, bare); got != "" {
		t.Errorf("branches: %s", got)
	}
}

// TestFetchedLater: a job whose repository cannot be reached is tried again for hours, as its push is, before its agent
// has cost anything.
func TestFetchedLater(t *testing.T) {
	source := engines.GitRepository(t)
	t.Setenv("no_proxy", "127.0.0.1")
	for url, want := range map[string]int{"http://127.0.0.1:1/docs.git": maxRetries, "file://" + source + "-that-is-gone": 0} {
		synctest.Test(t, func(t *testing.T) {
			r := openRepo(t, RepoOptions{Path: filepath.Join(t.TempDir(), "copy.git"), URL: url, Command: "cat >>new.md"})
			if result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"}); err == nil || result.Retries != want {
				t.Errorf("%s: %d retries, want %d: %v", url, result.Retries, want, err)
			}
		})
	}
}
