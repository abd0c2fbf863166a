package parquet

import (
	"context"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/sinks"
)

// busy is a tree in which another process replaces a window just before the second
// of its files is opened.
type busy struct {
	filestore.Store
	opened  int
	replace func()
}

func (b *busy) Open(ctx context.Context, name string) (filestore.File, error) {
	if b.opened++; b.opened == 2 {
		b.replace()
	}
	return b.Store.Open(ctx, name)
}

// TestListWhileAnotherWrites: List shows one reading or the other.
func TestListWhileAnotherWrites(t *testing.T) {
	for name, tc := range map[string]struct{ former, next *archive.File }{
		"rows over rows":        {seal(t, 1, 3), seal(t, 2, 4)},
		"totals only over rows": {seal(t, 1, 3), sealTotals(t, 2)},
		"rows over totals only": {sealTotals(t, 1), seal(t, 2, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			writer := newSink(t, t.TempDir())
			replace(t, writer, tc.former)
			s := &Sink{store: &busy{Store: writer.store, replace: func() { replace(t, writer, tc.next) }}}
			var got []analytics.Revision
			for rev, err := range sinks.List(t.Context(), s) {
				check(t, err)
				got = append(got, rev)
			}
			if len(got) != 1 || got[0].Number != 2 {
				t.Errorf("List yields %+v, want the second reading", got)
			}
		})
	}
}

// TestListReadsOnly: a bucket is asked for lists and objects and nothing else,
// also where a repair is due and where rows are read.
func TestListReadsOnly(t *testing.T) {
	far, near, p := behindProxy(t)
	w := seal(t, 1, 3)
	replace(t, near, w)
	name, err := place(totalsTable, w.Revision().Key)
	check(t, err)
	check(t, near.store.Remove(t.Context(), name))
	p.Set(nil)
	for rev, err := range sinks.List(t.Context(), far) {
		if err != nil || rev.Number != 1 {
			t.Fatalf("List yields %+v, %v", rev, err)
		}
		_, done, err := far.Window(t.Context(), rev, t.TempDir())
		check(t, err)
		if err := done(); err != nil {
			t.Error(err)
		}
	}
	requests, _ := p.Seen()
	for _, request := range requests {
		if !strings.HasPrefix(request, "GET ") && !strings.HasPrefix(request, "HEAD ") {
			t.Errorf("List sends %s", request)
		}
	}
	if len(requests) < 3 {
		t.Errorf("requests %v: too few to tell", requests)
	}
}
