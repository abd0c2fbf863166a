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
	kindRows   = 'R' // rows: a block of a sorted run

	recordHead = 8
	// maxRecord is the longest payload. A page comes from a body of at most 16 MiB.
	maxRecord = 32 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errTorn marks the end of what can be trusted in a page log.
var errTorn = errors.New("torn record")

// writeRecord writes a record in one Write. record has recordHead free bytes
// and then the payload.
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

// newRecord reuses buf for a record of the given kind.
func newRecord(buf []byte, kind byte) []byte {
	return append(append(buf[:0], make([]byte, recordHead)...), kind)
}

// readRecord reads into buf, which it may grow, and returns the payload: io.EOF
// at a clean end, errTorn where the rest cannot be trusted.
func readRecord(r *bufio.Reader, buf []byte) ([]byte, error) {
	var head [recordHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errTorn
		}
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:4])
	if n == 0 || n > maxRecord {
		return nil, errTorn
	}
	buf, err := readBytes(r, buf[:0], int(n))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errTorn
	}
	if err != nil {
		return nil, err
	}
	if crc32.Checksum(buf, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, errTorn
	}
	return buf, nil
}

// readBytes appends n bytes of r to buf. It allocates memory as bytes come, so
// that a damaged length costs no more than the file has.
func readBytes(r io.Reader, buf []byte, n int) ([]byte, error) {
	for have := 0; have < n; {
		step := min(n-have, max(have, 1<<16))
		buf = slices.Grow(buf, step)[:have+step]
		m, err := io.ReadFull(r, buf[have:])
		have += m
		if err != nil {
			return buf[:have], err
		}
	}
	return buf, nil
}

func appendRows(b []byte, rows []analytics.Row) []byte {
	b = binary.AppendUvarint(b, uint64(len(rows)))
	for _, r := range rows {
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

func appendPage(b []byte, p analytics.Page) []byte {
	b = binary.AppendUvarint(b, uint64(p.Offset))
	var more byte
	if p.HasMore {
		more = 1
	}
	b = append(b, more)
	b = appendCounts(b, p.Totals.Human, p.Totals.AI, p.Totals.Total)
	return appendRows(b, p.Rows)
}

// decoder reads a payload as one string, so that paths are slices of it.
type decoder struct {
	s   string
	bad bool
}

func (d *decoder) uvarint() uint64 {
	var v uint64
	for i := 0; i < len(d.s) && i < binary.MaxVarintLen64; i++ {
		v |= uint64(d.s[i]&0x7f) << (7 * i)
		if d.s[i] < 0x80 {
			d.s = d.s[i+1:]
			return v
		}
	}
	d.bad = true
	return 0
}

func (d *decoder) take(n uint64) string {
	if n > uint64(len(d.s)) {
		d.bad = true
		return ""
	}
	taken := d.s[:n]
	d.s = d.s[n:]
	return taken
}

func (d *decoder) totals() analytics.Totals {
	return analytics.Totals{Human: int64(d.uvarint()), AI: int64(d.uvarint()), Total: int64(d.uvarint())}
}

func (d *decoder) row() analytics.Row {
	path := d.take(d.uvarint())
	t := d.totals()
	return analytics.Row{Path: path, Human: t.Human, AI: t.AI, Total: t.Total}
}

// rows reads rows to the end of the payload.
func (d *decoder) rows(into []analytics.Row) ([]analytics.Row, error) {
	n := d.uvarint()
	if d.bad || n > uint64(len(d.s)) {
		return into, errTorn
	}
	for i := uint64(0); i < n && !d.bad; i++ {
		into = append(into, d.row())
	}
	if d.bad || d.s != "" {
		return into, errTorn
	}
	return into, nil
}

func decodePage(payload []byte) (analytics.Page, error) {
	d := &decoder{s: string(payload[1:])}
	p := analytics.Page{Offset: int(d.uvarint())}
	p.HasMore = d.take(1) == "\x01"
	p.Totals = d.totals()
	rows, err := d.rows(nil)
	p.Rows = rows
	if err != nil {
		return p, fmt.Errorf("page record: %w", err)
	}
	return p, nil
}
