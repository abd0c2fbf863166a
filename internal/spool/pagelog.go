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
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
)

// ErrDuplicate: a path came twice, so the window cannot be sealed as verified.
var ErrDuplicate = errors.New("a path came twice")

// header begins a page log, and each new reading in it.
type header struct {
	Key      string    `json:"key"`
	Revision int32     `json:"revision"`
	Reading  int       `json:"attempt"`
	Started  time.Time `json:"started"`
	// Spent counts the pages of the readings before this one.
	Spent int `json:"spent"`
}

// PageLog is the log of a window under way: its pages, and its rows so far, sorted in
// bounded memory. Several goroutines may append at once.
type PageLog struct {
	spool *Spool
	path  string

	mu     sync.Mutex
	head   header
	file   *os.File
	pages  pageSet
	sum    analytics.Sum
	sorter *sorter
	buf    []byte
	broken error // a page was written or sorted in part: only a new reading repairs that
	// repeated counts the rows that sealing left out because their path came twice.
	repeated int
}

// PageInfo is what a page log remembers of a page, apart from its rows.
type PageInfo struct {
	Rows    int
	HasMore bool
	Totals  analytics.Totals
}

// Begin opens the page log of revision number of the window k. A log from an
// earlier run is continued if it is for the same revision and began at
// notBefore or later, and not in the future; otherwise a new one begins at now.
func (s *Spool) Begin(k analytics.Key, number int32, now, notBefore time.Time) (*PageLog, error) {
	path := logPath(s.fetching, k)
	file, err := s.openLog(path)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	l := &PageLog{spool: s, path: path, file: file, sorter: &sorter{dir: s.tmp, runRows: s.runRows, runBytes: s.runBytes}}
	sound, err := l.replay()
	switch {
	case err != nil:
		err = wrapped(err)
	case l.head.Key != k.String() || l.head.Revision != number || l.head.Started.Before(notBefore),
		clock.IsFuture(l.head.Started, now):
		err = l.begin(header{Key: k.String(), Revision: number, Reading: 1, Started: now})
	default:
		// What comes after the sound part is gone for good: it must not be read as the
		// end of a page that is appended in its place.
		if err = l.file.Truncate(sound); err == nil {
			_, err = l.file.Seek(sound, io.SeekStart)
		}
		err = wrapped(err)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// replay takes in records until the end or the first that cannot be trusted, and
// returns the length of the sound part.
func (l *PageLog) replay() (sound int64, err error) {
	r := bufio.NewReaderSize(l.file, 1<<16)
	var buf []byte
	for {
		payload, err := readRecord(r, buf)
		if err == nil {
			err = l.restore(payload)
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, errTorn):
			return sound, nil
		case err != nil:
			return 0, err
		}
		sound += recordHead + int64(len(payload))
		buf = payload
	}
}

// restore takes in one record: the header first, then pages.
func (l *PageLog) restore(payload []byte) error {
	hasHeader := l.head.Reading > 0
	switch {
	case payload[0] == kindHeader && !hasHeader:
		if json.Unmarshal(payload[1:], &l.head) == nil {
			return nil
		}
	case payload[0] == kindPage && hasHeader:
		page, err := decodePage(payload)
		if err != nil || l.pages.has(page.Offset) {
			return err
		}
		return l.add(page)
	}
	return errTorn
}

// add takes in a page that is not there yet.
func (l *PageLog) add(p analytics.Page) error {
	l.pages.put(p.Offset, PageInfo{len(p.Rows), p.HasMore, p.Totals})
	for _, row := range p.Rows {
		l.sum.Count(row)
	}
	return l.sorter.add(p.Rows)
}

// begin empties the log and writes its header. What was broken is whole again.
func (l *PageLog) begin(h header) error {
	h.Started = h.Started.UTC().Truncate(time.Microsecond)
	l.pages, l.head, l.sum = pageSet{}, h, analytics.Sum{}
	text, err := json.Marshal(h)
	if err == nil {
		err = l.sorter.reset()
	}
	if err == nil {
		err = l.file.Truncate(0)
	}
	if err == nil {
		_, err = l.file.Seek(0, io.SeekStart)
	}
	if err == nil {
		l.buf = append(newRecord(l.buf, kindHeader), text...)
		err = writeRecord(l.file, l.buf)
	}
	l.broken = wrapped(err)
	return l.broken
}

// Append adds a page; one whose offset is there already is left out. After an
// error nothing can be appended or sealed until Restart, or the next Begin, which
// finds the pages before this one.
func (l *PageLog) Append(p analytics.Page) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil || l.pages.has(p.Offset) {
		return l.broken
	}
	l.buf = appendPage(newRecord(l.buf, kindPage), p)
	err := writeRecord(l.file, l.buf)
	if err == nil {
		err = l.add(p)
	}
	l.broken = wrapped(err)
	return l.broken
}

// AppendAgain is Append for a page that was in the log before Restart, and so is
// already counted as read.
func (l *PageLog) AppendAgain(p analytics.Page) error {
	if err := l.Append(p); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head.Spent--
	return nil
}

// Restart drops all pages and begins the next reading at now.
func (l *PageLog) Restart(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.head
	next.Spent += l.pages.n
	next.Reading++
	next.Started = now
	return l.begin(next)
}

// Reading counts the readings of the window for this revision, from 1.
func (l *PageLog) Reading() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head.Reading
}

// Started is when the first page of this reading was requested.
func (l *PageLog) Started() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head.Started
}

// Requests counts the pages read for this revision, over all readings and runs.
func (l *PageLog) Requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head.Spent + l.pages.n
}

// Sum adds up the rows, those whose path came twice included. It has no checksum.
func (l *PageLog) Sum() analytics.Sum {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sum
}

// Repeated counts the rows that sealing left out because their path came twice.
func (l *PageLog) Repeated() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.repeated
}

// Page returns what the log remembers of the page at offset.
func (l *PageLog) Page(offset int) (PageInfo, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pages.get(offset)
}

// Pages returns the pages in the log, by offset.
func (l *PageLog) Pages() map[int]PageInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pages.all()
}

// Close keeps the page log for a later run.
func (l *PageLog) Close() error {
	return wrapped(errors.Join(l.sorter.reset(), l.file.Close()))
}

// Discard removes the page log. Call it once the window has been sealed or moved to its
// final location.
func (l *PageLog) Discard() error {
	return wrapped(errors.Join(l.sorter.reset(), l.spool.retire(l.file, l.path)))
}

// Share makes a page log of window k and revision number from l, which is complete and of
// the same days: it has the pages of l, or with totalsOnly just the totals, and they count as
// no request. A log that is there already is replaced.
func (s *Spool) Share(l *PageLog, k analytics.Key, number int32, totalsOnly bool, totals analytics.Totals) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.head
	h.Key, h.Revision, h.Spent = k.String(), number, -l.pages.n
	if totalsOnly {
		h.Spent = -1
	}
	text, err := json.Marshal(h)
	if err != nil {
		return wrapped(err)
	}
	file, err := os.OpenFile(filepath.Join(s.tmp, name(k)+".shared"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return wrapped(err)
	}
	err = writeRecord(file, append(newRecord(nil, kindHeader), text...))
	if err == nil && totalsOnly {
		err = writeRecord(file, appendPage(newRecord(nil, kindPage), analytics.Page{Totals: totals, HasMore: true}))
	} else if err == nil {
		err = copyPages(file, l.file)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return wrapped(err)
	}
	return wrapped(os.Rename(file.Name(), filepath.Join(s.fetching, name(k)+".pages")))
}

// copyPages writes all records of a log but the header.
func copyPages(to io.Writer, log *os.File) error {
	var head [recordHead]byte
	if _, err := log.ReadAt(head[:], 0); err != nil {
		return err
	}
	pages := recordHead + int64(binary.LittleEndian.Uint32(head[:4]))
	_, err := io.Copy(to, io.NewSectionReader(log, pages, math.MaxInt64-pages))
	return err
}

// openLog opens the file of a page log, which is empty if the log was not there.
func (s *Spool) openLog(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if idle, ok := s.takeIdle(); ok {
		return idle.file, os.Rename(idle.path, path)
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}

func (s *Spool) takeIdle() (idleFile, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.idle)
	if n == 0 {
		return idleFile{}, false
	}
	idle := s.idle[n-1]
	s.idle = s.idle[:n-1]
	return idle, true
}

// retire empties the file of a page log and keeps it for another log. A process that dies
// here leaves an empty log, or a file in tmp.
func (s *Spool) retire(file *os.File, path string) error {
	if runtime.GOOS == "windows" { // it does not rename open files
		return errors.Join(file.Close(), os.Remove(path))
	}
	idle := idleFile{file, filepath.Join(s.tmp, fmt.Sprintf("idle-%d", s.retired.Add(1)))}
	err := file.Truncate(0)
	if err == nil {
		err = os.Rename(path, idle.path)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, idle)
	return nil
}

// RemoveIdle removes the files that were kept for page logs to come: a run is over. Open
// removes those of a process that died.
func (s *Spool) RemoveIdle() error {
	var errs []error
	for idle, ok := s.takeIdle(); ok; idle, ok = s.takeIdle() {
		errs = append(errs, idle.file.Close(), os.Remove(idle.path))
	}
	return wrapped(errors.Join(errs...))
}

const (
	// checkRows is how many rows are written between two looks at whether to stop.
	checkRows = 1 << 14
	// onePageBytes, of paths, are the most that a page has which is held in memory.
	onePageBytes = 256 << 10
)

// IsOnePage reports whether the log has one page and no more, whose rows take little memory.
func (l *PageLog) IsOnePage() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pages.n == 1 && len(l.sorter.runs) == 0 && l.sorter.size <= onePageBytes
}

// encode lets write have the rows in order. The end of ctx is an error.
func (l *PageLog) encode(ctx context.Context, rev analytics.Revision, write func(iter.Seq2[analytics.Row, error]) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	duplicates := 0
	rows := func(yield func(analytics.Row, error) bool) {
		n := 0
		for row, err := range l.sorter.sorted(&duplicates) {
			if n%checkRows == 0 && err == nil {
				err = ctx.Err()
			}
			n++
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
	if err := write(rows); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	l.repeated = duplicates
	if duplicates > 0 && rev.Verified {
		return fmt.Errorf("%s: %w", rev.Key, ErrDuplicate)
	}
	return nil
}

// maxBit bounds the memory that an absurd offset can make us allocate.
const maxBit = 1 << 24

// pageSet is a map from offset to PageInfo that takes one bit for a page like the
// first one: a window of a million pages has all but its last alike.
type pageSet struct {
	usual PageInfo
	bits  []uint64
	odd   map[int]PageInfo
	n     int
}

func (s *pageSet) bit(offset int) (word int, mask uint64, ok bool) {
	i := offset / analytics.PageRows
	return i / 64, 1 << (i % 64), offset >= 0 && offset%analytics.PageRows == 0 && i < maxBit
}

func (s *pageSet) has(offset int) bool {
	_, ok := s.get(offset)
	return ok
}

func (s *pageSet) get(offset int) (PageInfo, bool) {
	word, mask, ok := s.bit(offset)
	if ok && word < len(s.bits) && s.bits[word]&mask != 0 {
		return s.usual, true
	}
	p, odd := s.odd[offset]
	return p, odd
}

// put adds a page that is not there yet.
func (s *pageSet) put(offset int, p PageInfo) {
	if s.n == 0 {
		s.usual = p
	}
	s.n++
	word, mask, ok := s.bit(offset)
	if !ok || p != s.usual {
		if s.odd == nil {
			s.odd = map[int]PageInfo{}
		}
		s.odd[offset] = p
		return
	}
	for len(s.bits) <= word {
		s.bits = append(s.bits, 0)
	}
	s.bits[word] |= mask
}

func (s *pageSet) all() map[int]PageInfo {
	out := make(map[int]PageInfo, s.n)
	for word, bits := range s.bits {
		for b := range 64 {
			if bits&(1<<b) != 0 {
				out[(word*64+b)*analytics.PageRows] = s.usual
			}
		}
	}
	maps.Copy(out, s.odd)
	return out
}
