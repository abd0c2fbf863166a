package spool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/durable"
)

var (
	// ErrDuplicate: a row came twice, so the window cannot be sealed as verified.
	ErrDuplicate = errors.New("a path came twice")
	// ErrDamaged: the log has lost pages since they were appended.
	ErrDamaged = errors.New("damaged page log")
)

// memoryBytes is the largest page log whose window file is made in memory. With all of them on disk, 1,000 windows
// of 10 rows take 1.6 times the CPU time.
const memoryBytes = 256 << 10

// header begins a page log, and each new reading in it.
type header struct {
	Key      string    `json:"key"`
	Revision int32     `json:"revision"`
	Reading  int       `json:"attempt"`
	Started  time.Time `json:"started"`
	// Spent counts the pages of the readings before this one.
	Spent int `json:"spent"`
}

// PageLog is the log of the pages of one window, for one goroutine. Its fields are not to be
// changed.
type PageLog struct {
	// Pages are the pages in the log, by offset.
	Pages map[int]PageInfo
	// Sum adds up the rows, those that came twice included. It has no checksum, and of agents only Rows.
	Sum analytics.Sum
	// Repeated counts the rows that Seal left out because they came twice.
	Repeated int

	spool  *Spool
	path   string
	file   *os.File
	head   header
	size   int64 // of the records that can be trusted
	broken error // a page was written in part: only a new reading repairs that

	shape *analytics.Shape // of the report
	// site is the totals of the page at the offset highest, as they are in its record.
	site    []byte
	highest int
}

// PageInfo describes a page in a page log, apart from its rows.
type PageInfo struct {
	Rows    int
	HasMore bool
	Site
}

// Site is the totals of a page, as far as they tell it from a page of another reading.
type Site struct {
	Totals analytics.Totals
	// Humans is the mode by which they were counted.
	Humans analytics.Humans
	// Agents is the checksum of the totals of a page of agents.
	Agents analytics.Checksum
}

// IsZero reports whether the totals are the totals of a site without visits.
func (s Site) IsZero() bool {
	s.Humans = ""
	return s == Site{}
}

// String names the totals in words, for logs. Totals of agents are too long, and are only named.
func (s Site) String() string {
	text := fmt.Sprintf("%d readers (%d people, %d AI agents)", s.Totals.Total, s.Totals.Human, s.Totals.AI)
	switch {
	case s.Agents == 0:
	case s.Totals == analytics.Totals{}:
		text = "totals of agents with the checksum " + s.Agents.String()
	default:
		text += ", and totals of agents with the checksum " + s.Agents.String()
	}
	if s.Humans != "" {
		text += ", counting " + string(s.Humans) + " people"
	}
	return text
}

// Begin opens the page log of revision number of the window k. A log from an
// earlier run is continued if it is for the same revision and began at
// notBefore or later, and not in the future; otherwise a new one begins at now.
func (s *Spool) Begin(k analytics.Key, number int32, now, notBefore time.Time) (*PageLog, error) {
	l, err := s.open(filepath.Join(s.fetching, name(k)+suffix), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if l.head.Key != k.String() || l.head.Revision != number || l.head.Started.Before(notBefore) ||
		clock.IsFuture(l.head.Started, now) {
		l.shape = k.Report.Shape()
		err = l.begin(header{Key: k.String(), Revision: number, Reading: 1, Started: now})
	} else if err = l.file.Truncate(l.size); err == nil {
		// What followed the last sound record is gone: it must not be read as the end of a
		// page that is appended in its place.
		_, err = l.file.Seek(l.size, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(wrapped(err), l.Close())
	}
	return l, nil
}

// Resume opens a page log that Logs has listed.
func (s *Spool) Resume(u UnderWay) (*PageLog, error) { return s.open(u.path, os.O_RDWR) }

// open opens a page log and reads its records, until the end or the first that cannot be
// trusted.
func (s *Spool) open(path string, flags int) (*PageLog, error) {
	file, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, wrapped(err)
	}
	l := &PageLog{spool: s, path: path, file: file, Pages: map[int]PageInfo{}}
	stat, err := file.Stat()
	if err == nil {
		err = l.replay(stat.Size())
	}
	if err != nil {
		return nil, errors.Join(wrapped(err), l.Close())
	}
	return l, nil
}

func (l *PageLog) replay(size int64) error {
	records := newRecordReader(l.file, size)
	for {
		payload, err := records.next()
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, errTorn):
			return nil
		case err != nil:
			return err
		case l.size == 0:
			if payload[0] != kindHeader || json.Unmarshal(payload[1:], &l.head) != nil {
				return nil //nolint:nilerr // a log that does not begin with a header is empty
			}
			k, err := analytics.ParseKey(l.head.Key)
			if err != nil {
				return nil //nolint:nilerr // as above
			}
			l.shape = k.Report.Shape()
		case payload[0] != kindPage:
			return nil
		default:
			sum, u := l.Sum, newUnpacker[[]byte](l.shape)
			count := l.shape.Counter(&sum)
			var bad error
			p, err := decode(payload, func(path, rest []byte) {
				bad = cmp.Or(bad, u.unpack(path, rest))
				count(u.row)
			})
			site, _, siteErr := siteOf(l.shape, p.site)
			site.Humans = p.humans
			if _, again := l.Pages[p.offset]; again || errors.Join(err, bad, siteErr) != nil {
				return nil //nolint:nilerr // what follows is not sound
			}
			l.Sum = sum
			l.add(p.offset, PageInfo{p.rows, p.hasMore, site}, p.site)
		}
		l.size += recordHead + int64(len(payload))
	}
}

// add takes in a page, apart from its rows.
func (l *PageLog) add(offset int, info PageInfo, site []byte) {
	l.Pages[offset] = info
	if offset >= l.highest {
		l.site, l.highest = slices.Clone(site), offset
	}
}

// begin empties the log and writes its header. A broken log is whole again.
func (l *PageLog) begin(h header) error {
	h.Started = h.Started.UTC().Truncate(time.Microsecond)
	l.Pages, l.head, l.Sum, l.size = map[int]PageInfo{}, h, analytics.Sum{}, 0
	l.site, l.highest = nil, 0
	text, err := json.Marshal(h)
	if err == nil {
		err = l.file.Truncate(0)
	}
	if err == nil {
		_, err = l.file.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = l.write(append(newRecord(nil, kindHeader), text...))
	}
	l.broken = wrapped(err)
	return err
}

func (l *PageLog) write(record []byte) error {
	err := writeRecord(l.file, record)
	if err == nil {
		l.size += int64(len(record))
	}
	return err
}

// Append adds a page of the log's report; one whose offset is there already is left out.
// After an error nothing can be appended or sealed until Restart, or the next Begin, which
// finds the pages before this one.
func (l *PageLog) Append(p analytics.Page) error {
	if _, there := l.Pages[p.Offset]; there || l.broken != nil {
		return l.broken
	}
	record, site := encode(l.shape, newRecord(nil, kindPage), p)
	if l.broken = wrapped(l.write(record)); l.broken != nil {
		return l.broken
	}
	l.add(p.Offset, InfoOf(l.shape, p), site)
	count := l.shape.Counter(&l.Sum)
	for _, row := range p.Rows {
		count(row)
	}
	return nil
}

// Again says that the page appended last was in the log before Restart, and so is already
// counted as read.
func (l *PageLog) Again() { l.head.Spent-- }

// Also says that a request brought nothing for the log.
func (l *PageLog) Also() { l.head.Spent++ }

// Restart drops all pages and begins the next reading at now.
func (l *PageLog) Restart(now time.Time) error {
	next := l.head
	next.Spent += len(l.Pages)
	next.Reading++
	next.Started = now
	return wrapped(l.begin(next))
}

// Reading counts the readings of the window for this revision, from 1.
func (l *PageLog) Reading() int { return l.head.Reading }

// Started is when the first page of this reading was requested.
func (l *PageLog) Started() time.Time { return l.head.Started }

// Requests counts the pages read for this revision, over all readings and runs.
func (l *PageLog) Requests() int { return l.head.Spent + len(l.Pages) }

// Seal makes the window file of a complete page log, described by rev (whose Rows are counted
// here). ErrDuplicate if rev is to be verified and a path came twice. The file is temporary:
// the log stays until Discard, and the file can be made from it again.
func (l *PageLog) Seal(ctx context.Context, rev analytics.Revision) (*archive.File, error) {
	if l.broken != nil {
		return nil, l.broken
	}
	l.Repeated = 0
	file, err := l.seal(ctx, rev)
	if err == nil && l.Repeated > 0 && rev.Verified {
		err = errors.Join(fmt.Errorf("%s: %w", rev.Key, ErrDuplicate), file.Remove())
	}
	if err != nil {
		return nil, wrapped(err)
	}
	return file, nil
}

func (l *PageLog) seal(ctx context.Context, rev analytics.Revision) (*archive.File, error) {
	if l.size <= memoryBytes {
		return archive.Encode(rev, l.all(ctx, rev.TotalsOnly()))
	}
	path := filepath.Join(l.spool.tmp, revisionName(rev.Key, rev.Number)+".parquet")
	if _, err := archive.Write(path, rev, l.all(ctx, rev.TotalsOnly())); err != nil {
		return nil, err
	}
	return archive.Open(path)
}

// all yields the rows of a window file: the rows of the site, and then the rows of its paths.
func (l *PageLog) all(ctx context.Context, totalsOnly bool) iter.Seq2[analytics.Record, error] {
	return func(yield func(analytics.Record, error) bool) {
		var site []analytics.Record
		if l.shape.Site { // otherwise the totals are counts, and a log that lost its pages has none
			var err error
			if _, site, err = siteOf(l.shape, l.site); err != nil {
				yield(analytics.Record{}, err)
				return
			}
		}
		slices.SortFunc(site, l.shape.Compare)
		for _, row := range site {
			if !yield(row, nil) {
				return
			}
		}
		if totalsOnly {
			return
		}
		for row, err := range l.sortedRows(ctx) {
			if !yield(row, err) {
				return
			}
		}
	}
}

// scan passes on each row in the log as decode does.
func (l *PageLog) scan(ctx context.Context, visit func(path, rest []byte)) error {
	records := newRecordReader(l.file, l.size)
	for pages := 0; ; {
		payload, err := records.next()
		switch {
		case errors.Is(err, io.EOF) && pages == len(l.Pages):
			return nil
		case errors.Is(err, io.EOF) || errors.Is(err, errTorn):
			return fmt.Errorf("%s: %w", l.path, ErrDamaged)
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case payload[0] != kindPage:
			continue
		}
		if _, err := decode(payload, visit); err != nil {
			return fmt.Errorf("%s: %w: %w", l.path, ErrDamaged, err)
		}
		pages++
	}
}

// Share makes a page log of window k and revision number from l, the complete log of rev, which is of
// the same report and days: it has the pages of l, or with totalsOnly just the totals, and they
// count as no request. A log that is there already is replaced.
func (s *Spool) Share(
	l *PageLog, rev analytics.Revision, k analytics.Key, number int32, totalsOnly bool,
) (err error) {
	h := l.head
	h.Key, h.Revision, h.Spent = k.String(), number, -len(l.Pages)
	if totalsOnly {
		h.Spent = -1
	}
	text, err := json.Marshal(h)
	if err != nil {
		return wrapped(err)
	}
	path := filepath.Join(s.tmp, name(k)+suffix)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return wrapped(err)
	}
	err = writeRecord(file, append(newRecord(nil, kindHeader), text...))
	if err == nil && totalsOnly {
		record := appendText(append(newRecord(nil, kindPage), 0, 1), string(rev.Humans)) // offset 0, more rows exist
		if k.Report.Shape().Site {
			record = appendText(record, l.site)
		} else {
			record = appendText(record, appendTotals(nil, rev.Totals))
		}
		record = append(record, 0) // no rows
		err = writeRecord(file, record)
	} else if err == nil {
		records := newRecordReader(l.file, l.size)
		_, err = records.next() // the header
		if err == nil {
			_, err = io.CopyN(file, records.r, records.left)
		}
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(path, filepath.Join(s.fetching, name(k)+suffix))
	}
	return wrapped(err)
}

// Flush makes the log survive a power cut.
func (l *PageLog) Flush() error {
	err := l.file.Sync()
	if err == nil {
		err = durable.SyncDir(filepath.Dir(l.path))
	}
	return wrapped(err)
}

// Wait flushes and closes the log of a complete window, and moves it to those that wait for a
// sink.
func (l *PageLog) Wait() error {
	err := errors.Join(l.file.Sync(), l.file.Close())
	if k, kerr := analytics.ParseKey(l.head.Key); kerr != nil {
		err = errors.Join(err, kerr)
	} else if path := waitingPath(l.spool.waiting, k, l.head.Revision); err == nil && path != l.path {
		err = durable.Rename(l.path, path)
	}
	return wrapped(err)
}

// Close keeps the page log for a later run.
func (l *PageLog) Close() error { return wrapped(l.file.Close()) }

// Discard removes the page log. Call it once every sink has the window.
func (l *PageLog) Discard() error { return wrapped(errors.Join(l.file.Close(), os.Remove(l.path))) }
