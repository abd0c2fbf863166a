package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/must"
	"github.com/docgauge/docgauge/internal/dev/testbed"
)

// The programs of other exact counters, for which a combined log is CSV between spaces. They know the agents of
// [userAgent] by parts of their names.
var (
	//go:embed counters/duckdb.py
	duckDBProgram string
	//go:embed counters/clickhouse.sql
	clickHouseSQL string
	//go:embed counters/polars.py
	polarsProgram string
)

// siteAll counts the readers of one log with docgauge and with others, then of the same lines in
// other forms, and of long logs with many readers. Who counts exactly must count the same.
func (l *lab) siteAll(ctx context.Context) (all []result) {
	log := siteLog{Lines: 5_000_000, Readers: 800_000, Format: combinedLog, Path: filepath.Join(l.dir, "access.log")}
	long := siteLog{Lines: 20_000_000, Readers: 3_000_000, Format: combinedLog}
	longest := siteLog{Lines: 100_000_000, Readers: 3_000_000, Format: combinedLog}
	if l.short {
		log.Lines, log.Readers = 60_000, 5_000
		long.Lines, long.Readers, longest.Lines, longest.Readers = 120_000, 18_000, 240_000, 18_000
	}
	packed, stream, pushed := log, log, log
	// Beside the log, site serve would read it to find out that it is a copy.
	packed.Format, packed.Path = gzipLog, filepath.Join(l.dir, "packed.log.gz")
	stream.Format, stream.Path = caddyLog, ""
	pushed.Format, pushed.Path = pushedLog, ""
	file, maker := must.Get(os.Create(log.Path)), child(ctx, siteLogRole, order{Log: log})
	maker.Stdout = file
	must.Do(maker.Run())
	must.Do(file.Close())
	measure(exec.CommandContext(ctx, "gzip", "--keep", log.Path))
	must.Do(os.Rename(log.Path+".gz", packed.Path))
	var want siteCounts
	verify := func(name string, counted siteLog, counts siteCounts) {
		if want == nil {
			want = counts
		}
		if counted.Lines == log.Lines && !slices.Equal(counts, want) {
			must.Do(fmt.Errorf("%s, %s: %d rows that are not docgauge's %d: %.300q and %.300q", name, counted.Format,
				len(counts), len(want), counts, want))
		}
	}
	for _, c := range []struct {
		name   string
		log    siteLog
		rounds int
	}{
		{docgaugeClient, log, 3}, {docgaugeClient, packed, 1}, {docgaugeClient, stream, 1}, {docgaugeClient, long, 1},
		{polarsClient, log, 3}, {clickHouseClient, log, 3}, {duckDBClient, log, 1}, {goAccessClient, log, 1},
		{rhitClient, log, 3},
	} {
		// CI does not install what `make bench-peers` does.
		if _, err := peerPython(); err != nil && (c.name == polarsClient || c.name == rhitClient) {
			fmt.Fprintf(l.log, "not measured: %s: %v\n", c.name, err)
			continue
		}
		task := contest{siteTable, c.log.Format, workload{1, c.log.Lines, 0}, c.rounds, []client{{name: c.name}}}
		must.Do(l.installed(func() {
			all = append(all, l.compete(task, func(cl client, _ workload) []values {
				counts, v := l.countSite(ctx, cl.name, c.log)
				if c.name != goAccessClient && c.name != rhitClient { // they count the readers of a day, and hits
					verify(cl.name, c.log, counts)
				}
				return []values{v}
			})...)
		}))
	}
	_, v := measure(l.docgauge(ctx, docgaugeClient, l.newDir(), "site", "report", "--output=-", log.Path))
	all = append(all, l.show(result{siteTable, combinedLog + ", as a page", client{name: docgaugeClient}, workload{1, log.Lines, 0}, v}))
	for _, kept := range []siteLog{log, packed, stream, pushed, long, longest} {
		counts, v := l.serveSite(ctx, kept)
		verify("site serve", kept, counts)
		w := workload{1, kept.Lines, 0}
		all = append(all, l.show(result{serveTable, kept.Format, client{name: docgaugeClient}, w, v}))
	}
	return all
}

// siteCounts is what a counter says, sorted: a line for the site, called *, and one for each page.
type siteCounts []string

func countsOf(site visitor, pages []visitor) (counts siteCounts) {
	site.Path = "*"
	for _, v := range append(pages, site) {
		counts = append(counts, fmt.Sprintf("%s %d %d %d", v.Path, v.Human, v.AI, v.Total))
	}
	slices.Sort(counts)
	return counts
}

// readers are the readers of the site.
func (counts siteCounts) readers() float64 {
	return must.Get(strconv.ParseFloat(strings.Fields(counts[0])[3], 64))
}

// pipeLog has a child make up the lines of a log for the standard input of cmd, unless the log is a file. The
// child must be waited for with made.
func pipeLog(ctx context.Context, cmd *exec.Cmd, log siteLog) (made func() error) {
	if log.Path != "" {
		return func() error { return nil }
	}
	maker := child(ctx, siteLogRole, order{Log: log})
	cmd.Stdin = must.Get(maker.StdoutPipe())
	must.Do(maker.Start())
	return maker.Wait
}

// countSite lets one counter read a log.
func (l *lab) countSite(ctx context.Context, name string, log siteLog) (counts siteCounts, v values) {
	var cmd *exec.Cmd
	switch dir := l.newDir(); name {
	case goAccessClient:
		cmd = must.Get(engines.Tool(ctx, "goaccess", "--no-global-config", "--log-format=COMBINED", "--no-progress",
			"--output=json", log.Path))
	case duckDBClient:
		cmd = must.Get(engines.DuckDB.Script(ctx, dir, duckDBProgram, log.Path))
	case polarsClient:
		cmd = exec.CommandContext(ctx, must.Get(peerPython()), "-c", polarsProgram, log.Path)
	case rhitClient:
		cmd = must.Get(engines.Tool(ctx, "rhit", "--color=no", "--fields=p", log.Path))
	case clickHouseClient:
		must.Do(must.Get(engines.StartEngine26(dir)).Stop()) // if it is missing, a child could not say so
		cmd = child(ctx, clickHouseClient, order{Log: log, Dir: dir})
	default:
		cmd = l.docgauge(ctx, name, dir, "site", "count", "--json", cmp.Or(log.Path, "-"))
	}
	made := pipeLog(ctx, cmd, log)
	out, v := measure(cmd)
	must.Do(made())
	switch name {
	case goAccessClient:
		var report struct {
			General struct {
				Visitors int64 `json:"unique_visitors"`
			}
		}
		must.Do(json.Unmarshal(out, &report))
		counts = countsOf(visitor{Total: report.General.Visitors}, nil)
	case rhitClient:
		return nil, v
	case duckDBClient, clickHouseClient, polarsClient:
		counts = strings.Split(strings.TrimSpace(strings.ReplaceAll(string(out), "\t", " ")), "\n")
		slices.Sort(counts)
	default:
		var report struct {
			Totals visitor
			Pages  []visitor
		}
		must.Do(json.Unmarshal(out, &report))
		counts = countsOf(report.Totals, report.Pages)
	}
	v["readers"] = counts.readers()
	return counts, v
}

// countWithClickHouse prints the counts. All that the engine costs is this child's.
func countWithClickHouse(o order) any {
	engine := must.Get(engines.StartEngine26(o.Dir))
	views, question, _ := strings.Cut(strings.ReplaceAll(clickHouseSQL, "PATH", o.Log.Path), ";")
	must.Get(engine.Exec(context.Background(), views))
	fmt.Print(must.Get(engine.Exec(context.Background(), question)))
	must.Do(engine.Stop())
	return nil
}

// serveSite lets docgauge site serve keep a log, of a file, of its standard input or pushed, and asks for all
// pages of its month, twice.
func (l *lab) serveSite(ctx context.Context, log siteLog) (siteCounts, values) {
	dir, api, metrics, source := l.newDir(), freeAddress(), freeAddress(), cmp.Or(log.Path, "-")
	if log.Format == pushedLog {
		source = "http:bench"
	}
	command := func(args ...string) *exec.Cmd {
		cmd := l.docgauge(ctx, docgaugeClient, dir, append([]string{"site"}, args...)...)
		cmd.Env = append(cmd.Env, "DOCGAUGE_SITE_DIR="+dir, "DOCGAUGE_SITE_LOGS="+source,
			"DOCGAUGE_SITE_LISTEN_ADDRESS="+api, "DOCGAUGE_SITE_METRICS_ADDRESS="+metrics)
		return cmd
	}
	newKey := func(scope string) string {
		return strings.TrimSpace(string(must.Get(command("keys", "add", "--project", "prj_site", "--scope", scope).Output())))
	}
	serve := command("serve")
	var made func() error
	if log.Format == pushedLog {
		serve.Env = append(serve.Env, "GOMAXPROCS=1")
		pusher := child(ctx, pushLogRole, order{Base: "http://" + api + "/v1/ingest/bench", Key: newKey("ingest"), Log: log})
		made = func() error { return pusher.Run() }
	} else {
		made = pipeLog(ctx, serve, log)
	}
	var said bytes.Buffer
	serve.Stderr = &said
	began := time.Now()
	must.Do(serve.Start())
	defer func() { _ = serve.Process.Kill() }() // unless it has ended
	awaitReady := func() {
		for !isUp("http://" + metrics + "/readyz") {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if log.Format == pushedLog {
		awaitReady()
		began = time.Now()
		if err := made(); err != nil {
			must.Do(fmt.Errorf("%w: %s", err, said.Bytes()))
		}
		made = func() error { return nil }
	}
	views := awaitLines("http://"+metrics+"/metrics", began, float64(log.Lines))
	seconds := time.Since(began).Seconds()
	awaitReady() // lines are counted before the logs count as read, and until then answers are 503
	key := newKey("read")
	var counts siteCounts
	ask := func() {
		var last page
		var rows []visitor
		for last = range readPages("http://"+api, "prj_site", key, siteMonth, siteMonth.Add(monthLong)) {
			rows = append(rows, last.Visitors...)
		}
		counts = countsOf(last.Totals, rows)
	}
	cold, again := milliseconds(1, ask), milliseconds(1, ask)
	if err := errors.Join(serve.Process.Signal(os.Interrupt), serve.Wait(), made()); err != nil {
		must.Do(fmt.Errorf("%w: %s", err, said.Bytes()))
	}
	v := usedBy(serve, seconds)
	var size int64
	for _, file := range must.Get(os.ReadDir(filepath.Join(dir, "facts"))) {
		size += must.Get(file.Info()).Size()
	}
	v["readers"], v["all pages of the month"], v["again"] = counts.readers(), cold, again
	v["bytes a view"] = float64(size) / views
	return counts, v
}

// awaitLines waits until a site has counted this number of log lines, and returns the number of views among them.
func awaitLines(metrics string, began time.Time, want float64) (views float64) {
	for lines := 0.0; lines < want; {
		time.Sleep(20 * time.Millisecond) // a scrape is work for the process that is measured
		if lines == 0 && time.Since(began) < time.Minute && !isUp(metrics) {
			continue
		}
		lines = 0
		for name, n := range must.Get(testbed.ParseSeries(get(metrics))) {
			if strings.HasPrefix(name, "docgauge_site_lines_total{") {
				lines += n
			}
			if strings.HasPrefix(name, `docgauge_site_lines_total{result="view"`) {
				views = n
			}
		}
	}
	return views
}
