package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"iter"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// Look yields what Revisions does, and makes and changes nothing: where docgauge has
// made no tables yet there is no window.
func (s *Sink) Look(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	return func(yield func(analytics.Revision, error) bool) {
		if err := s.lookAt(ctx, func(r analytics.Revision) bool { return yield(r, nil) }); err != nil {
			yield(analytics.Revision{}, fmt.Errorf("%w: %w", sinks.ErrNotListed, s.explain(err)))
		}
	}
}

// lookAt has a connection of its own, since a session is made with its tables.
func (s *Sink) lookAt(ctx context.Context, yield func(analytics.Revision) bool) (err error) {
	conn, err := clickhouse.Open(s.options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.Ping(ctx); err != nil {
		return errConnect{err}
	}
	ses := &session{layout: layout{database: s.options.Auth.Database, cluster: s.cluster}, conn: conn}
	version, _, err := ses.migrated(ctx)
	if err != nil || version == 0 {
		return err
	}
	if err := known(version); err != nil {
		return err
	}
	return ses.revisions(ctx, yield)
}
