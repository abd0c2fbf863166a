// Package spool holds windows on their way from the API to the sinks: the pages
// of windows under way (page logs), and sealed window files that not every sink
// has yet.
//
// Layout, below the state directory:
//
//	spool/fetching/<project>.<granularity>.<from>_<to>.pages   page log
//	spool/sealed/<project>.<granularity>.<from>_<to>.r<n>.parquet
//	spool/tmp/                                                 emptied at Open
//
// Invariant: a file in sealed/ was whole and on disk when it got its name, and is
// tested by its CRC each time it is read. A page log may end in the
// middle of a record, as its process may have died there; what is before that
// is sound, checked by CRC. Memory does not grow with the number of rows.
//
// It does not know what is due or which sink wants what. One process at a time
// uses it (the exporter's lock).
package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/durable"
)

const (
	dirMode = 0o700
	// staleAfter is the age at which a page log nobody went on with is dropped.
	staleAfter = 7 * 24 * time.Hour
)

// Spool is an open spool directory.
type Spool struct{ fetching, sealed, tmp string }

// Open makes the spool below stateDir if it is not there, and clears away what
// a killed process left unfinished.
func Open(stateDir string, now time.Time) (*Spool, error) {
	root := filepath.Join(stateDir, "spool")
	s := &Spool{filepath.Join(root, "fetching"), filepath.Join(root, "sealed"), filepath.Join(root, "tmp")}
	if err := os.RemoveAll(s.tmp); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	for _, dir := range []string{s.fetching, s.sealed, s.tmp} {
		if err := os.MkdirAll(dir, dirMode); err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
	}
	return s, s.dropStale(now)
}

func (s *Spool) dropStale(now time.Time) error {
	return eachFile(s.fetching, func(path string, info fs.FileInfo) error {
		if now.Sub(info.ModTime()) < staleAfter {
			return nil
		}
		return os.Remove(path)
	})
}

func eachFile(dir string, f func(path string, info fs.FileInfo) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil {
			err = f(filepath.Join(dir, e.Name()), info)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("spool: %w", err)
		}
	}
	return nil
}

// name is unique for a key: project ids and granularities hold no dot.
func name(k analytics.Key) string {
	return fmt.Sprintf("%s.%s.%s_%s", k.Project, k.Granularity, k.From, k.To)
}

// Sealed is a sealed window file in the spool. Its bytes are tested each time it
// is opened or its rows are ranged over, so that no sink is given a damaged one;
// that costs little beside what a sink does with it.
type Sealed struct{ *archive.File }

// ErrDamaged: a sealed window file is not what it was when it was sealed. It is
// to be put aside (see [Spool.PutAside]), so that its window is due again.
var ErrDamaged = errors.New("damaged window file")

// Open opens the file for reading; ErrDamaged if it must not be read.
func (w *Sealed) Open() (*os.File, error) {
	if err := w.test(); err != nil {
		return nil, err
	}
	return w.File.Open()
}

// Rows yields the rows; ErrDamaged before the first if they must not be read.
func (w *Sealed) Rows() iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		if err := w.test(); err != nil {
			yield(analytics.Row{}, err)
			return
		}
		w.File.Rows()(yield)
	}
}

func (w *Sealed) test() error { return damaged(w.Intact()) }

// damaged tells damage from a file that cannot be opened or read at all.
func damaged(err error) error {
	if err == nil {
		return nil
	}
	if _, unread := errors.AsType[*fs.PathError](err); unread {
		return fmt.Errorf("spool: %w", err)
	}
	return fmt.Errorf("spool: %w: %w", ErrDamaged, err)
}

// Seal turns a complete page log into a sealed window file, described by rev
// (whose Rows is counted here). ErrDuplicate if rev is to be verified and a
// path came twice: nothing is sealed then. The page log stays until Discard.
func (s *Spool) Seal(ctx context.Context, f *Fetch, rev analytics.Revision) (*Sealed, error) {
	final := filepath.Join(s.sealed, fmt.Sprintf("%s.r%d%s", name(rev.Key), rev.Number, sealedSuffix))
	staged := filepath.Join(s.tmp, filepath.Base(final)+".tmp")
	if err := os.Remove(staged); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if err := f.write(ctx, staged, rev); err != nil {
		return nil, err
	}
	if err := durable.Rename(staged, final); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return open(final)
}

func open(path string) (*Sealed, error) {
	file, err := archive.Open(path)
	if err != nil {
		return nil, damaged(err)
	}
	w := &Sealed{file}
	return w, w.test()
}

// sealedSuffix tells sealed windows from damaged ones put aside.
const sealedSuffix = ".parquet"

// List returns the sealed windows, in name order. A damaged file is renamed, so
// that it is met only once, and returned in damaged. One that cannot be opened
// or read at all is no damage but an error.
func (s *Spool) List(ctx context.Context) (whole []*Sealed, damaged []error, err error) {
	err = eachFile(s.sealed, func(path string, _ fs.FileInfo) error {
		if !strings.HasSuffix(path, sealedSuffix) {
			return ctx.Err()
		}
		w, err := open(path)
		if errors.Is(err, ErrDamaged) {
			damaged = append(damaged, err)
			return errors.Join(putAside(path), ctx.Err())
		}
		if err != nil {
			return err
		}
		whole = append(whole, w)
		return ctx.Err()
	})
	return whole, damaged, err
}

// PutAside renames a damaged file, so that it is met only once.
func (s *Spool) PutAside(w *Sealed) error { return wrapErr(putAside(w.Path())) }

func putAside(path string) error { return os.Rename(path, path+".damaged") }

// Requests returns what a sealed revision cost, where its page log is still
// there because its process died before Discard; else 0. The log is removed.
func (s *Spool) Requests(rev analytics.Revision) (int, error) {
	f, err := s.Begin(rev.Key, rev.Number, rev.ExportedAt, time.Time{})
	if err != nil {
		return 0, err
	}
	return f.Requests(), f.Discard()
}

// Remove takes a sealed window out of the spool.
func (s *Spool) Remove(w *Sealed) error {
	if err := os.Remove(w.Path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}

// Size returns the bytes that sealed windows occupy, without damaged ones.
func (s *Spool) Size() (int64, error) {
	var sum int64
	err := eachFile(s.sealed, func(path string, info fs.FileInfo) error {
		if strings.HasSuffix(path, sealedSuffix) {
			sum += info.Size()
		}
		return nil
	})
	return sum, err
}
