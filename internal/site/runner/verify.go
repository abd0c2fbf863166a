package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/docgauge/docgauge/internal/git"
)

// refusal is why a change is not proposed. Its text has no contents of files.
type refusal struct{ path, why string }

func (e refusal) Error() string { return fmt.Sprintf("change refused: %.200q %s", e.path, e.why) }

func refused(path, why string) error { return refusal{path, why} }

// The modes of git's files. Others do not come from git.
const (
	modeNone    = "000000"
	modeFile    = "100644"
	modeProgram = "100755"
	modeLink    = "120000"
	modeRepo    = "160000"
)

// gitMemory limits each allocation of a git that reads what comes out of a jail: files may be small when
// compressed and huge otherwise. Larger ones than bigFile are streamed.
const (
	gitMemory = "GIT_ALLOC_LIMIT=512m"
	bigFile   = "core.bigFileThreshold=16m"
)

// namesShare limits the memory for the list of changed files to this fraction, 1/32, of DOCGAUGE_SITE_JOB_DISK. The
// whole list is held in memory, and the agent decides how many names it has and how long they are.
const namesShare = 32

// quarantined returns git with the objects of the repository and of the quarantine. It writes to the quarantine.
func (r *Repo) quarantined(ctx context.Context, w *workplace) (git.Client, error) {
	common, err := r.git.Run(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir")
	return r.git.With("GIT_OBJECT_DIRECTORY="+w.quarantine(), gitMemory, "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_ALTERNATE_OBJECT_DIRECTORIES="+strconv.Quote(filepath.Join(common, "objects"))), err
}

// verify reads a pack that comes out of a jail, as objects, and reports whether one tree differs from another, or an
// error if the change is not allowed. Then the repository has nothing of it. The known objects, ids one a line, are not
// judged: many repositories have a .gitmodules or .gitattributes that git would refuse today. Git also writes some
// trees of old repositories in another form, with another id, which does not count as a difference.
func (r *Repo) verify(ctx context.Context, w *workplace, pack io.Reader, before, after string, known []byte,
) (changed bool, err error) {
	g, err := r.quarantined(ctx, w)
	if err != nil {
		return false, err
	}
	if err := errors.Join(os.Mkdir(w.quarantine(), 0o700), os.WriteFile(w.known(), known, 0o600)); err != nil {
		return false, err
	}
	inside := g
	inside.Dir = w.dir // git takes a list of objects by a name without blanks and commas alone
	err = inside.Pipe(ctx, io.Discard, pack, "-c", bigFile, "index-pack", "--stdin",
		"--strict=skiplist="+filepath.Base(w.known()), "--max-input-size="+strconv.FormatInt(r.options.MaxDisk, 10))
	if err != nil {
		return false, fmt.Errorf("change refused: %w", err)
	}
	changes := &head{max: int(r.options.MaxDisk / namesShare)}
	if err := g.Stream(ctx, changes, "", "diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev",
		before, after); err != nil || changes.kept.Len() == 0 {
		return false, err
	}
	if changes.cut {
		return true, fmt.Errorf("change refused: the names of its files take more than %d KiB; DOCGAUGE_SITE_JOB_DISK "+
			"limits them", changes.max>>10)
	}
	return true, r.refuse(ctx, g, after, changes.kept.String())
}

// publish moves the objects of a verified change to the repository, and returns a commit of it on top of start.
// No branch has it yet; after a crash its objects are not used.
func (r *Repo) publish(ctx context.Context, w *workplace, message, start, tree string) (commit string, err error) {
	g, err := r.quarantined(ctx, w)
	if err != nil {
		return "", err
	}
	pack, err := os.OpenFile(w.passed(), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, pack.Close()) }()
	if err := g.Stream(ctx, pack, tree+"\n^"+start+"\n", "-c", bigFile, "pack-objects", "--quiet", "--revs",
		"--stdout"); err != nil { // what the tree has, and no other objects
		return "", err
	}
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	if err := r.git.Pipe(ctx, io.Discard, pack, "-c", bigFile, "unpack-objects", "-q"); err != nil {
		return "", err
	}
	return r.git.Commit(ctx, message, tree, start)
}

// refuse returns an error for the first of the changes to tree, as diff-tree -z --raw lists them, that is not
// allowed.
func (r *Repo) refuse(ctx context.Context, g git.Client, tree, changes string) error {
	var former, blobs, names, added, gone []string
	fields := strings.Split(strings.TrimSuffix(changes, "\x00"), "\x00")
	secrets, guards := r.secrets(), r.guards()
	for i := 0; i+1 < len(fields); i += 2 {
		// ":100644 120000 <before> <after> M"
		meta, name := strings.Fields(strings.TrimPrefix(fields[i], ":")), fields[i+1]
		if len(meta) != 5 {
			return fmt.Errorf("git diff-tree: want five fields, got %.100q", fields[i])
		}
		before, after, blob := meta[0], meta[1], meta[3]
		if before == modeNone && redact(name, secrets) != name {
			return refusal{"(hidden)", "has a secret of the agent's environment in its name"}
		}
		if before == modeRepo {
			return refused(name, "is a submodule")
		}
		if after == modeRepo {
			return refused(name, "is a repository inside the repository")
		}
		if err := refusePath(guards, name, after == modeLink); err != nil {
			return err
		}
		if before != modeNone {
			former = append(former, meta[2])
		}
		if after == modeNone {
			gone = append(gone, name)
			continue
		}
		if before == modeNone {
			if why := unportable(name); why != "" {
				return refused(name, why)
			}
			added = append(added, name)
		}
		if !slices.Contains([]string{modeFile, modeProgram, modeLink}, after) {
			return refused(name, "has a mode that is not one of git's")
		}
		blobs, names = append(blobs, blob), append(names, name)
	}
	entries, err := listTree(ctx, g, tree)
	if err != nil {
		return err
	}
	var all []string
	var links []treeEntry
	for _, e := range entries {
		all = append(all, e.path)
		if e.mode == modeLink {
			links = append(links, e)
		}
	}
	if err := refuseTwins(all, added, gone); err != nil {
		return err
	}
	if err := refuseRepositories(all, slices.Concat(names, gone)); err != nil {
		return err
	}
	list := strings.Join(append(blobs, ""), "\n")
	if err := r.refuseSizes(ctx, g, list, names); err != nil {
		return err
	}
	targets, err := linkTargets(ctx, g, links)
	if err != nil {
		return err
	}
	behind := behindLinks(guards, targets)
	for _, name := range slices.Concat(names, gone) {
		target, isLink := targets[name]
		if isLink && (len(target) > maxLink || leaves(name, target)) {
			return refused(name, "is a link out of the repository")
		}
		if err := refuseGuarded(behind, name, isLink); err != nil {
			return err
		}
	}
	if len(secrets) == 0 {
		return nil
	}
	had, has := &redactor{to: io.Discard, secrets: secrets}, &redactor{to: io.Discard, secrets: secrets}
	err = errors.Join(g.Stream(ctx, had, strings.Join(append(former, ""), "\n"), "cat-file", "--batch"),
		g.Stream(ctx, has, list, "cat-file", "--batch"))
	for _, s := range secrets { // in files that had it before, it is not the agent's
		if err == nil && has.found[s.Name] > had.found[s.Name] {
			return refused(strings.Join(names, ", "), "contains the secret "+s.Name+" of the agent's environment")
		}
	}
	return err
}

// treeEntry is a file, a link or a submodule of a tree.
type treeEntry struct{ mode, object, path string }

// listTree returns what is in a tree, or in the tree of a commit.
func listTree(ctx context.Context, g git.Client, tree string) (all []treeEntry, err error) {
	var out bytes.Buffer
	if err := g.Stream(ctx, &out, "", "ls-tree", "-r", "-z", "--full-tree", tree); err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(out.String(), "\x00") {
		if meta, name, ok := strings.Cut(line, "\t"); ok { // "100644 blob <object>"
			mode, _, _ := strings.Cut(meta, " ")
			all = append(all, treeEntry{mode, meta[strings.LastIndexByte(meta, ' ')+1:], name})
		}
	}
	return all, nil
}

// linkTargets returns what links lead to, by their paths. What is too long for a target is cut behind maxLink.
func linkTargets(ctx context.Context, g git.Client, links []treeEntry) (map[string]string, error) {
	found := map[string]string{}
	if len(links) == 0 {
		return found, nil
	}
	var objects strings.Builder
	for _, l := range links {
		objects.WriteString(l.object + "\n")
	}
	out := &head{max: len(links) * (maxLink + 100)}
	if err := g.Stream(ctx, out, objects.String(), "cat-file", "--batch"); err != nil {
		return nil, err
	}
	text := out.kept.String()
	for _, l := range links {
		header, rest, _ := strings.Cut(text, "\n") // "<object> blob <size>"
		size, err := strconv.Atoi(header[strings.LastIndexByte(header, ' ')+1:])
		if err != nil || size >= len(rest) {
			return nil, refused(l.path, "is a link whose target is too long, or is beside such a link")
		}
		found[l.path], text = rest[:min(size, maxLink+1)], rest[size+1:]
	}
	return found, nil
}

// refuseRepositories refuses changes below directories of a tree that git takes for repositories, with settings that
// name programs: they have HEAD, objects and refs, or say where the latter two are. So it does at the top, where a copy
// of the files lacks .git.
func refuseRepositories(all, changed []string) error {
	has := map[string]bool{}
	for _, name := range all {
		for name = plainPath(name); name != "." && !has[name]; name = path.Dir(name) {
			has[name] = true
		}
	}
	for _, name := range changed {
		for dir := plainPath(name); dir != "."; {
			dir = path.Dir(dir)
			in := func(part string) bool { return has[path.Join(dir, part)] }
			if in("head") && (in("objects") && in("refs") || in("commondir")) {
				return refused(name, "is in a repository inside the repository: a directory with HEAD, objects and refs")
			}
		}
	}
	return nil
}

// refuseTwins refuses files of a tree that were added beside files or directories whose names are the same on macOS or
// Windows: there, one of them replaces the other. Names that had such a twin before are allowed.
func refuseTwins(all, added, gone []string) error {
	if len(added) == 0 {
		return nil
	}
	isNew, before, spellings := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, name := range added {
		isNew[name] = true
	}
	for _, name := range all {
		for ; !isNew[name] && name != "." && !before[name]; name = path.Dir(name) {
			before[name], spellings[plainPath(name)] = true, name
		}
	}
	for _, name := range gone {
		for ; name != "." && !before[name]; name = path.Dir(name) {
			before[name] = true
		}
	}
	for _, name := range added {
		for ; name != "." && !before[name]; name = path.Dir(name) {
			plain := plainPath(name)
			if twin := spellings[plain]; twin != "" && twin != name {
				return refused(name, fmt.Sprintf("has the same name as %.200q on macOS and Windows", twin))
			}
			spellings[plain] = name
		}
	}
	return nil
}

// maxLink is the size of the longest target of a link that a system has.
const maxLink = 4096

// refuseSizes refuses files that take more than the limit when they are checked out, each or together.
func (r *Repo) refuseSizes(ctx context.Context, g git.Client, list string, names []string) error {
	var sizes bytes.Buffer
	if err := g.Stream(ctx, &sizes, list, "cat-file", "--batch-check=%(objecttype) %(objectsize)"); err != nil {
		return err
	}
	left, i := r.options.MaxDisk, 0
	for line := range strings.Lines(sizes.String()) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "blob ")
		size, err := strconv.ParseInt(text, 10, 64)
		if !ok || err != nil {
			return refused(names[i], "is not a file")
		}
		if left -= size; left < 0 {
			return refused(names[i], "makes the change larger than DOCGAUGE_SITE_JOB_DISK")
		}
		i++
	}
	return nil
}

// refusePath refuses a file that no agent may change, or that guards match.
func refusePath(guards []guard, name string, link bool) error {
	plain := plainPath(name)
	for part := range strings.SplitSeq(plain, "/") {
		switch {
		case part == ".git" || shortName.MatchString(part):
			return refused(name, "belongs to git")
		case part == ".gitmodules":
			return refused(name, "says where submodules come from")
		case part == ".lfsconfig":
			return refused(name, "says where Git LFS sends requests")
		}
	}
	return refuseGuarded(guards, name, link)
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
