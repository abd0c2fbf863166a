package clickhouse

import (
	"context"
	"fmt"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// Top has the server sort the pages of rev.
func (s *Sink) Top(ctx context.Context, rev analytics.Revision, n int) ([]analytics.Row, error) {
	ses, err := s.open(ctx)
	if err != nil {
		return nil, s.explain(err)
	}
	pages, err := ses.top(ctx, rev, n)
	if err == nil && len(pages) == 0 && rev.Rows > 0 && n > 0 {
		err = sinks.ErrOtherRevision
	}
	if err != nil {
		return nil, s.explain(err)
	}
	return pages, nil
}

func (ses *session) top(ctx context.Context, rev analytics.Revision, n int) (pages []analytics.Row, err error) {
	rows, err := ses.conn.Query(ctx, fmt.Sprintf("SELECT path, human, ai, total FROM %s WHERE %s AND revision = %d ORDER BY total DESC, path LIMIT %d",
		ses.in(visitorsView), is(rev.Key), rev.Number, n))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var p analytics.Row
		if err := rows.Scan(&p.Path, &p.Human, &p.AI, &p.Total); err != nil {
			return nil, err
		}
		pages = append(pages, p)
	}
	return pages, rows.Err()
}
