package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

func TestEditAndFollowUp(t *testing.T) {
	repo := engines.GitRepository(t)
	// A person is in the middle of work.
	write(t, filepath.Join(repo, "readme.md"), "# Docs, half written")
	write(t, filepath.Join(repo, "staged.md"), "staged")
	engines.Git(t, repo, "add", "staged.md")
	write(t, filepath.Join(repo, "untracked.md"), "untracked")
	before := untouched(t, repo)

	r := openRepo(t, RepoOptions{Path: repo, Command: `cat >> notes.md && printf 'Bye.\n' >> readme.md`})
	first := edit(t, r, Task{Job: "job_1", Prompt: "Say bye\nand more\n"})
	second := edit(t, r, Task{Job: "job_1", Prompt: "-n --amend $(touch /tmp/x)\n", Last: first})
	if diff := cmp.Diff([]string{"Say bye", "-n --amend $(touch /tmp/x)"}, second.Messages); diff != "" {
		t.Error(diff)
	}
	if second.Base != first.Base || second.Branch != "docgauge/job_1" || first.isEmpty() || second.Head == first.Head {
		t.Errorf("first %+v, second %+v", first, second)
	}
	if after := untouched(t, repo); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if left, _ := os.ReadDir(r.dir); len(left) > 1 { // besides the lock
		t.Errorf("worktrees left: %v", left)
	}

	clone := filepath.Join(t.TempDir(), "clone")
	engines.Git(t, ".", "clone", "--quiet", "--branch", "docgauge/job_1", repo, clone)
	text, err := os.ReadFile(filepath.Join(clone, "notes.md"))
	if err != nil || string(text) != "Say bye\nand more\n-n --amend $(touch /tmp/x)\n" {
		t.Errorf("notes.md: %q %v", text, err)
	}
	log := engines.Git(t, clone, "log", "--format=%an <%ae> %cn|%B", "-1")
	if log != "docgauge <agent-jobs@docgauge.invalid> docgauge|-n --amend $(touch "+
		"/tmp/x)\n\nDocgauge-Job: job_1" {
		t.Errorf("log: %s", log)
	}
	diff, err := r.Diff(t.Context(), second)
	if err != nil || !strings.Contains(diff, "+Bye.\n+Bye.\n") || !strings.Contains(diff, "+++ b/notes.md") ||
		strings.Contains(diff, "half written") {
		t.Errorf("diff %v: %s", err, diff)
	}
}

// TestHowCommandsEnd: a change is the result however the command ended; without one, the command must
// have ended well.
func TestHowCommandsEnd(t *testing.T) {
	repo := engines.GitRepository(t)
	before := untouched(t, repo)
	for name, tc := range map[string]struct{ command, check, err, output, changed string }{
		"fails":         {"echo out; echo err >&2; exit 3", "", "exit status 3", "out\nerr\n", ""},
		"not found":     {"no-such-command-here", "", "exit status 127", "no-such-command-here", ""},
		"hangs":         {"sleep 1000", "", "took longer than 300ms and was killed", "", ""},
		"children hang": {"sleep 1000 & sleep 1000 | cat; wait", "", "took longer than 300ms and was killed", "", ""},
		"prints much": {"head -c 3000000 /dev/zero | tr '\\0' x; echo the end; exit 1", "",
			"exit status 1", "xxxthe end\n", ""},
		"floods": {"yes", "", "printed more than", "", ""},
		"fills":  {"head -c 30000000 /dev/zero >big; echo x >new.md; sleep 1000", "", "wrote more than 19 MiB", "", ""},
		"fills and ends": {"for i in 1 2 3; do head -c 8000000 /dev/zero >big$i; done", "",
			"wrote more than 19 MiB", "", ""},
		"makes many files": {"i=0; while [ $i -lt 5000 ]; do i=$((i+1)); : >new$i; done", "",
			"wrote more than 19 MiB", "", ""},
		"one call": {"truncate -s 30M big && exit 0; rm -f big; exit 3", "",
			"exit status 3", "", ""},
		"makes holes": {"for i in 1 2 3; do truncate -s 8M big$i; done", "",
			"wrote more than 19 MiB", "", ""},
		"deletes": {"exec 3>x 4>y; rm x y; head -c 15000000 /dev/zero >&3; head -c 15000000 /dev/zero >&4; sleep 1000", "",
			"wrote more than 19 MiB", "", ""},
		"makes long names": {"d=$(printf %0250d 0); d=$d/$d/$d/$d/$d/$d/$d; mkdir -p $d/$d; cd $d/$d; " +
			"for i in $(seq 200); do : >f$i; done", "", "change refused: the names of its files take more than 608 KiB", "", ""},
		"hides": {"mkdir a; head -c 15000000 /dev/zero >a/x; head -c 15000000 /dev/zero >a/y; chmod 0 a; sleep 1000", "",
			"wrote more than 19 MiB", "", ""},
		"cheats":    {"echo all done", "", "", "all done\n", ""},
		"is gone":   {`rm -rf "$PWD"`, "", "left no directory", "", ""},
		"is a link": {`cd .. && rm -rf tree && ln -s / tree`, "", "left no directory", "", ""},

		"changes and fails": {"echo x >new.md; exit 3", "", "", "", "new.md"},
		"changes and hangs": {"echo x >new.md; : >WRITTEN; sleep 1000", "", "", "", "new.md"},
		"passes":            {"echo x >new.md", "grep -q x new.md; echo y >other.md", "", "", "new.md"},
		"does not pass":     {"echo x >new.md", "echo broken; exit 4", "CHECK_COMMAND: check: exit status 4", "broken\n", ""},
		"check hangs":       {"echo x >new.md; : >WRITTEN", "sleep 1000", "check: took longer than ", "", ""},
		"check of nothing":  {"true", "exit 4", "", "", ""},

		// The repository around the files is the agent's own.
		"leaves": {"git checkout -q -b other && echo x > new.md", "", "", "", "new.md"},
		"commits": {"echo x > new.md; git add . ; git -c user.name=x -c user.email=x@x commit -qm own",
			"", "", "", "new.md"},
		"rewrites": {"git -c user.name=x -c user.email=x@x commit -q --amend -m other", "", "", "", ""},
		"no git":   {"rm -rf .git; echo x > new.md", "", "", "", "new.md"},
		"a program of git": {"git config core.fsmonitor 'touch fsmonitor'; git config core.hooksPath . ; " +
			"echo x > new.md", "", "", "", "new.md"},
	} {
		t.Run(name, func(t *testing.T) {
			written := filepath.Join(t.TempDir(), "written")
			command := strings.ReplaceAll(tc.command, "WRITTEN", written)
			r := openRepo(t, RepoOptions{Path: repo, Command: command, Check: tc.check, Timeout: time.Minute,
				MaxDisk: 19 << 20})
			if strings.HasSuffix(strings.TrimSuffix(name, "s"), "hang") {
				r.options.Timeout = 300 * time.Millisecond
			}
			result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "secret prompt"})
			for command != tc.command && r.options.Timeout < time.Minute {
				if _, missing := os.Stat(written); missing == nil {
					break
				}
				r.options.Timeout *= 2 // a busy machine did not come to the command in time
				result, err = r.Edit(t.Context(), Task{Job: "job_1", Prompt: "secret prompt"})
			}
			if (err != nil) != (tc.err != "") || err != nil && (!strings.Contains(err.Error(), tc.err) ||
				strings.Contains(err.Error(), "secret")) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if !strings.Contains(result.Output, tc.output) || len(result.Output) > keptOutput+10 {
				t.Errorf("%d bytes of output, want %q in %.200q", len(result.Output), tc.output, result.Output)
			}
			if err == nil && !result.Change.isEmpty() != (tc.changed != "") {
				t.Errorf("change %+v", result.Change)
			}
			if branches(t, repo) != "" {
				if got := engines.Git(t, repo, "diff", "--name-only", "main", "docgauge/job_1"); got != tc.changed {
					t.Errorf("changed %s, want %s", got, tc.changed)
				}
				engines.Git(t, repo, "branch", "-D", "docgauge/job_1")
			} else if tc.changed != "" {
				t.Errorf("no branch, want %s changed", tc.changed)
			}
			if after := untouched(t, repo); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
			if left, _ := os.ReadDir(r.dir); len(left) > 1 { // besides the lock
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestHistoryDoesNotCount: the objects that a job begins with are on the disk once, and not in its limit.
func TestHistoryDoesNotCount(t *testing.T) {
	repo := engines.GitRepository(t)
	big := make([]byte, 3<<20)
	_, _ = rand.Read(big)
	write(t, filepath.Join(repo, "big"), string(big))
	engines.Git(t, repo, "add", ".")
	engines.Git(t, repo, "commit", "--quiet", "-m", "big")
	engines.Git(t, repo, "rm", "--quiet", "big")
	engines.Git(t, repo, "commit", "--quiet", "-m", "small")
	r := openRepo(t, RepoOptions{Path: repo, MaxDisk: 1 << 20,
		Command: "cat >>new.md; git show HEAD~1:big | wc -c; du -sk .git | cut -f 1"})
	result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"})
	size, own := 0, 1<<20
	_, scanned := fmt.Sscan(result.Output, &size, &own)
	if err != nil || scanned != nil || size != len(big) || own > 1<<10 {
		t.Errorf("%v; the file has %d bytes, want %d; .git has %d KiB; output %q", err, size, len(big), own, result.Output)
	}
}

// TestRefusals: changes that make programs run elsewhere, that lead out of the repository or that have
// a secret are not committed.
func TestRefusals(t *testing.T) {
	repo := engines.GitRepository(t)
	write(t, filepath.Join(repo, ".gitignore"), "ignored/\n")
	write(t, filepath.Join(repo, ".github", "workflows", "ci.yml"), "on: push\n")
	check(t, os.MkdirAll(filepath.Join(repo, "a", "b"), 0o755))
	check(t, os.Symlink("../../readme.md", filepath.Join(repo, "a", "b", "up.md")))
	write(t, filepath.Join(repo, "twins", "x.md"), "x")
	write(t, filepath.Join(repo, "Twins", "x.md"), "x")
	for name, target := range map[string]string{
		".vscode": "tools/vscode", ".gitlab-ci.yml": "tools/first", "tools/first": "../tools/gl.yml",
		".claude": "tools/claude", "tools/claude/skills": "../../shared/skills", ".github/hooks": "../Tools/hooks",
		".devcontainer": "loop", "loop": "loop", "api/v1": "../v1", "a/self": ".", "deploy.md": "x.md",
	} {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(repo, name)), 0o755))
		check(t, os.Symlink(target, filepath.Join(repo, name)))
	}
	for _, name := range []string{
		"bare/all/HEAD", "bare/all/objects/x", "bare/all/refs/x", "bare/two/HEAD", "bare/two/Objects/x",
		"tools/vscode/tasks.json", "tools/gl.yml", "shared/skills/x",
	} {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(repo, name)), 0o755))
		write(t, filepath.Join(repo, name), "x")
	}
	engines.Git(t, repo, "add", ".")
	engines.Git(t, repo, "commit", "--quiet", "-m", "second")
	t.Setenv("MODEL_KEY", "sk-0123456789abcdef")
	t.Setenv("MODEL_NAME", "small")
	const key = "$MODEL_KEY"
	objects := engines.Git(t, repo, "count-objects")
	r := openRepo(t, RepoOptions{Path: repo, Env: variables("MODEL_KEY", "MODEL_NAME"), Refuse: []string{"deploy.*"},
		MaxDisk: 64 << 20})
	for command, want := range map[string]string{
		"mkdir -p .github/workflows; echo x > .github/workflows/new.yml":               "makes programs run elsewhere",
		"rm .github/workflows/ci.yml":                                                  "makes programs run elsewhere",
		"mkdir .GITHUB; mv .github/workflows .GITHUB/workflows":                        "makes programs run elsewhere",
		"echo '[submodule \"x\"]' > .gitmodules":                                       "submodules",
		"git init -q inner && echo x > inner/new.md":                                   "does not have a commit",
		"git init -q --bare sub/.git":                                                  "does not have a commit",
		"mkdir inner; echo 'gitdir: /srv/docs.git' > inner/.GIT":                       "invalid path",
		"git clone -q . inner":                                                         "is a repository inside",
		"printf x > '.gi\u200ct'":                                                      "invalid path",
		"echo x > aux":                                                                 "Windows cannot",
		"echo x > '.gitmodules '":                                                      "submodules",
		"echo x > .lfsconfig":                                                          "Git LFS",
		"echo x > .lefthook.yaml":                                                      "AGENT_ALLOW=hooks permits",
		"ln -s docs .claude":                                                           "AGENT_ALLOW=editors permits",
		"mkdir -p a; echo x > a/deploy.cfg":                                            "AGENT_REFUSE",
		"echo x > Readme.md":                                                           "same name as \"readme.md\"",
		"mkdir -p A/b; echo x > A/b/new.md":                                            "same name as \"a",
		"echo x > café.md; echo x > café.md":                                          "same name as",
		"echo x > tWINS":                                                               "same name as",
		"mv readme.md Readme.md; mv a A":                                               "",
		"echo x > twins/new.md; echo x > Twins/y.md":                                   "",
		"truncate -s 40M big; truncate -s 40M large":                                   "JOB_DISK",
		"ln -s /etc/passwd link":                                                       "is a link out",
		"ln -s ../x link":                                                              "is a link out",
		"mkdir z; ln -s .. z/w; ln -s z/w/.. link":                                     "is a link out",
		"ln -s .git/config link":                                                       "is a link out",
		"echo before " + key + " after > new.md":                                       "contains the secret MODEL_KEY",
		"seq 30000 > new.md; printf %s " + key + " >> new.md":                          "contains the secret MODEL_KEY",
		"echo x > x" + key:                                                             "has a secret",
		"ln -s x" + key + " link":                                                      "contains the secret MODEL_KEY",
		"ln -s b/up.md a/link; ln -s ../../readme.md a/b/link":                         "",
		"ln -s no/such/file link; echo $MODEL_NAME > small.md":                         "",
		"mkdir ignored; git init -q ignored/inner; echo x > new.md":                    "",
		"mkdir -p n/objects n/refs; echo x | tee n/HEAD n/objects/x >n/refs/x":         "is in a repository inside",
		"mkdir -p n/refs n/Objects; echo x | tee n/head n/Objects/x >n/refs/x":         "is in a repository inside",
		"mkdir n; ln -s ../a n/objects; ln -s ../a n/refs; echo x >n/HEAD":             "is in a repository inside",
		"mkdir n; echo x >n/HEAD; echo ../a >n/commondir":                              "is in a repository inside",
		"cp -r .git/HEAD .git/objects .git/refs .; echo x >refs/x; echo x >objects/x":  "is in a repository inside",
		"mkdir bare/two/refs; echo x >bare/two/refs/x":                                 "is in a repository inside",
		"echo x >bare/all/config":                                                      "is in a repository inside",
		"mkdir bare/all/hooks; echo x >bare/all/hooks/x":                               "is in a repository inside",
		"echo x >bare/two/config; rm -r bare/all":                                      "",
		"echo x >tools/vscode/new.json":                                                "ALLOW=editors permits",
		"rm tools/vscode/tasks.json":                                                   "ALLOW=editors permits",
		"echo x >>tools/gl.yml":                                                        "ALLOW=ci permits",
		"rm tools/gl.yml; ln -s ../x.md tools/gl.yml":                                  "ALLOW=ci permits",
		"rm tools/first; ln -s ../x.md tools/first":                                    "ALLOW=ci permits",
		"echo x >shared/skills/new.md":                                                 "ALLOW=editors permits",
		"mkdir tools/hooks; echo x >tools/hooks/x":                                     "ALLOW=editors permits",
		"mkdir v1; echo x >v1/new.js":                                                  "ALLOW=hosts permits",
		"echo x >x.md":                                                                 "AGENT_REFUSE",
		"echo x >tools/new.md; rm a/self; mkdir v1; echo x >v1/x.md; echo x >shared/x": "",
		"mkdir -p docs/.github/workflows; echo x > docs/.github/workflows/y.yml":       "",
	} {
		r.options.Command = command
		result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"})
		if want == "" && (err != nil || result.Change.isEmpty()) || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sk-0")) {
			t.Errorf("%s: %v, output %q, want %q", command, err, result.Output, want)
		}
		now := engines.Git(t, repo, "count-objects")
		if want != "" && (branches(t, repo) != "" || now != objects) {
			t.Errorf("%s: a branch or objects are left", command)
		}
		objects = now
	}
	r = openRepo(t, RepoOptions{Path: repo, Env: variables("MODEL_KEY"), Allow: []string{AllowCI},
		Command: "echo " + key + "; echo x > .github/workflows/ci.yml"})
	result, err := r.Edit(t.Context(), Task{Job: "job_2", Prompt: "x"})
	if err != nil || result.Output != "[redacted]\n" {
		t.Errorf("allowed: %v, output %q", err, result.Output)
	}
}

// TestGuardedNames: what a kind guards, also by a short name of Windows; names like these are allowed.
func TestGuardedNames(t *testing.T) {
	for kind, names := range map[string]string{
		AllowCI: ".taskcluster.yml .rultor.yml .magnum-ci.yml .shippable.yml .packit.yaml .copr/Makefile .ci.yaml " +
			".tangled/workflows/x.yml .eas/workflows/x.yml app/ci_scripts/ci_post_clone.sh .radicle/native.yaml " +
			"buildkite.yml renovate.json .github/renovate.json5 .renovaterc .github/WORKFL~1/x.yml JENKIN~1 .gitlab-ci.yml " +
			"ci/Jenkinsfile",
		AllowHosts: "out/_worker.js functions/x/y.md api/x.js api/a/b/c.mts api/x.jsx api/a.py api/x/a.go api/a.rb " +
			".cpanel.yml .deployment .ebextensions/x.config apprunner.yaml staticwebapp.config.json docs/.htaccess " +
			"docs/.user.ini project.toml NETLIF~1.TOM netlify.toml",
		AllowHooks: "githooks/x git-hooks/x .git_hooks/x prek.toml hk.pkl .config/hk.pkl .cargo-husky/hooks/x " +
			".captainhook.json .rusty-hook.toml docs/.hg/hgrc .jj/repo/config.toml HUSKY~1/pre-commit .husky/pre-commit",
		AllowEditors: ".run/x.run.xml launch.vs.json .theia/tasks.json .lvimrc .local.vimrc .nvim/x .helix/x " +
			".neoconf.json .autoenv.zsh .tool-versions mise/config.toml .openhands/setup.sh .opencode.json " +
			".augment/settings.json .rovodev/config.yml .claude-plugin/plugin.json .continuerc.json " +
			".flox/env/manifest.toml devenv.nix .clinerules/hooks/x VSCODE~1/tasks.json x/claude~2/x " +
			"VS0F3A~1/tasks.json .VSCODE/tasks.json .vſcode/tasks.json",
		"": "docs/functions/x.js api/index.md docs/api/x.js .env .clinerules/x.md hooks/x vscode/x docs/~1 " +
			"docs/readme~1 VSCODE~x/x .github/ISSUE_TEMPLATE/x.md",
	} {
		for name := range strings.FieldsSeq(names) {
			err := refusePath((&Repo{}).guards(), name, false)
			if kind == "" && err != nil || kind != "" && (err == nil || !strings.Contains(err.Error(), "ALLOW="+kind+" ")) {
				t.Errorf("%s: %v, want %q", name, err, kind)
			}
		}
	}
}

// TestSecretAcrossWrites: a secret is found and hidden wherever the writes cut it.
func TestSecretAcrossWrites(t *testing.T) {
	const text = "before sk-0123456789abcdef after"
	for i := range len(text) {
		for j := i; j < len(text); j++ {
			var out strings.Builder
			f := &redactor{to: &out, secrets: (&Repo{options: RepoOptions{Env: []Variable{
				{Name: "SHORT", Value: "sk-01234"}, {Name: "KEY", Value: "sk-0123456789abcdef"}, {Name: "OTHER", Value: "abcdefgh"},
			}}}).secrets()}
			for _, part := range []string{text[:i], text[i:j], text[j:]} {
				_, err := io.WriteString(f, part)
				check(t, err)
			}
			check(t, f.flush())
			if out.String() != "before [redacted] after" || len(f.found) != 1 || f.found["KEY"] != 1 {
				t.Fatalf("cut at %d and %d: %s, found %v", i, j, out.String(), f.found)
			}
		}
	}
}

// A command that was interrupted may have left commits: they are not built on.
// Commits that people make between instructions are.
func TestWhatIsBuiltOn(t *testing.T) {
	repo := engines.GitRepository(t)
	r := openRepo(t, RepoOptions{Path: repo, Command: "cat >> new.md"})
	first := edit(t, r, Task{Job: "job_1", Prompt: "one\n"})
	edit(t, r, Task{Job: "job_1", Prompt: "lost\n", Last: first})
	again := edit(t, r, Task{Job: "job_1", Prompt: "two\n", Last: first, Again: true})
	if got := engines.Git(t, repo, "show", "docgauge/job_1:new.md"); got != "one\ntwo" {
		t.Errorf("begun again: %q", got)
	}
	engines.Git(t, repo, "checkout", "--quiet", "docgauge/job_1")
	write(t, filepath.Join(repo, "person.md"), "by hand")
	engines.Git(t, repo, "add", ".")
	engines.Git(t, repo, "commit", "--quiet", "-m", "by hand")
	_, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "three\n", Last: again})
	if err == nil || !strings.Contains(err.Error(), "is checked out in") {
		t.Errorf("branch checked out by a person: %v", err)
	}
	engines.Git(t, repo, "checkout", "--quiet", "main")
	last := edit(t, r, Task{Job: "job_1", Prompt: "three\n", Last: again})
	if diff := cmp.Diff([]string{"one", "two", "by hand", "three"}, last.Messages); diff != "" {
		t.Error(diff)
	}
}

func TestManyJobsAtOnce(t *testing.T) {
	repo := engines.GitRepository(t)
	before := untouched(t, repo)
	r := openRepo(t, RepoOptions{Path: repo, Command: "cat > new.md; git status > status.md"})
	var jobs sync.WaitGroup
	for _, id := range strings.Split("abcdefgh", "") {
		jobs.Go(func() {
			var last Change
			for _, prompt := range []string{"one", "two", "three"} {
				result, err := r.Edit(t.Context(), Task{Job: "job_" + id, Prompt: prompt + id, Last: last})
				c := result.Change
				if err != nil || c.Head == last.Head {
					t.Errorf("%s %s: %v %s", id, prompt, err, result.Output)
				}
				last = c
			}
			if got := engines.Git(t, repo, "show", "docgauge/job_"+id+":new.md"); got != "three"+id ||
				len(last.Messages) != 3 {
				t.Errorf("%s: %q %v", id, got, last.Messages)
			}
		})
	}
	jobs.Wait()
	if after := untouched(t, repo); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// The command sees neither secrets nor a way to run git anywhere else, and git
// does not run programs that the repository or the command configures.
func TestEnvironment(t *testing.T) {
	repo := engines.GitRepository(t)
	for name, value := range map[string]string{
		"DOCGAUGE_API_KEY": "leak", "GITHUB_TOKEN": "leak", "GIT_DIR": "/nowhere", "GIT_AUTHOR_NAME": "leak",
		"AWS_SECRET_ACCESS_KEY": "leak", "MODEL_KEY": "wanted",
	} {
		t.Setenv(name, value)
	}
	ran := filepath.Join(t.TempDir(), "ran")
	for _, hook := range []string{
		"pre-commit", "commit-msg", "post-commit", "post-checkout", "prepare-commit-msg",
		"reference-transaction",
	} {
		path := filepath.Join(repo, ".git", "hooks", hook)
		write(t, path, "#!/bin/sh\necho "+hook+" >> "+ran+"\nexit 1\n")
		check(t, os.Chmod(path, 0o755))
	}
	engines.Git(t, repo, "config", "commit.gpgSign", "true")
	engines.Git(t, repo, "config", "core.fsmonitor", "touch "+ran)
	engines.Git(t, repo, "config", "commit.cleanup", "no such way")
	r := openRepo(t, RepoOptions{Path: repo, Command: `env > env.txt; pwd; cat > prompt.txt`,
		Env: variables("MODEL_KEY")})
	result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"})
	check(t, err)
	env := engines.Git(t, repo, "show", result.Change.Head+":env.txt")
	for _, secret := range []string{"leak", "DOCGAUGE", "GIT_"} {
		if strings.Contains(env, secret) {
			t.Errorf("%s in the environment:\n%s", secret, env)
		}
	}
	if !strings.Contains(env, "MODEL_KEY=wanted") || !strings.Contains(env, "PATH=") ||
		!strings.HasPrefix(result.Output, r.dir) {
		t.Errorf("directory %s, environment:\n%s", result.Output, env)
	}
	if text, err := os.ReadFile(ran); err == nil {
		t.Errorf("git ran %s", text)
	}
}

// All processes of the command end with it, also those that keep its output open.
func TestNothingGoesOnAfterTheCommand(t *testing.T) {
	testNothingIsLeft(t, "sleep 1000 3> $FIFO &")
}

// testNothingIsLeft runs a command that starts a process that opens $FIFO and would never
// end, and waits until none has it open: once with a command that ends, once with one that
// is ended.
func testNothingIsLeft(t *testing.T, starts string) {
	t.Helper()
	for name, rest := range map[string]string{"ends": "", "times out": "; sleep 1000"} {
		dir := t.TempDir()
		fifo, begun := filepath.Join(dir, "fifo"), filepath.Join(dir, "begun")
		check(t, syscall.Mkfifo(fifo, 0o600))
		gone := make(chan error, 1)
		go func() {
			f, err := os.Open(fifo) // waits for the writer
			if err != nil {
				gone <- err
				return
			}
			defer f.Close()
			err = os.WriteFile(begun, nil, 0o600)
			_, readErr := io.Copy(io.Discard, f) // ends when no process has it open
			gone <- errors.Join(err, readErr)
		}()
		command := "echo x > new.md; export FIFO=" + fifo + "; " + starts + " until [ -e " + begun +
			" ]; do sleep 0.01; done"
		r := openRepo(t, RepoOptions{Path: engines.GitRepository(t), Command: command + rest})
		ctx, cancel := context.WithCancel(t.Context())
		if rest != "" {
			go func() {
				for _, err := os.Stat(begun); err != nil && ctx.Err() == nil; _, err = os.Stat(begun) {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
		}
		result, err := r.Edit(ctx, Task{Job: "job_1", Prompt: "x"})
		cancel()
		if (err != nil) != (rest != "") {
			t.Errorf("%s: %v, output %q", name, err, result.Output)
		}
		select {
		case err := <-gone:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: a process of the command is still there", name)
		}
	}
}

// A worktree without .git must not make git find the repository around it.
func TestCommandRemovesDotGit(t *testing.T) {
	repo := engines.GitRepository(t)
	outer := engines.GitRepository(t)
	before := untouched(t, outer)
	r := openRepo(t, RepoOptions{Path: repo, Command: "rm -r .git; echo x > new.md"},
		in(filepath.Join(outer, ".git", "worktrees-here")))
	c := edit(t, r, Task{Job: "job_1", Prompt: "x"})
	if got := engines.Git(t, repo, "show", c.Head+":new.md"); got != "x" || untouched(t, outer) != before {
		t.Errorf("new.md %q; around it %s", got, untouched(t, outer))
	}
	if list := engines.Git(t, repo, "worktree", "list"); strings.Contains(list, "\n") {
		t.Errorf("worktrees left: %s", list)
	}
}

// TestBranchAfterEdits: a branch has the commits of the command and of its changes. An
// instruction that fails, or changes nothing, does not change the branch; no worktree is left.
func TestBranchAfterEdits(t *testing.T) {
	repo := engines.GitRepository(t)
	for name, tc := range map[string]struct {
		command       string
		prompts, want []string
	}{
		"commits": {`echo a > a.md; git add a.md
			git -c user.name=Bot -c user.email=bot@x commit -qm "by the bot"; echo b > b.md`,
			[]string{"go on"}, []string{"go on"}},
		"nothing":       {"true", []string{"look"}, nil},
		"nothing-again": {"grep -q write && echo x >> new.md; true", []string{"write", "look"}, []string{"write"}},
		"fails":         {"grep -q good && echo x >> new.md", []string{"good", "bad"}, []string{"good"}},
		"read-only":     {"mkdir -p a/b && echo x > a/b/c && chmod 500 a/b a", []string{"x"}, []string{"x"}},
	} {
		r := openRepo(t, RepoOptions{Path: repo, Command: tc.command})
		var last Change
		for _, prompt := range tc.prompts {
			result, err := r.Edit(t.Context(), Task{Job: name, Prompt: prompt, Last: last})
			if failed := prompt == "bad"; (err != nil) != failed {
				t.Errorf("%s, %s: %v %s", name, prompt, err, result.Output)
			} else if !failed {
				last = result.Change
			}
		}
		if diff := cmp.Diff(tc.want, last.Messages); diff != "" || last.isEmpty() != (tc.want == nil) {
			t.Errorf("%s: %+v %s", name, last, diff)
		}
		head, _ := r.refCommit(t.Context(), "refs/heads/"+BranchPrefix+name)
		if head != last.Head && !last.isEmpty() || head != "" && last.isEmpty() {
			t.Errorf("%s: the branch is at %q, want %s", name, head, last.Head)
		}
		if left, _ := os.ReadDir(r.dir); len(left) > 1 { // besides the lock
			t.Errorf("%s: worktrees left: %v", name, left)
		}
	}
}

func TestStoppedEditCleansUp(t *testing.T) {
	repo := engines.GitRepository(t)
	begun := filepath.Join(t.TempDir(), "begun")
	r := openRepo(t, RepoOptions{Path: repo, Command: "echo begun; touch " + begun + "; sleep 1000"})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for {
			if _, err := os.Stat(begun); err == nil || ctx.Err() != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	result, err := r.Edit(ctx, Task{Job: "job_1", Prompt: "x"})
	if err == nil || result.Output != "begun\n" {
		t.Errorf("%v, output %q", err, result.Output)
	}
	if left, _ := os.ReadDir(r.dir); len(left) > 1 || branches(t, repo) != "" {
		t.Errorf("left: %v %s", left, branches(t, repo))
	}
}
