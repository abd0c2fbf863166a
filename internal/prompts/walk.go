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
	// maxDepth is how many folders deep a file may be.
	maxDepth = 16
	// maxEntries and maxTotal limit how much one scan reads and holds.
	maxEntries = 100_000
	maxTotal   = 256 << 20
	// batch is how many entries of a folder are read at once.
	batch = 1000
)

// file is one prompt file, or another entry with a problem, as one scan saw it.
type file struct {
	path string
	// info and sum describe the opened file; info is nil if it could not be read.
	info fs.FileInfo
	sum  [sha256.Size]byte
	// prompt has a path and an id even if there are findings.
	prompt   Prompt
	findings []Finding
	// other: not a prompt file (a folder, a link), so not a prompt either.
	other bool
	// linked: the path goes through a link.
	linked bool
	// changing: the file does not count yet.
	changing bool
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

// isPrompt reports whether a file of that name is a prompt.
func isPrompt(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".md" || ext == ".txt"
}

// errKind: a pipe, a socket or a device.
var errKind = errors.New("neither a file nor a folder: remove it")

// walker walks the folder: first its own entries, then the folders that links in it
// lead to, each folder once.
type walker struct {
	root    *os.Root
	rules   Rules
	before  map[string]*file // of the previous scan
	files   []*file
	folders []visited
	links   []string // to folders that were not visited yet
	linked  bool     // the walk is behind a link
	entries int
	bytes   int
}

type visited struct {
	path string
	info fs.FileInfo
}

// walk reads all files below root, sorted by path. Its errors concern the whole folder; errors of single entries are
// findings.
func walk(root *os.Root, rules Rules, before map[string]*file) ([]*file, error) {
	w := &walker{root: root, rules: rules, before: before}
	top, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer top.Close()
	info, err := top.Stat()
	if err != nil {
		return nil, err
	}
	if err := w.folder(top, info, "."); err != nil {
		return nil, err
	}
	w.linked = true
	for len(w.links) > 0 {
		next := slices.Min(w.links)
		w.links = slices.DeleteFunc(w.links, func(s string) bool { return s == next })
		if err := w.open(next, false); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(w.files, func(a, b *file) int { return strings.Compare(a.path, b.path) })
	return w.files, nil
}

// folder visits one folder.
func (w *walker) folder(handle *os.File, info fs.FileInfo, dir string) error {
	for _, f := range w.folders {
		if w.linked && os.SameFile(f.info, info) {
			w.problem(dir, true, fmt.Errorf("a link to the folder %s: remove it", printable(f.path)))
			return nil
		}
	}
	switch {
	case strings.Count(dir, "/") >= maxDepth:
		w.problem(dir, true, fmt.Errorf("more than %d folders deep: move it up", maxDepth))
		return nil
	case dir != "." && openToAll(handle, info):
		w.problem(dir, true, errWritable)
		return nil
	}
	w.folders = append(w.folders, visited{dir, info})
	for {
		entries, err := handle.ReadDir(batch)
		for _, entry := range entries {
			name, kind := entry.Name(), entry.Type()
			full, isLink := path.Join(dir, name), kind&fs.ModeSymlink != 0
			if strings.HasPrefix(name, ".") {
				continue
			}
			if w.entries++; w.entries > maxEntries {
				return fmt.Errorf("more than %d files: move out those that are done", maxEntries)
			}
			switch {
			case kind.IsDir(), isLink, isPrompt(name) && kind.IsRegular():
				if err := w.open(full, isLink); err != nil {
					return err
				}
			case isPrompt(name):
				w.problem(full, false, errKind)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && dir == ".":
			return err
		case err != nil:
			w.problem(dir, true, err)
			return nil
		}
	}
}

// open checks what it opened, not the entry: that may be a link, and may have been
// replaced since. The entries of a ConfigMap are links into ..data. A file behind a
// link is read at once, a folder behind a link only when it is next in order.
func (w *walker) open(name string, link bool) error {
	if problem := checkLine(name); problem != "" {
		w.problem(name, !isPrompt(name), fmt.Errorf("the path: %s", problem))
		return nil
	}
	handle, err := w.root.OpenFile(name, openFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		// A file that has disappeared is fine, a link to nothing is not.
		if _, gone := w.root.Lstat(name); gone != nil || !link || !isPrompt(name) {
			return nil
		}
		err = errors.New("a link to a file that does not exist: remove it")
	}
	if err != nil {
		w.problem(name, !isPrompt(name), err)
		return nil
	}
	defer handle.Close()
	info, err := handle.Stat()
	switch {
	case err != nil:
		w.problem(name, !isPrompt(name), err)
	case info.IsDir() && link:
		w.links = append(w.links, name)
	case info.IsDir():
		return w.folder(handle, info, name)
	case !isPrompt(name):
	case !info.Mode().IsRegular():
		w.problem(name, false, errKind)
	case openToAll(handle, info):
		w.problem(name, false, errWritable)
	default:
		return w.read(handle, info, name, link)
	}
	return nil
}

// read reads one file. A file that the previous scan parsed is not parsed again.
func (w *walker) read(handle *os.File, info fs.FileInfo, name string, link bool) error {
	data, err := io.ReadAll(io.LimitReader(handle, MaxBytes+1))
	if err != nil {
		w.problem(name, false, err)
		return nil
	}
	if w.bytes += len(data); w.bytes > maxTotal {
		return fmt.Errorf("more than %d MiB of prompts: move out those that are done", maxTotal>>20)
	}
	f := &file{path: name, info: info, sum: sha256.Sum256(data), linked: w.linked || link}
	if old := w.before[name]; old != nil && old.info != nil && old.sum == f.sum {
		f.prompt, f.findings = old.prompt, old.findings
	} else {
		f.prompt, f.findings = parseFile(name, data, w.rules)
	}
	w.files = append(w.files, f)
	return nil
}

// problem notes an entry that cannot be read, and the remedy.
func (w *walker) problem(name string, other bool, err error) {
	text := err.Error()
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		switch text = pe.Err.Error(); {
		case errors.Is(err, fs.ErrPermission):
			text += ": let this user read it"
		case strings.Contains(text, "path escapes"):
			text = "a link out of the folder: copy the file it links to here"
		default:
			text += ": repair or remove it"
		}
	}
	shown := printable(name)
	w.files = append(w.files, &file{
		path: name, other: other,
		prompt:   Prompt{ID: shown, Path: shown},
		findings: []Finding{{Path: shown, Text: text}},
	})
}
