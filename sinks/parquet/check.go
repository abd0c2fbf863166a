package parquet

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// checkBytes is enough that a full disk has no room for it left in a block.
const checkBytes = 64 << 10

// Check proves that a window could be published now: it makes the directory if
// need be, and writes, flushes and removes a file in _staging. Its errors name
// the directory and the reason.
func (s *Sink) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("parquet sink: cannot write: %w", err)
	}
	return nil
}

func (s *Sink) check() error {
	if err := s.prepare(); err != nil {
		return err
	}
	f, err := os.OpenFile(s.stagingFile(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, checkBytes))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
