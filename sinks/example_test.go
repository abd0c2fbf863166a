package sinks_test

import (
	"context"
	"fmt"
	"iter"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// A window is committed whole; committing a later revision replaces it.
func ExampleSink() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var sink sinks.Sink = sinktest.NewMemory()
	for number, rows := range [][]analytics.Row{
		{{Path: "/start", Totals: analytics.Totals{Human: 3, AI: 1, Total: 4}}},
		{{Path: "/install", Totals: analytics.Totals{Human: 9, AI: 2, Total: 11}},
			{Path: "/start", Totals: analytics.Totals{Human: 5, AI: 1, Total: 6}}},
	} {
		if err := sink.Replace(ctx, seal(dir, int32(number)+1, rows)); err != nil {
			log.Fatal(err)
		}
	}
	for rev, err := range sinks.List(ctx, sink) {
		if err != nil {
			log.Fatal(err)
		}
		top, err := sinks.Top(ctx, sink, rev, 1, dir)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: revision %d with %d rows, most visitors on %s\n", rev.Key, rev.Number, rev.Rows, top[0].Path)
	}
	// Output: prj_docs day [2026-10-01,2026-10-02): revision 2 with 2 rows, most visitors on /install
}

// seal writes a window file, as the spool does.
func seal(dir string, number int32, rows []analytics.Row) *archive.File {
	from := analytics.NewDate(2026, 10, 1)
	rev := analytics.Revision{
		Key: analytics.Key{Project: "prj_docs", Granularity: analytics.Day,
			Window: analytics.Window{From: from, To: from + 1}},
		Number: number, Verified: true, ExportedAt: time.Date(2026, 10, 2, 6, 0, int(number), 0, time.UTC),
	}
	path := filepath.Join(dir, fmt.Sprint(number))
	if _, err := archive.Write(path, rev, analytics.Records(all(rows))); err != nil {
		log.Fatal(err)
	}
	file, err := archive.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	return file
}

func all(rows []analytics.Row) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}
