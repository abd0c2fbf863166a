package prompts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

const (
	// variable names the folder in errors: it is where people set it.
	variable = "DOCGAUGE_PROMPTS_DIR"
	// Pause is the time between the two scans of a single pass.
	Pause = 2 * time.Second
	// calm is how long a file must be unchanged to count in the first scan of a single pass.
	calm = 10 * time.Minute
)

// Folder is a folder of prompt files. It is opened anew for each scan, so that a
// scan sees a folder that was replaced as a whole.
type Folder struct {
	dir   string
	rules Rules
}

// Open returns the folder dir. It must exist, be readable, and not be writable by anyone:
// writing there spends the agents' budget. On a file system that is mounted read-only the
// modes do not count: Kubernetes mounts ConfigMaps with mode 0777.
func Open(dir string, rules Rules) (*Folder, error) {
	f := &Folder{dir: dir, rules: rules}
	root, err := f.root()
	if err != nil {
		return nil, err
	}
	return f, root.Close()
}

// root opens the folder and checks it.
func (f *Folder) root() (*os.Root, error) {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, f.unusable(err)
	}
	handle, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(f.unusable(err), root.Close())
	}
	defer handle.Close()
	info, err := handle.Stat()
	if err == nil && openToAll(handle, info) {
		err = errWritable
	}
	if err == nil {
		_, err = handle.ReadDir(1)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(f.unusable(err), root.Close())
	}
	return root, nil
}

// errWritable: anyone can write to a folder or a file.
var errWritable = errors.New("anyone can write to it, and so spend the agents' budget: run chmod o-w on it")

// unusable returns an error with the reason why the folder cannot be used, and the remedy.
func (f *Folder) unusable(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	remedy := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		remedy = ": make the folder or mount it; without a queue, unset the variable"
	case errors.Is(err, fs.ErrPermission):
		remedy = ": let this user read and search it (chmod u+rx)"
	}
	return fmt.Errorf("%s: %s: %w%s", variable, f.dir, err, remedy)
}

// Scanned is the result of one scan. Prompts and Invalid have no path in common;
// all lists are sorted by path.
type Scanned struct {
	// Prompts keep every rule.
	Prompts []Prompt
	// Invalid break a rule. They have a path, an id, which is the path if the file's
	// own id cannot be read, and the other fields as far as they could be read.
	Invalid []Prompt
	// Findings are all broken rules, by path and line.
	Findings []Finding
	// Changing are paths of files that have changed since the previous scan, or that
	// it did not see. They are in no other list.
	Changing []string

	seen map[string]*file
}

// Finding returns the first finding of a path: why it is invalid.
func (s Scanned) Finding(path string) (Finding, bool) {
	i, found := slices.BinarySearchFunc(s.Findings, path, func(f Finding, path string) int {
		return strings.Compare(f.Path, path)
	})
	if !found {
		return Finding{}, false
	}
	return s.Findings[i], true
}

// Scan reads the folder. A file counts if the previous scan saw the same file;
// previous may be nil. An error means that the folder as a whole cannot be read.
func (f *Folder) Scan(previous *Scanned) (Scanned, error) {
	return f.scan(previous, (*file).same)
}

// Lint reads the folder; every file counts.
func (f *Folder) Lint() (Scanned, error) {
	return f.scan(nil, func(_, _ *file) bool { return true })
}

// ScanOnce is for a single pass. If a file was written in the last ten minutes,
// or in the future, it scans again after Pause and leaves out the files that changed
// in between. All other files count at once.
func (f *Folder) ScanOnce(ctx context.Context) (Scanned, error) {
	start := time.Now()
	counts := func(now, before *file) bool {
		return now.same(before) || now.info != nil && now.info.ModTime().Before(start.Add(-calm))
	}
	first, err := f.scan(nil, counts)
	if err != nil || len(first.Changing) == 0 {
		return first, err
	}
	if err := clock.Sleep(ctx, Pause); err != nil {
		return Scanned{}, err
	}
	return f.scan(&first, counts)
}

// scan reads the folder. counts decides about each file by its state in the previous scan, or nil.
func (f *Folder) scan(previous *Scanned, counts func(now, before *file) bool) (Scanned, error) {
	root, err := f.root()
	if err != nil {
		return Scanned{}, err
	}
	var before map[string]*file
	if previous != nil {
		before = previous.seen
	}
	files, err := walk(root, f.rules, before)
	if err = errors.Join(err, root.Close()); err != nil {
		return Scanned{}, f.unusable(err)
	}
	for _, file := range files {
		file.changing = !counts(file, before[file.path])
	}
	return classify(files, f.rules), nil
}

// classify divides files into changing ones, invalid ones, and prompts.
func classify(files []*file, rules Rules) Scanned {
	s := Scanned{seen: make(map[string]*file, len(files))}
	g := graph{byID: map[string][]*file{}, invalid: map[*file]bool{}}
	for _, f := range files {
		s.seen[f.path] = f
		if f.changing {
			s.Changing = append(s.Changing, printable(f.path))
		} else {
			g.files = append(g.files, f)
		}
		if !f.other {
			g.byID[f.prompt.ID] = append(g.byID[f.prompt.ID], f)
		}
	}
	g.check(rules.Known)
	for _, f := range g.files {
		switch {
		case f.other:
		case g.invalid[f]:
			s.Invalid = append(s.Invalid, f.prompt)
		default:
			s.Prompts = append(s.Prompts, f.prompt)
		}
	}
	s.Findings = sorted(g.findings)
	return s
}
