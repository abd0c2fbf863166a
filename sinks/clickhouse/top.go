package clickhouse

import (
	"context"
	"fmt"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Top returns the n pages with the most visitors of a reading, ordered as by
// [analytics.Top]; none if the views show another reading of the window by now.
func (s *Sink) Top(ctx context.Context, rev analytics.Revision, n int) ([]analytics.Row, error) {
	ses, err := s.open(ctx)
	if err != nil {
		return nil, s.explain(err)
	}
	pages, err := ses.top(ctx, rev, n)
	if err != nil {
		return nil, fmt.Errorf("pages of %s: %w", rev.Key, s.explain(err))
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
