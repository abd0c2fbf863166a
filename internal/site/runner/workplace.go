package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/git"
)

// workplace is the directory of one job. The agent gets a copy of the files at a commit, with a repository
// around them that only the agent and the check use: what counts is what the files are when the agent has
// ended.
//
// Git meets the files only in a separate jail (layOut, takeIn), which sees gitDir and the tree, and has
// neither network nor secrets nor configuration. What comes out of it is a pack, and is trusted no more than
// the agent: verify reads it as objects, apart from the repository, and publish moves what passed.
type workplace struct {
	dir  string
	free int64 // what the objects of the start commit take of the disk, which does not count
}

// The parts of a workplace. All but the home are removed after each instruction.
func (w *workplace) tree() string { return filepath.Join(w.dir, "tree") }
func (w *workplace) tmp() string  { return filepath.Join(w.dir, "tmp") }
func (w *workplace) home() string { return filepath.Join(w.dir, "home") }

// checkHome is the home of the check, which must not be what the agent made of its home.
func (w *workplace) checkHome() string { return filepath.Join(w.dir, "check-home") }

// gitDir is the repository of the jailed git: the start commit, and the index of the tree.
func (w *workplace) gitDir() string { return filepath.Join(w.dir, "git") }

// taken has the tree id and the pack that came out of git's jail; quarantine is the object directory in which
// they are verified, known the file with the objects that are not, passed the pack of what passed.
func (w *workplace) taken() string      { return filepath.Join(w.dir, "taken") }
func (w *workplace) quarantine() string { return filepath.Join(w.dir, "quarantine") }
func (w *workplace) known() string      { return filepath.Join(w.dir, "known") }
func (w *workplace) passed() string     { return filepath.Join(w.dir, "passed") }

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
	return &workplace{dir: filepath.Join(r.dir, filepath.Base(job))}
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

// ownDepth is the number of commits that the agent's repository has.
const ownDepth = "50"

// jailedGit begins the scripts of git in its jail. These settings hold whatever the tree and the repository
// say; there is no other configuration.
const jailedGit = `set -e
git() {
	command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.sparseCheckout=false -c gc.auto=0 \
		-c core.protectNTFS=true -c core.protectHFS=true -c core.safecrlf=false -c advice.addEmbeddedRepo=false "$@"
}
copy() {
	mkdir -p .git/objects/info .git/objects/pack
	cp -R "$GIT_DIR"/[!o]* .git/ # all but objects
	printf '%s\n' "$GIT_DIR/objects" >.git/objects/info/alternates
	git config --file .git/config core.bare false
}
`

// layOutScript writes the files of HEAD and the agent's repository, which reads the objects of jailed git's.
const layOutScript = jailedGit + `git read-tree --reset -u HEAD
copy`

// renewScript replaces the agent's repository by one that only says where it began.
const renewScript = jailedGit + `chmod u+rwx .
if [ -d .git ] && [ ! -L .git ]; then chmod -R u+rwx .git; fi
rm -rf .git
copy
export GIT_DIR=.git
git read-tree HEAD`

// takeInScript prints the id of the tree that the files are now, and a pack of what $START, a tree, does not
// have. Submodules, given as lines of commit and path, stay what they were: git must not look into them. They began as
// empty directories; for each one that is anything else now, a line of leftOut and its path goes to standard error.
// Git only warns of directories that it cannot read; their changes would be lost silently.
const takeInScript = jailedGit + `links=$(cat)
set -- .
while IFS= read -r link; do
	[ -n "$link" ] || continue
	at=./${link#* }
	if [ ! -d "$at" ] || [ -L "$at" ] || [ -n "$(ls -A "$at" 2>&1)" ]; then echo "` + leftOut + `${link#* }" >&2; fi
	git update-index --force-remove -- "${link#* }"
	set -- "$@" ":(exclude,literal)${link#* }"
done <<END
$links
END
git add --all -- "$@" 2>"$GIT_DIR/said" || { cat "$GIT_DIR/said" >&2; exit 1; }
if grep -v '^warning: ' "$GIT_DIR/said" >&2; then exit 1; fi
if grep -e 'could not open directory' -e 'unable to access' -e 'Permission denied' -e 'File name too long' \
	"$GIT_DIR/said" >&2; then exit 1; fi
while IFS= read -r link; do
	[ -n "$link" ] || continue
	git update-index --add --cacheinfo "160000,${link%% *},${link#* }"
done <<END
$links
END
tree=$(git write-tree)
echo "$tree"
printf '%s\n^%s\n' "$tree" "$START" | git pack-objects --quiet --revs --stdout`

const leftOut = "left out: "

// minGitTime is the least time that git has for the files of a job.
const minGitTime = 10 * time.Second

// jailed runs git in its jail, on the tree of w, and returns its messages.
func (r *Repo) jailed(ctx context.Context, w *workplace, s step) (said string, err error) {
	s.name, s.git, s.timeout = "git", true, min(git.Timeout, max(r.options.Timeout, minGitTime))
	if said, err = r.run(ctx, w, s); err != nil {
		err = fmt.Errorf("%w: %s", err, strings.Join(strings.Fields(said), " "))
	}
	return said, err
}

// layOut lays out the files at commit, with a repository on branch for the agent. Git outside the jail only
// copies objects, to a repository that no agent has seen.
func (r *Repo) layOut(ctx context.Context, w *workplace, branch, commit string) error {
	if err := w.clear(); err != nil {
		return err
	}
	if err := errors.Join(w.make(r.options.OwnHome), os.Mkdir(w.gitDir(), 0o700)); err != nil {
		return err
	}
	about, err := r.git.Run(ctx, "rev-parse", "--absolute-git-dir", "--show-object-format")
	if err != nil {
		return err
	}
	trust, err := git.TrustOwners(filepath.Join(w.dir, "trust"))
	if err != nil {
		return err
	}
	gitDir, format, _ := strings.Cut(about, "\n")
	g := git.Client{Program: r.git.Program, Dir: w.gitDir(), Lock: r.git.Lock,
		Env: append(append(git.Environment([]string{"PATH"}), git.Clean(w.gitDir())...), trust)}
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--template=", "--object-format=" + format},
		{"fetch", "--quiet", "--no-tags", "--depth=" + ownDepth, "--", "file://" + gitDir, commit},
		{"update-ref", "refs/heads/" + branch, "FETCH_HEAD"},
		{"symbolic-ref", "HEAD", "refs/heads/" + branch},
	} {
		if _, err := g.Run(ctx, args...); err != nil {
			return err
		}
	}
	if w.free, err = w.size(filepath.Base(w.gitDir())); err != nil {
		return err
	}
	_, err = r.jailed(ctx, w, step{command: layOutScript})
	return err
}

var objectID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// takeIn returns the tree that the files are now, if it differs from start and passes verify; else it is empty.
// Its objects are in w, and not in the repository. It also returns the submodules that the agent changed, which are
// in the tree as they were.
func (r *Repo) takeIn(ctx context.Context, w *workplace, start string) (tree string, submodules []string, err error) {
	if info, err := os.Lstat(w.tree()); err != nil || !info.IsDir() {
		return "", nil, errors.New("agent: left no directory to commit")
	}
	before, err := r.git.Run(ctx, "rev-parse", "--verify", start+"^{tree}")
	if err != nil {
		return "", nil, err
	}
	links, known, err := r.listed(ctx, start)
	if err != nil {
		return "", nil, err
	}
	f, err := os.OpenFile(w.taken(), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	s := step{command: takeInScript, stdin: links, readOnly: true, out: &bounded{f, r.options.MaxDisk}, start: before}
	said, err := r.jailed(ctx, w, s)
	if err != nil {
		return "", nil, err
	}
	for line := range strings.Lines(said) {
		name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), leftOut)
		if ok && strings.Contains(links, " "+name+"\n") { // a path of the repository, whatever the jail printed
			submodules = append(submodules, name)
		}
	}
	line := make([]byte, len(before)+1) // the tree id and a newline; what follows is the pack
	if _, err := f.ReadAt(line, 0); err != nil {
		return "", nil, fmt.Errorf("git: %w", err)
	}
	if tree = string(line[:len(before)]); tree == before {
		return "", submodules, nil
	}
	if !objectID.MatchString(tree) {
		return "", nil, fmt.Errorf("git: printed %.100q, want the id of a tree", tree)
	}
	if _, err := f.Seek(int64(len(line)), io.SeekStart); err != nil {
		return "", nil, err
	}
	changed, err := r.verify(ctx, w, f, before, tree, known)
	if !changed {
		tree = ""
	}
	return tree, submodules, err
}

// listed returns a line for each submodule of a commit, with its commit and its path, and a line for each file, with its
// id.
func (r *Repo) listed(ctx context.Context, commit string) (links string, files []byte, err error) {
	entries, err := listTree(ctx, r.git, commit)
	for _, e := range entries {
		switch {
		case e.mode != modeRepo:
			files = append(append(files, e.object...), '\n')
		case strings.Contains(e.path, "\n"):
			return "", nil, fmt.Errorf("%.200q: is a submodule with a newline in its path, which jobs cannot keep", e.path)
		default:
			links += e.object + " " + e.path + "\n"
		}
	}
	return links, files, err
}

// bounded is a writer of at most left bytes.
type bounded struct {
	to   io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, fmt.Errorf("the change is too large and %w", errDisk)
	}
	return b.to.Write(p)
}
