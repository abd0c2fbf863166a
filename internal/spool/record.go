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
	kindPage   = 'P' // offset, hasMore, totals, rows

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

// appendPage appends a page to a record.
func appendPage(b []byte, p analytics.Page) []byte {
	b = binary.AppendUvarint(b, uint64(p.Offset))
	var more byte
	if p.HasMore {
		more = 1
	}
	b = appendCounts(append(b, more), p.Totals.Human, p.Totals.AI, p.Totals.Total)
	b = binary.AppendUvarint(b, uint64(len(p.Rows)))
	for _, r := range p.Rows {
		b = binary.AppendUvarint(b, uint64(len(r.Path)))
		b = append(b, r.Path...)
		b = appendCounts(b, r.Human, r.AI, r.Total)
	}
	return b
}

func appendCounts(b []byte, counts ...int64) []byte {
	for _, c := range counts {
		b = binary.AppendUvarint(b, uint64(c))
	}
	return b
}

// decodePage is the inverse of appendPage. It passes each row to visit; the path is valid only
// during the call. After an error, some rows may have been passed on.
func decodePage(
	payload []byte, visit func(path []byte, counts analytics.Totals),
) (page analytics.Page, rows int, err error) {
	d := decoder{b: payload[1:]}
	page.Offset = int(d.uvarint())
	page.HasMore = string(d.take(1)) == "\x01"
	page.Totals = d.totals()
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad = true
	}
	for ; uint64(rows) < n && !d.bad; rows++ {
		path := d.take(d.uvarint())
		if counts := d.totals(); !d.bad {
			visit(path, counts)
		}
	}
	if d.bad || len(d.b) > 0 {
		return page, rows, fmt.Errorf("page record: %w", errTorn)
	}
	return page, rows, nil
}

type decoder struct {
	b   []byte
	bad bool
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

func (d *decoder) totals() analytics.Totals {
	return analytics.Totals{Human: int64(d.uvarint()), AI: int64(d.uvarint()), Total: int64(d.uvarint())}
}
