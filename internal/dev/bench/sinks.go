package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/delta"
	"github.com/docgauge/docgauge/sinks/postgres"
)

// The two sinks whose loads are compared: Delta Lake with the Parquet sink, PostgreSQL
// with a bare COPY.
const (
	deltaSink    = "Delta Lake"
	postgresSink = "PostgreSQL"

	parquetClient = "docgauge, Parquet sink"
	copiesClient  = "docgauge, copies"
	linksClient   = "docgauge, hard links"
)

// sinkLoadings have windows of the sizes that the aims name, and the many small ones of a
// year and more.
func sinkLoadings(sink string, short bool) []loading {
	if short {
		return []loading{{2_000, 500, 1, true}}
	}
	all := []loading{{1_000_000, 1_000, 3, true}, {1_000_000, 20_000, 3, true}, {10_000_000, 100_000, 1, true}}
	if sink == deltaSink {
		all = append(all, loading{1_000_000, 100, 1, true})
	}
	return all
}

// sinkResult is one row of the table of these loads.
type sinkResult struct {
	sink, client string
	load         loading
	cost         cost
	timesBase    float64 // the speed divided by that of the first client
	entries      int     // of the logs of both Delta tables
}

func (r sinkResult) cells() []string {
	rows, entries := float64(r.load.rows), "-"
	if r.entries > 0 {
		entries = strconv.Itoa(r.entries)
	}
	return []string{
		r.sink, humanize.Comma(int64(r.load.rows)), workload{windows: r.load.windows(), rows: r.load.windowRows}.String(), r.client,
		fmt.Sprintf("%.2f", r.cost.seconds), humanize.Comma(int64(rows / r.cost.seconds)),
		fmt.Sprintf("%.1f", float64(r.load.windows())/r.cost.seconds), fmt.Sprintf("%.2f", r.cost.cpuSeconds/(rows/1e6)),
		mebibytes(r.cost.maxRSS), entries, fmt.Sprintf("%.2f", r.timesBase),
	}
}

// sinkClient loads everything below dir/data into an empty place, and counts what is there.
type sinkClient struct {
	name string
	load func(ctx context.Context, load loading, dir string) (c cost, entries int, err error)
}

// sinksAll measures both sinks. PostgreSQL is left out where it is not installed.
func (l *lab) sinksAll(ctx context.Context, short bool, done func(cells []string)) (all []sinkResult, err error) {
	measure := func(sink string, clients []sinkClient) error {
		for _, load := range sinkLoadings(sink, short) {
			results, err := l.sinkInTurns(ctx, sink, load, clients)
			if err != nil {
				return fmt.Errorf("%s: %w", sink, err)
			}
			for _, r := range results {
				done(r.cells())
			}
			all = append(all, results...)
		}
		return nil
	}
	if err := measure(deltaSink, l.deltaClients()); err != nil {
		return all, err
	}
	server, err := engines.StartPostgres(filepath.Join(l.dir, "postgres"), "15")
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	return all, measure(postgresSink, l.postgresClients(server.DSN("postgres")))
}

// sinkInTurns writes the archive, lets the clients take turns, and returns the median of
// each. The first is what the others are compared with.
func (l *lab) sinkInTurns(ctx context.Context, sink string, load loading, clients []sinkClient) (all []sinkResult, err error) {
	err = l.inDir(func(dir string) error {
		write, err := child(ctx, "archive", dir, strconv.Itoa(load.windows()), strconv.Itoa(load.windowRows))
		if err == nil {
			_, _, err = measure(write)
		}
		if err != nil {
			return err
		}
		runs := make([][]sinkResult, len(clients))
		for range load.rounds {
			for i, client := range clients {
				spent, entries, err := client.load(ctx, load, dir)
				if err != nil {
					return fmt.Errorf("%s: %w", client.name, err)
				}
				runs[i] = append(runs[i], sinkResult{sink: sink, client: client.name, load: load, cost: spent, entries: entries})
			}
		}
		for _, run := range runs {
			r := median(run, func(r sinkResult) float64 { return r.cost.seconds })
			all = append(all, r)
			all[len(all)-1].timesBase = all[0].cost.seconds / r.cost.seconds
		}
		return nil
	})
	return all, err
}

// loadCommand is `docgauge load` with a new state; it loads dir/data.
func (l *lab) loadCommand(ctx context.Context, dir, sink string, env ...string) (*exec.Cmd, error) {
	state := filepath.Join(dir, "state")
	if err := os.RemoveAll(state); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, l.binary, "load", "--sink", sink, "--archive", filepath.Join(dir, "data"))
	cmd.Env = append(cleanEnv(), append(env, "DOCGAUGE_SINKS="+sink, "DOCGAUGE_STATE_DIR="+state, "DOCGAUGE_LOG_LEVEL=error")...)
	return cmd, nil
}

// deltaClients are the Parquet sink, whose files the others make tables of: with data files
// that are copies, and with hard links to the archive's.
func (l *lab) deltaClients() []sinkClient {
	client := func(name, sink string, links bool) sinkClient {
		return sinkClient{name, func(ctx context.Context, load loading, dir string) (c cost, entries int, err error) {
			// What was written stays until the end: a file system that has just deleted many
			// files makes new ones slowly.
			to, err := os.MkdirTemp(dir, sink)
			if err != nil {
				return c, 0, err
			}
			parquet, root := filepath.Join(to, "parquet"), filepath.Join(to, "delta")
			if links {
				parquet = filepath.Join(dir, "data")
			}
			cmd, err := l.loadCommand(ctx, dir, sink, "DOCGAUGE_PARQUET_URL="+parquet, "DOCGAUGE_DELTA_URL="+root)
			if err == nil {
				_, c, err = measure(cmd)
			}
			if err != nil || sink == "parquet" {
				return c, 0, err
			}
			logs, err := filepath.Glob(filepath.Join(root, "*", "_delta_log", "*.json"))
			return c, len(logs), errors.Join(err, countDelta(ctx, root, load.rows))
		}}
	}
	return []sinkClient{
		client(parquetClient, "parquet", false), client(copiesClient, "delta", false), client(linksClient, "delta", true),
	}
}

// countDelta returns an error unless the table has that many rows.
func countDelta(ctx context.Context, root string, rows int) error {
	sink, err := delta.New(delta.Config{URL: root, Now: time.Now})
	if err != nil {
		return err
	}
	got := int64(0)
	for shown, err := range sink.Inspect(ctx, sinks.Scope{}) {
		if err != nil {
			return err
		}
		got += shown.Rows
	}
	if got != int64(rows) {
		err = fmt.Errorf("%s shows %d rows, want %d", root, got, rows)
	}
	return errors.Join(err, sink.Close())
}

// postgresClients are one COPY of everything, a COPY for each window, several at once, and
// docgauge. All write a table with the columns and the key that docgauge makes.
func (l *lab) postgresClients(dsn string) []sinkClient {
	client := func(name string, command func(ctx context.Context, dir string) (*exec.Cmd, error)) sinkClient {
		return sinkClient{name, func(ctx context.Context, load loading, dir string) (c cost, _ int, err error) {
			if err := emptyPostgres(ctx, dsn); err != nil {
				return c, 0, err
			}
			cmd, err := command(ctx, dir)
			if err == nil {
				_, c, err = measure(cmd)
			}
			return c, 0, errors.Join(err, countPostgres(ctx, dsn, load.rows))
		}}
	}
	docgauge := func(ctx context.Context, dir string) (*exec.Cmd, error) {
		return l.loadCommand(ctx, dir, "postgres", "DOCGAUGE_POSTGRES_DSN="+dsn)
	}
	bare := func(role string) func(ctx context.Context, dir string) (*exec.Cmd, error) {
		return func(ctx context.Context, dir string) (*exec.Cmd, error) { return child(ctx, role, dsn, dir) }
	}
	return []sinkClient{client(bareClient, bare(bareCopyRole)), client(bareWindowsClient, bare(bareCopiesRole)), client(docgaugeClient, docgauge)}
}

const (
	bareCopyRole   = "bare copy"
	bareCopiesRole = "bare copies"
	visitorsTable  = "docgauge_visitors"
)

// emptyPostgres makes the tables, or leaves them without a row.
func emptyPostgres(ctx context.Context, dsn string) error {
	sink, err := postgres.New(postgres.Config{DSN: dsn, Now: time.Now})
	if err != nil {
		return err
	}
	if err := errors.Join(sink.Check(ctx), sink.Close()); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err = conn.Exec(ctx, "TRUNCATE "+visitorsTable+", docgauge_totals"); err == nil {
		_, err = conn.Exec(ctx, "CHECKPOINT")
	}
	return err
}

func countPostgres(ctx context.Context, dsn string, rows int) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var got int
	err = conn.QueryRow(ctx, "SELECT count(*) FROM "+visitorsTable).Scan(&got)
	if err == nil && got != rows {
		err = fmt.Errorf("%s has %d rows, want %d", visitorsTable, got, rows)
	}
	return err
}

// copyColumns are those of a row; the others have defaults.
var copyColumns = []string{
	"project", "granularity", "window_start", "window_end", "path", "human", "ai", "total", "revision", "settled", "verified", "exported_at",
}

// bareCopy is a child's role: it copies everything below dir/data with the driver alone, as
// one COPY, or window by window, several at once. It checks nothing.
func bareCopy(dsn, dir string, windows bool) error {
	ctx := context.Background()
	files, err := windowFiles(dir)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	if !windows {
		return copyInto(ctx, pool, files)
	}
	var group errgroup.Group
	group.SetLimit(bareInFlight)
	for _, f := range files {
		group.Go(func() error { return copyInto(ctx, pool, []*archive.File{f}) })
	}
	return group.Wait()
}

// copyInto copies the rows of the files.
func copyInto(ctx context.Context, pool *pgxpool.Pool, files []*archive.File) error {
	next, stop := iter.Pull2(func(yield func([]any, error) bool) {
		for _, f := range files {
			rev := f.Revision()
			from, to := rev.From.Time(), rev.To.Time()
			values := []any{rev.Project, string(rev.Granularity), from, to, "", int64(0), int64(0), int64(0), rev.Number, rev.Settled, rev.Verified, rev.ExportedAt}
			for r, err := range f.Rows() {
				values[4], values[5], values[6], values[7] = r.Path, r.Human, r.AI, r.Total
				if !yield(values, err) || err != nil {
					return
				}
			}
		}
	})
	defer stop()
	_, err := pool.CopyFrom(ctx, pgx.Identifier{visitorsTable}, copyColumns, pgx.CopyFromFunc(func() ([]any, error) {
		row, err, _ := next()
		return row, err
	}))
	return err
}

// sinkAims judges the slowest loads, and the largest.
func sinkAims(all []sinkResult) (aims []aim) {
	worst := func(name string, atLeast float64, about func(r sinkResult) bool) {
		ours := slices.DeleteFunc(slices.Clone(all), func(r sinkResult) bool { return !about(r) })
		if len(ours) > 0 {
			least := slices.MinFunc(ours, func(a, b sinkResult) int { return cmp.Compare(a.timesBase, b.timesBase) }).timesBase
			aims = append(aims, aim{name, fmt.Sprintf("%.2f at worst", least), least >= atLeast})
		}
	}
	isDelta := func(r sinkResult) bool { return r.sink == deltaSink && r.client != parquetClient }
	isPostgres := func(r sinkResult) bool { return r.sink == postgresSink && r.client == docgaugeClient }
	worst("into Delta Lake at 0.9 of the Parquet sink, 10,000,000 rows", 0.9, func(r sinkResult) bool { return isDelta(r) && r.load.rows == 10_000_000 })
	worst("into Delta Lake at 1/1.2 of the Parquet sink, 1,000 windows of 1,000 rows", 1/1.2, func(r sinkResult) bool { return isDelta(r) && r.load.windowRows == 1_000 })
	worst("into PostgreSQL at 0.8 of a bare COPY, in windows of 20,000 rows and more", 0.8, func(r sinkResult) bool { return isPostgres(r) && r.load.windowRows >= 20_000 })
	worst("into PostgreSQL at 0.5 of a bare COPY, in windows of 1,000 rows", 0.5, func(r sinkResult) bool { return isPostgres(r) && r.load.windowRows == 1_000 })
	var largest int64
	for _, r := range all {
		if isDelta(r) || isPostgres(r) {
			largest = max(largest, r.cost.maxRSS)
		}
	}
	if largest > 0 {
		aims = append(aims, aim{"peak RSS under 128 MiB into Delta Lake and PostgreSQL", mebibytes(largest) + " at most", largest < 128<<20})
	}
	return aims
}

func sinkTable(all []sinkResult) table {
	t := table{{"sink", "rows", "windows × rows", "client", "seconds", "rows/s", "windows/s", "CPU s/Mrow", "peak RSS", "log entries", "× first"}}
	for _, r := range all {
		t = append(t, r.cells())
	}
	return t
}
