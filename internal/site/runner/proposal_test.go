package runner

import (
	"cmp"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestProposal: what a pull request says.
func TestProposal(t *testing.T) {
	repo := engines.GitRepository(t)
	r := openRepo(t, RepoOptions{Path: repo, Command: "for i in $(seq 33); do echo x >page$i.md; done; echo x >'a`b.md'",
		Labels: []string{"docs"}, Draft: true})
	c := edit(t, r, Task{Job: "job_1", Prompt: "Fixes #1 for @octocat", Title: "A title"})
	j := Job{ID: "job_1", Prompts: []string{"Fixes #1 for @octocat\n```\ncode\n```", "later"}, Said: "Did.\n\n@octocat, see."}
	j.cost.add(new(0.0192))
	p, err := r.proposal(t.Context(), j, c)
	check(t, err)
	body := strings.ReplaceAll(p.Body, "\u200b", "")
	for _, want := range []string{
		"> Did.\n> \n> @octocat, see.\n\nFiles changed:\n\n- `a'b.md`\n- `page1.md`", "\n- and 4 more\n",
		"job `job_1`. Cost so far: 0.0192 USD.\n", "````\nFixes #1 for @octocat\n```\ncode\n```\n````\n\n</details>",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("lacks %q: %s", want, body)
		}
	}
	if strings.Contains(p.Body, "@octocat") || strings.Contains(p.Body, "#1 ") || strings.Contains(body, "later") ||
		p.Title != "F\u200bixes #\u200b1 for @\u200boctocat" || !p.Draft || len(p.Labels) != 1 || c.Messages[0] != "A title" {
		t.Errorf("%+v, commits %v", p, c.Messages)
	}
	r.options.Command = `d=$(printf 'long%.0s' $(seq 50)); for i in $(seq 30); do ` +
		`mkdir -p $d/$d/$d/$d/$i/$d/$d/$d/$d/$d/$d/$d/$d; echo x >$d/$d/$d/$d/$i/$d/$d/$d/$d/$d/$d/$d/$d/p.md; done`
	long := edit(t, r, Task{Job: "job_2", Prompt: "x"})
	if p, err = r.proposal(t.Context(), j, long); err != nil || len(p.Body) > 20<<10 || !strings.Contains(p.Body, "\n- and 24 more\n") {
		t.Errorf("long names: %v, %d bytes, %.200q", err, len(p.Body), p.Body[max(0, len(p.Body)-600):])
	}
	for _, title := range []string{"A title", ""} {
		r.options.HidePrompt, j.Title = true, title
		p, err = r.proposal(t.Context(), j, c)
		check(t, err)
		if strings.Contains(p.Body, "code") || p.Title != cmp.Or(title, "Agent job") {
			t.Errorf("without the prompt: %+v", p)
		}
	}
}

// TestAfterMerge: once its pull request is merged, a job begins at the newest base again and gets another pull request;
// otherwise the base is merged first.
func TestAfterMerge(t *testing.T) {
	const one, two = "one\n", "two\n"
	for name, tc := range map[string]struct {
		host          bool
		before        func(main string) // in a clone, on the base branch
		merged        bool
		commits, want string
	}{
		"squashed, branch deleted": {true, func(main string) {
			engines.Git(t, main, "merge", "--squash", "origin/docgauge/job_1")
			engines.Git(t, main, "commit", "-qm", "squashed")
			engines.Git(t, main, "push", "-q", "origin", "main", ":docgauge/job_1")
		}, true, "two", "one\ntwo"},
		"squashed, branch kept": {true, func(main string) {
			engines.Git(t, main, "merge", "--squash", "origin/docgauge/job_1")
			engines.Git(t, main, "commit", "-qm", "squashed")
			engines.Git(t, main, "push", "-q", "origin", "main")
		}, true, "two", "one\ntwo"},
		"merged, without a host": {false, func(main string) {
			engines.Git(t, main, "merge", "-q", "--no-ff", "-m", "merge", "origin/docgauge/job_1")
			engines.Git(t, main, "push", "-q", "origin", "main")
		}, true, "two", "one\ntwo"},
		"the base went on": {true, func(main string) {
			write(t, filepath.Join(main, "other.md"), "other")
			engines.Git(t, main, "add", ".")
			engines.Git(t, main, "commit", "-qm", "other")
			engines.Git(t, main, "push", "-q", "origin", "main")
		}, false, "one, Merge main, two", "one\ntwo"},
		"conflict": {true, func(main string) {
			write(t, filepath.Join(main, "new.md"), "other")
			engines.Git(t, main, "add", ".")
			engines.Git(t, main, "commit", "-qm", "other")
			engines.Git(t, main, "push", "-q", "origin", "main")
		}, false, "one, two", "one\ntwo"},
	} {
		t.Run(name, func(t *testing.T) {
			bare, main := filepath.Join(t.TempDir(), "docs.git"), t.TempDir()
			engines.Git(t, ".", "clone", "--quiet", "--bare", engines.GitRepository(t), bare)
			engines.Git(t, ".", "clone", "--quiet", bare, main)
			host := fake.NewHost("gitea", "team/docs", "token")
			r := openRepo(t, RepoOptions{Path: filepath.Join(t.TempDir(), "copy.git"), URL: "file://" + bare,
				Remote: "file://" + bare, Command: `if grep -q look; then exit; else echo $W >>new.md; fi`,
				Env: []Variable{}}, func(r *Repo) {
				if tc.host {
					var err error
					r.host, err = codehost.NewOpener("gitea", "team/docs", "https://git.example/api/v1",
						func() (string, error) { return "token", nil }, host)
					check(t, err)
				}
			})
			r.options.Command = "read line; [ $line = look ] || echo $line >>new.md"
			job := Job{ID: "job_1", Prompts: []string{one, two}, CreatedAt: noon}
			first := edit(t, r, Task{Job: "job_1", Prompt: one})
			link, err := r.Propose(t.Context(), job, first, "")
			check(t, err)
			if tc.host {
				job.PRLink = &link
			}
			engines.Git(t, main, "fetch", "-q")
			tc.before(main)
			if tc.merged && tc.host {
				check(t, host.Act(1, fake.Event{Action: fake.Merge}))
			}
			base := engines.Git(t, bare, "rev-parse", "main")
			if c := edit(t, r, Task{Job: "job_1", Prompt: "look\n", Last: first}); c.Head != first.Head {
				t.Errorf("nothing changed: %+v", c)
			}
			second := edit(t, r, Task{Job: "job_1", Prompt: two, Last: first})
			for range 2 { // again, as after a crash
				r.base = "" // as OpenRepo leaves it
				if link, err = r.Propose(t.Context(), job, second, ""); err != nil {
					t.Fatal(err)
				}
			}
			for _, pull := range host.Pulls() {
				if pull.Base != "main" {
					t.Errorf("a pull request for %s", pull.Base)
				}
			}
			pulls := map[bool]int{true: 1, false: 0}[tc.host]
			if tc.merged {
				pulls *= 2
			}
			if at := engines.Git(t, bare, "rev-parse", "docgauge/job_1"); at != second.Head || len(host.Pulls()) != pulls ||
				tc.host && link != host.Link(pulls) {
				t.Errorf("the remote is at %s, want %s; link %q of %d", at, second.Head, link, len(host.Pulls()))
			}
			if got := engines.Git(t, bare, "show", "docgauge/job_1:new.md"); got != tc.want {
				t.Errorf("new.md %q", got)
			}
			if got := strings.Join(second.Messages, ", "); got != tc.commits || name != "conflict" && second.Base != base {
				t.Errorf("commits %s on %s, want %s on %s", got, second.Base, tc.commits, base)
			}
			third := edit(t, r, Task{Job: "job_1", Prompt: "three\n", Last: second})
			check(t, r.push(t.Context(), third))
		})
	}
}
