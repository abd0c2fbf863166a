package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/parquet"
)

// The clients of loading into ClickHouse, beside docgauge.
const (
	bareClient        = "bare"
	bareWindowsClient = "bare windows"
)

// database is a ClickHouse engine of the bench.
type database interface {
	DSN(database string) string
	Exec(ctx context.Context, sql string) (string, error)
	Stop() error
}

// loading is one amount of rows in windows of one size.
type loading struct {
	rows, windowRows int
	rounds           int
	bareWindows      bool // the bare client also writes it window by window
}

func (l loading) windows() int { return l.rows / l.windowRows }

// loadings leave out ten million rows in windows of a thousand: one million shows
// the same.
func loadings(short bool) []loading {
	if short {
		return []loading{{2_000, 500, 1, true}, {3_000, 3_000, 1, false}}
	}
	return []loading{
		{1_000_000, 1_000, 1, true},
		{1_000_000, 20_000, 3, true},
		{1_000_000, 1_000_000, 3, false},
		{10_000_000, 20_000, 1, false},
		{10_000_000, 1_000_000, 1, false},
	}
}

// loadResult is one row of the table of loads.
type loadResult struct {
	server      string
	load        loading
	client      string
	cost        cost
	timesBare   float64 // the speed divided by that of the bare insert of everything
	timesBefore float64 // and by that of the former docgauge; 0 without one
}

func (r loadResult) cells() []string {
	rows, before := float64(r.load.rows), "-"
	if r.timesBefore > 0 {
		before = fmt.Sprintf("%.2f", r.timesBefore)
	}
	return []string{
		r.server, humanize.Comma(int64(r.load.rows)), workload{windows: r.load.windows(), rows: r.load.windowRows}.String(), r.client,
		fmt.Sprintf("%.2f", r.cost.seconds), humanize.Comma(int64(rows / r.cost.seconds)),
		fmt.Sprintf("%.1f", float64(r.load.windows())/r.cost.seconds), fmt.Sprintf("%.2f", r.cost.cpuSeconds/(rows/1e6)),
		mebibytes(r.cost.maxRSS), fmt.Sprintf("%.2f", r.timesBare), before,
	}
}

// loadAll starts 18.16 for the native protocol and the engine of 26 for HTTP, and
// runs every loading into each.
func (l *lab) loadAll(ctx context.Context, loadings []loading, done func(cells []string)) (all []loadResult, err error) {
	old, err := engines.StartClickHouse(filepath.Join(l.dir, "old"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, old.Stop()) }()
	modern, err := engines.StartEngine26(filepath.Join(l.dir, "modern"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, modern.Stop()) }()
	for _, load := range loadings {
		err := l.inDir(func(dir string) error {
			cmd, err := child(ctx, "archive", dir, strconv.Itoa(load.windows()), strconv.Itoa(load.windowRows))
			if err != nil {
				return err
			}
			if _, _, err := measure(cmd); err != nil {
				return err
			}
			for _, server := range []struct {
				name string
				http bool
				database
			}{{"18.16 native", false, old}, {"26 HTTP", true, modern}} {
				results, err := loadInTurns(load, l.former != "", func(client string) (cost, error) {
					return l.load(ctx, server.database, server.http, load, dir, client)
				})
				if err != nil {
					return fmt.Errorf("%s: %w", server.name, err)
				}
				for _, r := range results {
					r.server = server.name
					done(r.cells())
					all = append(all, r)
				}
			}
			return nil
		})
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// loadInTurns lets the clients take turns, and returns the median of each.
func loadInTurns(load loading, former bool, run func(client string) (cost, error)) (all []loadResult, err error) {
	clients := []string{bareClient, docgaugeClient}
	if former {
		clients = []string{bareClient, formerClient, docgaugeClient}
	}
	if load.bareWindows {
		clients = append(clients, bareWindowsClient)
	}
	runs := map[string][]cost{}
	for range load.rounds {
		for _, client := range clients {
			spent, err := run(client)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", client, err)
			}
			runs[client] = append(runs[client], spent)
		}
	}
	medians := map[string]cost{}
	for client, spent := range runs {
		medians[client] = median(spent, func(c cost) float64 { return c.seconds })
	}
	for _, client := range clients {
		spent := medians[client]
		all = append(all, loadResult{
			load: load, client: client, cost: spent,
			timesBare: medians[bareClient].seconds / spent.seconds, timesBefore: medians[formerClient].seconds / spent.seconds,
		})
	}
	return all, nil
}

// load runs `docgauge load`, or this program as a bare client, into an empty
// database, and counts the rows that are there then.
func (l *lab) load(ctx context.Context, db database, http bool, load loading, dir, client string) (spent cost, err error) {
	const name = "bench"
	if _, err := db.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return spent, err
	}
	defer func() {
		_, dropErr := db.Exec(context.WithoutCancel(ctx), "DROP DATABASE "+name)
		err = errors.Join(err, dropErr)
	}()
	table := name + ".docgauge_visitors"
	state := filepath.Join(dir, "state")
	if err := os.RemoveAll(state); err != nil {
		return spent, err
	}
	cmd := exec.CommandContext(ctx, l.binaryOf(client), "load", "--sink", "clickhouse")
	cmd.Env = append(cleanEnv(),
		"DOCGAUGE_PARQUET_URL="+filepath.Join(dir, "data"),
		"DOCGAUGE_CLICKHOUSE_DSN="+db.DSN(name),
		"DOCGAUGE_SINKS=clickhouse",
		"DOCGAUGE_STATE_DIR="+state,
		"DOCGAUGE_LOG_LEVEL=error",
	)
	if l.binaryOf(client) == "" {
		table = name + ".bare"
		if _, err := db.Exec(ctx, "CREATE TABLE "+table+bareTable); err != nil {
			return spent, err
		}
		if cmd, err = child(ctx, client, db.DSN(name), dir, strconv.FormatBool(http)); err != nil {
			return spent, err
		}
	}
	if _, spent, err = measure(cmd); err != nil {
		return spent, err
	}
	out, err := db.Exec(ctx, "SELECT toString(count()) FROM "+table)
	if got := strings.TrimSpace(out); err == nil && got != strconv.Itoa(load.rows) {
		err = fmt.Errorf("%s shows %s rows, want %d", table, got, load.rows)
	}
	return spent, err
}

// loadAims judges the slowest loads, and the largest.
func loadAims(all []loadResult) (aims []aim) {
	slowest := func(name string, atLeast float64, about func(windowRows int) bool) {
		ours := slices.DeleteFunc(slices.Clone(all), func(r loadResult) bool { return r.client != docgaugeClient || !about(r.load.windowRows) })
		if len(ours) > 0 {
			worst := slices.MinFunc(ours, func(a, b loadResult) int { return cmp.Compare(a.timesBare, b.timesBare) }).timesBare
			aims = append(aims, aim{name, fmt.Sprintf("%.2f at worst", worst), worst >= atLeast})
		}
	}
	slowest("into ClickHouse at 0.9 of the bare insert, in windows of 20,000 rows and more", 0.9, func(rows int) bool { return rows >= 20_000 })
	slowest("into ClickHouse at 0.5 of the bare insert, in windows of 1,000 rows", 0.5, func(rows int) bool { return rows == 1_000 })
	var largest int64
	for _, r := range all {
		if r.client == docgaugeClient {
			largest = max(largest, r.cost.maxRSS)
		}
	}
	if largest > 0 {
		aims = append(aims, aim{"peak RSS under 160 MiB into ClickHouse", mebibytes(largest) + " at most", largest < 160<<20})
	}
	return aims
}

// writeArchive is a child's role: it writes that many windows below dir/data.
func writeArchive(dir, windows, rows string) error {
	n, windowsErr := strconv.Atoi(windows)
	size, rowsErr := strconv.Atoi(rows)
	sink, err := parquet.New(filepath.Join(dir, "data"))
	if err := errors.Join(windowsErr, rowsErr, err); err != nil {
		return err
	}
	file := filepath.Join(dir, "window")
	for i := range n {
		from := analytics.DateOf(firstDay) - analytics.Date(i)
		rev := analytics.Revision{
			Key:    analytics.Key{Project: "bench", Granularity: analytics.Day, Window: analytics.Window{From: from, To: from + 1}},
			Number: 1, Settled: true, Verified: true, ExportedAt: firstDay,
		}
		if _, err := archive.Write(file, rev, sortedRows(size, i)); err != nil {
			return err
		}
		w, err := archive.Open(file)
		if err != nil {
			return err
		}
		if err := errors.Join(sink.Replace(context.Background(), w), os.Remove(file)); err != nil {
			return err
		}
	}
	return nil
}

// sortedRows yields n rows in the order of their paths.
func sortedRows(n, day int) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		for i := range n {
			human, ai := int64((i^day)%5000), int64((i>>3+day)%700)
			row := analytics.Row{
				Path:  fmt.Sprintf("/docs/%08x/%s/%s", i, sections[i*7%16], topics[i%16]),
				Human: human, AI: ai, Total: max(human, ai) + min(human, ai)/2,
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

const (
	// flushRows is the size of a block over the native protocol, insertRows that
	// of an INSERT over HTTP, where the driver cannot stream.
	flushRows  = 100_000
	insertRows = 200_000
	// bareInFlight is the number of windows that the bare client writes at once.
	bareInFlight = 16

	bareColumns = "project, granularity, window_start, window_end, attempt, path, human, ai, total, revision, settled, verified, exported_at_us"
	// bareTable has the columns and keys of docgauge_visitors_rows.
	bareTable = ` (project String, granularity String, window_start Date, window_end Date, attempt UInt64, path String,
		human Int64, ai Int64, total Int64, revision Int32, settled UInt8, verified UInt8, exported_at_us Int64, written_at DateTime DEFAULT now())
		ENGINE = MergeTree PARTITION BY toYYYYMM(window_start) ORDER BY (project, granularity, window_start, attempt, path)`
)

// bare is a child's role: it inserts everything below dir/data with the driver
// alone, as one INSERT, or window by window, several at once. It checks nothing.
func bare(dsn, dir, http string, windows bool) error {
	options, err := clickhouse.ParseDSN(dsn)
	if err != nil {
		return err
	}
	options.Compression = &clickhouse.Compression{Method: clickhouse.CompressionLZ4}
	options.MaxOpenConns, options.MaxIdleConns = bareInFlight, bareInFlight
	conn, err := clickhouse.Open(options)
	if err != nil {
		return err
	}
	defer conn.Close()
	files, err := windowFiles(dir)
	if err != nil {
		return err
	}
	if !windows {
		w := &inserter{conn: conn, http: http == "true"}
		for i, f := range files {
			if err := w.window(f, uint64(i)); err != nil {
				return err
			}
		}
		return w.end()
	}
	var group errgroup.Group
	group.SetLimit(bareInFlight)
	for i, f := range files {
		group.Go(func() error {
			w := &inserter{conn: conn, http: http == "true"}
			return errors.Join(w.window(f, uint64(i)), w.end())
		})
	}
	return group.Wait()
}

// windowFiles opens the visitors files below dir/data.
func windowFiles(dir string) (files []*archive.File, err error) {
	err = filepath.WalkDir(filepath.Join(dir, "data", "visitors"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".parquet") {
			return err
		}
		f, err := archive.Open(path)
		files = append(files, f)
		return err
	})
	return files, err
}

// inserter fills columns and sends them.
type inserter struct {
	conn  driver.Conn
	http  bool
	batch driver.Batch

	projects, granularities []string
	starts, ends            []time.Time
	attempts                []uint64
	paths                   []string
	human, ai, total        []int64
	revisions               []int32
	flags                   []uint8 // settled and verified: all are both
	exported                []int64
}

func (w *inserter) window(f *archive.File, attempt uint64) error {
	rev := f.Revision()
	from, to, exported := rev.From.Time(), rev.To.Time(), rev.ExportedAt.UnixMicro()
	size := flushRows
	if w.http {
		size = insertRows
	}
	for r, err := range f.Rows() {
		if err != nil {
			return err
		}
		w.projects, w.granularities = append(w.projects, rev.Project), append(w.granularities, string(rev.Granularity))
		w.starts, w.ends, w.attempts = append(w.starts, from), append(w.ends, to), append(w.attempts, attempt)
		w.paths, w.human, w.ai, w.total = append(w.paths, r.Path), append(w.human, r.Human), append(w.ai, r.AI), append(w.total, r.Total)
		w.revisions, w.flags, w.exported = append(w.revisions, rev.Number), append(w.flags, 1), append(w.exported, exported)
		if len(w.paths) == size {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush sends the columns: as a block over the native protocol, as an INSERT over HTTP.
func (w *inserter) flush() (err error) {
	if w.batch == nil {
		if w.batch, err = w.conn.PrepareBatch(context.Background(), "INSERT INTO bare ("+bareColumns+")"); err != nil {
			return err
		}
	}
	for i, column := range []any{
		w.projects, w.granularities, w.starts, w.ends, w.attempts, w.paths, w.human, w.ai, w.total, w.revisions, w.flags, w.flags, w.exported,
	} {
		if err := w.batch.Column(i).Append(column); err != nil {
			return err
		}
	}
	w.projects, w.granularities, w.starts, w.ends, w.attempts = w.projects[:0], w.granularities[:0], w.starts[:0], w.ends[:0], w.attempts[:0]
	w.paths, w.human, w.ai, w.total = w.paths[:0], w.human[:0], w.ai[:0], w.total[:0]
	w.revisions, w.flags, w.exported = w.revisions[:0], w.flags[:0], w.exported[:0]
	if !w.http {
		return w.batch.Flush()
	}
	err = w.batch.Send()
	w.batch = nil
	return err
}

// end sends what is left.
func (w *inserter) end() error {
	if len(w.paths) > 0 {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if w.batch == nil {
		return nil
	}
	return w.batch.Send()
}
