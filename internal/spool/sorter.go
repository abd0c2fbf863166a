package spool

import (
	"bufio"
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
)

// runRows and runBytes bound the rows held in memory: a full run is sorted and
// spilled. Tests make them small.
var (
	runRows  = 1 << 15
	runBytes = 4 << 20
)

const (
	// blockRows and blockBytes, of paths, are the size of a block of a spilled run: a
	// merge holds one block of each.
	blockRows  = 64
	blockBytes = 64 << 10
	// readBuffer of one run in a merge: enough for a record's head; what is
	// longer is read past it.
	readBuffer = 1 << 10
)

// sorter sorts rows by path in bounded memory: sorted runs in one temporary
// file, merged when they are read. Of rows with one path the last added counts.
type sorter struct {
	dir  string
	held []arrival
	size int
	file *os.File
	end  int64
	runs []span
}

type span struct{ from, to int64 }

// arrival is a row and its place among the held: an unstable sort with it is
// three times as fast as a stable one without.
type arrival struct {
	analytics.Row
	seq int
}

func (s *sorter) add(rows []analytics.Row) error {
	if cap(s.held)-len(s.held) < len(rows) {
		s.held = slices.Grow(s.held, max(len(rows), len(s.held))) // append alone would grow by a quarter
	}
	for _, r := range rows {
		s.held = append(s.held, arrival{r, len(s.held)})
		s.size += len(r.Path)
	}
	if len(s.held) < runRows && s.size < runBytes {
		return nil
	}
	return s.spill()
}

func (s *sorter) sortHeld() {
	slices.SortFunc(s.held, func(a, b arrival) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return cmp.Compare(a.seq, b.seq)
	})
}

// spill writes the held rows as one run. After an error the sorter is of no
// more use until it is reset.
func (s *sorter) spill() error {
	if s.file == nil {
		file, err := os.CreateTemp(s.dir, "run-*.tmp")
		if err != nil {
			return fmt.Errorf("spool: %w", err)
		}
		s.file = file
	}
	s.sortHeld()
	n, err := s.writeRun()
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	s.runs = append(s.runs, span{s.end, s.end + n})
	s.end += n
	clear(s.held)
	s.held, s.size = s.held[:0], 0
	return nil
}

// writeRun returns how many bytes the held rows take in the file.
func (s *sorter) writeRun() (int64, error) {
	w := &countingWriter{w: bufio.NewWriterSize(s.file, 1<<16)}
	var record []byte
	for rest := s.held; len(rest) > 0; {
		n, bytes := 1, len(rest[0].Path)
		for n < min(blockRows, len(rest)) && bytes+len(rest[n].Path) <= blockBytes {
			bytes += len(rest[n].Path)
			n++
		}
		block := rest[:n]
		rest = rest[n:]
		record = appendRows(newRecord(record, kindRows), rowsOf(block))
		if err := writeRecord(w, record); err != nil {
			return 0, err
		}
	}
	return w.n, w.w.Flush()
}

func rowsOf(held []arrival) []analytics.Row {
	rows := make([]analytics.Row, len(held))
	for i, a := range held {
		rows[i] = a.Row
	}
	return rows
}

type countingWriter struct {
	w *bufio.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// reset forgets all rows.
func (s *sorter) reset() error {
	clear(s.held)
	s.held, s.size, s.runs, s.end = s.held[:0], 0, nil, 0
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	if err := errors.Join(file.Close(), os.Remove(file.Name())); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}

// sorted yields the rows by path, each path once, and adds to duplicates what
// it left out.
func (s *sorter) sorted(duplicates *int) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		s.sortHeld()
		merge, err := s.merge()
		if err != nil {
			yield(analytics.Row{}, err)
			return
		}
		last, err := merge.next()
		for err == nil {
			var row analytics.Row
			row, err = merge.next()
			if err == nil && row.Path == last.Path {
				*duplicates++
			} else if !yield(last, nil) {
				return
			}
			last = row
		}
		if !errors.Is(err, io.EOF) {
			yield(analytics.Row{}, fmt.Errorf("spool: %w", err))
		}
	}
}

// merge returns the runs and the held rows as one ordered source; with equal
// paths the earlier run comes first.
func (s *sorter) merge() (*merger, error) {
	m := &merger{}
	for i, run := range s.runs {
		r := bufio.NewReaderSize(io.NewSectionReader(s.file, run.from, run.to-run.from), readBuffer)
		m.sources = append(m.sources, &source{order: i, r: r})
	}
	m.sources = append(m.sources, &source{order: len(s.runs), block: rowsOf(s.held)})
	live := m.sources[:0]
	for _, src := range m.sources {
		ok, err := src.fill(m)
		if err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
		if ok {
			live = append(live, src)
		}
	}
	m.sources = live
	heap.Init(m)
	return m, nil
}

// source is one sorted run: blocks read on demand, or held rows alone.
type source struct {
	order int
	block []analytics.Row
	at    int
	r     *bufio.Reader
}

// fill makes sure that a row is at hand; false at the end of the run.
func (s *source) fill(m *merger) (bool, error) {
	if s.at < len(s.block) {
		return true, nil
	}
	if s.r == nil {
		return false, nil
	}
	payload, err := readRecord(s.r, m.buf)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if payload[0] != kindRows {
		return false, errTorn
	}
	m.buf, s.at = payload[:0], 0
	s.block, err = (&decoder{s: string(payload[1:])}).rows(s.block[:0])
	return len(s.block) > 0, err
}

// merger is a heap of sources.
type merger struct {
	sources []*source
	buf     []byte // of the record read last
}

func (m *merger) Len() int { return len(m.sources) }
func (m *merger) Less(i, j int) bool {
	a, b := m.sources[i], m.sources[j]
	if c := strings.Compare(a.block[a.at].Path, b.block[b.at].Path); c != 0 {
		return c < 0
	}
	return a.order < b.order
}
func (m *merger) Swap(i, j int) { m.sources[i], m.sources[j] = m.sources[j], m.sources[i] }
func (m *merger) Push(any)      {}
func (m *merger) Pop() any {
	m.sources = m.sources[:len(m.sources)-1]
	return nil
}

func (m *merger) next() (analytics.Row, error) {
	if len(m.sources) == 0 {
		return analytics.Row{}, io.EOF
	}
	top := m.sources[0]
	row := top.block[top.at]
	top.at++
	ok, err := top.fill(m)
	if err != nil {
		return row, err
	}
	if ok {
		heap.Fix(m, 0)
	} else {
		heap.Pop(m)
	}
	return row, nil
}
