package prompts

import (
	"context"
	"errors"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

const (
	// Pause is between the two scans of a single pass.
	Pause = 2 * time.Second
	// calm is how long a file that a single pass takes at once has not been written.
	calm = 10 * time.Minute
)

// Scanned is what one scan found. Prompts and Invalid have no path in common; all
// lists are sorted by path.
type Scanned struct {
	// Prompts keep every rule.
	Prompts []Prompt
	// Invalid break one. They have a path and an id, which is the path where that of
	// the file cannot be read, and of the rest what could be read.
	Invalid []Prompt
	// Findings are all rules that are broken, by path and line.
	Findings []Finding
	// Settling are paths of files that have changed since the last scan, or were
	// not seen by it. They are in no other list.
	Settling []string

	seen map[string]*file
}

// Finding returns the first finding of a path: why it is invalid.
func (s Scanned) Finding(path string) (Finding, bool) {
	for _, f := range s.Findings {
		if f.Path == path {
			return f, true
		}
	}
	return Finding{}, false
}

// Scan reads the folder. What counts is what previous, the scan before, saw too; it
// may be nil. An error is of the folder as a whole.
func (f *Folder) Scan(previous *Scanned) (Scanned, error) {
	return f.scan(previous, (*file).same)
}

// Lint reads the folder and takes every file as it is.
func (f *Folder) Lint() (Scanned, error) {
	return f.scan(nil, func(_, _ *file) bool { return true })
}

// ScanSettled is for a single pass. If a file was written in the last ten minutes,
// or in the future, it scans once more after Pause; what settles then was written
// meanwhile. Other files it takes at once.
func (f *Folder) ScanSettled(ctx context.Context) (Scanned, error) {
	start := time.Now()
	calmed := func(now, before *file) bool {
		return now.same(before) || now.info != nil && now.info.ModTime().Before(start.Add(-calm))
	}
	first, err := f.scan(nil, calmed)
	if err != nil || len(first.Settling) == 0 {
		return first, err
	}
	if err := clock.Sleep(ctx, Pause); err != nil {
		return Scanned{}, err
	}
	return f.scan(&first, calmed)
}

// scan reads the folder; counts decides by what the scan before saw, or nil.
func (f *Folder) scan(previous *Scanned, counts func(now, before *file) bool) (Scanned, error) {
	root, err := f.root()
	if err != nil {
		return Scanned{}, err
	}
	var before map[string]*file
	if previous != nil {
		before = previous.seen
	}
	files, err := gather(root, f.rules, before)
	if err = errors.Join(err, root.Close()); err != nil {
		return Scanned{}, f.refuse(err)
	}
	for _, file := range files {
		file.settling = !counts(file, before[file.path])
	}
	return judge(files, f.rules), nil
}

// judge parts files into those that settle, those that are wrong, and prompts.
func judge(files []*file, rules Rules) Scanned {
	s := Scanned{seen: make(map[string]*file, len(files))}
	g := graph{byID: map[string][]*file{}, known: rules.Known, bad: map[*file]bool{}}
	for _, f := range files {
		s.seen[f.path] = f
		if f.settling {
			s.Settling = append(s.Settling, shown(f.path))
		} else {
			g.files = append(g.files, f)
		}
		if !f.other {
			g.byID[f.prompt.ID] = append(g.byID[f.prompt.ID], f)
		}
	}
	g.check()
	for _, f := range g.files {
		switch {
		case f.other:
		case g.bad[f]:
			s.Invalid = append(s.Invalid, f.prompt)
		default:
			s.Prompts = append(s.Prompts, f.prompt)
		}
	}
	s.Findings = sorted(g.findings)
	return s
}
