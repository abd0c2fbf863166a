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
	kindPage   = 'P' // offset, hasMore, totals, rows: of the report that the header names

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

// dataset is how the rows of a report are read from a page log and ordered: C is a row without its path.
type dataset[C, R any] struct {
	// totals reads the totals of a page.
	totals func(d *decoder, p *pageRecord)
	counts func(d *decoder) C
	// compare orders rows of one path; rows that are equal are the same.
	compare func(a, b C) int
	row     func(path string, c C) R
	count   func(s *analytics.Sum, c C)
}

var visitors = &dataset[analytics.Totals, analytics.Row]{
	totals:  func(d *decoder, p *pageRecord) { p.Site.Totals = d.totals() },
	counts:  (*decoder).totals,
	compare: func(_, _ analytics.Totals) int { return 0 },
	row:     rowOf,
	count:   func(s *analytics.Sum, c analytics.Totals) { s.Count(rowOf("", c)) },
}

var agents = &dataset[analytics.AgentRow, analytics.AgentRow]{
	totals: func(d *decoder, p *pageRecord) {
		for n := d.uvarint(); n > 0 && !d.bad; n-- {
			p.site = append(p.site, d.agent())
		}
		p.Site.Agents = fingerprint(p.site)
	},
	counts:  (*decoder).agent,
	compare: analytics.AgentRow.Compare,
	row: func(path string, r analytics.AgentRow) analytics.AgentRow {
		r.Path = path
		return r
	},
	count: func(s *analytics.Sum, _ analytics.AgentRow) { s.Rows++ },
}

func rowOf(path string, counts analytics.Totals) analytics.Row {
	return analytics.Row{Path: path, Human: counts.Human, AI: counts.AI, Total: counts.Total}
}

// fingerprint is the same for the same rows, in any order.
func fingerprint(site []analytics.AgentRow) (sum analytics.Checksum) {
	for _, row := range site {
		sum.AddAgent(row)
	}
	return sum
}

// pageRecord is what a record says of a page, apart from its rows.
type pageRecord struct {
	PageInfo
	offset int
	site   []analytics.AgentRow // the totals of a page of agents
}

// InfoOf describes a page.
func InfoOf(p analytics.Page) PageInfo {
	return PageInfo{Rows: len(p.Rows), HasMore: p.HasMore, Site: Site{Totals: p.Totals}}
}

// InfoOfAgents describes a page of agents.
func InfoOfAgents(p analytics.AgentsPage) PageInfo {
	return PageInfo{Rows: len(p.Rows), HasMore: p.HasMore, Site: Site{Agents: fingerprint(p.Totals)}}
}

// appendPage appends a page to a record.
func appendPage(b []byte, p analytics.Page) []byte {
	b = appendCounts(appendPlace(b, p.Offset, p.HasMore), p.Totals.Human, p.Totals.AI, p.Totals.Total)
	b = binary.AppendUvarint(b, uint64(len(p.Rows)))
	for _, r := range p.Rows {
		b = appendCounts(appendText(b, r.Path), r.Human, r.AI, r.Total)
	}
	return b
}

// appendAgents appends a page of agents to a record.
func appendAgents(b []byte, p analytics.AgentsPage) []byte {
	b = binary.AppendUvarint(appendPlace(b, p.Offset, p.HasMore), uint64(len(p.Totals)))
	for _, r := range p.Totals {
		b = appendAgent(b, r)
	}
	b = binary.AppendUvarint(b, uint64(len(p.Rows)))
	for _, r := range p.Rows {
		b = appendAgent(appendText(b, r.Path), r)
	}
	return b
}

// appendAgent appends all of a row but its path.
func appendAgent(b []byte, r analytics.AgentRow) []byte {
	b = appendText(appendText(appendText(b, r.Agent), r.Class), string(r.Audience))
	return appendCounts(appendTruth(b, r.Found), r.Visitors, r.Requests)
}

func appendPlace(b []byte, offset int, hasMore bool) []byte {
	return appendTruth(binary.AppendUvarint(b, uint64(offset)), hasMore)
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

func appendCounts(b []byte, counts ...int64) []byte {
	for _, c := range counts {
		b = binary.AppendUvarint(b, uint64(c))
	}
	return b
}

// decodePage is the inverse of appendPage and appendAgents. It passes each row to visit; the path is
// valid only during the call. After an error, some rows may have been passed on. names are those
// that came before: few names are in many rows.
func decodePage[C, R any](
	payload []byte, of *dataset[C, R], names map[string]string, visit func(path []byte, counts C),
) (p pageRecord, err error) {
	d := decoder{b: payload[1:], names: names}
	p.offset = int(d.uvarint())
	p.HasMore = d.truth()
	of.totals(&d, &p)
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad = true
	}
	for ; uint64(p.Rows) < n && !d.bad; p.Rows++ {
		path := d.take(d.uvarint())
		if counts := of.counts(&d); !d.bad {
			visit(path, counts)
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

func (d *decoder) totals() analytics.Totals {
	return analytics.Totals{Human: int64(d.uvarint()), AI: int64(d.uvarint()), Total: int64(d.uvarint())}
}

// agent reads what appendAgent wrote.
func (d *decoder) agent() analytics.AgentRow {
	return analytics.AgentRow{
		Agent: d.name(), Class: d.name(), Audience: analytics.Audience(d.name()), Found: d.truth(),
		Visitors: int64(d.uvarint()), Requests: int64(d.uvarint()),
	}
}
