package runner

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// workplace is the directory of one job. The agent gets a copy of the files at a commit, with a
// repository of its own around them that nothing is read from: what counts is what the files are when
// it has ended. Index and objects are where the agent has no business, so nothing of the repository
// is changed before the result is, and a worktree or a branch cannot be left behind.
type workplace struct {
	dir string
	git git // with the index and the files of this job; the agent's own .git is not used
}

// The parts of a workplace. All but the home are removed after each instruction.
func (w *workplace) tree() string { return filepath.Join(w.dir, "tree") }
func (w *workplace) tmp() string  { return filepath.Join(w.dir, "tmp") }
func (w *workplace) home() string { return filepath.Join(w.dir, "home") }

// make makes the parts.
func (w *workplace) make(home bool) (err error) {
	for _, dir := range []string{w.tree(), w.tmp(), w.home()} {
		if home || dir != w.home() {
			err = errors.Join(err, os.MkdirAll(dir, 0o700))
		}
	}
	return err
}

// place returns the workplace of a job.
func (r *Repo) place(job string) *workplace {
	w := &workplace{dir: filepath.Join(r.dir, filepath.Base(job))}
	w.git = r.git.with("GIT_INDEX_FILE="+filepath.Join(w.dir, "index"), "GIT_WORK_TREE="+w.tree())
	w.git.dir = w.tree()
	return w
}

// Forget removes what is kept of a job between its instructions.
func (r *Repo) Forget(job string) error { return removeAll(r.place(job).dir) }

// clear removes everything but the home, and the directory if there is no home.
func (w *workplace) clear() (err error) {
	left, err := os.ReadDir(w.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range left {
		if entry.Name() != filepath.Base(w.home()) {
			err = errors.Join(err, removeAll(filepath.Join(w.dir, entry.Name())))
		}
	}
	_ = os.Remove(w.dir) // if it is empty
	return err
}

// removeAll removes a directory, in which a command may have made directories read-only.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if errors.Is(err, fs.ErrPermission) {
		_ = filepath.WalkDir(path, func(path string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
		err = os.RemoveAll(path)
	}
	return err
}

// ownDepth is the number of commits that the agent's own repository has.
const ownDepth = "50"

// checkOut lays out the files at commit, with a repository on branch for the agent.
func (w *workplace) checkOut(ctx context.Context, branch, commit string, home bool) error {
	if err := w.clear(); err != nil {
		return err
	}
	if err := w.make(home); err != nil {
		return err
	}
	if _, err := w.git.run(ctx, "read-tree", "--reset", "-u", commit); err != nil {
		return err
	}
	gitDir, err := w.git.run(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return err
	}
	own := w.git
	own.env = append(environment(ordinary), gitVariables...)
	for _, args := range [][]string{
		{"init", "--quiet", "--template="},
		{"fetch", "--quiet", "--no-tags", "--depth=" + ownDepth, "--", "file://" + gitDir, commit},
		{"update-ref", "refs/heads/" + branch, "FETCH_HEAD"},
		{"symbolic-ref", "HEAD", "refs/heads/" + branch},
		{"reset", "--quiet", "--mixed"},
	} {
		if _, err := own.run(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// commit returns the commit of what the files are now on top of start, or start if nothing changed.
// It refuses what r does not allow. No branch has it yet.
func (r *Repo) commit(ctx context.Context, w *workplace, t Task, start string) (head string, err error) {
	if info, err := os.Lstat(w.tree()); err != nil || !info.IsDir() {
		return "", errors.New("agent: left no directory to commit")
	}
	// Git must not see the agent's repository: its configuration could name programs.
	aside := filepath.Join(w.dir, "agent.git")
	if err := os.Rename(filepath.Join(w.tree(), ".git"), aside); err == nil {
		defer func() { err = errors.Join(err, os.Rename(aside, filepath.Join(w.tree(), ".git"))) }()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := w.refuseRepositories(ctx); err != nil {
		return "", err
	}
	if _, err := w.git.run(ctx, "add", "--all", "--", "."); err != nil {
		return "", err
	}
	tree, err := w.git.run(ctx, "write-tree")
	if err != nil {
		return "", err
	}
	var changes bytes.Buffer
	if err := w.git.stream(ctx, &changes, "", "diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev",
		start, tree); err != nil || changes.Len() == 0 {
		return start, err
	}
	if err := r.refuse(ctx, w, changes.String()); err != nil {
		return "", err
	}
	g := w.git.with("GIT_AUTHOR_NAME="+authorName, "GIT_AUTHOR_EMAIL="+authorEmail,
		"GIT_COMMITTER_NAME="+authorName, "GIT_COMMITTER_EMAIL="+authorEmail)
	text := Subject(t.Prompt) + "\n\nDocgauge-Job: " + t.Job + "\n"
	var out bytes.Buffer
	err = g.stream(ctx, &out, text, "commit-tree", "-p", start, "-F", "-", tree)
	return strings.TrimSpace(out.String()), err
}

// refuseRepositories returns an error if there is a repository among the files that git does not
// ignore. Git would look into it, with the programs that its configuration names.
func (w *workplace) refuseRepositories(ctx context.Context) error {
	var found []string
	err := filepath.WalkDir(w.tree(), func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.EqualFold(d.Name(), ".git") {
			found = append(found, name)
			if d.IsDir() {
				return fs.SkipDir
			}
		}
		return nil //nolint:nilerr // what we cannot read, git cannot add either
	})
	if err != nil || len(found) == 0 {
		return err
	}
	var ignored bytes.Buffer
	if err := w.git.stream(ctx, &ignored, "", "ls-files", "-z", "--others", "--ignored", "--exclude-standard",
		"--directory"); err != nil {
		return err
	}
	for _, path := range found {
		name, err := filepath.Rel(w.tree(), path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		inIgnored := func(dir string) bool { return strings.HasSuffix(dir, "/") && strings.HasPrefix(name, dir) }
		if !slices.ContainsFunc(strings.Split(ignored.String(), "\x00"), inIgnored) {
			return refused(name, "is a repository inside the repository")
		}
	}
	return nil
}

// What RepoOptions.Allow permits.
const (
	AllowCI    = "ci"
	AllowHooks = "hooks"
)

// guarded are files, and directories with a slash at the end, that make programs run elsewhere when
// they change, on the machines of CI and of people.
var guarded = map[string][]string{
	AllowCI: {".github/workflows/", ".github/actions/", ".gitlab-ci.yml", ".gitlab/ci/", ".gitea/workflows/",
		".forgejo/workflows/", ".woodpecker/", ".woodpecker.yml", ".woodpecker.yaml", ".circleci/", ".buildkite/",
		".travis.yml", ".drone.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml", "Jenkinsfile"},
	AllowHooks: {".githooks/", ".husky/", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", "lefthook.yaml"},
}

// refusal is why a change is not proposed. Its text has no contents of files.
type refusal struct{ path, why string }

func (e refusal) Error() string { return fmt.Sprintf("change refused: %.200q %s", e.path, e.why) }

func refused(path, why string) error { return refusal{path, why} }

// The modes of git's files that are more than contents.
const (
	modeLink = "120000"
	modeRepo = "160000"
)

// refuse returns an error for the first of the changes, as diff-tree -z --raw lists them, that is not
// allowed.
func (r *Repo) refuse(ctx context.Context, w *workplace, changes string) error {
	var blobs, names []string
	fields := strings.Split(strings.TrimSuffix(changes, "\x00"), "\x00")
	secrets := r.secrets()
	for i := 0; i+1 < len(fields); i += 2 {
		// ":100644 120000 <before> <after> M"
		meta, name := strings.Fields(strings.TrimPrefix(fields[i], ":")), fields[i+1]
		if len(meta) != 5 {
			return fmt.Errorf("git diff-tree: want five fields, got %.100q", fields[i])
		}
		before, after, blob := meta[0], meta[1], meta[3]
		if err := r.refusePath(name); err != nil {
			return err
		}
		if contains(name, secrets) {
			return refusal{"(hidden)", "has a secret of the agent's environment in its name"}
		}
		if before == modeRepo || after == modeRepo {
			return refused(name, "is a submodule")
		}
		if after == "000000" {
			continue
		}
		if after == modeLink {
			target, err := w.git.run(ctx, "cat-file", "blob", blob)
			if err != nil {
				return err
			}
			if leaves(name, target) {
				return refused(name, "is a link out of the repository")
			}
		}
		blobs, names = append(blobs, blob), append(names, name)
	}
	if len(secrets)*len(blobs) == 0 {
		return nil
	}
	f := &finder{secrets: secrets}
	if err := w.git.stream(ctx, f, strings.Join(blobs, "\n")+"\n", "cat-file", "--batch"); err != nil || !f.found {
		return err
	}
	return refused(strings.Join(names, ", "), "contains a secret of the agent's environment")
}

// refusePath refuses a file that no agent may change, or that r does not allow.
func (r *Repo) refusePath(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		if strings.EqualFold(part, ".git") {
			return refused(name, "belongs to git")
		}
	}
	if strings.EqualFold(path.Base(name), ".gitmodules") {
		return refused(name, "says where submodules come from")
	}
	for kind, names := range guarded {
		if slices.Contains(r.options.Allow, kind) {
			continue
		}
		for _, g := range names {
			inside := strings.HasSuffix(g, "/") && len(name) > len(g) && strings.EqualFold(name[:len(g)], g)
			if inside || strings.EqualFold(name, g) {
				return refused(name, "makes programs run elsewhere; DOCGAUGE_SITE_AGENT_ALLOW="+kind+" permits it")
			}
		}
	}
	return nil
}

// leaves reports whether a link at name could lead out of the repository: if it is absolute, goes up
// too far, or goes up behind a name, which may be a link itself.
func leaves(name, target string) bool {
	if path.IsAbs(target) || strings.Contains(target, `\`) {
		return true
	}
	up, down := strings.Count(name, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if up--; up < 0 || down {
				return true
			}
		default:
			if down = true; strings.EqualFold(part, ".git") {
				return true
			}
		}
	}
	return false
}

// minSecret is the length below which a value is taken for a setting and not for a secret.
const minSecret = 8

// secrets returns the values of the variables that the agent gets by name.
func (r *Repo) secrets() (values []string) {
	for _, name := range r.options.Env {
		if value := strings.TrimSpace(os.Getenv(name)); len(value) >= minSecret {
			values = append(values, value)
		}
	}
	return values
}

func contains(text string, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(text, s) })
}

// finder is a writer that looks for secrets.
type finder struct {
	secrets []string
	rest    []byte // the end of what was written, in which a secret may have begun
	found   bool
}

func (f *finder) Write(p []byte) (int, error) {
	longest := len(slices.MaxFunc(f.secrets, func(a, b string) int { return cmp.Compare(len(a), len(b)) }))
	text := append(f.rest, p...)
	f.found = f.found || contains(string(text), f.secrets)
	f.rest = slices.Clone(text[max(0, len(text)-longest+1):])
	return len(p), nil
}
