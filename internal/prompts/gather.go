package prompts

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

const (
	// maxDepth is how many folders deep files lie.
	maxDepth = 16
	// maxEntries and maxTotal bound what one scan looks at and holds.
	maxEntries = 100_000
	maxTotal   = 256 << 20
	// batch is how many entries of a folder are read at once.
	batch = 1000
)

// file is one prompt file, or what else was found wrong, as one scan saw it.
type file struct {
	path string
	// info and sum are of the opened file; info is nil where it could not be read.
	info fs.FileInfo
	sum  [sha256.Size]byte
	// prompt has a path and an id even where there are findings.
	prompt   Prompt
	findings []Finding
	// other: not a prompt file (a folder, a link), so it is no prompt either.
	other bool
	// linked: the path leads through a link.
	linked   bool
	settling bool
}

// same reports whether two scans saw the same.
func (f *file) same(before *file) bool {
	if before == nil || f.sum != before.sum || (f.info == nil) != (before.info == nil) {
		return false
	}
	if f.info == nil {
		return slices.Equal(f.findings, before.findings)
	}
	return f.info.ModTime().Equal(before.info.ModTime()) && os.SameFile(f.info, before.info)
}

// gatherer walks the folder: what lies in it first, then what folders are linked
// to it, each of them once.
type gatherer struct {
	root    *os.Root
	rules   Rules
	before  map[string]*file // what the last scan saw
	files   []*file
	folders []walked
	links   []string // to folders, not walked yet
	linked  bool     // the walk is behind a link
	entries int
	bytes   int
}

// walked is a folder that was walked.
type walked struct {
	path string
	info fs.FileInfo
}

// gather reads all files below root, sorted by path.
func gather(root *os.Root, rules Rules, before map[string]*file) ([]*file, error) {
	g := &gatherer{root: root, rules: rules, before: before}
	if err := g.top(); err != nil {
		return nil, err
	}
	g.linked = true
	for len(g.links) > 0 {
		next := slices.Min(g.links)
		g.links = slices.DeleteFunc(g.links, func(s string) bool { return s == next })
		if err := g.open(next, false); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(g.files, func(a, b *file) int { return strings.Compare(a.path, b.path) })
	return g.files, nil
}

// top walks the folder itself; that it cannot be read is an error, not a finding.
func (g *gatherer) top() error {
	handle, err := g.root.Open(".")
	if err != nil {
		return err
	}
	defer handle.Close()
	info, err := handle.Stat()
	if err != nil {
		return err
	}
	return g.subfolder(handle, info, ".")
}

// folder walks one folder. An error ends the scan.
func (g *gatherer) folder(handle *os.File, dir string) error {
	for {
		entries, err := handle.ReadDir(batch)
		for _, entry := range entries {
			if err := g.entry(dir, entry); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && dir == ".":
			return err
		case err != nil:
			g.trouble(dir, true, err)
			return nil
		}
	}
}

func (g *gatherer) entry(dir string, entry fs.DirEntry) error {
	name := entry.Name()
	if strings.HasPrefix(name, ".") {
		return nil
	}
	if g.entries++; g.entries > maxEntries {
		return fmt.Errorf("more than %d files: move out those that are done", maxEntries)
	}
	full := path.Join(dir, name)
	switch kind := entry.Type(); {
	case kind.IsDir(), kind&fs.ModeSymlink != 0:
		return g.open(full, kind&fs.ModeSymlink != 0)
	case !isPrompt(name):
	case kind.IsRegular():
		return g.open(full, false)
	default:
		g.trouble(full, false, errKind)
	}
	return nil
}

// errKind: a pipe, a socket or a device.
var errKind = errors.New("neither a file nor a folder: remove it")

// isPrompt reports whether a file of that name is a prompt.
func isPrompt(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".md" || ext == ".txt"
}

// open looks at what is opened, not at the entry: that may be a link, and may be
// another thing by now. The entries of a ConfigMap are links into ..data. What a
// link leads to is opened at once, but a folder only when its turn comes.
func (g *gatherer) open(name string, link bool) error {
	if problem := checkLine(name); problem != "" {
		g.trouble(name, !isPrompt(name), fmt.Errorf("the path: %s", problem))
		return nil
	}
	handle, err := g.root.OpenFile(name, openFlags, 0)
	if err != nil {
		g.cannotOpen(name, link, err)
		return nil
	}
	defer handle.Close()
	info, err := handle.Stat()
	switch {
	case err != nil:
		g.trouble(name, !isPrompt(name), err)
	case info.IsDir() && link:
		g.links = append(g.links, name)
	case info.IsDir():
		return g.subfolder(handle, info, name)
	case !isPrompt(name):
	case !info.Mode().IsRegular():
		g.trouble(name, false, errKind)
	case openToAll(handle, info):
		g.trouble(name, false, errWritable)
	default:
		return g.read(handle, info, name, link)
	}
	return nil
}

// cannotOpen: a file that is gone is none, a link to nothing is wrong.
func (g *gatherer) cannotOpen(name string, link bool, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := g.root.Lstat(name); gone != nil || !link || !isPrompt(name) {
			return
		}
		err = errors.New("a link to a file that is not there: remove it")
	}
	g.trouble(name, !isPrompt(name), err)
}

func (g *gatherer) subfolder(handle *os.File, info fs.FileInfo, name string) error {
	for _, f := range g.folders {
		if g.linked && os.SameFile(f.info, info) {
			g.trouble(name, true, fmt.Errorf("a link to the folder %s: remove it", shown(f.path)))
			return nil
		}
	}
	switch {
	case strings.Count(name, "/") >= maxDepth:
		g.trouble(name, true, fmt.Errorf("more than %d folders deep: move it up", maxDepth))
		return nil
	case name != "." && openToAll(handle, info):
		g.trouble(name, true, errWritable)
		return nil
	}
	g.folders = append(g.folders, walked{name, info})
	return g.folder(handle, name)
}

// read takes in one file. What the last scan has parsed is not parsed again.
func (g *gatherer) read(handle *os.File, info fs.FileInfo, name string, link bool) error {
	data, err := io.ReadAll(io.LimitReader(handle, MaxBytes+1))
	if err != nil {
		g.trouble(name, false, err)
		return nil
	}
	if g.bytes += len(data); g.bytes > maxTotal {
		return fmt.Errorf("more than %d MiB of prompts: move out those that are done", maxTotal>>20)
	}
	f := &file{path: name, info: info, sum: sha256.Sum256(data), linked: g.linked || link}
	if old := g.before[name]; old != nil && old.info != nil && old.sum == f.sum {
		f.prompt, f.findings = old.prompt, old.findings
	} else {
		f.prompt, f.findings = parseFile(name, data, g.rules)
	}
	g.files = append(g.files, f)
	return nil
}

// trouble notes what cannot be read.
func (g *gatherer) trouble(name string, other bool, err error) {
	g.files = append(g.files, &file{
		path: name, other: other,
		prompt:   Prompt{ID: shown(name), Path: shown(name)},
		findings: []Finding{{Path: shown(name), Text: remedy(err)}},
	})
}

// remedy says what to do about an error; those of the file system do not.
func remedy(err error) string {
	pe, ok := errors.AsType[*fs.PathError](err)
	switch {
	case !ok:
		return err.Error()
	case errors.Is(err, fs.ErrPermission):
		return pe.Err.Error() + ": let this user read it"
	case strings.Contains(pe.Err.Error(), "path escapes"):
		return "a link out of the folder: copy here what it names"
	}
	return pe.Err.Error() + ": mend or remove it"
}
