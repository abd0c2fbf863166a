package clickhouse

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// Revisions yields what the views show, from the markers.
func (s *Sink) Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	return func(yield func(analytics.Revision, error) bool) {
		if err := s.revisions(ctx, func(r analytics.Revision) bool { return yield(r, nil) }); err != nil {
			yield(analytics.Revision{}, sinks.NotListed(name, s.explain(err)))
		}
	}
}

func (s *Sink) revisions(ctx context.Context, yield func(analytics.Revision) bool) error {
	ses, err := s.open(ctx)
	if err != nil {
		return err
	}
	// LIMIT 1 BY: a marker that came twice is one.
	rows, err := ses.conn.Query(ctx, fmt.Sprintf("SELECT %s FROM %s ORDER BY %s, attempt DESC LIMIT 1 BY %s",
		names(windowColumns), ses.in(windowsTable), keyColumns, keyColumns))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		rev, err := scan(rows)
		if err != nil {
			return err
		}
		if !yield(rev) {
			return nil
		}
	}
	return rows.Err()
}

func scan(rows interface{ Scan(...any) error }) (rev analytics.Revision, err error) {
	var granularity string
	var from, to time.Time
	var attempt uint64
	var settled, verified uint8
	var exported int64
	err = rows.Scan(&rev.Project, &granularity, &from, &to, &attempt, &rev.Totals.Human, &rev.Totals.AI, &rev.Totals.Total, &rev.Rows,
		&rev.Number, &settled, &verified, &exported)
	rev.Granularity = analytics.Granularity(granularity)
	// A Date comes as midnight in the server's zone.
	rev.From, rev.To = analytics.NewDate(from.Date()), analytics.NewDate(to.Date())
	rev.Settled, rev.Verified = settled == 1, verified == 1
	rev.ExportedAt = time.UnixMicro(exported).UTC()
	return rev, err
}
