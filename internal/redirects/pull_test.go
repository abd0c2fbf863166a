package redirects_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/git"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/redirects"
	"github.com/docgauge/docgauge/internal/view"
)

const branch = "docgauge/redirects-prj_docs"

// site is a repository with a code host, and the state of a docgauge.
type site struct {
	*testing.T
	clone, bare, state string
	file               string // of redirects
	host               *fake.Host
	full               error // a cap on pull requests
}

func newSite(t *testing.T, kind string) *site {
	t.Helper()
	s := &site{t, engines.GitRepository(t), filepath.Join(t.TempDir(), "docs.git"), filepath.Join(t.TempDir(), "state"),
		"_redirects", fake.NewHost(kind, "team/docs", "token"), nil}
	s.write("_redirects", "# ours\n/x /y 301\n")
	s.git(s.clone, "add", ".")
	s.git(s.clone, "commit", "--quiet", "-m", "redirects")
	s.git(".", "clone", "--quiet", "--bare", s.clone, s.bare)
	s.git(s.clone, "remote", "add", "origin", s.bare)
	return s
}

func (s *site) git(dir string, args ...string) string { return engines.Git(s.T, dir, args...) }

func (s *site) write(name, text string) {
	if err := os.WriteFile(filepath.Join(s.clone, name), []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
}

// advance changes a file of the base branch.
func (s *site) advance(name, text string) {
	s.write(name, text)
	s.git(s.clone, "add", ".")
	s.git(s.clone, "commit", "--quiet", "-m", "more")
	s.git(s.clone, "push", "--quiet", "origin", "HEAD:main")
}

// propose is a run of docgauge with sure proposals, and one that is likely.
func (s *site) propose(ctx context.Context, sure ...string) (link string, pushed bool, err error) {
	s.Helper()
	host, err := codehost.NewOpener(s.host.Kind.Name, "team/docs", "https://git.example"+s.host.Kind.Suffix,
		func() (string, error) { return "token", nil }, s.host)
	if err != nil {
		s.Fatal(err)
	}
	c, err := redirects.Fetch(ctx, s.state, redirects.Remote{URL: s.bare})
	if err != nil {
		s.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			s.Error(err)
		}
	}()
	rules, err := c.Rules(ctx, "netlify", s.file)
	if err != nil {
		s.Fatal(err)
	}
	proposals := []redirects.Proposal{
		{MissedPath: view.MissedPath{Path: "/maybe", Requests: 7}, Target: "/perhaps", Grade: redirects.Likely,
			Reason: "ask @octocat"},
		{MissedPath: view.MissedPath{Path: "/a` @octocat"}, Target: "/x", Grade: redirects.Likely}}
	for _, path := range sure {
		proposals = append(proposals, redirects.Proposal{MissedPath: view.MissedPath{Path: path, Requests: 1200},
			Target: "/new" + path, Grade: redirects.Sure, Reason: "renamed"})
	}
	p := redirects.PullRequest{Project: "prj_docs", File: s.file, Proposals: proposals, Labels: []string{"docs"},
		Host: host, Full: s.full}
	p.Text, p.Added, _ = rules.Add(redirects.SureRules(proposals))
	_, link, pushed, err = c.Propose(ctx, p)
	return link, pushed, err
}

// want checks the outcome of a run: the link of a pull request, of so many, whose branch adds the paths to the base and
// changes nothing else.
func (s *site) want(number, of int, link string, err error, paths ...string) {
	s.Helper()
	if err != nil || link != s.host.Link(number) || len(s.host.Pulls()) != of {
		s.Fatalf("%s %v, %d pull requests; want %s of %d", link, err, len(s.host.Pulls()), s.host.Link(number), of)
	}
	want := s.git(s.bare, "show", s.git(s.bare, "merge-base", "main", branch)+":_redirects")
	for _, path := range paths {
		want += "\n" + path + " /new" + path + " 301"
		if !strings.Contains(s.host.Pulls()[number-1].Body, "- `"+path+"` → `/new"+path+"` (1,200 requests, renamed)\n") {
			s.Errorf("pull request %d lacks %s: %s", number, path, s.host.Pulls()[number-1].Body)
		}
	}
	if text := s.git(s.bare, "show", branch+":_redirects"); text != want {
		s.Errorf("file: %q, want %q", text, want)
	}
	changed := s.git(s.bare, "log", "--format=%an", "--raw", "--no-abbrev", "main.."+branch)
	refs := s.git(s.bare, "for-each-ref", "--format=%(refname:short)")
	if lines := strings.Fields(changed); len(lines) != 7 || lines[0] != "docgauge" || lines[1] != ":100644" ||
		lines[2] != "100644" || lines[6] != "_redirects" || refs != branch+"\nmain" {
		s.Errorf("more than the file changed: %s; refs %s", changed, refs)
	}
}

func TestPropose_pullRequest(t *testing.T) {
	for _, kind := range []string{"github", "gitlab", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			s := newSite(t, kind)
			at := func() string { return s.git(s.bare, "rev-parse", branch) }
			s.full = errors.New("2 open")
			_, _, err := s.propose(t.Context(), "/a")
			if refs := s.git(s.bare, "for-each-ref", "--format=%(refname:short)"); err == nil || refs != "main" ||
				err.Error() != "no pull request is opened: 2 open" {
				t.Errorf("at a cap: %v; refs %s", err, refs)
			}
			s.full = nil
			link, pushed, err := s.propose(t.Context(), "/a")
			s.want(1, 1, link, err, "/a")
			first := s.host.Pulls()[0]
			body := first.Body
			if !pushed || !strings.Contains(body, "- [ ] `/maybe` → `/perhaps`? (7 requests, ask @\u200boctocat)") ||
				strings.Count(body, "octocat") != 1 || !slices.Equal(first.Labels, []string{"docs"}) ||
				first.Branch != branch || first.Base != "main" {
				t.Errorf("pushed %t: %+v", pushed, first)
			}

			before, _ := at(), s.host.Asked()
			link, pushed, err = s.propose(t.Context(), "/a")
			s.want(1, 1, link, err, "/a")
			if asked := s.host.Asked(); pushed || at() != before || slices.ContainsFunc(asked, func(method string) bool {
				return method == http.MethodPatch || method == http.MethodPut
			}) {
				t.Errorf("a second run: pushed %t, %s after %s, %s", pushed, at(), before, asked)
			}
			s.advance("readme.md", "other")
			if _, pushed, err = s.propose(t.Context(), "/a"); err != nil || pushed || at() != before {
				t.Errorf("after another change of the base: pushed %t, %v", pushed, err)
			}

			s.full = errors.New("an open one is updated")
			link, _, err = s.propose(t.Context(), "/a", "/b")
			s.want(1, 1, link, err, "/a", "/b")
			s.full = nil
			s.advance("_redirects", "# ours\n/x /y 301\n/z /y 301\n")
			link, _, err = s.propose(t.Context(), "/a", "/b")
			s.want(1, 1, link, err, "/a", "/b")
			if base := s.git(s.bare, "merge-base", "main", branch); base != s.git(s.bare, "rev-parse", "main") {
				t.Errorf("the branch is not on top of the newest base: %s", base)
			}

			if err := s.host.Act(1, fake.Event{Action: fake.Close}); err != nil {
				t.Fatal(err)
			}
			link, _, err = s.propose(t.Context(), "/a", "/b")
			s.want(1, 1, link, err, "/a", "/b")
			s.advance("_redirects", "# ours\n/x /y 301\n") // the rules that were refused are the same
			link, pushed, err = s.propose(t.Context(), "/a", "/b")
			s.want(1, 1, link, err, "/a", "/b")
			s.git(s.bare, "update-ref", "-d", "refs/heads/"+branch)
			link, again, err := s.propose(t.Context(), "/a", "/b")
			if refs := s.git(s.bare, "for-each-ref", "--format=%(refname:short)"); err != nil || link != s.host.Link(1) ||
				pushed || again || refs != "main" || len(s.host.Pulls()) != 1 {
				t.Errorf("after a refusal: pushed %t, %t, %s %v; refs %s", pushed, again, link, err, refs)
			}
			link, _, err = s.propose(t.Context(), "/a", "/b", "/c")
			s.want(2, 2, link, err, "/a", "/b", "/c")

			before, s.file = at(), "public/_redirects"
			_, _, err = s.propose(t.Context(), "/a")
			if err == nil || !strings.Contains(err.Error(), branch+": changes _redirects") || at() != before {
				t.Errorf("another file: %v, %s after %s", err, at(), before)
			}
			s.file = "_redirects"

			s.git(s.clone, "fetch", "--quiet", "origin", branch)
			s.git(s.clone, "checkout", "--quiet", "FETCH_HEAD")
			s.write("_redirects", "mine")
			s.git(s.clone, "commit", "--quiet", "-am", "mine")
			s.git(s.clone, "push", "--quiet", "origin", "HEAD:refs/heads/"+branch)
			before = at()
			_, _, err = s.propose(t.Context(), "/d")
			if err == nil || !strings.Contains(err.Error(), branch+": has a commit of Person <person@example.com>") ||
				at() != before || len(s.host.Pulls()) != 2 {
				t.Errorf("a stranger's commit: %v, %s after %s", err, at(), before)
			}
		})
	}
}

// TestPropose_lost: what a run did whose answers were lost is found by itself, or by the next run after a kill.
func TestPropose_lost(t *testing.T) {
	killed := func(when func(r *http.Request, effect bool) bool) func(*site) {
		return func(s *site) {
			ctx, kill := context.WithCancel(s.Context())
			s.host.Fault = func(_ http.ResponseWriter, r *http.Request, effect bool) bool {
				if when(r, effect) {
					kill()
					panic(http.ErrAbortHandler)
				}
				return false
			}
			if _, _, err := s.propose(ctx, "/a"); err == nil {
				s.Fatal("the kill did not take place")
			}
			s.host.Fault = nil
		}
	}
	beforeOpening := killed(func(_ *http.Request, effect bool) bool { return !effect })
	for name, before := range map[string]func(*site){
		"killed before it was opened": beforeOpening,
		"killed after a refusal": func(s *site) {
			if _, _, err := s.propose(s.Context(), "/refused"); err != nil {
				s.Fatal(err)
			}
			if err := s.host.Act(1, fake.Event{Action: fake.Close}); err != nil {
				s.Fatal(err)
			}
			beforeOpening(s)
		},
		"killed after it was opened": killed(func(r *http.Request, effect bool) bool {
			return effect && r.Method == http.MethodPost
		}),
		"answer lost": func(s *site) {
			lost := false
			s.host.Fault = func(_ http.ResponseWriter, r *http.Request, effect bool) bool {
				if effect && r.Method == http.MethodPost && !lost {
					lost = true
					panic(http.ErrAbortHandler)
				}
				return false
			}
		},
		"answer to the push lost": func(s *site) {
			if err := os.WriteFile(filepath.Join(s.bare, "hooks", "reference-transaction"),
				[]byte("#!/bin/sh\n[ $1 != committed ] || kill -9 $PPID\n"), 0o755); err != nil {
				s.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "gitea")
			synctest.Test(t, func(t *testing.T) { // pauses take no time
				s.T = t
				before(s)
				link, _, err := s.propose(t.Context(), "/a")
				number := 1
				if name == "killed after a refusal" {
					number = 2
				}
				s.want(number, number, link, err, "/a")
			})
		})
	}
}

// TestBegan: a redirect began with the merge that brought it, or its target, to the base branch.
func TestBegan(t *testing.T) {
	clone := engines.GitRepository(t)
	day := func(n int) time.Time { return time.Date(2026, 10, n, 12, 0, 0, 0, time.UTC) }
	g := git.Client{Program: "git", Dir: clone, Env: os.Environ()}.With("GIT_AUTHOR_NAME=P", "GIT_AUTHOR_EMAIL=p@x",
		"GIT_COMMITTER_NAME=P", "GIT_COMMITTER_EMAIL=p@x")
	run := func(n int, args ...string) string {
		t.Helper()
		out, err := g.With("GIT_COMMITTER_DATE="+day(n).Format(time.RFC3339)).Run(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	commit := func(n int, text string) {
		if err := os.WriteFile(filepath.Join(clone, "_redirects"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		run(n, "add", ".")
		run(n, "commit", "--quiet", "-m", "redirects")
	}
	const first, again = "/old/ /a 301\n/old /b 301\n/w/* /a 301\n", "/shown /a 200\n/old /a 301\n/gone /a 301\n"
	commit(1, first+"/gone /a 301\n/moved /a 301\n")
	commit(2, first+"/moved /a 301\n")
	base := run(2, "branch", "--show-current")
	run(2, "checkout", "--quiet", "-b", "wanted")
	commit(3, again+"/moved /b 301\n/new /a.html#part 302\n")
	run(4, "checkout", "--quiet", base)
	run(5, "merge", "--quiet", "--no-ff", "-m", "merged", "wanted")
	want := []journal.Redirect{{Path: "/gone", Target: "/a", Since: day(5)}, {Path: "/moved", Target: "/b", Since: day(5)},
		{Path: "/new", Target: "/a", Since: day(5)}, {Path: "/old", Target: "/a", Since: day(1)}}
	began := func(dir, file string) []journal.Redirect {
		t.Helper()
		got, err := redirects.Began(t.Context(), git.Client{Program: "git", Dir: dir, Env: os.Environ()}, "HEAD",
			"netlify", file)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := began(clone, "./_redirects"); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := began(clone, "./none"); got != nil {
		t.Error(got)
	}
	// In a clone without older commits, what its oldest commit has may be older.
	shallow := filepath.Join(t.TempDir(), "shallow")
	engines.Git(t, ".", "clone", "--quiet", "--depth", "2", "file://"+clone, shallow)
	if got := began(shallow, "./_redirects"); !slices.Equal(got, want[:3]) {
		t.Errorf("%v, want %v", got, want[:3])
	}
}

// TestReadRepository: the history is the whole repository's, also from a directory in it.
func TestReadRepository(t *testing.T) {
	clone := engines.GitRepository(t)
	engines.Git(t, clone, "mv", "readme.md", "about.md")
	engines.Git(t, clone, "commit", "--quiet", "-m", "renamed")
	below := filepath.Join(clone, "site")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{clone, below} {
		h, complete, err := redirects.ReadRepository(t.Context(), git.Client{Program: "git", Dir: dir, Env: os.Environ()},
			"HEAD")
		if err != nil || !complete || !slices.Equal(h.Files, []string{"about.md"}) || h.Former["readme.md"].File != "about.md" {
			t.Errorf("%s: %+v, complete %t, %v", dir, h, complete, err)
		}
	}
}
