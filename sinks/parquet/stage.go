package parquet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// leftoverAge is the age at which a staging file is one of a dead process.
	leftoverAge = time.Hour
	// copyChunk is how many bytes are copied between two looks at ctx.
	copyChunk = 64 << 10
	fileMode  = 0o644
)

func (s *Sink) staging() string { return filepath.Join(s.root, stagingName) }

// stagingFile returns a new name that no other process has.
func (s *Sink) stagingFile() string { return filepath.Join(s.staging(), rand.Text()+stagedSuffix) }

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

// sweep removes staging files of processes that died. Those of a process that
// lives are younger; one that cannot be removed takes room but does no harm.
func (s *Sink) sweep() {
	entries, _ := os.ReadDir(s.staging())
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasSuffix(e.Name(), stagedSuffix) && time.Since(info.ModTime()) > leftoverAge {
			_ = os.Remove(filepath.Join(s.staging(), e.Name()))
		}
	}
}
