package spool

import (
	"bufio"
	"cmp"
	"container/heap"
	"errors"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	// blockRows and blockBytes, of paths, are the size of a block of a spilled run: a
	// merge holds one block of each run.
	blockRows  = 64
	blockBytes = 64 << 10
	// readBuffer is for one run in a merge: enough for the head of a record, as longer
	// reads bypass it.
	readBuffer = 1 << 10
)

// sorter sorts rows by path in bounded memory: sorted runs in one temporary
// file, merged when they are read. Of several rows with one path the last added counts.
type sorter struct {
	dir string
	// runRows and runBytes, of paths, bound the rows held in memory: a full run is
	// sorted and spilled to the file.
	runRows, runBytes int

	held []arrival
	size int // bytes of paths held
	file *os.File
	runs []section
}

type section struct{ from, to int64 }

// arrival is a row and its place among those held: an unstable sort that compares places
// is three times as fast as a stable one.
type arrival struct {
	row analytics.Row
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
	if len(s.held) < s.runRows && s.size < s.runBytes {
		return nil
	}
	return s.spill()
}

// sortHeld returns the rows held by path, those of one path in the order they came.
func (s *sorter) sortHeld() []analytics.Row {
	slices.SortFunc(s.held, func(a, b arrival) int {
		if c := strings.Compare(a.row.Path, b.row.Path); c != 0 {
			return c
		}
		return cmp.Compare(a.seq, b.seq)
	})
	rows := make([]analytics.Row, len(s.held))
	for i, a := range s.held {
		rows[i] = a.row
	}
	return rows
}

// spill writes the rows held as one run, in blocks. After an error the sorter is useless
// until it is reset.
func (s *sorter) spill() error {
	if s.file == nil {
		file, err := os.CreateTemp(s.dir, "run-*.tmp")
		if err != nil {
			return err
		}
		s.file = file
	}
	w := bufio.NewWriterSize(s.file, 1<<16)
	var record []byte
	for rest := s.sortHeld(); len(rest) > 0; {
		n, bytes := 1, len(rest[0].Path)
		for n < min(blockRows, len(rest)) && bytes+len(rest[n].Path) <= blockBytes {
			bytes += len(rest[n].Path)
			n++
		}
		record = appendRows(newRecord(record, kindRows), rest[:n])
		if err := writeRecord(w, record); err != nil {
			return err
		}
		rest = rest[n:]
	}
	if err := w.Flush(); err != nil {
		return err
	}
	end, err := s.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	s.runs = append(s.runs, section{s.end(), end})
	clear(s.held)
	s.held, s.size = s.held[:0], 0
	return nil
}

// end is where the last run in the file ends.
func (s *sorter) end() int64 {
	if len(s.runs) == 0 {
		return 0
	}
	return s.runs[len(s.runs)-1].to
}

// reset forgets all rows.
func (s *sorter) reset() error {
	clear(s.held)
	s.held, s.size, s.runs = s.held[:0], 0, nil
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// sorted yields the rows by path, each path once, and adds to duplicates what
// it left out.
func (s *sorter) sorted(duplicates *int) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
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
			yield(analytics.Row{}, err)
		}
	}
}

// merge returns the runs and the rows held as one ordered source; of equal
// paths the one of the earlier run comes first.
func (s *sorter) merge() (*merger, error) {
	m := &merger{}
	for i, run := range s.runs {
		r := bufio.NewReaderSize(io.NewSectionReader(s.file, run.from, run.to-run.from), readBuffer)
		m.sources = append(m.sources, &source{order: i, r: r})
	}
	m.sources = append(m.sources, &source{order: len(s.runs), block: s.sortHeld()})
	live := m.sources[:0]
	for _, src := range m.sources {
		ok, err := src.fill(m)
		if err != nil {
			return nil, err
		}
		if ok {
			live = append(live, src)
		}
	}
	m.sources = live
	heap.Init(m)
	return m, nil
}

// source is one sorted run: blocks that are read when needed, or only the rows held.
type source struct {
	order int
	block []analytics.Row
	at    int
	r     *bufio.Reader
}

// fill makes sure that block has a row; false at the end of the run.
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
	buf     []byte // reused for each record
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
