package sinktest

import (
	"fmt"
	"iter"
	"path/filepath"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
)

// Seal writes rev and rows to a window file in a temporary directory.
func Seal(t testing.TB, rev analytics.Revision, rows iter.Seq2[analytics.Row, error]) *archive.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "window")
	if _, err := archive.Write(path, rev, rows); err != nil {
		t.Fatal(err)
	}
	f, err := archive.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Key names the day window of project that begins day days after 2026-10-01.
func Key(project string, day int) analytics.Key {
	from := analytics.NewDate(2026, 10, 1+day)
	return analytics.Key{Project: project, Granularity: analytics.Day, Window: analytics.Window{From: from, To: from + 1}}
}

// Revision returns revision number of key. Its totals, flags and time follow
// from the number, so that two revisions differ in everything.
func Revision(key analytics.Key, number int32) analytics.Revision {
	n := int64(number)
	return analytics.Revision{
		Key:        key,
		Number:     number,
		Settled:    number%2 == 0,
		Verified:   number%3 != 0,
		Totals:     analytics.Totals{Human: 1000 * n, AI: 100 * n, Total: 1050 * n},
		ExportedAt: time.Date(2026, 11, 1, 0, 0, int(number), 123_456_000, time.UTC),
	}
}

// TotalsOnly returns rev as one of which only totals were read.
func TotalsOnly(rev analytics.Revision) analytics.Revision {
	rev.Rows = analytics.TotalsOnlyRows
	return rev
}

// Pages yields n rows.
func Pages(n int) iter.Seq2[analytics.Row, error] { return pagesOf(n, 1) }

// pagesOf yields n rows whose counts tell the revision they belong to.
func pagesOf(n int, number int32) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		for i := range n {
			human := int64(number)*1_000_000 + int64(i)
			if !yield(analytics.Row{Path: fmt.Sprintf("/docs/page-%07d", i), Human: human, AI: 7, Total: human + 3}, nil) {
				return
			}
		}
	}
}

func list(rows ...analytics.Row) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}
