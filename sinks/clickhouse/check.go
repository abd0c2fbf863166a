package clickhouse

import (
	"context"
	"fmt"
)

// Check connects, brings the schema up to date, and proves that the user may do
// what exporting does, without writing a row. Its errors name the server and
// what is missing.
func (s *Sink) Check(ctx context.Context) error {
	if err := s.check(ctx); err != nil {
		return s.explain(err)
	}
	return nil
}

func (s *Sink) check(ctx context.Context) error {
	ses, err := s.open(ctx)
	if err != nil {
		return err
	}
	for table, columns := range map[string][]column{rowsTable: rowColumns, windowsTable: windowColumns} {
		insert := fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s WHERE 0", ses.in(table), names(columns), names(columns), ses.in(table))
		if err := ses.conn.Exec(ses.inserting(ctx), insert); err != nil {
			return err
		}
	}
	if err := ses.inStep(ctx); err != nil {
		return err
	}
	for _, view := range []string{visitorsView, totalsView} {
		if err := ses.conn.Exec(ctx, "SELECT * FROM "+ses.in(view)+" WHERE project = '' LIMIT 1"); err != nil {
			return fmt.Errorf("view %s: %w", view, err)
		}
	}
	return nil
}
