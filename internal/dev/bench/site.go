package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// The counters of a site's readers.
const (
	duckDBClient     = "DuckDB"
	clickHouseClient = "ClickHouse"
	goAccessClient   = "GoAccess"
)

// siteCounts is what a counter says: a line for each page, and one for the site, called *.
type siteCounts []string

// count is the line of a page.
func (v visitor) count() string { return fmt.Sprintf("%s %d %d %d", v.Path, v.Human, v.AI, v.Total) }

// readers are those of the site.
func (counts siteCounts) readers() (n int64) {
	for _, row := range counts {
		if strings.HasPrefix(row, "* ") {
			n, _ = strconv.ParseInt(row[strings.LastIndexByte(row, ' ')+1:], 10, 64) // a number that we wrote
		}
	}
	return n
}

// siteAll counts the readers of one log with docgauge and with others, then of the same lines in
// other forms, and of long logs with many readers. Who counts exactly must count the same.
func (l *lab) siteAll(ctx context.Context) (all []result, err error) {
	log, rounds := siteLog{Lines: 5_000_000, Readers: 800_000, Format: combinedLog}, 3
	long := siteLog{Lines: 20_000_000, Readers: 3_000_000, Format: combinedLog}
	longest := long
	longest.Lines = 100_000_000
	if l.short {
		log.Lines, log.Readers, rounds = 60_000, 5_000, 1
		long.Lines, long.Readers, longest.Lines, longest.Readers = 120_000, 18_000, 240_000, 18_000
	}
	log.Path = filepath.Join(l.dir, "access.log")
	packed := log
	packed.Format, packed.Path = gzipLog, log.Path+".gz"
	for _, made := range []siteLog{log, packed} {
		if err := l.makeSiteLog(ctx, made); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.Remove(made.Path)) }()
	}
	var want siteCounts
	var runs []result
	for range rounds {
		r, counts, err := l.countSite(ctx, docgaugeClient, log)
		if err != nil {
			return nil, err
		}
		runs, want = append(runs, r), counts
	}
	all = append(all, median(runs, func(r result) float64 { return r.cost.cpuSeconds }))
	stream := log
	stream.Format, stream.Path = caddyLog, ""
	for _, c := range []struct {
		name string
		log  siteLog
	}{
		{docgaugeClient, packed}, {docgaugeClient, stream}, {docgaugeClient, long}, {clickHouseClient, log},
		{duckDBClient, log}, {goAccessClient, log},
	} {
		r, counts, err := l.countSite(ctx, c.name, c.log)
		if missing, ok := errors.AsType[engines.Missing](err); ok && os.Getenv("CI") != "true" {
			fmt.Fprintln(l.log, "not measured:", missing)
			continue
		}
		if err != nil {
			return all, fmt.Errorf("%s, %s: %w", c.name, c.log.Format, err)
		}
		if c.name != goAccessClient && c.log.Lines == log.Lines && !slices.Equal(counts, want) {
			return all, fmt.Errorf("%s, %s: %d rows that are not docgauge's %d: %.300q and %.300q", c.name,
				c.log.Format,
				len(counts), len(want), counts, want)
		}
		all = append(all, r)
	}
	for _, kept := range []siteLog{log, packed, stream, long, longest} {
		counts := want
		if kept.Lines != log.Lines {
			counts = nil
		}
		r, err := l.serveSite(ctx, kept, counts)
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

func (l *lab) makeSiteLog(ctx context.Context, log siteLog) error {
	cmd, err := child(ctx, siteLogRole, order{Log: log})
	if err == nil {
		_, _, err = measure(cmd)
	}
	return err
}

// pipeLog has a child make up the lines of a log for the standard input of cmd, unless the log is a file. The
// child must be waited for with made.
func pipeLog(ctx context.Context, cmd *exec.Cmd, log siteLog) (made func() error, err error) {
	if log.Path != "" {
		return func() error { return nil }, nil
	}
	maker, err := child(ctx, siteLogRole, order{Log: log})
	if err != nil {
		return nil, err
	}
	cmd.Stdin, err = maker.StdoutPipe()
	return maker.Wait, errors.Join(err, maker.Start())
}

// countSite lets one counter read a log.
func (l *lab) countSite(ctx context.Context, name string, log siteLog) (r result, counts siteCounts, err error) {
	r = result{table: siteTable, scenario: log.Format, client: client{name: name}, work: workload{1, log.Lines, 0}}
	cmd, err := l.siteCommand(ctx, name, log)
	if err != nil {
		return r, nil, err
	}
	made, err := pipeLog(ctx, cmd, log)
	if err != nil {
		return r, nil, err
	}
	out, used, err := measure(cmd)
	if err := errors.Join(err, made()); err != nil {
		return r, nil, err
	}
	r.cost = used
	fmt.Fprintf(l.log, "%s, %d lines, %s: %.2f CPU s, %s\n", log.Format, log.Lines, name, used.cpuSeconds,
		mebibytes(used.maxRSS))
	var report struct {
		General struct {
			Visitors int64 `json:"unique_visitors"`
		} // of GoAccess
		Totals visitor // the others are docgauge's
		Pages  []visitor
	}
	switch name {
	case duckDBClient, clickHouseClient:
		err = json.Unmarshal(out, &counts)
	default:
		err = json.Unmarshal(out, &report)
		report.Totals.Path = "*"
		report.Totals.Total += report.General.Visitors
		for _, p := range append(report.Pages, report.Totals) {
			counts = append(counts, p.count())
		}
		slices.Sort(counts)
	}
	r.readers = counts.readers()
	return r, counts, err
}

func (l *lab) siteCommand(ctx context.Context, name string, log siteLog) (*exec.Cmd, error) {
	switch name {
	case goAccessClient:
		return engines.Tool(ctx, "goaccess", "--no-global-config", "--log-format=COMBINED", "--no-progress",
			"--output=json", log.Path)
	case duckDBClient, clickHouseClient:
		dir, err := l.newDir()
		if err != nil {
			return nil, err
		}
		if err := installedSQL(name, dir); err != nil {
			return nil, err
		}
		return child(ctx, siteSQLRole, order{Log: log, Sink: name, Dir: dir})
	}
	cmd := exec.CommandContext(ctx, l.binaries[name], "site", "count", "--json", cmp.Or(log.Path, "-"))
	cmd.Env = cleanEnv()
	return cmd, nil
}

// installedSQL returns an engines.Missing here: what a child says is only text.
func installedSQL(name, dir string) error {
	if name == duckDBClient {
		_, err := engines.DeltaPython()
		return err
	}
	engine, err := engines.StartEngine26(dir)
	if err != nil {
		return err
	}
	return engine.Stop()
}

// siteViews makes the table k of the views in the log PATH, one row each.
const siteViews = `CREATE TABLE k ENGINE AS SELECT ip, ua, page, CASE WHEN ua IN (AI) THEN 'ai' WHEN md THEN 'ai'
	WHEN ua IN (TOOL) THEN '' ELSE 'human' END AS kind FROM (
SELECT G1 AS ip, G5 AS ua, G3 LIKE '%.md' AS md, REPLACE(G3, '([.](html|md)|/)$', '') AS page FROM (
SELECT MATCH AS m FROM LINES)
WHERE G2 = 'GET' AND G4 IN ('200', '304') AND G3 NOT LIKE '%.js' AND G3 NOT LIKE '%.png' AND
	G5 NOT IN (NONE)) WHERE kind <> ''`

const siteQuestion = `SELECT page, UNIQ(human), UNIQ(ai), UNIQ(either) FROM k GROUP BY page
	UNION ALL SELECT '*', UNIQ(human), UNIQ(ai), UNIQ(either) FROM k`

// siteForm has the groups address, method, path without query, status and user agent.
const siteForm = `^([0-9.]+) - - [^"]*"([A-Z]+) ([^ ?]+)[^ ]* [^"]*" ([0-9]+) [0-9]+ "[^"]*" "([^"]*)"$`

// siteWords are the parts of the SQL above that the engines say differently.
var siteWords = map[string][]string{
	duckDBClient: {
		"ENGINE", "", "G1", "m.g1", "G2", "m.g2", "G3", "m.g3", "G4", "m.g4", "G5", "m.g5",
		"MATCH", "regexp_extract(line, '" + siteForm +
			"', ['g1', 'g2', 'g3', 'g4', 'g5'])", "REPLACE", "regexp_replace",
		"LINES", `read_csv('PATH', columns = {'line': 'VARCHAR'}, delim = '\x01', quote = '', escape = '',
			header = false, auto_detect = false)`,
		"UNIQ(human)", "count(DISTINCT (ip, ua)) FILTER (WHERE kind = 'human')",
		"UNIQ(ai)", "count(DISTINCT (ip, ua)) FILTER (WHERE kind = 'ai')", "UNIQ(either)", "count(DISTINCT (ip, ua))",
	},
	clickHouseClient: {
		"ENGINE", "ENGINE = Memory", "G1", "m[1]", "G2", "m[2]", "G3", "m[3]", "G4", "m[4]", "G5", "m[5]",
		"MATCH", "extractGroups(line, '" + siteForm + "')", "REPLACE", "replaceRegexpOne",
		"LINES", "file('PATH', 'LineAsString', 'line String')",
		"UNIQ(human)", "uniqExactIf((ip, ua), kind = 'human')", "UNIQ(ai)", "uniqExactIf((ip, ua), kind = 'ai')",
		"UNIQ(either)", "uniqExact((ip, ua))",
	},
}

// countWithSQL asks an engine for the counts. All that it costs is this child's.
func countWithSQL(o order, out io.Writer) error {
	words := slices.Clone(siteWords[o.Sink])
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "PATH", o.Log.Path)
	}
	for kind, all := range siteAgents {
		words = append(words, "("+strings.ToUpper(kind)+")", "('"+strings.Join(all, "', '")+"')")
	}
	r := strings.NewReplacer(words...)
	views, question := r.Replace(siteViews), r.Replace(siteQuestion)
	var counts siteCounts
	if o.Sink == duckDBClient {
		answers, err := engines.DuckDB.Query(context.Background(), o.Dir, nil, views, question)
		if err != nil {
			return err
		}
		for _, row := range answers[1].Rows {
			counts = append(counts, strings.Join(row, " "))
		}
	} else {
		engine, err := engines.StartEngine26(o.Dir)
		if err != nil {
			return err
		}
		_, err = engine.Exec(context.Background(), views)
		var text string
		if err == nil {
			text, err = engine.Exec(context.Background(), question)
		}
		if err := errors.Join(err, engine.Stop()); err != nil {
			return err
		}
		counts = strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "\t", " ")), "\n")
	}
	slices.Sort(counts)
	return json.NewEncoder(out).Encode(counts)
}
