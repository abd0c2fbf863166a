// Package spool holds windows on their way from the API to the sinks: the pages
// of windows under way (page logs), and sealed window files that not every sink
// has yet.
//
// Layout, below the state directory:
//
//	spool/fetching/<project>.<granularity>.<from>_<to>.pages   page log
//	spool/sealed/<project>.<granularity>.<from>_<to>.r<n>.parquet
//	spool/tmp/                                                 emptied by Open
//
// Invariant: a file in sealed/ was whole and on disk when it got its name, and its CRC
// is checked each time it is read. A page log may end in the middle of a record, as its
// process may have died there; what comes before that is sound, checked by CRC. Memory
// does not grow with the number of rows.
//
// The package does not know what is due or which sink wants what. One process at a time
// uses it (the exporter's lock).
package spool

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/durable"
)

const (
	dirMode = 0o700
	// staleAfter is the age at which a page log that no run continued is removed.
	staleAfter = 7 * 24 * time.Hour
	// sealedSuffix tells sealed windows from damaged ones that were put aside.
	sealedSuffix = ".parquet"
)

// Spool is an open spool directory.
type Spool struct {
	fetching, sealed, tmp string
	// runRows and runBytes, of paths, bound the rows that a page log holds in memory.
	runRows, runBytes int

	mu sync.Mutex // guards idle
	// idle are empty files in tmp for page logs to come: to make and remove a file for
	// each window costs more than to write and read it. retired counts those there were.
	idle    []idleFile
	retired atomic.Int64
}

type idleFile struct {
	file *os.File
	path string
}

// Open makes the spool below stateDir if it is not there, and removes what
// a killed process left unfinished.
func Open(stateDir string, now time.Time) (*Spool, error) {
	root := filepath.Join(stateDir, "spool")
	s := &Spool{
		fetching: filepath.Join(root, "fetching"), sealed: filepath.Join(root, "sealed"), tmp: filepath.Join(root, "tmp"),
		runRows: 1 << 15, runBytes: 4 << 20,
	}
	if err := os.RemoveAll(s.tmp); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	for _, dir := range []string{s.fetching, s.sealed, s.tmp} {
		if err := os.MkdirAll(dir, dirMode); err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
	}
	return s, eachFile(s.fetching, func(path string, info fs.FileInfo) error {
		if now.Sub(info.ModTime()) < staleAfter {
			return nil
		}
		return os.Remove(path)
	})
}

// eachFile calls f for the files of dir, except for those that vanish meanwhile.
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

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("spool: %w", err)
}

// name is unique for a key: project ids and granularities have no dot.
func name(k analytics.Key) string {
	return fmt.Sprintf("%s.%s.%s_%s", k.Project, k.Granularity, k.From, k.To)
}

// sealedPath is where a sealed revision is, logPath where the page log of a window is.
func sealedPath(dir string, rev analytics.Revision) string {
	return filepath.Join(dir, fmt.Sprintf("%s.r%d%s", name(rev.Key), rev.Number, sealedSuffix))
}

func logPath(dir string, k analytics.Key) string { return filepath.Join(dir, name(k)+".pages") }

// Sealed is a sealed window file in the spool. Its CRC is checked each time it is opened or
// its rows are ranged over, so that no sink gets a damaged one; that costs little compared
// with what a sink does with it.
type Sealed struct{ file *archive.File }

// ErrDamaged: a sealed window file is not what it was when it was sealed. It must
// be put aside (see [Spool.PutAside]), so that its window is due again.
var ErrDamaged = errors.New("damaged window file")

// Revision describes the window.
func (w *Sealed) Revision() analytics.Revision { return w.file.Revision() }

// Checksum is that of the rows; see [archive.File.Checksum].
func (w *Sealed) Checksum() string { return w.file.Checksum() }

// Path is where the file is.
func (w *Sealed) Path() string { return w.file.Path() }

// IsHeld reports whether the file is only in memory, made by [Spool.Hold].
func (w *Sealed) IsHeld() bool { return w.file.InMemory() }

// Open opens the file for reading; ErrDamaged if it must not be read.
func (w *Sealed) Open() (io.ReadCloser, error) {
	if err := w.test(); err != nil {
		return nil, err
	}
	return w.file.Open()
}

// Rows yields the rows; ErrDamaged before the first if they must not be read.
func (w *Sealed) Rows() iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		if err := w.test(); err != nil {
			yield(analytics.Row{}, err)
			return
		}
		w.file.Rows()(yield)
	}
}

func (w *Sealed) test() error {
	if w.IsHeld() {
		return nil
	}
	return damaged(w.file.Intact())
}

// damaged tells damage from a file that cannot be opened or read at all.
func damaged(err error) error {
	if _, unread := errors.AsType[*fs.PathError](err); err == nil || unread {
		return wrapped(err)
	}
	return fmt.Errorf("spool: %w: %w", ErrDamaged, err)
}

func open(path string) (*Sealed, error) {
	file, err := archive.Open(path)
	if err != nil {
		return nil, damaged(err)
	}
	w := &Sealed{file}
	return w, w.test()
}

// Seal turns a complete page log into a sealed window file, described by rev
// (whose Rows are counted here). ErrDuplicate if rev is to be verified and a
// path came twice: nothing is sealed then. The page log stays until Discard.
func (s *Spool) Seal(ctx context.Context, l *PageLog, rev analytics.Revision) (*Sealed, error) {
	final := sealedPath(s.sealed, rev)
	staged := filepath.Join(s.tmp, filepath.Base(final)+".tmp")
	if err := os.Remove(staged); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("spool: %w", err)
	}
	err := l.encode(ctx, rev, func(rows iter.Seq2[analytics.Row, error]) error {
		_, err := archive.Write(staged, rev, rows)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(staged))
	}
	if err := durable.Rename(staged, final); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return open(final)
}

// Hold is Seal into memory, for a page log of one page: the window has no file. Until it
// is where it shall be, or Seal has given it a file, the page log must stay, from which it
// can be made again.
func (s *Spool) Hold(ctx context.Context, l *PageLog, rev analytics.Revision) (w *Sealed, err error) {
	return w, l.encode(ctx, rev, func(rows iter.Seq2[analytics.Row, error]) error {
		file, err := archive.Encode(rev, rows)
		w = &Sealed{file}
		return err
	})
}

// List returns the sealed windows, in name order. A damaged file is renamed, so
// that it is found only once, and returned in damaged. That a file cannot be opened
// or read at all is not damage but an error.
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

// PutAside renames a damaged file, so that it is found only once.
func (s *Spool) PutAside(w *Sealed) error { return wrapped(putAside(w.Path())) }

func putAside(path string) error { return os.Rename(path, path+".damaged") }

// Remove removes a sealed window from the spool.
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

// UnderWay is a window whose reading was begun and is not complete.
type UnderWay struct {
	// Key is analytics.Key.String of the window.
	Key      string
	Revision int32
	// Reading counts the readings of the window for that revision, from 1.
	Reading int
	Started time.Time
	Pages   int
}

// ListUnderWay returns the windows below stateDir whose reading was begun. It changes
// nothing, as other processes may be at work there. A page log that cannot be
// trusted, or that vanishes meanwhile, is left out.
func ListUnderWay(stateDir string) ([]UnderWay, error) {
	all, err := listLogs(filepath.Join(stateDir, "spool", "fetching"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return all, err
}

// Logs is ListUnderWay of this spool.
func (s *Spool) Logs() ([]UnderWay, error) { return listLogs(s.fetching) }

func listLogs(dir string) (all []UnderWay, err error) {
	err = eachFile(dir, func(path string, _ fs.FileInfo) error {
		u, err := countPages(path)
		if u.Pages > 0 {
			all = append(all, u)
		}
		return err
	})
	return all, err
}

// countPages reads the header of a page log and counts the pages after it by their
// lengths, without reading them: a log can be large.
func countPages(path string) (u UnderWay, err error) {
	file, err := os.Open(path)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	payload, err := readRecord(bufio.NewReader(file), nil)
	var h header
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, errTorn):
		return u, nil
	case err != nil:
		return u, err
	case payload[0] != kindHeader || json.Unmarshal(payload[1:], &h) != nil:
		return u, nil
	}
	info, err := file.Stat()
	if err != nil {
		return u, err
	}
	u = UnderWay{Key: h.Key, Revision: h.Revision, Reading: h.Reading, Started: h.Started}
	var head [recordHead + 1]byte
	for at := int64(recordHead + len(payload)); ; u.Pages++ {
		if _, err := file.ReadAt(head[:], at); errors.Is(err, io.EOF) {
			return u, nil
		} else if err != nil {
			return u, err
		}
		n := binary.LittleEndian.Uint32(head[:4])
		if at += recordHead + int64(n); n == 0 || at > info.Size() || head[recordHead] != kindPage {
			return u, nil
		}
	}
}
