package spool

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
)

// ErrDuplicate: a path came twice, so the window cannot be sealed as verified.
var ErrDuplicate = errors.New("a path came twice")

// header begins a page log and each new attempt of it.
type header struct {
	Key      string    `json:"key"`
	Revision int32     `json:"revision"`
	Attempt  int       `json:"attempt"`
	Started  time.Time `json:"started"`
	// Spent counts the pages of the attempts before this one.
	Spent int `json:"spent"`
}

// Fetch is a window under way: its page log, and its rows so far, sorted in
// bounded memory. Append may be called by several goroutines at once.
type Fetch struct {
	path string

	mu     sync.Mutex
	head   header
	file   *os.File
	pages  pageSet
	sorter *sorter
	buf    []byte
	broken error // a page was written or sorted in part: only a new attempt mends it
	// repeated counts the rows that sealing left out because their path came twice.
	repeated int
}

// PageInfo is what a page log remembers of a page, apart from its rows.
type PageInfo struct {
	Rows    int
	HasMore bool
	Totals  analytics.Totals
}

// Page returns what the log remembers of the page at offset.
func (f *Fetch) Page(offset int) (PageInfo, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pages.get(offset)
}

// Begin opens the page log of revision number of the window k. A log left by an
// earlier run is gone on with if it is for the same revision and began at
// notBefore or later; else it is begun anew at now.
func (s *Spool) Begin(k analytics.Key, number int32, now, notBefore time.Time) (*Fetch, error) {
	path := filepath.Join(s.fetching, name(k)+".pages")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	f := &Fetch{path: path, file: file, sorter: &sorter{dir: s.tmp}}
	fresh := header{Key: k.String(), Revision: number, Attempt: 1, Started: now.UTC().Truncate(time.Microsecond)}
	if err := f.load(fresh, notBefore); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// load replays what is sound in the log, cuts off the rest, and starts afresh
// where the log is not one to go on with.
func (f *Fetch) load(fresh header, notBefore time.Time) error {
	sound, err := f.replay()
	if err != nil {
		return err
	}
	head := f.head
	if head.Key != fresh.Key || head.Revision != fresh.Revision || head.Started.Before(notBefore) {
		return f.begin(fresh)
	}
	if err := f.file.Truncate(sound); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	_, err = f.file.Seek(sound, io.SeekStart)
	return wrapErr(err)
}

// replay reads records until the end or the first that cannot be trusted, and
// returns the length of the sound part.
func (f *Fetch) replay() (int64, error) {
	r := bufio.NewReaderSize(f.file, 1<<16)
	var sound int64
	var buf []byte
	for {
		payload, err := readRecord(r, buf)
		if errors.Is(err, io.EOF) || errors.Is(err, errTorn) {
			return sound, nil
		}
		if err != nil {
			return 0, fmt.Errorf("spool: %w", err)
		}
		if err := f.restore(payload); errors.Is(err, errTorn) {
			return sound, nil
		} else if err != nil {
			return 0, err
		}
		sound += recordHead + int64(len(payload))
		buf = payload
	}
}

// restore takes in one record: the header first, then pages.
func (f *Fetch) restore(payload []byte) error {
	begun := f.head.Attempt > 0
	switch {
	case payload[0] == kindHeader && !begun:
		if json.Unmarshal(payload[1:], &f.head) != nil {
			return errTorn
		}
		return nil
	case payload[0] == kindPage && begun:
		page, err := decodePage(payload)
		if err != nil {
			return err
		}
		return f.take(page)
	}
	return errTorn
}

func (f *Fetch) take(p analytics.Page) error {
	if f.pages.has(p.Offset) {
		return nil
	}
	f.pages.put(p.Offset, PageInfo{len(p.Rows), p.HasMore, p.Totals})
	return f.sorter.add(p.Rows)
}

// begin empties the log and writes its header. What was broken is whole again.
func (f *Fetch) begin(h header) error {
	f.pages = pageSet{}
	f.head = h
	f.broken = f.sorter.reset()
	if f.broken == nil {
		f.broken = wrapErr(f.writeHeader())
	}
	return f.broken
}

func (f *Fetch) writeHeader() error {
	if err := f.file.Truncate(0); err != nil {
		return err
	}
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	text, err := json.Marshal(f.head)
	if err != nil {
		return err
	}
	f.buf = append(newRecord(f.buf, kindHeader), text...)
	return writeRecord(f.file, f.buf)
}

func wrapErr(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("spool: %w", err)
}

// Append adds a page; one whose offset is there already is left out. After an
// error nothing can be appended or sealed until Restart or the next Begin, which
// finds the pages before this one.
func (f *Fetch) Append(p analytics.Page) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken
	}
	if f.pages.has(p.Offset) {
		return nil
	}
	f.buf = appendPage(newRecord(f.buf, kindPage), p)
	f.broken = wrapErr(writeRecord(f.file, f.buf))
	if f.broken == nil {
		f.broken = f.take(p)
	}
	return f.broken
}

// AppendAgain is Append for a page that was in the log before Restart, and so is
// counted among the pages read already.
func (f *Fetch) AppendAgain(p analytics.Page) error {
	if err := f.Append(p); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.head.Spent--
	return nil
}

// Restart drops all pages and begins the next attempt at now.
func (f *Fetch) Restart(now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := f.head
	next.Spent += f.pages.n
	next.Attempt++
	next.Started = now.UTC().Truncate(time.Microsecond)
	return f.begin(next)
}

// Attempt counts the readings of the window for this revision, from 1.
func (f *Fetch) Attempt() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.head.Attempt
}

// Started is when this attempt's first page was asked for.
func (f *Fetch) Started() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.head.Started
}

// Requests counts the pages read for this revision, over all attempts and runs.
func (f *Fetch) Requests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.head.Spent + f.pages.n
}

// Repeated counts the rows that sealing left out because their path came twice.
func (f *Fetch) Repeated() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.repeated
}

// Pages returns the pages at hand, by offset.
func (f *Fetch) Pages() map[int]PageInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pages.all()
}

// Close keeps the page log for a later run.
func (f *Fetch) Close() error {
	return errors.Join(f.sorter.reset(), wrapErr(f.file.Close()))
}

// Discard removes the page log: its window is sealed and in the ledger.
func (f *Fetch) Discard() error {
	err := f.Close()
	if rerr := os.Remove(f.path); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("spool: %w", rerr))
	}
	return err
}

// write writes the window file; nothing is left at path after an error, of which
// the end of ctx is one.
func (f *Fetch) write(ctx context.Context, path string, rev analytics.Revision) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken
	}
	duplicates := 0
	if _, err := archive.Write(path, rev, until(ctx, f.sorter.sorted(&duplicates))); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	f.repeated = duplicates
	if duplicates > 0 && rev.Verified {
		return errors.Join(fmt.Errorf("%s: %w", rev.Key, ErrDuplicate), os.Remove(path))
	}
	return nil
}

// until yields rows as long as ctx lasts; it looks at it now and then.
func until(ctx context.Context, rows iter.Seq2[analytics.Row, error]) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		n := 0
		for row, err := range rows {
			if n++; n%runRows == 0 && err == nil {
				err = ctx.Err()
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}
