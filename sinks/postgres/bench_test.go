package postgres

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// BenchmarkReplace compares the sink with a bare CopyFrom of pgx, which copies the same
// rows into the same tables, a window in each transaction. Both have four windows at
// once. The server writes as it does by default.
func BenchmarkReplace(b *testing.B) {
	e, err := engines.StartPostgres(b.TempDir(), debian, "fsync = on", "shared_buffers = '128MB'", "max_wal_size = '4GB'")
	engines.Need(b, err)
	defer func() { _ = e.Stop() }()
	for _, size := range []struct{ rows, windows int }{{1000, 400}, {20_000, 40}} {
		var all []sinks.Sealed
		for i := range size.windows {
			all = append(all, sinktest.Seal(b, sinktest.Revision(sinktest.Key("prj_a", i), 1), sinktest.Pages(size.rows)))
		}
		admin := connect(b, e.DSN("postgres"))
		for name, write := range map[string]func(b *testing.B, dsn string, all []sinks.Sealed){"docgauge": docgauge, "bare": bare} {
			b.Run(fmt.Sprintf("%d/%s", size.rows, name), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					name := fmt.Sprintf("b%d", shared.count.Add(1))
					admin.must("CREATE DATABASE " + name)
					if err := open(b, e.DSN(name)).Check(b.Context()); err != nil {
						b.Fatal(err)
					}
					admin.must("CHECKPOINT")
					b.StartTimer()
					write(b, e.DSN(name), all)
				}
				b.ReportMetric(float64(size.rows*size.windows*b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

const windowsTogether = 4

func docgauge(b *testing.B, dsn string, all []sinks.Sealed) {
	s := open(b, dsn)
	together(b, all, func(ctx context.Context, w sinks.Sealed) error { return s.Replace(ctx, w) })
}

func together(b *testing.B, all []sinks.Sealed, write func(context.Context, sinks.Sealed) error) {
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(windowsTogether)
	for _, w := range all {
		group.Go(func() error { return write(ctx, w) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

func bare(b *testing.B, dsn string, all []sinks.Sealed) {
	pool, err := pgxpool.New(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	var columns []string
	for _, c := range copied {
		columns = append(columns, c.name)
	}
	together(b, all, func(ctx context.Context, w sinks.Sealed) error {
		rev := w.Revision()
		rows := make([]analytics.Row, 0, rev.Rows)
		for r, err := range w.Rows() {
			if err != nil {
				return err
			}
			rows = append(rows, r)
		}
		from, to := rev.From.Time(), rev.To.Time()
		_, err := pool.CopyFrom(ctx, pgx.Identifier{visitorsTable}, slices.Clone(columns), pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
			r := rows[i]
			return []any{rev.Project, string(rev.Granularity), from, to, r.Path, r.Human, r.AI, r.Total, rev.Number, rev.Settled, rev.Verified, rev.ExportedAt, nil}, nil
		}))
		return err
	})
}
