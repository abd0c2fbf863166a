// Bench measures the real docgauge binary, end to end over loopback, against
// hand-written clients that do the same work in the same run. It prints Markdown;
// -short is a smoke run of a few seconds. With -former, a docgauge built from an
// earlier commit does the same work too, so that both are measured in one run.
//
// Several kinds of child process take part, so that each has its own CPU time and
// its own peak of memory: the server, docgauge, and the clients. The server
// renders pages of made-up rows as they are requested, and counts requests. Its
// CPU time is counted to nobody, but on a machine with few cores it takes its
// share of them.
//
// The plain client is what people write first: net/http, encoding/json into
// structs, page after page, window after window, over one connection, into a
// CSV file. go-parquet is what they write when that is too slow: several windows
// at once, the rows of each in memory and then in a Parquet file of its own with
// zstd, which is renamed into place. Neither checks, sorts or flushes to disk.
//
// The second table loads files into ClickHouse: with the real `docgauge load`,
// and with two clients that only insert through the driver, from the same files
// into a table with the same columns and keys on the same server. "bare" writes
// everything as one INSERT, in blocks of 100,000 rows over the native protocol
// and in INSERTs of 200,000 over HTTP; "bare windows" writes one INSERT for each
// window, 16 at once. Neither counts, commits or keeps a ledger. If a table or
// view then has another number of rows, the benchmark ends with an error.
//
// The third table scrapes /metrics over HTTP, from a process that only serves a
// snapshot of 10 projects × 4 windows × 50 pages, with 10,000 windows in its
// ledger. Prometheus requests OpenMetrics or protobuf, with gzip. The first
// scrape for a format encodes the snapshot; "new snapshot each" is that one.
//
// With -peers, docgauge and other tools export the same windows, and each is
// killed once half-way: that is one table of its own.
//
// Where work is repeated, a row of the table is the run of median duration; the
// clients take turns. After each run every row is compared with what the server
// sends; if one differs, the benchmark ends with an error. docs/performance.md explains the columns.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	isChild, err := runChild()
	if !isChild {
		err = bench(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	short  bool
	only   string
	former string
	peers  bool
}

// bench is the whole program: tables go to out, progress to log.
func bench(ctx context.Context, args []string, out, log io.Writer) (err error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.BoolVar(&o.short, "short", false, "smoke run of a few seconds, whose speeds mean nothing")
	flags.StringVar(&o.only, "only", "", "part of the names of the scenarios to run; clickhouse; scrape; planning, which runs by that name alone")
	flags.StringVar(&o.former, "former", "", "a docgauge `binary` of an earlier commit, which takes part as \""+formerClient+"\"")
	flags.BoolVar(&o.peers, "peers", false, "instead, compare with other tools: see make bench-peers")
	if flags.Parse(args) != nil {
		return flag.ErrHelp
	}
	dir, err := os.MkdirTemp("", "docgauge-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	machine, err := describeMachine(dir)
	if err != nil {
		return err
	}
	m, err := measureAll(ctx, o, dir, log)
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	_, err = io.WriteString(out, machine+"\n"+m.markdown())
	return err
}

// measurements are all that was measured.
type measurements struct {
	exports []exportResult
	loads   []loadResult
	scrapes []scrapeResult
	plans   []planningResult
	peers   table
}

// lab is where runs take place: the docgauge that is measured, a former one if
// there is one, the base URL of the server, and a directory.
type lab struct {
	binary, former, server, dir string
}

const (
	loadScenarios   = "clickhouse" // the name for -only
	scrapeScenarios = "scrape"
)

// measureAll runs what o asks for; log gets each row as it is measured.
func measureAll(ctx context.Context, o options, dir string, log io.Writer) (m measurements, err error) {
	done := func(cells []string) { fmt.Fprintln(log, strings.Join(cells, "  ")) }
	l := &lab{dir: dir}
	if o.former != "" {
		if l.former, err = filepath.Abs(o.former); err != nil {
			return m, err
		}
	}
	if o.only != scrapeScenarios {
		fmt.Fprintln(log, "building docgauge")
		if l.binary, err = engines.DocgaugeBinary(); err != nil {
			return m, err
		}
	}
	base, stop, err := startChild(ctx, serverRole)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	l.server = base
	if o.peers {
		there, missing := installed(peers)
		if missing != "" {
			fmt.Fprintln(log, "not measured:", missing)
		}
		results, err := l.peerAll(ctx, there, o.short, done)
		m.peers = peerTable(results, o.short)
		return m, err
	}
	scenarios := slices.DeleteFunc(exportScenarios(o.short), func(s scenario) bool { return !strings.Contains(s.name, o.only) })
	if m.exports, err = l.exportAll(ctx, scenarios, done); err != nil {
		return m, err
	}
	if strings.Contains(loadScenarios, o.only) {
		if m.loads, err = l.loadAll(ctx, loadings(o.short), done); err != nil {
			missing, ok := errors.AsType[engines.Missing](err)
			if !ok || os.Getenv("CI") == "true" {
				return m, err
			}
			fmt.Fprintln(log, "not measured:", missing)
		}
	}
	if strings.Contains(scrapeScenarios, o.only) {
		if m.scrapes, err = scrapeAll(ctx, scrapings(o.short), done); err != nil {
			return m, err
		}
	}
	if o.only == planningScenarios {
		m.plans, err = l.planningAll(ctx, o.short, done)
	}
	return m, err
}

func (m measurements) markdown() string {
	exports := table{{"scenario", "windows × rows", "latency", "client", "in flight", "seconds", "rows/s", "windows/s",
		"CPU s/Mrow", "peak RSS", "requests", "ratio", "× plain", "× go-parquet", "× before"}}
	for _, r := range m.exports {
		exports = append(exports, r.cells())
	}
	loads := table{{"server", "rows", "windows × rows", "client", "seconds", "rows/s", "windows/s", "CPU s/Mrow", "peak RSS", "× bare", "× before"}}
	for _, r := range m.loads {
		loads = append(loads, r.cells())
	}
	scrapes := table{{"scrape", "format", "in flight", "scrapes", "median", "p99", "allocations", "allocated", "bytes sent"}}
	for _, r := range m.scrapes {
		scrapes = append(scrapes, r.cells())
	}
	aims := table{{"aim", "measured", "met"}}
	for _, a := range slices.Concat(exportAims(m.exports), loadAims(m.loads), scrapeAims(m.scrapes)) {
		aims = append(aims, []string{a.name, a.measured, map[bool]string{true: "yes", false: "no"}[a.met]})
	}
	var text string
	for _, t := range []table{exports, loads, scrapes, planningTable(m.plans), aims, m.peers} {
		if len(t) > 1 {
			text += "\n" + t.markdown()
		}
	}
	return text
}

// table holds cells; its first row is the head.
type table [][]string

// markdown renders the table with aligned columns.
func (t table) markdown() string {
	widths := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, row := range t {
		for i, cell := range row {
			fmt.Fprintf(&b, "| %s%s ", cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		b.WriteString("|\n")
		if n == 0 {
			for _, width := range widths {
				b.WriteString("|" + strings.Repeat("-", width+2))
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}
