package clickhouse

import (
	"context"
	"fmt"
)

// Count returns how many windows and rows of a project the views show.
func (s *Sink) Count(ctx context.Context, project string) (windows, rows int64, err error) {
	ses, err := s.open(ctx)
	if err != nil {
		return 0, 0, s.explain(err)
	}
	for view, n := range map[string]*int64{totalsView: &windows, visitorsView: &rows} {
		counted, err := ses.number(ctx, fmt.Sprintf("SELECT toUInt64(count()) FROM %s WHERE project = %s", ses.in(view), quote(project)))
		if err != nil {
			return 0, 0, s.explain(err)
		}
		*n = int64(counted)
	}
	return windows, rows, nil
}
