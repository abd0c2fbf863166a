package spool

import (
	"bufio"
	"cmp"
	"encoding/binary"
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
	readBuffer = 2 * recordHead
)

// sorter sorts rows by path in bounded memory: sorted runs in one temporary
// file, merged when they are read. Of several rows with one path the last added counts.
type sorter struct {
	dir string
	// runRows and runBytes, of paths, bound the rows held in memory: a full run is
	// sorted and spilled to the file.
	runRows, runBytes int

	held []analytics.Row
	size int // bytes of paths held
	// common is what all paths begin with, those in the runs too.
	common string
	places []place
	file   *os.File
	runs   []section
}

type section struct{ from, to int64 }

// place is where a row is among those held, and the key of its path.
type place struct {
	key uint64
	at  int
}

// key returns the 8 bytes of path after what all paths begin with. As a number, it sorts
// as the path does, as far as it reaches, so that few comparisons need the paths.
func (s *sorter) key(path string) uint64 {
	var b [8]byte
	copy(b[:], path[len(s.common):])
	return binary.BigEndian.Uint64(b[:])
}

func (s *sorter) add(rows []analytics.Row) error {
	if len(s.held) == 0 && len(s.runs) == 0 && len(rows) > 0 {
		s.common = strings.Clone(rows[0].Path) // the page need not be kept
	}
	for _, r := range rows {
		for !strings.HasPrefix(r.Path, s.common) {
			s.common = s.common[:len(s.common)-1]
		}
		s.size += len(r.Path)
	}
	if cap(s.held)-len(s.held) < len(rows) { // append alone would grow by a quarter, far beyond a run at last
		s.held = slices.Grow(s.held, max(len(rows), min(len(s.held), s.runRows-len(s.held))))
	}
	s.held = append(s.held, rows...)
	if len(s.held) < s.runRows && s.size < s.runBytes {
		return nil
	}
	return s.spill()
}

// sortHeld returns the places of the rows held by path, those of one path in the order
// they came. They are valid until the next call.
func (s *sorter) sortHeld() []place {
	s.places = slices.Grow(s.places[:0], len(s.held))
	for i, row := range s.held {
		s.places = append(s.places, place{s.key(row.Path), i})
	}
	slices.SortFunc(s.places, func(a, b place) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		if c := strings.Compare(s.held[a.at].Path, s.held[b.at].Path); c != 0 {
			return c
		}
		return cmp.Compare(a.at, b.at)
	})
	return s.places
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
	block := make([]analytics.Row, 0, blockRows)
	for rest := s.sortHeld(); len(rest) > 0; {
		block = block[:0]
		for bytes := 0; len(rest) > 0 && len(block) < blockRows; rest = rest[1:] {
			row := s.held[rest[0].at]
			if bytes += len(row.Path); len(block) > 0 && bytes > blockBytes {
				break
			}
			block = append(block, row)
		}
		record = appendRows(newRecord(record, kindRows), block)
		if err := writeRecord(w, record); err != nil {
			return err
		}
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
	m := &merger{sorter: s}
	for i, run := range s.runs {
		r := bufio.NewReaderSize(io.NewSectionReader(s.file, run.from, run.to-run.from), readBuffer)
		m.sources = append(m.sources, &source{order: i, r: r})
	}
	m.sources = append(m.sources, &source{order: len(s.runs), places: s.sortHeld()})
	live := m.sources[:0]
	for _, src := range m.sources {
		ok, err := src.next(m)
		if err != nil {
			return nil, err
		}
		if ok {
			live = append(live, src)
		}
	}
	m.sources = live
	for i := range slices.Backward(m.sources) {
		m.down(i)
	}
	return m, nil
}

// source is one sorted run, or the rows held: its next row, and how to get the others.
type source struct {
	order int
	row   analytics.Row
	key   uint64

	places []place // of a run nil
	r      *bufio.Reader
	block  decoder
	left   uint64 // rows in block
}

// next takes the next row; false at the end of the source.
func (s *source) next(m *merger) (bool, error) {
	if s.r == nil {
		if len(s.places) == 0 {
			return false, nil
		}
		s.row, s.key = m.sorter.held[s.places[0].at], s.places[0].key
		s.places = s.places[1:]
		return true, nil
	}
	if s.left == 0 {
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
		m.buf, s.block = payload, decoder{s: string(payload[1:])}
		s.left = s.block.uvarint()
	}
	s.row = s.block.row()
	s.left--
	if s.block.bad || !strings.HasPrefix(s.row.Path, m.sorter.common) {
		return false, errTorn
	}
	s.key = m.sorter.key(s.row.Path)
	return true, nil
}

func (s *source) before(other *source) bool {
	if s.key != other.key {
		return s.key < other.key
	}
	if c := strings.Compare(s.row.Path, other.row.Path); c != 0 {
		return c < 0
	}
	return s.order < other.order
}

// merger is a heap of sources.
type merger struct {
	sorter  *sorter
	sources []*source
	buf     []byte // reused for each record
}

// down moves source i down to where it belongs.
func (m *merger) down(i int) {
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.sources); child++ {
			if m.sources[child].before(m.sources[first]) {
				first = child
			}
		}
		if first == i {
			return
		}
		m.sources[i], m.sources[first] = m.sources[first], m.sources[i]
		i = first
	}
}

func (m *merger) next() (analytics.Row, error) {
	if len(m.sources) == 0 {
		return analytics.Row{}, io.EOF
	}
	top := m.sources[0]
	row := top.row
	ok, err := top.next(m)
	if err != nil {
		return row, err
	}
	if !ok {
		last := len(m.sources) - 1
		m.sources[0], m.sources = m.sources[last], m.sources[:last]
	}
	if len(m.sources) > 0 {
		m.down(0)
	}
	return row, nil
}
