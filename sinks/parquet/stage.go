package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

// copyChunk is how many bytes are copied between two looks at ctx.
const copyChunk = 64 << 10

// stageVisitors copies the sealed file of w to path, durably, and reads its
// footer back: what is published is a whole window file of this revision.
func stageVisitors(ctx context.Context, path string, w sinks.Sealed) error {
	in, err := w.Open()
	if err != nil {
		return fmt.Errorf("sealed window: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	err = copyAll(ctx, out, in)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("copy %s: %w", in.Name(), err)
	}
	staged, err := archive.Open(path)
	if err != nil {
		return fmt.Errorf("sealed window %s: %w", in.Name(), err)
	}
	if !same(staged.Revision(), w.Revision()) {
		return fmt.Errorf("sealed window %s: holds %s revision %d, want revision %d as it was sealed", in.Name(),
			staged.Revision().Key, staged.Revision().Number, w.Revision().Number)
	}
	return nil
}

func copyAll(ctx context.Context, out io.Writer, in io.Reader) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err := io.CopyN(out, in, copyChunk)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at("visitors partly staged")
	}
}

// same reports whether a and b are one revision, to the microsecond that files keep.
func same(a, b analytics.Revision) bool {
	sameTime := a.ExportedAt.Truncate(time.Microsecond).Equal(b.ExportedAt.Truncate(time.Microsecond))
	a.ExportedAt, b.ExportedAt = time.Time{}, time.Time{}
	return sameTime && a == b
}
