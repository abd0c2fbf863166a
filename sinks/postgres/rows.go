package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docgauge/docgauge/internal/analytics"
)

// copied are the columns of a row that COPY gets: all but the one that is generated.
var copied = visitorsColumns[:len(visitorsColumns)-1]

// chunk is how much of the rows is handed to the driver at once: what it sends at once,
// less room for a row.
const chunk = 60 << 10

// copyRows sends the rows of a revision by COPY. An error of the rows is returned as it
// is, and ends the COPY.
func (ses *session) copyRows(ctx context.Context, conn *pgxpool.Conn, rev analytics.Revision, rows iter.Seq2[analytics.Row, error]) error {
	if rev.Rows <= 0 {
		return nil
	}
	r, w := io.Pipe()
	var read int64
	var broken error
	done := make(chan struct{})
	go func() {
		defer close(done)
		read, broken = encodeRows(w, rev, rows)
		_ = w.CloseWithError(broken) // nil is the end of the file; it never fails
	}()
	tag, err := conn.Conn().PgConn().CopyFrom(ctx, r, fmt.Sprintf("COPY %s (%s) FROM STDIN (FORMAT binary)", ses.in(visitorsTable), names(copied)))
	_ = r.CloseWithError(errEnded) // lets the writer end; it never fails
	<-done
	switch {
	case broken != nil && !errors.Is(broken, errEnded):
		return broken
	case err != nil:
		return err
	case tag.RowsAffected() != rev.Rows:
		return fmt.Errorf("the window has %d rows, its file %d, and the server took %d", rev.Rows, read, tag.RowsAffected())
	}
	return nil
}

// errEnded is the error of rows that nobody takes any more.
var errEnded = errors.New("the COPY has ended")

// encodeRows writes rows in the binary format of COPY, and returns how many. The driver
// could do that from values, but boxes and looks up each of them, which takes longer than
// reading the rows.
func encodeRows(w io.Writer, rev analytics.Revision, rows iter.Seq2[analytics.Row, error]) (n int64, err error) {
	e := newEncoder(rev)
	for r, err := range rows {
		if err != nil {
			return n, err
		}
		e.row(r)
		n++
		if len(e.buf) < chunk {
			continue
		}
		if _, err := w.Write(e.buf); err != nil {
			return n, err
		}
		e.buf = e.buf[:0]
	}
	_, err = w.Write(binary.BigEndian.AppendUint16(e.buf, 0xffff)) // the end
	return n, err
}

// encoder encodes rows of one revision. What they have in common is encoded once.
type encoder struct{ head, tail, buf []byte }

func newEncoder(rev analytics.Revision) *encoder {
	e := &encoder{buf: append(make([]byte, 0, chunk+4<<10), "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)}
	e.head = binary.BigEndian.AppendUint16(nil, uint16(len(copied)))
	e.head = appendText(appendText(e.head, rev.Project), string(rev.Granularity))
	e.head = appendInt32(appendInt32(e.head, sinceEpoch(rev.From)), sinceEpoch(rev.To))
	e.tail = appendBool(appendBool(appendInt32(e.tail, rev.Number), rev.Settled), rev.Verified)
	e.tail = appendInt64(e.tail, rev.ExportedAt.UnixMicro()-epoch.UnixMicro())
	return e
}

func (e *encoder) row(r analytics.Row) {
	path, whole := storable(r.Path)
	b := appendText(append(e.buf, e.head...), path)
	b = appendInt64(appendInt64(appendInt64(b, r.Human), r.AI), r.Total)
	b = append(b, e.tail...)
	if whole {
		b = binary.BigEndian.AppendUint32(b, 0xffffffff) // NULL
	} else {
		b = appendText(b, r.Path)
	}
	e.buf = b
}

// epoch is that of dates and times in PostgreSQL.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func sinceEpoch(d analytics.Date) int32 { return int32(d - analytics.DateOf(epoch)) }

// storable returns a path as text can hold it, and whether that is the path.
func storable(path string) (text string, whole bool) {
	if strings.IndexByte(path, 0) < 0 && utf8.ValidString(path) {
		return path, true
	}
	return strings.ReplaceAll(strings.ToValidUTF8(path, "\ufffd"), "\x00", "\u2400"), false
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

func appendInt32(b []byte, n int32) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 4), uint32(n))
}

func appendInt64(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), uint64(n))
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 0, 0, 0, 1, 1)
	}
	return append(b, 0, 0, 0, 1, 0)
}
