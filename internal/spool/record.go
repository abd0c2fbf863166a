package spool

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
)

// A record is length (uint32 LE), CRC-32C of the payload (uint32 LE), payload.
// The payload's first byte is its kind.
const (
	kindHeader = 'H' // JSON of header
	kindPage   = 'P' // see encode; the rows belong to the report that the header names
	kindBlock  = 'B' // rows of a run; never in a page log

	recordHead = 8
	// maxRecord is the longest payload. A page comes from a body of at most 16 MiB.
	maxRecord = 32 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errTorn marks the end of the sound records of a page log.
var errTorn = errors.New("torn record")

// newRecord reuses buf for a record of the given kind: free bytes for its head, then the payload.
func newRecord(buf []byte, kind byte) []byte {
	return append(append(buf[:0], make([]byte, recordHead)...), kind)
}

// writeRecord completes a record and writes it in one Write.
func writeRecord(w io.Writer, record []byte) error {
	payload := record[recordHead:]
	if len(payload) > maxRecord {
		return fmt.Errorf("a record of %d bytes: at most %d can be read back", len(payload), maxRecord)
	}
	binary.LittleEndian.PutUint32(record[:4], uint32(len(payload)))
	binary.LittleEndian.PutUint32(record[4:], crc32.Checksum(payload, castagnoli))
	_, err := w.Write(record)
	return err
}

// recordReader reads the records of a file, or of a section of it.
type recordReader struct {
	r    *bufio.Reader
	left int64 // bytes of the section
	buf  []byte
}

func newRecordReader(r io.ReaderAt, size int64) *recordReader {
	return (&recordReader{r: bufio.NewReader(nil)}).reset(r, 0, size)
}

// reset makes it the reader of another section.
func (r *recordReader) reset(file io.ReaderAt, begin, size int64) *recordReader {
	r.r.Reset(io.NewSectionReader(file, begin, size))
	r.left = size
	return r
}

// next returns the next payload, valid until the next call: io.EOF at a clean end, errTorn
// where the rest cannot be trusted.
func (r *recordReader) next() ([]byte, error) {
	var head [recordHead]byte
	if r.left == 0 {
		return nil, io.EOF
	}
	if r.left < recordHead {
		return nil, errTorn
	}
	if err := r.read(head[:]); err != nil {
		return nil, err
	}
	r.left -= recordHead
	n := int64(binary.LittleEndian.Uint32(head[:4]))
	if n == 0 || n > min(maxRecord, r.left) {
		return nil, errTorn
	}
	r.buf = slices.Grow(r.buf[:0], int(n))[:n]
	if err := r.read(r.buf); err != nil {
		return nil, err
	}
	r.left -= n
	if crc32.Checksum(r.buf, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, errTorn
	}
	return r.buf, nil
}

// read fills b. That the file has become shorter is damage.
func (r *recordReader) read(b []byte) error {
	_, err := io.ReadFull(r.r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTorn
	}
	return err
}

// pageRecord is the payload of a record of a page, apart from its rows.
type pageRecord struct {
	offset  int
	hasMore bool
	humans  analytics.Humans
	site    []byte // the totals
	rows    int
}

// InfoOf describes a page.
func InfoOf(shape *analytics.Shape, p analytics.Page) PageInfo {
	info := PageInfo{Rows: len(p.Rows), HasMore: p.HasMore, Site: Site{Totals: p.Totals, Humans: p.Humans}}
	for _, row := range p.Site {
		shape.Checksum(&info.Agents, row)
	}
	return info
}

// encode appends a page to a record. The totals, each row and each text follow their length.
func encode(shape *analytics.Shape, b []byte, p analytics.Page) (record, site []byte) {
	var row analytics.Record
	var packed []byte
	fields := shape.Fields(&row)
	pack := func(rows []analytics.Record, b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(len(rows)))
		for _, row = range rows {
			packed = appendRow(packed[:0], fields)
			b = appendText(b, packed)
		}
		return b
	}
	b = appendText(appendTruth(binary.AppendUvarint(b, uint64(p.Offset)), p.HasMore), string(p.Humans))
	if shape.Site {
		site = pack(p.Site, nil)
	} else {
		site = appendTotals(nil, p.Totals)
	}
	return pack(p.Rows, appendText(b, site)), site
}

// decode is the inverse of encode. It passes the path of each row and the rest of the packed row to visit; both are
// valid only during the call. After an error, some rows may have been passed on.
func decode(payload []byte, visit func(path, rest []byte)) (p pageRecord, err error) {
	d := decoder[[]byte]{b: payload[1:]}
	p.offset, p.hasMore, p.humans, p.site = int(d.uvarint()), d.truth(), analytics.Humans(d.text()), d.text()
	for n := d.uvarint(); uint64(p.rows) < n && !d.bad; p.rows++ {
		row := decoder[[]byte]{b: d.text()}
		path := row.text()
		if d.bad = d.bad || row.bad; !d.bad {
			visit(path, row.b)
		}
	}
	if d.bad || len(d.b) > 0 {
		return p, fmt.Errorf("page record: %w", errTorn)
	}
	return p, nil
}

// siteOf decodes the totals of a page: counts, or rows of the site.
func siteOf(shape *analytics.Shape, totals []byte) (site Site, rows []analytics.Record, err error) {
	d, u := decoder[[]byte]{b: totals}, newUnpacker[[]byte](shape)
	if shape.Site && len(totals) > 0 {
		for n := d.uvarint(); n > 0 && !d.bad && err == nil; n-- {
			row := decoder[[]byte]{b: d.text()}
			if err = u.unpack(row.text(), row.b); err == nil {
				shape.Checksum(&site.Agents, u.row)
				rows = append(rows, u.row)
			}
		}
	} else if !shape.Site {
		for _, n := range site.Totals.Fields() {
			*n = int64(d.uvarint())
		}
	}
	if d.bad || len(d.b) > 0 {
		err = fmt.Errorf("totals: %w", errTorn)
	}
	return site, rows, err
}

// appendRow packs a row.
func appendRow(b []byte, f analytics.Fields) []byte {
	for _, text := range f.Texts {
		b = appendText(b, *text)
	}
	for _, truth := range f.Truths {
		b = appendTruth(b, *truth)
	}
	for _, count := range f.Counts {
		b = binary.AppendUvarint(b, uint64(*count))
	}
	return b
}

func appendTotals(b []byte, t analytics.Totals) []byte {
	for _, n := range t.Fields() {
		b = binary.AppendUvarint(b, uint64(*n))
	}
	return b
}

func appendTruth(b []byte, truth bool) []byte {
	if truth {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// unpacker is the inverse of appendRow. The texts of rows in a string are parts of it.
type unpacker[T string | []byte] struct {
	row    analytics.Record
	fields analytics.Fields // of row
}

func newUnpacker[T string | []byte](shape *analytics.Shape) *unpacker[T] {
	u := new(unpacker[T])
	u.fields = shape.Fields(&u.row)
	return u
}

func (u *unpacker[T]) unpack(path, rest T) error {
	d := decoder[T]{b: rest}
	*u.fields.Texts[0] = string(path)
	for _, text := range u.fields.Texts[1:] {
		*text = string(d.text())
	}
	for _, truth := range u.fields.Truths {
		*truth = d.truth()
	}
	for _, count := range u.fields.Counts {
		*count = int64(d.uvarint())
	}
	if d.bad || len(d.b) > 0 {
		return fmt.Errorf("row: %w", errTorn)
	}
	return nil
}

type decoder[T string | []byte] struct {
	b   T
	bad bool
}

func (d *decoder[T]) uvarint() (v uint64) {
	for i := range min(len(d.b), binary.MaxVarintLen64) {
		c := d.b[i]
		if v |= uint64(c&0x7f) << (7 * i); c < 0x80 {
			d.b = d.b[i+1:]
			return v
		}
	}
	d.bad = true
	return 0
}

func (d *decoder[T]) text() (text T) {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad = true
		return text
	}
	text, d.b = d.b[:n], d.b[n:]
	return text
}

func (d *decoder[T]) truth() bool {
	if len(d.b) == 0 {
		d.bad = true
		return false
	}
	truth := d.b[0] == 1
	d.b = d.b[1:]
	return truth
}
