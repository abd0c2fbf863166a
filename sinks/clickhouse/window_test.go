package clickhouse

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// window is a sealed window that makes its rows, each of which carries the
// number of the revision in Human.
type window struct {
	rev  analytics.Revision
	size int // of a path
}

func (w window) Revision() analytics.Revision { return w.rev }

func (w window) Open() (*os.File, error) { return nil, errors.New("a window without a file") }

func (w window) Rows() iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		tail := strings.Repeat("x", max(w.size-20, 0))
		for i := range w.rev.Rows {
			path := fmt.Sprintf("/docs/page-%08d%s", i, tail)
			if !yield(analytics.Row{Path: path, Human: int64(w.rev.Number), AI: 7, Total: int64(w.rev.Number) + 3}, nil) {
				return
			}
		}
	}
}

// windowOf is a revision of the given day of prj_a with n rows.
func windowOf(day int, number int32, n int64) window {
	rev := sinktest.Revision(sinktest.Key("prj_a", day), number)
	rev.Rows = n
	return window{rev: rev, size: 30}
}
