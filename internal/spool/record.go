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
	kindPage   = 'P' // offset, hasMore, humans, totals, rows: of the report that the header names

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

// recordReader reads the records of a file.
type recordReader struct {
	r    *bufio.Reader
	left int64 // bytes of the file
	buf  []byte
}

func newRecordReader(r io.ReaderAt, size int64) *recordReader {
	return &recordReader{r: bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<16), left: size}
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

// pageRecord is what a record says of a page, apart from its rows.
type pageRecord struct {
	PageInfo
	offset int
	site   []byte // the totals, in the record
}

// InfoOf describes a page.
func InfoOf(of *analytics.Shape, p analytics.Page) PageInfo {
	info := PageInfo{Rows: len(p.Rows), HasMore: p.HasMore, Site: Site{Totals: p.Totals, Humans: p.Humans}}
	for _, row := range p.Site {
		of.Checksum(&info.Agents, row)
	}
	return info
}

// encode appends a page to a record. site are its totals in there.
func encode(of *analytics.Shape, b []byte, p analytics.Page) (record, site []byte) {
	b = appendText(appendTruth(binary.AppendUvarint(b, uint64(p.Offset)), p.HasMore), string(p.Humans))
	head := len(b)
	var row analytics.Record
	fields := of.Fields(&row)
	if of.Site {
		b = binary.AppendUvarint(b, uint64(len(p.Site)))
		for _, row = range p.Site {
			b = appendFields(b, fields)
		}
	} else {
		b = appendTotals(b, p.Totals)
	}
	site = b[head:]
	b = binary.AppendUvarint(b, uint64(len(p.Rows)))
	for _, row = range p.Rows {
		b = appendFields(appendText(b, *fields.Texts[0]), fields)
	}
	return b, site
}

// siteRows decodes the rows of the site in totals that decode or encode have returned.
func siteRows(of *analytics.Shape, totals []byte) (site []analytics.Record) {
	d := decoder{b: totals, names: map[string]string{}}
	if !of.Site || len(totals) == 0 {
		return nil
	}
	for n := d.uvarint(); n > 0; n-- {
		var row analytics.Record
		d.fields(of.Fields(&row))
		site = append(site, row)
	}
	return site
}

// appendFields appends all of a row but its path.
func appendFields(b []byte, f analytics.Fields) []byte {
	for _, text := range f.Texts[1:] {
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

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// decode is the inverse of encode. It passes each row to visit, without its path, which is valid only during the
// call. After an error, some rows may have been passed on. names are those that came before: few names
// are in many rows.
func decode(
	of *analytics.Shape, payload []byte, names map[string]string, visit func(path []byte, row analytics.Record),
) (p pageRecord, err error) {
	d := decoder{b: payload[1:], names: names}
	var row analytics.Record
	fields := of.Fields(&row)
	p.offset = int(d.uvarint())
	p.HasMore = d.truth()
	p.Humans = analytics.Humans(d.name())
	p.site = d.b
	if of.Site {
		for n := d.uvarint(); n > 0 && !d.bad; n-- {
			d.fields(fields)
			of.Checksum(&p.Site.Agents, row)
		}
	} else {
		for _, n := range p.Site.Totals.Fields() {
			*n = d.count()
		}
	}
	p.site = p.site[:len(p.site)-len(d.b)]
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad = true
	}
	for ; uint64(p.Rows) < n && !d.bad; p.Rows++ {
		path := d.take(d.uvarint())
		if d.fields(fields); !d.bad {
			visit(path, row)
		}
	}
	if d.bad || len(d.b) > 0 {
		return p, fmt.Errorf("page record: %w", errTorn)
	}
	return p, nil
}

type decoder struct {
	b     []byte
	bad   bool
	names map[string]string
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) truth() bool { return string(d.take(1)) == "\x01" }

func (d *decoder) name() string {
	raw := d.take(d.uvarint())
	name, known := d.names[string(raw)]
	if !known {
		name = string(raw)
		d.names[name] = name
	}
	return name
}

func (d *decoder) count() int64 { return int64(d.uvarint()) }

// fields reads what appendFields wrote.
func (d *decoder) fields(f analytics.Fields) {
	for _, text := range f.Texts[1:] {
		*text = d.name()
	}
	for _, truth := range f.Truths {
		*truth = d.truth()
	}
	for _, count := range f.Counts {
		*count = d.count()
	}
}
