package spool

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	// runBytes of rows are sorted in memory at once: about 100,000 rows.
	runBytes = 6 << 20
	// mergeBytes is divided among the runs of a log, whose blocks are in memory while they are merged.
	mergeBytes         = 2 << 20
	minBlock, maxBlock = 4 << 10, 64 << 10
)

// sortedRows yields the rows in order, each once: of several that are the same the last that was
// appended. It adds to Repeated what it left out. Memory does not grow with the number of
// rows: a long log is read once and split into sorted runs in a temporary file, about as large as
// the log, and the runs are merged.
func (l *PageLog) sortedRows(ctx context.Context) iter.Seq2[analytics.Record, error] {
	return func(yield func(analytics.Record, error) bool) {
		var none analytics.Record
		s, err := l.split(ctx)
		if err != nil {
			yield(none, err)
			return
		}
		defer s.close()
		pass := func(row packed) bool {
			if err := s.rows.row.unpack(row.path, row.rest); err != nil {
				yield(none, fmt.Errorf("%s: %w: %w", l.path, ErrDamaged, err))
				return false
			}
			return yield(s.rows.row.row, nil)
		}
		var last *packed
		for row, err := range s.merge(ctx) {
			switch {
			case err != nil:
				yield(none, err)
				return
			case last == nil:
				last = new(packed)
			case s.rows.compare(*last, row) == 0:
				l.Repeated++
			case !pass(*last):
				return
			}
			*last = row
		}
		if last != nil {
			pass(*last)
		}
	}
}

// packed is a row as a log holds it: its path, and the rest.
type packed struct{ path, rest string }

// placed is a row of the run in memory: where it is in the text, and the lengths there.
type placed struct {
	offset     int
	path, rest uint32
}

const placedBytes = 16

// sorter has the rows of a log in runs: all but the last one in a file that has no name, so that
// it vanishes with the process.
type sorter struct {
	rows       comparer
	file       *os.File // nil if there is one run
	size       int64
	reader     *recordReader
	runs       []*run
	block      []byte
	blockBytes int

	text  strings.Builder // of the rows in memory
	order []placed
}

// split reads the log once.
func (l *PageLog) split(ctx context.Context) (s *sorter, err error) {
	most := l.spool.runBytes
	s = &sorter{rows: newComparer(l.shape), blockBytes: int(min(max(mergeBytes*most/(l.size+1), minBlock), maxBlock))}
	inMemory := min(l.size, most)
	s.order = make([]placed, 0, l.Sum.Rows*inMemory/(l.size+1)+1)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err = l.scan(ctx, func(path, rest []byte) {
		if s.text.Len() == 0 {
			s.text.Grow(int(inMemory))
		}
		s.order = append(s.order, placed{s.text.Len(), uint32(len(path)), uint32(len(rest))})
		s.text.Write(path)
		s.text.Write(rest)
		if int64(s.text.Len()+placedBytes*len(s.order)) >= most {
			if err := s.write(l.spool.tmp); err != nil {
				stop(fmt.Errorf("sort %d bytes of rows on disk: %w", l.size, err))
			}
		}
	})
	if err = cmp.Or(err, context.Cause(ctx)); err != nil {
		s.close()
		return nil, err
	}
	s.sort()
	s.runs = append(s.runs, &run{number: len(s.runs), text: s.text.String(), order: s.order})
	return s, nil
}

// sort sorts the rows in memory. Those that are the same stay in the order in which they were appended.
func (s *sorter) sort() {
	text := s.text.String()
	slices.SortFunc(s.order, func(a, b placed) int {
		return cmp.Or(s.rows.compare(a.in(text), b.in(text)), cmp.Compare(a.offset, b.offset))
	})
}

func (p placed) in(text string) packed {
	text = text[p.offset:]
	return packed{text[:p.path], text[p.path:][:p.rest]}
}

// write moves the rows in memory to the file, as a run.
func (s *sorter) write(dir string) (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp(dir, "runs-*"); err != nil {
			return err
		}
		_ = os.Remove(s.file.Name()) // or the next Open removes it
		s.reader = newRecordReader(s.file, 0)
	}
	s.sort()
	text, begin := s.text.String(), s.size
	s.block = newRecord(s.block, kindBlock)
	for i, p := range s.order {
		row := p.in(text)
		s.block = appendText(appendText(s.block, row.path), row.rest)
		if len(s.block) < s.blockBytes && i+1 < len(s.order) {
			continue
		}
		if err := writeRecord(s.file, s.block); err != nil {
			return err
		}
		s.size += int64(len(s.block))
		s.block = newRecord(s.block, kindBlock)
	}
	s.runs = append(s.runs, &run{number: len(s.runs), begin: begin, end: s.size})
	s.text.Reset()
	s.order = s.order[:0]
	return nil
}

func (s *sorter) close() {
	if s.file != nil {
		_ = s.file.Close() // nothing of it is needed any more
	}
}

// merge yields the rows of all runs in order. Those that are the same come in the order in which they were appended.
func (s *sorter) merge(ctx context.Context) iter.Seq2[packed, error] {
	return func(yield func(packed, error) bool) {
		order := func(a, b *run) int { return cmp.Or(s.rows.compare(a.row, b.row), cmp.Compare(a.number, b.number)) }
		var runs []*run // by their next rows
		for _, r := range s.runs {
			if more, err := s.next(ctx, r); err != nil {
				yield(packed{}, err)
				return
			} else if more {
				runs = append(runs, r)
			}
		}
		slices.SortFunc(runs, order)
		for len(runs) > 0 {
			first := runs[0]
			if !yield(first.row, nil) {
				return
			}
			more, err := s.next(ctx, first)
			if err != nil {
				yield(packed{}, err)
				return
			}
			if !more {
				runs = runs[1:]
				continue
			}
			i, _ := slices.BinarySearchFunc(runs[1:], first, order)
			copy(runs, runs[1:][:i])
			runs[i] = first
		}
	}
}

// run is rows in order.
type run struct {
	number int
	row    packed // the next one

	text  string
	order []placed // of the text: the rows in memory that come next

	begin, end int64 // of the blocks in the file that come next
	block      decoder[string]
}

// next goes to the next row of a run, if there is one.
func (s *sorter) next(ctx context.Context, r *run) (more bool, err error) {
	switch {
	case len(r.order) > 0:
		r.row, r.order = r.order[0].in(r.text), r.order[1:]
		return true, nil
	case len(r.block.b) > 0:
	case r.begin == r.end:
		return false, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	default:
		payload, err := s.reader.reset(s.file, r.begin, r.end-r.begin).next()
		if err != nil {
			return false, fmt.Errorf("sorted rows: %w", err)
		}
		r.begin += recordHead + int64(len(payload))
		r.block.b = string(payload[1:])
	}
	r.row = packed{r.block.text(), r.block.text()}
	return true, nil
}

// comparer compares rows of a log.
type comparer struct {
	shape      *analytics.Shape
	row, other *unpacker[string]
}

func newComparer(shape *analytics.Shape) comparer {
	return comparer{shape, newUnpacker[string](shape), newUnpacker[string](shape)}
}

// compare compares two rows. Damage is found when they are yielded.
func (c comparer) compare(a, b packed) int {
	order := strings.Compare(a.path, b.path)
	if order == 0 {
		_, _ = c.row.unpack(a.path, a.rest), c.other.unpack(b.path, b.rest)
		order = c.shape.Compare(c.row.row, c.other.row)
	}
	return order
}
