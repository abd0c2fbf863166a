package runner

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

func TestOpenRefuses(t *testing.T) {
	repo := engines.GitRepository(t)
	write(t, filepath.Join(repo, "sub", "x.md"), "x")
	empty := filepath.Join(t.TempDir(), "empty")
	engines.Git(t, ".", "init", "--quiet", empty)
	detached := engines.GitRepository(t)
	engines.Git(t, detached, "checkout", "--quiet", "--detach")
	inTheWay := engines.GitRepository(t)
	engines.Git(t, inTheWay, "branch", "docgauge")
	for name, tc := range map[string]struct {
		options RepoOptions
		dir     string
		want    string
	}{
		"no directory":   {RepoOptions{Path: filepath.Join(repo, "none")}, "", "no such file"},
		"a file":         {RepoOptions{Path: filepath.Join(repo, "readme.md")}, "", "is a file"},
		"not git":        {RepoOptions{Path: t.TempDir()}, "", "want a git repository"},
		"inside":         {RepoOptions{Path: filepath.Join(repo, "sub")}, "", "is inside the repository"},
		"no commit":      {RepoOptions{Path: empty}, "", `branch "main": does not exist or has no commit`},
		"detached":       {RepoOptions{Path: detached}, "", "no branch checked out"},
		"no such branch": {RepoOptions{Path: repo, Base: "--help"}, "", `branch "--help": does not exist`},
		"branch":         {RepoOptions{Path: inTheWay}, "", "in the way"},
		"no remote":      {RepoOptions{Path: repo, Remote: "--all"}, "", `no remote "--all"`},
		"directory":      {RepoOptions{Path: repo}, filepath.Join(repo, "readme.md", "x"), "files of jobs"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Repo{options: tc.options, dir: tc.dir}
			err := r.open(t.Context())
			if err == nil {
				r.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := OpenRepo(t.Context(), RepoOptions{Path: repo}, ""); err == nil ||
		!strings.Contains(err.Error(), "install it") {
		t.Errorf("without git: %v", err)
	}
}

func TestBareAndDetachedRepositories(t *testing.T) {
	bare := filepath.Join(t.TempDir(), "bare.git")
	detached := engines.GitRepository(t)
	engines.Git(t, ".", "clone", "--quiet", "--bare", detached, bare)
	engines.Git(t, detached, "checkout", "--quiet", "--detach")
	for _, c := range []RepoOptions{
		{Path: bare}, {Path: detached, Base: "main"},
		{Path: filepath.Join(detached, ".")},
	} {
		c.Command, c.Base = "cat > new.md", "main"
		before := untouched(t, c.Path)
		edit(t, openRepo(t, c), Task{Job: "job_1", Prompt: "x"})
		if got := engines.Git(t, c.Path, "show", "docgauge/job_1:new.md"); got != "x" ||
			untouched(t, c.Path) != before {
			t.Errorf("%s: new.md %q, %s", c.Path, got, untouched(t, c.Path))
		}
		engines.Git(t, c.Path, "branch", "-D", "docgauge/job_1")
	}
}

// Jobs begin at the newest commit of the base branch, not at the one of Open.
func TestBaseIsReadForEachJob(t *testing.T) {
	repo := engines.GitRepository(t)
	r := openRepo(t, RepoOptions{Path: repo})
	write(t, filepath.Join(repo, "second.md"), "second")
	engines.Git(t, repo, "add", ".")
	engines.Git(t, repo, "commit", "--quiet", "-m", "second")
	c := edit(t, r, Task{Job: "job_1", Prompt: "x"})
	if c.Base != engines.Git(t, repo, "rev-parse", "main") || r.Source().Ref != "main" {
		t.Errorf("base %s of %s", c.Base, r.Source().Ref)
	}
}

// Open removes what a crash left of jobs, but not their homes.
func TestOpenSweeps(t *testing.T) {
	repo := engines.GitRepository(t)
	before := untouched(t, repo)
	dir := filepath.Join(t.TempDir(), "jobs")
	r := openRepo(t, RepoOptions{Path: repo}, in(dir))
	for job, home := range map[string]bool{"job_1": false, "job_2": true} {
		r.options.OwnHome = home
		check(t, r.layOut(t.Context(), r.place(job), BranchPrefix+job, "main"))
	}
	write(t, filepath.Join(dir, "a-directory", "x"), "x")
	synctest.Test(t, func(t *testing.T) { // it waits a moment
		if _, err := OpenRepo(t.Context(), RepoOptions{Path: repo}, dir); !errors.Is(err, errLocked) ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("two at once: %v", err)
		}
	})
	check(t, r.Close())
	r = openRepo(t, RepoOptions{Path: repo}, in(dir))
	left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if want := []string{filepath.Join(dir, "job_2", "home")}; err != nil || !slices.Equal(left, want) ||
		untouched(t, repo) != before || branches(t, repo) != "" {
		t.Errorf("%v, %v, want %v\n%s", left, err, want, untouched(t, repo))
	}
	check(t, r.Forget("job_2"))
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("%v, want the lock alone", left)
	}
}

// TestLocksOfKilledGit: lock files that a git of a killed process left are removed as soon as no such git is
// running, and the variables of a person's git never.
func TestLocksOfKilledGit(t *testing.T) {
	upstream := engines.GitRepository(t)
	for name, o := range map[string]RepoOptions{
		"copy":       {Path: filepath.Join(t.TempDir(), "copy.git"), URL: "file://" + upstream, Command: "cat >>new.md"},
		"a person's": {Path: engines.GitRepository(t), Command: "cat >>new.md"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "jobs")
			r := openRepo(t, o, in(dir))
			first := edit(t, r, Task{Job: "job_1", Prompt: "one"})
			git, left := r.git, []string{"refs/heads/" + first.Branch}
			if o.URL == "" {
				write(t, filepath.Join(o.Path, ".git", "refs", "heads", "main.lock"), "")
			} else {
				left = append(left, baseRef, "packed-refs", "config")
			}
			for _, name := range left {
				name, err := git.Run(t.Context(), "rev-parse", "--path-format=absolute", "--git-path", name)
				check(t, err)
				write(t, name+".lock", "")
			}
			ctx, kill := context.WithCancel(t.Context())
			printed, output := io.Pipe()
			ended := make(chan error)
			go func() { // git blocks: the test reads one byte of an output that is longer than a pipe holds
				ended <- git.Stream(ctx, output, strings.Repeat("HEAD\n", 1<<16), "cat-file", "--batch-check")
			}()
			_, err := printed.Read(make([]byte, 1))
			check(t, err)
			branch, err := git.Run(t.Context(), "rev-parse", "--path-format=absolute", "--git-path", left[0])
			check(t, err)
			write(t, branch, "") // a power cut
			check(t, r.Close())
			synctest.Test(t, func(t *testing.T) { // it waits a moment
				if _, err := OpenRepo(t.Context(), o, dir); !errors.Is(err, errLocked) {
					t.Errorf("beside a git of an earlier process: %v", err)
				}
			})
			if o.URL == "" {
				beside, err := OpenRepo(t.Context(), o, "") // site check
				check(t, err)
				check(t, beside.Close())
				if _, err := os.Stat(branch + ".lock"); err != nil {
					t.Errorf("removed the lock of a git that may be running: %v", err)
				}
			}
			kill()
			check(t, printed.Close())
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			r = openRepo(t, o, in(dir))
			if second := edit(t, r, Task{Job: "job_1", Prompt: "two", Last: first}); len(second.Messages) != 2 {
				t.Errorf("after the first job %+v: %+v", first, second)
			}
			if o.URL == "" {
				check(t, os.Remove(filepath.Join(o.Path, ".git", "refs", "heads", "main.lock")))
			}
		})
	}
}

// TestRepositoryOfAURL: the default branch is found and fetched before each job, the branch of a job
// is pushed, and nothing is fetched when the service starts.
func TestRepositoryOfAURL(t *testing.T) {
	upstream := engines.GitRepository(t)
	engines.Git(t, upstream, "branch", "-m", "main", "trunk")
	url := "file://" + upstream
	path := filepath.Join(t.TempDir(), "copy.git")
	r := openRepo(t, RepoOptions{Path: path, URL: url, Command: "cat >>new.md"}, func(r *Repo) { r.options.Remote = url })
	if got := r.Source(); got != (Source{filepath.Base(upstream), "HEAD"}) { // no path of this machine
		t.Errorf("before the first job: %+v", got)
	}
	first := edit(t, r, Task{Job: "job_1", Prompt: "one"})
	_, err := r.Propose(t.Context(), Job{ID: "job_1"}, first, "")
	check(t, err)
	if at := engines.Git(t, upstream, "rev-parse", "docgauge/job_1"); at != first.Head || r.Source().Ref != "trunk" {
		t.Errorf("upstream is at %s, want %s; %+v", at, first.Head, r.Source())
	}
	engines.Git(t, upstream, "commit", "--quiet", "--allow-empty", "-m", "second")
	second := edit(t, r, Task{Job: "job_2", Prompt: "two"})
	if want := engines.Git(t, upstream, "rev-parse", "trunk"); second.Base != want {
		t.Errorf("base %s, want %s", second.Base, want)
	}
	engines.Git(t, upstream, "branch", "-m", "trunk", "x")
	engines.Git(t, upstream, "branch", "-m", "x", "trunk/v2") // git cannot have both names
	third := edit(t, r, Task{Job: "job_3", Prompt: "three"})
	if third.Base != second.Base || r.Source().Ref != "trunk/v2" {
		t.Errorf("after the branch was renamed: base %s, want %s; %+v", third.Base, second.Base, r.Source())
	}
	gone := openRepo(t, RepoOptions{Path: path + "2", URL: url + "-that-is-gone", Command: "cat >>new.md"})
	if _, err := gone.Edit(t.Context(), Task{Job: "job_4", Prompt: "x"}); err == nil ||
		!strings.Contains(err.Error(), "that-is-gone") {
		t.Errorf("no such repository: %v", err)
	}
}

// TestFaultyHistory: what git fsck says of the objects that a repository has is no reason to refuse a change.
func TestFaultyHistory(t *testing.T) {
	repo := engines.GitRepository(t)
	object := func(kind, text string) string {
		t.Helper()
		name := filepath.Join(t.TempDir(), "object")
		write(t, name, text)
		return engines.Git(t, repo, "hash-object", "-t", kind, "-w", "--literally", name)
	}
	entry := func(mode, name, id string) string {
		t.Helper()
		raw, err := hex.DecodeString(id)
		check(t, err)
		return mode + " " + name + "\x00" + string(raw)
	}
	readme := engines.Git(t, repo, "rev-parse", "HEAD:readme.md")
	docs := object("tree", entry("100664", "a.md", readme)+entry("100644", "b.md", readme))
	theme := object("tree", entry("160000", "x", engines.Git(t, repo, "rev-parse", "HEAD")))
	tree := object("tree", entry("100644", ".gitattributes", object("blob", "*.md "+strings.Repeat("x", 3000)+"\n"))+
		entry("100644", ".gitmodules", object("blob", "[submodule \"../x\"]\n\tpath = -x\n\turl = -u\n"))+
		entry("040000", "docs", docs)+entry("100644", "readme.md", readme)+entry("040000", "theme", theme))
	commit := object("commit", "tree "+tree+"\nauthor a<a@x> 0 +0000\ncommitter a <a@x> 0 +0000\n\nx\n")
	engines.Git(t, repo, "update-ref", "HEAD", commit)
	if said, err := exec.Command("git", "-C", repo, "fsck", "--strict").CombinedOutput(); err == nil {
		t.Fatalf("git fsck found nothing: %s", said)
	}
	copied := filepath.Join(t.TempDir(), "copy.git")
	for name, o := range map[string]RepoOptions{
		"directory": {Path: repo}, "URL": {Path: copied, URL: "file://" + repo},
	} {
		o.Command = "read -r name; [ $name = none ] || echo x >>$name"
		r := openRepo(t, o)
		first := edit(t, r, Task{Job: "job_1", Prompt: "docs/b.md\n"})
		if o.URL != "" { // it is not taken for damaged
			check(t, r.Close())
			write(t, filepath.Join(copied, "mark"), "x")
			r = openRepo(t, o, func(r *Repo) {})
			if _, err := os.Stat(filepath.Join(copied, "mark")); err != nil {
				t.Errorf("the copy was made again: %v", err)
			}
		}
		second := edit(t, r, Task{Job: "job_1", Prompt: "readme.md\n", Last: first})
		if got := engines.Git(t, r.git.Dir, "diff", "--name-only", commit, second.Head); got != "docs/b.md\nreadme.md" {
			t.Errorf("%s: changed %s", name, got)
		}
		if none := edit(t, r, Task{Job: "job_2", Prompt: "none\n"}); !none.isEmpty() {
			t.Errorf("%s: a change without one: %+v", name, none)
		}
	}
}

// TestRepositoryOfAnotherUser: git's remedy for a directory of another user, safe.directory, is enough.
func TestRepositoryOfAnotherUser(t *testing.T) {
	program, err := exec.LookPath("git")
	check(t, err)
	repo, remote, programs := engines.GitRepository(t), filepath.Join(t.TempDir(), "remote.git"), t.TempDir()
	engines.Git(t, ".", "clone", "--quiet", "--bare", repo, remote)
	engines.Git(t, repo, "remote", "add", "origin", remote)
	write(t, filepath.Join(programs, "git"), "#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec "+program+" \"$@\"\n")
	check(t, os.Chmod(filepath.Join(programs, "git"), 0o755))
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	_, err = OpenRepo(t.Context(), RepoOptions{Path: repo, Command: "cat >>new.md"}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "safe.directory") {
		t.Errorf("without it: %v", err)
	}
	write(t, filepath.Join(os.Getenv("HOME"), ".gitconfig"), "[safe]\n\tdirectory = "+repo+"\n\tdirectory = "+repo+"/.git\n")
	for name, o := range map[string]RepoOptions{
		"directory": {Path: repo, Remote: "origin"}, "URL": {Path: filepath.Join(t.TempDir(), "copy.git"), URL: remote, Remote: remote},
	} {
		o.Command = "cat >>new.md"
		r := openRepo(t, o, func(r *Repo) { r.options.Remote = o.Remote })
		first := edit(t, r, Task{Job: "job_" + name, Prompt: "one\n"})
		check(t, r.push(t.Context(), first))
		check(t, r.push(t.Context(), edit(t, r, Task{Job: "job_" + name, Prompt: "two\n", Last: first})))
	}
}

// TestReftable: a repository whose branches are no files has nothing to sweep. There, refs/heads is a file.
func TestReftable(t *testing.T) {
	heads := filepath.Join(t.TempDir(), "heads")
	write(t, heads, "this repository uses the reftable format\n")
	check(t, (&Repo{}).sweep(filepath.Join(heads, "docgauge")))
}

// TestSlowRemote: jobs are accepted while a fetch waits for an answer.
func TestSlowRemote(t *testing.T) {
	asked, answered := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-answered
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	t.Setenv("no_proxy", "127.0.0.1")
	r := openRepo(t, RepoOptions{Path: filepath.Join(t.TempDir(), "copy.git"), URL: server.URL + "/docs.git"})
	fetched := make(chan error)
	go func() { fetched <- r.Check(t.Context()) }()
	<-asked
	source := make(chan Source, 1)
	go func() { source <- r.Source() }()
	select {
	case <-source:
	case <-time.After(20 * time.Second):
		t.Error("no Source while it is fetched")
	}
	close(answered)
	if err := <-fetched; err == nil {
		t.Error("want an error of a repository that is not there")
	}
}

// TestCopyHeals: a repository of a URL that a power cut, a bad disk or a person has damaged is made again, and its
// jobs go on from the remote.
func TestCopyHeals(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, copied string, job Change){
		"base emptied":   func(t *testing.T, copied string, _ Change) { write(t, filepath.Join(copied, baseRef), "") },
		"branch emptied": func(t *testing.T, copied string, job Change) { write(t, branchFile(copied, job), "") },
		"branch zeroed": func(t *testing.T, copied string, job Change) {
			write(t, branchFile(copied, job), strings.Repeat("\x00", 41))
		},
		"HEAD emptied":   func(t *testing.T, copied string, _ Change) { write(t, filepath.Join(copied, "HEAD"), "") },
		"commit emptied": func(t *testing.T, copied string, job Change) { emptyObject(t, copied, job.Head) },
		"tree emptied": func(t *testing.T, copied string, job Change) {
			emptyObject(t, copied, engines.Git(t, copied, "rev-parse", job.Base+"^{tree}"))
		},
		"emptied object of a killed job": func(t *testing.T, copied string, _ Change) {
			next := filepath.Join(t.TempDir(), "new.md")
			write(t, next, "two\n")
			write(t, objectFile(copied, engines.Git(t, copied, "hash-object", next)), "")
		},
		"objects gone": func(t *testing.T, copied string, _ Change) {
			check(t, os.RemoveAll(filepath.Join(copied, "objects")))
		},
		"settings zeroed": func(t *testing.T, copied string, _ Change) {
			write(t, filepath.Join(copied, "config"), strings.Repeat("\x00", 60))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "base emptied" && name != "branch zeroed" && name != "objects gone" {
				engines.Long(t)
			}
			url, dir := "file://"+engines.GitRepository(t), filepath.Join(t.TempDir(), "jobs")
			o := RepoOptions{Path: filepath.Join(t.TempDir(), "copy.git"), URL: url, Command: "cat >>new.md"}
			there := func(r *Repo) { r.dir, r.options.Remote = dir, url }
			r := openRepo(t, o, there)
			first := edit(t, r, Task{Job: "job_1", Prompt: "one\n"})
			check(t, r.push(t.Context(), first))
			check(t, r.Close())
			damage(t, o.Path, first)
			left := filepath.Join(o.Path, "objects", "pack", "tmp_pack_1")
			write(t, left, "of a git that was killed")
			r = openRepo(t, o, there)
			if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v, want it removed", left, err)
			}
			for job, last := range map[string]Change{"job_1": first, "job_2": {}} {
				check(t, r.push(t.Context(), edit(t, r, Task{Job: job, Prompt: "two\n", Last: last})))
			}
			if got := engines.Git(t, o.Path, "show", first.Branch+":new.md"); got != "one\ntwo" {
				t.Errorf("new.md %q", got)
			}
		})
	}
}

func branchFile(repo string, c Change) string { return filepath.Join(repo, "refs", "heads", c.Branch) }

func objectFile(repo, object string) string {
	return filepath.Join(repo, "objects", object[:2], object[2:])
}

func emptyObject(t *testing.T, repo, object string) {
	t.Helper()
	check(t, os.Remove(objectFile(repo, object))) // it is read-only
	write(t, objectFile(repo, object), "")
}

// TestFlushed: what the journal names next is on the disk.
func TestFlushed(t *testing.T) {
	r := openRepo(t, RepoOptions{Path: engines.GitRepository(t), Command: "cat >new.md"})
	trace := filepath.Join(t.TempDir(), "trace")
	r.git = r.git.With("GIT_TRACE2_EVENT=" + trace)
	edit(t, r, Task{Job: "job_1", Prompt: "x"})
	text, err := os.ReadFile(trace)
	check(t, err)
	if !strings.Contains(engines.Git(t, ".", "help", "--config"), "core.fsyncMethod") {
		t.Skip("git 2.36 is the first that flushes branches")
	}
	_, published, _ := strings.Cut(string(text), `"unpack-objects","-q"]`)
	// Of unpack-objects, commit-tree and update-ref.
	if flushed := strings.Count(published, `"fsync/hardware-flush","value":"`); flushed < 3 {
		t.Errorf("git flushed in %d commands, want 3:\n%s", flushed, text)
	}
}

func TestDiffIsCut(t *testing.T) {
	repo := engines.GitRepository(t)
	r := openRepo(t, RepoOptions{Path: repo, Command: "seq 400000 > numbers.txt; head -c 5000 /dev/urandom > " +
		"random.bin"})
	c := edit(t, r, Task{Job: "job_1", Prompt: "x"})
	diff, err := r.Diff(t.Context(), c)
	if err != nil || len(diff) > maxDiff+100 ||
		!strings.HasSuffix(diff, "\n\\ The diff is longer than what is shown.\n") {
		t.Errorf("%d bytes, %v, ends %q", len(diff), err, diff[max(0, len(diff)-200):])
	}
}

func TestPasswordsAreRedacted(t *testing.T) {
	for said, want := range map[string]string{
		"fatal: 'https://me:pass@host/x' and http://t@h:1/": "fatal: 'https://[redacted]@host/x' and " +
			"http://[redacted]@h:1/",
		"git@github.com:a/b https://host/a@b": "git@github.com:a/b https://host/a@b",
	} {
		if got := analytics.RedactUsers(said); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestPushAndCatchUp(t *testing.T) {
	repo := engines.GitRepository(t)
	remote := filepath.Join(t.TempDir(), "remote.git")
	engines.Git(t, ".", "clone", "--quiet", "--bare", repo, remote)
	engines.Git(t, repo, "remote", "add", "origin", remote)
	r := openRepo(t, RepoOptions{Path: repo, Command: "cat >> new.md", Remote: "origin"})
	push := func(c Change) {
		t.Helper()
		check(t, r.push(t.Context(), c))
		if at := engines.Git(t, remote, "rev-parse", c.Branch); at != c.Head {
			t.Errorf("remote at %s, want %s", at, c.Head)
		}
	}
	first := edit(t, r, Task{Job: "job_1", Prompt: "one\n"})
	push(first)
	push(first)

	reviewer := filepath.Join(t.TempDir(), "reviewer")
	engines.Git(t, ".", "clone", "--quiet", "--branch", first.Branch, remote, reviewer)
	engines.Git(t, reviewer, "commit", "--quiet", "--allow-empty", "-m", "reviewed")
	engines.Git(t, reviewer, "push", "--quiet")
	second := edit(t, r, Task{Job: "job_1", Prompt: "two\n", Last: first})
	push(second)
	if diff := cmp.Diff([]string{"one", "reviewed", "two"}, second.Messages); diff != "" {
		t.Error(diff)
	}

	engines.Git(t, remote, "branch", "-D", first.Branch) // merged
	push(edit(t, r, Task{Job: "job_1", Prompt: "three\n", Last: second}))

	engines.Git(t, reviewer, "commit", "--quiet", "--amend", "--allow-empty", "-m", "rewritten")
	engines.Git(t, reviewer, "push", "--quiet", "--force")
	if _, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "four\n", Last: second}); err == nil ||
		!strings.Contains(err.Error(), "rewritten on the remote") {
		t.Errorf("rewritten: %v", err)
	}
	if err := r.push(t.Context(), first); err == nil || !strings.Contains(err.Error(), "git push") {
		t.Errorf("push over it: %v", err)
	}
}

// The password goes to the URLs it is for, and into no error.
func TestLogin(t *testing.T) {
	repo := engines.GitRepository(t)
	t.Setenv("no_proxy", "127.0.0.1")
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Authorization"))
		if w.Header().Set("WWW-Authenticate", "Basic"); r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
		} else {
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	r := openRepo(t, RepoOptions{Path: repo, Command: "cat >new.md", Remote: "http://user:hidden@" +
		strings.TrimPrefix(server.URL, "http://") + "/x/y"})
	c := edit(t, r, Task{Job: "job_1", Prompt: "x"})
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:s3cret"))
	for _, prefix := range []string{server.URL + "/", "https://elsewhere.example/"} {
		asked = nil
		r.login = func() (string, string, string, error) { return prefix, "x-access-token", "s3cret", nil }
		err := r.push(t.Context(), c)
		if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%v", err)
		}
		if len(asked) < 2 || (asked[len(asked)-1] == want) != strings.HasPrefix(prefix, server.URL) {
			t.Errorf("%s: asked with %q", prefix, asked)
		}
	}
}

// TestFile: a file has its contents at a commit, whatever is checked out; a name that is not a
// file there, or is a file that is too large, is not found.
func TestFile(t *testing.T) {
	repo := engines.GitRepository(t)
	r := openRepo(t, RepoOptions{Path: repo, Command: "echo more >>readme.md"})
	c := edit(t, r, Task{Job: "job_a", Prompt: "x"})
	write(t, filepath.Join(repo, "readme.md"), "half written")
	write(t, filepath.Join(repo, "large"), strings.Repeat("x\n", maxFile))
	write(t, filepath.Join(repo, "sub", "a b.md"), "\xff no newline")
	engines.Git(t, repo, "add", "large", "sub")
	engines.Git(t, repo, "commit", "--quiet", "-m", "second")
	for name, want := range map[[2]string]string{
		{c.Base, "readme.md"}: "# Docs\n\nHello.\n", {c.Head, "readme.md"}: "# Docs\n\nHello.\nmore\n",
		{"main", "readme.md"}: "# Docs\n\nHello.\n", {c.Branch, "readme.md"}: "# Docs\n\nHello.\nmore\n",
		{"main", "sub/a b.md"}: "\xff no newline",
		{"main", "none.md"}:    "", {"main", "sub"}: "", {"main", "large"}: "", {"main", "../docs/readme.md"}: "",
		{"main", "/etc/passwd"}: "", {"main", ""}: "",
		{strings.Repeat("0", 40), "readme.md"}: "", {"none", "readme.md"}: "",
	} {
		text, found, err := r.File(t.Context(), name[0], name[1])
		if err != nil || found != (want != "") || found && string(text) != want {
			t.Errorf("%v: %.40q %t %v, want %q", name, text, found, err, want)
		}
	}
}
