package postgres

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docgauge/docgauge/internal/analytics"
)

// copied are the columns of a row that COPY gets: all but the one that is generated.
var copied = visitorsColumns[:len(visitorsColumns)-1]

// copyRows sends the rows of a revision by COPY. An error of the rows is returned unchanged,
// and ends the COPY.
func (ses *session) copyRows(
	ctx context.Context, conn *pgxpool.Conn, rev analytics.Revision, rows iter.Seq2[analytics.Row, error],
) error {
	if rev.Rows <= 0 {
		return nil
	}
	next, stop := iter.Pull2(rows)
	defer stop()
	var broken error
	read := 0
	values := append(keyValues(rev.Key), make([]any, len(copied)-len(windowColumns))...)
	values[2], values[3] = rev.From.Time(), rev.To.Time()
	copy(values[8:], []any{rev.Number, rev.Settled, rev.Verified, rev.ExportedAt})
	source := pgx.CopyFromFunc(func() ([]any, error) {
		r, err, more := next()
		if !more || err != nil {
			broken = err
			return nil, err
		}
		read++
		path, whole := storable(r.Path)
		values[4], values[5], values[6], values[7], values[12] = path, r.Human, r.AI, r.Total, nil
		if !whole {
			values[12] = []byte(r.Path)
		}
		return values, nil
	})
	took, err := conn.CopyFrom(ctx, ses.identifier(visitorsTable), nameList(copied), source)
	switch {
	case broken != nil:
		return broken
	case err != nil:
		return err
	case took != rev.Rows:
		return fmt.Errorf("the window has %d rows, its file %d, and the server took %d: %s", rev.Rows, read, took,
			hintTriggers(visitorsTable))
	}
	return nil
}

// storable returns a path as text can hold it, and whether that is the path.
func storable(path string) (text string, whole bool) {
	if strings.IndexByte(path, 0) < 0 && utf8.ValidString(path) {
		return path, true
	}
	return strings.ReplaceAll(strings.ToValidUTF8(path, "\ufffd"), "\x00", "\u2400"), false
}
