package sinktest

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// testReaderDuringReplace polls while two revisions of different length take
// turns: readers see one of them, whole, every time.
func testReaderDuringReplace(s *suite) {
	sizes := map[int32]int{1: 3000, 2: 100}
	revisions := []sinks.Sealed{s.seal(1, sizes[1]), s.seal(2, sizes[2])}
	s.replace(revisions[0])
	ctx, stop := context.WithCancel(s.Context())
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for ctx.Err() == nil && s.whole(sizes) {
			}
		})
	}
	for i := range 12 {
		if err := s.sink.Replace(s.Context(), revisions[(i+1)%2]); err != nil {
			s.Errorf("Replace: %v", err)
			break
		}
	}
	stop()
	wait.Wait()
	s.shows(revisions[0])
}

// whole reads the window once and reports whether it saw one whole revision.
func (s *suite) whole(sizes map[int32]int) bool {
	key := s.key("prj_a", 0)
	rows, carried, err := s.humans(key)
	if err != nil || len(carried) != 1 {
		s.Errorf("a reader sees revisions %v, %v", carried, err)
		return false
	}
	number := carried[0].Number
	if len(rows) != sizes[number] {
		s.Errorf("a reader sees %d rows of revision %d, want %d", len(rows), number, sizes[number])
		return false
	}
	for _, human := range rows {
		if human/1_000_000 != int64(number) {
			s.Errorf("a reader sees %d human visitors in revision %d", human, number)
			return false
		}
	}
	if s.report.Shape().Site {
		return true
	}
	if totals, err := s.read.Totals(key); err != nil || len(totals) != 1 {
		s.Errorf("a reader sees totals %v, %v", totals, err)
		return false
	}
	return true
}

// humans are the counts in the rows of a window with a path, as readers see them, by which its
// revisions differ.
func (s *suite) humans(key analytics.Key) (counts []int64, carried []analytics.Revision, err error) {
	rows, carried, err := s.read.Rows(key)
	for _, r := range rows {
		if !key.Report.Shape().IsOfSite(r) {
			counts = append(counts, r.Counts[0])
		}
	}
	return counts, carried, err
}

// testCancelled cancels before Replace and in the middle of it.
func testCancelled(s *suite) {
	former := s.replace(s.seal(1, 50))
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	s.eitherOf(former, s.seal(2, 80), func(w sinks.Sealed) error { return s.sink.Replace(ctx, w) })

	former = s.replace(s.seal(3, 50))
	ctx, cancel = context.WithCancel(s.Context())
	next := &broken{Sealed: s.seal(4, 20_000), at: 10_000, stop: cancel}
	s.eitherOf(former, next, func(w sinks.Sealed) error { return s.sink.Replace(ctx, w) })
	cancel()
	s.shows(s.replace(s.seal(5, 4)))
}

// eitherOf replaces former by next: after nil readers see next, after an error
// one of them.
func (s *suite) eitherOf(former, next sinks.Sealed, replace func(sinks.Sealed) error) {
	s.Helper()
	err := replace(next)
	if s.differs(next) == "" {
		return
	}
	if err == nil {
		s.Errorf("Replace = nil, but readers do not see revision %d", next.Revision().Number)
	}
	s.shows(former)
}

var errBroken = errors.New("rows break off")

// testBrokenRows: the rows of a window fail in the middle.
func testBrokenRows(s *suite) {
	next := &broken{Sealed: s.seal(2, 20_000), at: 10_000, err: errBroken}
	if err := s.sink.Replace(s.Context(), next); !errors.Is(err, errBroken) {
		s.Errorf("Replace of broken rows into an empty sink = %v, want the error of the rows", err)
	}
	if rows, _, err := s.humans(s.key("prj_a", 0)); len(rows) > 0 || err != nil {
		s.Errorf("readers see %d rows of a window that never came, %v", len(rows), err)
	}
	former := s.replace(s.seal(1, 50))
	if err := s.sink.Replace(s.Context(), next); !errors.Is(err, errBroken) {
		s.Errorf("Replace of broken rows = %v, want the error of the rows", err)
	}
	s.shows(former)
	s.shows(s.replace(s.seal(2, 20_000)))
}

// broken is a sealed window whose rows and file cannot be read to their end,
// or that calls stop on the way.
type broken struct {
	sinks.Sealed
	at   int
	err  error
	stop func()
}

func (b *broken) Rows() iter.Seq2[analytics.Record, error] {
	return func(yield func(analytics.Record, error) bool) {
		n := 0
		for r, err := range b.Sealed.Rows() {
			if n == b.at && b.stop != nil {
				b.stop()
			}
			if n == b.at && b.err != nil {
				yield(analytics.Record{}, b.err)
				return
			}
			if !yield(r, err) {
				return
			}
			n++
		}
	}
}

func (b *broken) Open() (io.ReadCloser, error) {
	if b.stop != nil {
		b.stop()
	}
	if b.err != nil {
		return nil, b.err
	}
	return b.Sealed.Open()
}

// testDamagedFile: a window file was cut short, so its rows fail too.
func testDamagedFile(s *suite) {
	former := s.replace(s.seal(1, 50))
	path := filepath.Join(s.TempDir(), "cut")
	next := &cut{broken{Sealed: s.seal(2, 20_000), at: 10_000, err: errBroken}, path}
	Check(s, copyHalf(next.Sealed, path))
	if err := s.sink.Replace(s.Context(), next); err == nil {
		s.Error("Replace of a damaged window = nil")
	}
	s.shows(former)
}

type cut struct {
	broken
	path string
}

func (c *cut) Open() (io.ReadCloser, error) { return os.Open(c.path) }

func copyHalf(w sinks.Sealed, path string) error {
	in, err := w.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data[:len(data)/2], 0o600)
}
