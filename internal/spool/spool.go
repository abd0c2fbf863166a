// Package spool holds windows on their way from the API to the sinks, as logs of their pages.
//
// Layout, below the state directory:
//
//	spool/fetching/<project>.<granularity>.<from>_<to>.pages       being read
//	spool/waiting/<project>.<granularity>.<from>_<to>.r<n>.pages   in the ledger, and a sink lacks it
//	spool/tmp/                                                     window files, sorted rows; emptied by Open
//
// Names of windows of another report than visitors have it after the project: <project>.agents.….
//
// Invariant: a page log returns exactly what was appended, checked by CRC each time it is
// read. A log may end in the middle of a record, as its process may have died there; what
// comes before that is sound. Memory does not grow with the number of rows: sorting a long log
// takes as much temporary disk.
//
// A page log is the only durable form of a window before the sinks have it. The window file
// that they get is made from the log when it is needed.
//
// The package does not know which windows are due or which sinks want them. One process at a
// time changes the spool (the exporter's lock).
package spool

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	dirMode = 0o700
	// staleAfter is the age at which a reading that no run continued is abandoned.
	staleAfter = 7 * 24 * time.Hour
	suffix     = ".pages"
)

// Spool is an open spool directory.
type Spool struct {
	fetching, waiting, tmp string
	runBytes               int64
}

// Open makes the spool below stateDir if it does not exist, and removes the temporary files
// that a killed process left.
func Open(stateDir string) (*Spool, error) {
	root := filepath.Join(stateDir, "spool")
	s := &Spool{
		fetching: filepath.Join(root, "fetching"), waiting: filepath.Join(root, "waiting"),
		tmp:      filepath.Join(root, "tmp"),
		runBytes: runBytes,
	}
	if err := os.RemoveAll(s.tmp); err != nil {
		return nil, wrapped(err)
	}
	for _, dir := range []string{s.fetching, s.waiting, s.tmp} {
		if err := os.MkdirAll(dir, dirMode); err != nil {
			return nil, wrapped(err)
		}
	}
	return s, nil
}

// eachFile calls f for the files of dir, except for those that vanish during the call.
func eachFile(dir string, f func(path string, info fs.FileInfo) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return wrapped(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil {
			err = f(filepath.Join(dir, e.Name()), info)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return wrapped(err)
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
	project := k.Project
	if k.Report != analytics.VisitorsReport {
		project += "." + k.Report.String()
	}
	return fmt.Sprintf("%s.%s.%s_%s", project, k.Granularity, k.From, k.To)
}

func revisionName(k analytics.Key, number int32) string {
	return fmt.Sprintf("%s.r%d", name(k), number)
}

func waitingPath(dir string, k analytics.Key, number int32) string {
	return filepath.Join(dir, revisionName(k, number)+suffix)
}

// Size returns the bytes of the windows that wait for a sink.
func (s *Spool) Size() (sum int64, err error) {
	err = eachFile(s.waiting, func(_ string, info fs.FileInfo) error {
		sum += info.Size()
		return nil
	})
	return sum, err
}

// UnderWay is a window in the spool.
type UnderWay struct {
	analytics.Key
	Revision int32
	Started  time.Time
	// Pages counts the pages in the log, without reading them.
	Pages int
	// Waiting: the window is complete, was in the ledger, and waits for a sink.
	Waiting bool

	path     string
	appended time.Time
}

// IsStale reports whether no run has continued the reading for a week.
func (u UnderWay) IsStale(now time.Time) bool { return now.Sub(u.appended) >= staleAfter }

// ListUnderWay returns the windows below stateDir whose reading was begun. It changes
// nothing, as other processes may be at work there. A page log that cannot be
// trusted, or that vanishes during the call, is left out.
func ListUnderWay(stateDir string) ([]UnderWay, error) {
	all, err := listLogs(filepath.Join(stateDir, "spool", "fetching"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return slices.DeleteFunc(all, func(u UnderWay) bool { return u.Pages == 0 }), err
}

// Logs returns the windows that wait for a sink, and those whose reading was begun: of a log
// that cannot be trusted, without a page.
func (s *Spool) Logs() ([]UnderWay, error) {
	waiting, err := listLogs(s.waiting)
	if err != nil {
		return nil, err
	}
	for i := range waiting {
		waiting[i].Waiting = true
	}
	fetching, err := listLogs(s.fetching)
	return append(waiting, fetching...), err
}

func listLogs(dir string) (all []UnderWay, err error) {
	err = eachFile(dir, func(path string, info fs.FileInfo) error {
		u, err := countPages(path, info.Size())
		u.path, u.appended = path, info.ModTime()
		if err == nil {
			all = append(all, u)
		}
		return err
	})
	return all, err
}

// countPages reads the header of a page log and counts the pages after it by their
// lengths, without reading them: a log can be large.
func countPages(path string, size int64) (u UnderWay, err error) {
	file, err := os.Open(path)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	payload, err := newRecordReader(file, size).next()
	if errors.Is(err, io.EOF) || errors.Is(err, errTorn) {
		return u, nil
	}
	if err != nil {
		return u, err
	}
	var h header
	if payload[0] != kindHeader || json.Unmarshal(payload[1:], &h) != nil {
		return u, nil
	}
	u = UnderWay{Revision: h.Revision, Started: h.Started}
	if u.Key, err = analytics.ParseKey(h.Key); err != nil {
		return UnderWay{}, nil //nolint:nilerr // the log cannot be trusted
	}
	var head [recordHead + 1]byte
	for at := int64(recordHead + len(payload)); ; u.Pages++ {
		if _, err := file.ReadAt(head[:], at); errors.Is(err, io.EOF) {
			return u, nil
		} else if err != nil {
			return u, err
		}
		n := binary.LittleEndian.Uint32(head[:4])
		if at += recordHead + int64(n); n == 0 || at > size || head[recordHead] != kindPage {
			return u, nil
		}
	}
}

// Remove removes a log that Logs has listed.
func (s *Spool) Remove(u UnderWay) error { return wrapped(os.Remove(u.path)) }

// Return moves a waiting window, which the ledger does not know any more, back to those that
// are being read: its reading is complete.
func (s *Spool) Return(u UnderWay) error {
	return wrapped(os.Rename(u.path, filepath.Join(s.fetching, name(u.Key)+suffix)))
}

// Holds reports whether the spool below stateDir has all pages of the revision. It leaves
// everything as it is, and another process may use the spool. An error means that the answer is unknown.
func Holds(stateDir string, rev analytics.Revision) (bool, error) {
	root := filepath.Join(stateDir, "spool")
	// In this order, because a window moves from the first to the second.
	for _, path := range []string{
		filepath.Join(root, "fetching", name(rev.Key)+suffix),
		waitingPath(filepath.Join(root, "waiting"), rev.Key, rev.Number),
	} {
		l, err := (&Spool{tmp: filepath.Join(root, "tmp"), runBytes: runBytes}).open(path, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		has, err := l.has(rev)
		if err = errors.Join(err, l.Close()); has || err != nil {
			return has, err
		}
	}
	return false, nil
}

// has reports whether the log has all rows of a revision.
func (l *PageLog) has(rev analytics.Revision) (bool, error) {
	if l.head.Key != rev.Key.String() || l.head.Revision != rev.Number || !l.head.Started.Equal(rev.ExportedAt) ||
		len(l.Pages) == 0 {
		return false, nil
	}
	if rev.TotalsOnly() {
		return true, nil
	}
	var n int64
	for _, err := range l.sortedRows(context.Background()) {
		if err != nil {
			return false, err
		}
		n++
	}
	return n == rev.Rows, nil
}
