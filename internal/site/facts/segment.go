package facts

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/docgauge/docgauge/internal/analytics"
)

// A segment is the facts of one day of a project in one epoch, or of a part of that day; or evidence of the epoch, or a
// part of it. It is a file of stripes: each has the readers whose ids begin with the same bits, in the order of their
// ids, and then the pages that these read. So stripes can be counted apart, at the same time, and each fits into a
// processor's cache. Both sections of a stripe are blocks, each with its length and checksum, that begin and end between
// entries. The footer says where the sections end.
//
//	readers  id (8 bytes), agent and kinds of views (varint: (agent+2)<<3 | kinds); one with two agents comes twice
//	pages    page (varint: its number less the number of the page before), then groups of facts of one category:
//	         category and whether another group follows (varint: category<<1 | follows), number of facts,
//	         each a reader of this stripe (varint: delta<<2 | differs<<1 | more), requests-2 if more, and if differs
//	         a signed varint: bytes less expected bytes, see [expected]
//
// Evidence has readers alone. The agent of each says the day of its first evidence: see [agentOfDay].
//
// Numbers are little-endian.
const (
	stripeBits = 4
	stripes    = 1 << stripeBits
	sections   = 2 * stripes
	blockSize  = 64 << 10
	maxBlock   = 2 * blockSize
	frame      = 8 // length and checksum of a block
	footer     = 8*sections + 4 + 8
	magic      = "dgfacts2"
)

// stripeOf returns the stripe of a reader.
func stripeOf(id uint64) int { return int(id >> (64 - stripeBits)) }

// firstOf and lastOf return the least and the greatest id of a stripe.
func firstOf(stripe int) uint64 { return uint64(stripe) << (64 - stripeBits) }
func lastOf(stripe int) uint64  { return firstOf(stripe+1) - 1 }

// Kinds of a view: Neither counts as no reader's; Missed is a path that was asked for and is not there, which is no
// view.
const (
	Human   = 0
	AI      = 1
	Neither = 2
	Missed  = 3
	// Redirected is a path that was answered with a redirect, to an agent: no view either.
	Redirected = 4
)

var table32 = crc32.MakeTable(crc32.Castagnoli)

// ErrDamaged is a segment that is lost or not as it was written.
var ErrDamaged = errors.New("is damaged")

// segment is a row of the manifest. Its size is 0 if it was damaged when its epoch was closed.
type segment struct {
	number  int64
	project string
	epoch   Epoch
	// evidence of readers of the epoch; else facts of a day. The day of evidence is the last of the epoch, because it is
	// removed with that day.
	evidence bool
	day      analytics.Date
	level    int
	size     int64
}

// category is what the views of a fact have in common besides page and reader:
// (referral+1)<<4 | answered as Markdown<<3 | kind.
type category uint32

func categoryOf(v *View) category {
	c := category(v.Kind)
	if v.Markdown {
		c |= 1 << 3
	}
	if v.Kind == Human {
		c |= category(max(v.Referral, NoReferral)+1) << 4
	}
	return c
}

func (c category) kind() uint8     { return uint8(c & 7) }
func (c category) markdown() bool  { return c>>3&1 != 0 }
func (c category) referral() int32 { return int32(c>>4) - 1 }

// fact is the views of one category that a reader got of a page.
type fact struct {
	bytes    int64
	reader   uint32
	requests uint32
	category category
}

// The sums of a fact that are not exceeded.
const (
	maxRequests = math.MaxUint32
	maxBytes    = math.MaxInt64 / 2
)

// merged adds up the requests and bytes of equal readers of a category. The facts are sorted by both.
func merged(facts []fact) []fact {
	out := facts[:0]
	for _, f := range facts {
		if n := len(out) - 1; n >= 0 && out[n].reader == f.reader && out[n].category == f.category {
			out[n].requests = uint32(min(uint64(out[n].requests)+uint64(f.requests), maxRequests))
			out[n].bytes = addBytes(out[n].bytes, f.bytes)
			continue
		}
		out = append(out, f)
	}
	return out
}

// addBytes adds up bytes: they are unsaid if either is.
func addBytes(a, b int64) int64 {
	if a < 0 || b < 0 {
		return Unsaid
	}
	return min(a+b, maxBytes)
}

// expected is one more than the bytes of some requests if each has as many as the last fact of the page that differed;
// 0 if these were unsaid.
func expected(each int64, requests uint32) int64 {
	if each < 0 {
		return 0
	}
	return each*int64(requests) + 1
}

// writer writes a segment: of each stripe the readers in order, then the pages in order.
type writer struct {
	file    *os.File
	out     *bufio.Writer
	block   []byte
	at      int64
	ends    [sections]int64
	section int
	page    int32 // the last of this stripe
	sync    bool  // before it is closed
	err     error
}

func (s *Store) newWriter(number int64) (*writer, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, segmentDir, segmentName(number)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &writer{file: f, out: bufio.NewWriterSize(f, maxBlock), block: make([]byte, 0, maxBlock),
		sync: !s.temporary}, nil
}

// flush ends a block.
func (w *writer) flush() {
	if len(w.block) == 0 {
		return
	}
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(w.block)))
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(w.block, table32))
	w.put(head)
	w.put(w.block)
	w.block = w.block[:0]
}

func (w *writer) put(data []byte) {
	n, err := w.out.Write(data)
	w.at += int64(n)
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) reader(r reader) {
	w.block = binary.LittleEndian.AppendUint64(w.block, r.id)
	w.block = binary.AppendUvarint(w.block, uint64(r.agent+2)<<3|uint64(r.kinds))
	if len(w.block) >= blockSize {
		w.flush()
	}
}

// next ends a section.
func (w *writer) next() {
	w.flush()
	w.ends[w.section] = w.at
	w.section++
	w.page = -1
}

// write writes the facts of a page, sorted and merged.
func (w *writer) write(page int32, facts []fact) {
	w.block = binary.AppendUvarint(w.block, uint64(page-w.page))
	w.page = page
	each := int64(Unsaid)
	for len(facts) > 0 {
		category, n, follows := facts[0].category, 1, uint64(0)
		for n < len(facts) && facts[n].category == category {
			n++
		}
		if n < len(facts) {
			follows = 1
		}
		w.block = binary.AppendUvarint(w.block, uint64(category)<<1|follows)
		w.block = binary.AppendUvarint(w.block, uint64(n))
		last := uint32(0)
		for _, f := range facts[:n] {
			if len(w.block) >= blockSize {
				w.flush()
			}
			head := uint64(f.reader-last) << 2
			last = f.reader
			differs := f.bytes + 1 - expected(each, f.requests)
			if differs != 0 {
				head |= 2
			}
			if f.requests > 1 {
				w.block = binary.AppendUvarint(w.block, head|1)
				w.block = binary.AppendUvarint(w.block, uint64(f.requests)-2)
			} else {
				w.block = binary.AppendUvarint(w.block, head)
			}
			if differs != 0 {
				w.block = binary.AppendVarint(w.block, differs)
				each = eachOf(f.bytes, f.requests)
			}
		}
		facts = facts[n:]
	}
	if len(w.block) >= blockSize {
		w.flush()
	}
}

// eachOf is the bytes of each of some requests.
func eachOf(bytes int64, requests uint32) int64 {
	if bytes < 0 {
		return Unsaid
	}
	return bytes / int64(requests)
}

// close makes the file whole and durable, except for its entry in the directory. A file has the
// date of its day, because the time at which it was written says when somebody read.
func (w *writer) close(day analytics.Date) (size int64, err error) {
	foot := []byte{}
	for _, end := range w.ends {
		foot = binary.LittleEndian.AppendUint64(foot, uint64(end))
	}
	foot = binary.LittleEndian.AppendUint32(foot, crc32.Checksum(foot, table32))
	w.put(append(foot, magic...))
	err = errors.Join(w.err, w.out.Flush())
	if err == nil && w.sync {
		err = w.file.Sync()
	}
	if err == nil {
		err = os.Chtimes(w.file.Name(), day.Time(), day.Time())
	}
	err = errors.Join(err, w.file.Close())
	if err != nil {
		err = errors.Join(err, os.Remove(w.file.Name()))
	}
	return w.at, err
}

// reader is a reader of a segment, or a network: kinds has a bit for each kind of view.
type reader struct {
	id    uint64
	agent int32
	kinds uint8
}

// opened is a segment that is read. Its file may be removed meanwhile.
type opened struct {
	segment
	file *os.File
	ends [sections]int64
}

func (s *Store) openSegment(seg segment) (*opened, error) {
	name := filepath.Join(s.dir, segmentDir, segmentName(seg.number))
	if seg.size == 0 {
		of := seg.day.String()
		if seg.evidence {
			of = fmt.Sprintf("confirmed people from %s to %s", seg.epoch.From(), seg.day)
		}
		return nil, fmt.Errorf("%s: %w since its epoch was closed: %s cannot be counted any more", name, ErrDamaged, of)
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damaged(name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	o := &opened{segment: seg, file: f}
	if err := o.readFooter(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return o, nil
}

// damaged is what is wrong with a segment.
func damaged(name string, why error) error {
	return fmt.Errorf("%s: %w (%w): %s", name, ErrDamaged, why, remedy)
}

func (o *opened) damaged(why string) error { return damaged(o.file.Name(), errors.New(why)) }

func (o *opened) readFooter() error {
	info, err := o.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != o.size || o.size < footer {
		return o.damaged(fmt.Sprintf("%d bytes, not %d", info.Size(), o.size))
	}
	foot := make([]byte, footer)
	if _, err := o.file.ReadAt(foot, o.size-footer); err != nil {
		return unreadable(o, err)
	}
	body := foot[:8*sections]
	if string(foot[footer-len(magic):]) != magic ||
		binary.LittleEndian.Uint32(foot[len(body):]) != crc32.Checksum(body, table32) {
		return o.damaged("footer")
	}
	last := int64(0)
	for i := range o.ends {
		o.ends[i] = int64(binary.LittleEndian.Uint64(body[8*i:]))
		if o.ends[i] < last || o.ends[i] > o.size-footer {
			return o.damaged("footer")
		}
		last = o.ends[i]
	}
	return nil
}

// stream reads a section.
type stream struct {
	of      *opened
	at, end int64
	block   *[]byte // of blocks
	rest    []byte
	err     error
}

// blocks are buffers that streams have read to their ends.
var blocks = sync.Pool{New: func() any { return new([]byte) }}

func (o *opened) section(i int) *stream {
	from := int64(0)
	if i > 0 {
		from = o.ends[i-1]
	}
	return &stream{of: o, at: from, end: o.ends[i]}
}

// more reports whether there is another entry. After it, the rest begins with a whole one.
func (s *stream) more() bool {
	if len(s.rest) > 0 {
		return true
	}
	if s.err != nil || s.at == s.end {
		if s.block != nil {
			blocks.Put(s.block)
			s.block, s.rest = nil, nil
		}
		return false
	}
	if s.block == nil {
		s.block = blocks.Get().(*[]byte)
	}
	block := slices.Grow((*s.block)[:0], frame+blockSize)
	*s.block = block
	block = block[:min(s.end-s.at, frame+blockSize)] // the rest of most
	if _, err := s.of.file.ReadAt(block, s.at); err != nil {
		s.err = unreadable(s.of, err)
		return false
	}
	n := int64(0)
	if len(block) >= frame {
		n = int64(binary.LittleEndian.Uint32(block))
	}
	if n == 0 || n > maxBlock || s.at+frame+n > s.end {
		s.err = s.of.damaged("block")
		return false
	}
	if read := len(block); frame+int(n) > read {
		block = slices.Grow(block, frame+int(n)-read)[:frame+n]
		*s.block = block
		if _, err := s.of.file.ReadAt(block[read:], s.at+int64(read)); err != nil {
			s.err = unreadable(s.of, err)
			return false
		}
	}
	s.rest = block[frame : frame+n]
	if crc32.Checksum(s.rest, table32) != binary.LittleEndian.Uint32(block[4:]) {
		s.err, s.rest = s.of.damaged("checksum"), nil
		return false
	}
	s.at += frame + n
	return true
}

// unreadable returns an error of reading; damaged if it comes again.
func unreadable(o *opened, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.EIO) {
		return damaged(o.file.Name(), err)
	}
	return err
}

// uvarint is binary.Uvarint, with most numbers inline.
func uvarint(b []byte) (v uint64, size int) {
	if len(b) > 1 && b[1] < 0x80 {
		if b[0] < 0x80 {
			return uint64(b[0]), 1
		}
		return uint64(b[0]&0x7f) | uint64(b[1])<<7, 2
	}
	return binary.Uvarint(b)
}

// uvarint reads a number of the present entry.
func (s *stream) uvarint() uint64 {
	v, size := uvarint(s.rest)
	if size <= 0 {
		s.fail("number")
		return 0
	}
	s.rest = s.rest[size:]
	return v
}

func (s *stream) fail(why string) {
	if s.err == nil {
		s.err = s.of.damaged(why)
	}
	s.rest, s.at = nil, s.end
}

// pages reads the pages of a stripe.
type pages struct {
	*stream
	readers int // of the stripe
	page    int32
	done    bool
}

// next goes to the next page; done if there is none.
func (p *pages) next() {
	if p.done = !p.more(); p.done {
		return
	}
	step := p.uvarint()
	if step == 0 || step > math.MaxInt32 || int64(p.page)+int64(step) > math.MaxInt32 {
		p.fail("page")
		p.done = true
		return
	}
	p.page += int32(step)
}

// each calls do with the facts of the present page.
func (p *pages) each(do func(f fact)) {
	rest := p.rest // a variable is faster
	each := int64(Unsaid)
	for follows := uint64(1); follows != 0; {
		head, size := uvarint(rest)
		left, n := uvarint(rest[max(size, 0):])
		follows = head & 1
		f := fact{category: category(head >> 1)}
		if size <= 0 || n <= 0 || head>>1 > math.MaxUint32 || f.category.kind() > Redirected {
			p.fail("category")
			return
		}
		rest = rest[size+n:]
		last := uint64(0)
		for ; left > 0; left-- {
			if len(rest) == 0 {
				if p.rest = nil; !p.more() {
					p.fail("facts")
					return
				}
				rest = p.rest
			}
			head, size := uvarint(rest)
			requests, value := uint64(1), each+1
			if head&1 != 0 {
				more, n := uvarint(rest[size:])
				if n <= 0 || more > maxRequests-2 {
					p.fail("requests")
					return
				}
				requests, size = more+2, size+n
				value = expected(each, uint32(requests))
			}
			if head&2 != 0 {
				differs, n := binary.Varint(rest[size:])
				value += differs
				if n <= 0 || value < 0 {
					p.fail("bytes")
					return
				}
				size += n
				each = eachOf(value-1, uint32(requests))
			}
			if last += head >> 2; size <= 0 || last >= uint64(p.readers) {
				p.fail("reader of a page")
				return
			}
			rest = rest[size:]
			f.reader, f.requests, f.bytes = uint32(last), uint32(requests), value-1
			do(f)
		}
	}
	p.rest = rest
}

// pages returns the pages of a stripe that has so many readers.
func (o *opened) pages(stripe, readers int) *pages {
	p := &pages{stream: o.section(2*stripe + 1), page: -1, readers: readers}
	p.next()
	return p
}

// readers reads the readers of a stripe.
type readers struct {
	*stream
	first uint64 // the least id that the next one can have
	size  int    // of all, about: not less
}

func (o *opened) readers(stripe int) *readers {
	s := o.section(2 * stripe)
	return &readers{s, firstOf(stripe), int(s.end-s.at) / 9}
}

// until calls do with the next readers, up to an id.
func (r *readers) until(last uint64, do func(reader)) {
	for r.more() {
		rest := r.rest // a variable is faster
		for len(rest) > 0 {
			if len(rest) < 9 {
				r.fail("reader")
				return
			}
			id := binary.LittleEndian.Uint64(rest)
			if id > last {
				r.rest = rest
				return
			}
			v, size := uvarint(rest[8:])
			if size <= 0 || id < r.first {
				r.fail("order of readers")
				return
			}
			rest, r.first = rest[8+size:], id
			do(reader{id, int32(v>>3) - 2, uint8(v & 7)})
		}
		r.rest = rest
	}
}

// has reports whether a reader has evidence of a day before one, both counted from the first day of the epoch. Each call
// asks for the same reader as the call before, or for one with a greater id.
func (r *readers) has(id uint64, before int32) bool {
	const (
		size = 8 + 2     // of an entry: see agentOfDay
		skip = 16 * size // most readers of a long epoch are not of the window
	)
	for r.more() {
		rest := r.rest // a variable is faster
		for len(rest) >= skip+size && binary.LittleEndian.Uint64(rest[skip:]) < id {
			rest = rest[skip:]
		}
		for ; len(rest) >= size; rest = rest[size:] {
			if at := binary.LittleEndian.Uint64(rest); at >= id {
				r.rest = rest
				v, n := uvarint(rest[8:])
				return at == id && n == size-8 && int32(v>>3)-2 < agentOfDay(before)
			}
		}
		if r.rest = nil; len(rest) > 0 {
			r.fail("evidence")
		}
	}
	return false
}

// agentOfDay is the agent of a reader whose evidence begins on a day of the epoch, counted from its first. It makes
// all entries of evidence equally long.
func agentOfDay(day int32) int32 { return day + 14 }

// end returns what was wrong with the readers, once the last of the stripe was asked for.
func (r *readers) end() error {
	if r.more() {
		r.fail("order of readers")
	}
	return r.err
}
