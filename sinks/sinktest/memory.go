package sinktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// Step names a point of [Memory.Replace] at which [Memory.Fault] is asked.
type Step string

// The steps of Replace.
const (
	Before Step = "before" // nothing has happened
	Read   Step = "read"   // the rows are read, nothing is visible
	After  Step = "after"  // the window is visible: the answer is lost
)

// Memory is a sink in memory, for tests of the code that uses sinks. It replaces a window
// under one lock, so readers see it whole, and tests can make each step fail. The zero value
// is empty and ready.
type Memory struct {
	// Fault, if set, is called at each step of Replace; an error it returns
	// ends Replace there. Set it before the sink is used.
	Fault func(Step, analytics.Revision) error

	mu      sync.Mutex
	windows map[analytics.Key]memoryWindow
}

type memoryWindow struct {
	rev  analytics.Revision
	rows []analytics.Record
	// fault, if any, is the error that this window yields.
	fault error
}

// NewMemory returns an empty sink.
func NewMemory() *Memory { return &Memory{} }

// Name returns "memory".
func (s *Memory) Name() string { return "memory" }

// Location returns "memory".
func (s *Memory) Location() string { return "memory" }

// Check finds nothing wrong.
func (s *Memory) Check(context.Context) error { return nil }

// Close keeps the windows.
func (s *Memory) Close() error { return nil }

// Replace commits w.
func (s *Memory) Replace(ctx context.Context, w sinks.Sealed) error {
	rev := w.Revision()
	if err := s.fault(Before, rev); err != nil {
		return err
	}
	if !slices.Contains(analytics.Reports, rev.Report) {
		return sinks.NotOffered(rev.Report)
	}
	read := memoryWindow{rev: rev}
	for row, err := range w.Rows() {
		if err != nil {
			return err
		}
		read.rows = append(read.rows, row)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.fault(Read, rev); err != nil {
		return err
	}
	s.mu.Lock()
	if s.windows == nil {
		s.windows = map[analytics.Key]memoryWindow{}
	}
	s.windows[rev.Key] = read
	s.mu.Unlock()
	return s.fault(After, rev)
}

func (s *Memory) fault(step Step, rev analytics.Revision) error {
	if s.Fault == nil {
		return nil
	}
	return s.Fault(step, rev)
}

// Revisions yields the revision of each window.
func (s *Memory) Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	return sinks.List(ctx, s)
}

// Inspect yields each window in scope.
func (s *Memory) Inspect(ctx context.Context, scope sinks.Scope) iter.Seq2[sinks.Shown, error] {
	return func(yield func(sinks.Shown, error) bool) {
		s.mu.Lock()
		all := maps.Clone(s.windows)
		s.mu.Unlock()
		for key, w := range all {
			if err := ctx.Err(); err != nil {
				yield(sinks.Shown{}, err)
				return
			}
			shown := sinks.Shown{Revision: w.rev}
			if scope.Rows {
				shown.Sum, _ = sinks.SumOf(w) // rows in memory have no error
			}
			if scope.Has(key) && !yield(shown, w.fault) {
				return
			}
		}
	}
}

func (w memoryWindow) Revision() analytics.Revision             { return w.rev }
func (w memoryWindow) Rows() iter.Seq2[analytics.Record, error] { return List(w.rows...) }
func (w memoryWindow) Open() (io.ReadCloser, error)             { return nil, errors.ErrUnsupported }

// Window writes a window to a file in dir.
func (s *Memory) Window(_ context.Context, rev analytics.Revision, dir string) (sinks.Sealed, func() error, error) {
	s.mu.Lock()
	w, ok := s.windows[rev.Key]
	s.mu.Unlock()
	if !ok || w.fault != nil {
		return nil, nil, fmt.Errorf("memory sink: %s is not there: %w", rev.Key, errors.Join(w.fault, fs.ErrNotExist))
	}
	return sinks.WindowFile(dir, w.rev, w.Rows())
}

// Put makes the sink show a window, as it may look after damage: rows that do not belong to rev, or an error
// instead.
func (s *Memory) Put(rev analytics.Revision, rows []analytics.Row, fault error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.windows == nil {
		s.windows = map[analytics.Key]memoryWindow{}
	}
	w := memoryWindow{rev: rev, fault: fault}
	for _, row := range rows {
		w.rows = append(w.rows, analytics.RecordOf(row))
	}
	s.windows[rev.Key] = w
}

// Remove makes the sink lose a window.
func (s *Memory) Remove(key analytics.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.windows, key)
}

// Rows returns the rows of a window and the revisions they come from, at
// most one.
func (s *Memory) Rows(key analytics.Key) ([]analytics.Record, []analytics.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.windows[key]
	if !ok || w.fault != nil || len(w.rows) == 0 {
		return nil, nil, nil
	}
	return slices.Clone(w.rows), []analytics.Revision{w.rev}, nil
}

// Totals returns the revision of a window, or nothing without such a window.
func (s *Memory) Totals(key analytics.Key) ([]analytics.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.windows[key]; ok {
		return []analytics.Revision{w.rev}, nil
	}
	return nil, nil
}
