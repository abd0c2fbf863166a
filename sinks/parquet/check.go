package parquet

import (
	"context"
	"fmt"
)

// Check proves that a window could be published now: it makes the directory if
// need be, and writes and removes a file in _staging. Its errors name the place
// and the reason.
func (s *Sink) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.tree.check(ctx); err != nil {
		return fmt.Errorf("parquet sink: cannot write: %w", err)
	}
	return nil
}
