package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// warehouse is where the killed runs write beside Parquet: what asks it, as its users do,
// and what empties it.
type warehouse struct {
	name  string
	env   []string
	query func(ctx context.Context, sql string) (tsv string, err error)
	empty func(t *testing.T)
	// absent is the error of a query before the tables exist, micros an expression of
	// exported_at in microseconds.
	absent, micros string
}

// warehouses are those whose engines are installed; in CI all must be.
func warehouses(t *testing.T) (all []warehouse) {
	for _, open := range []func(*testing.T) (warehouse, error){newDelta, newClickHouse, newPostgres} {
		w, err := open(t)
		if missing, ok := errors.AsType[engines.Missing](err); ok && os.Getenv("CI") != "true" {
			t.Logf("left out: %v", missing)
			continue
		}
		check(t, err)
		all = append(all, w)
	}
	return all
}

// newClickHouse starts a server.
func newClickHouse(t *testing.T) (warehouse, error) {
	server, err := engines.StartClickHouse(t.TempDir())
	if err != nil {
		return warehouse{}, err
	}
	t.Cleanup(func() { _ = server.Kill() })
	return warehouse{
		name: "clickhouse", env: []string{"DOCGAUGE_CLICKHOUSE_DSN=" + server.DSN("default")},
		query: server.Exec, absent: "doesn't exist", micros: "exported_at_us",
		empty: func(t *testing.T) {
			for _, table := range []string{
				"docgauge_windows", "docgauge_visitors_rows", "docgauge_agents_markers", "docgauge_agents_rows",
			} {
				if _, err := server.Exec(t.Context(), "TRUNCATE TABLE "+table); err != nil {
					t.Fatal(err)
				}
			}
		},
	}, nil
}

// newPostgres starts a server.
func newPostgres(t *testing.T) (warehouse, error) {
	server, err := engines.StartPostgres(t.TempDir(), "15")
	if err != nil {
		return warehouse{}, err
	}
	t.Cleanup(func() { _ = server.Kill() })
	dsn := server.DSN("postgres")
	query := func(ctx context.Context, sql string) (string, error) { return askPostgres(ctx, dsn, sql) }
	return warehouse{
		name: "postgres", env: []string{"DOCGAUGE_POSTGRES_DSN=" + dsn}, query: query, absent: "does not exist",
		micros: "(extract(epoch from exported_at) * 1000000)::bigint",
		empty: func(t *testing.T) {
			const tables = "docgauge_visitors, docgauge_totals, docgauge_agents, docgauge_agents_windows"
			if _, err := query(t.Context(), "TRUNCATE "+tables); err != nil {
				t.Fatal(err)
			}
		},
	}, nil
}

// askPostgres runs a statement, and returns its answer as TSV.
func askPostgres(ctx context.Context, dsn, sql string) (tsv string, err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for rows.Next() {
		out.Write(bytes.Join(rows.RawValues(), []byte("\t")))
		out.WriteByte('\n')
	}
	return out.String(), rows.Err()
}

// newDelta has tables in a directory, which the Python package deltalake reads.
func newDelta(t *testing.T) (warehouse, error) {
	dir := filepath.Join(t.TempDir(), "delta")
	query, err := tablesOf(t, dir)
	return warehouse{
		name: "delta", env: []string{"DOCGAUGE_DELTA_URL=" + dir}, query: query, absent: "TableNotFound",
		micros: "CAST(exported_at AS BIGINT)",
		empty: func(t *testing.T) {
			check(t, os.RemoveAll(dir))
		},
	}, err
}

// newDeltaBucket has tables in a bucket.
func newDeltaBucket(t *testing.T) (warehouse, error) {
	server := engines.RunS3(t)
	if err := server.CreateBucket(t.Context(), "docs"); err != nil {
		return warehouse{}, err
	}
	env := []string{
		"AWS_ACCESS_KEY_ID=" + server.AccessKey, "AWS_SECRET_ACCESS_KEY=" + server.SecretKey,
		"AWS_REGION=" + server.Region, "AWS_EC2_METADATA_DISABLED=true",
	}
	options := append([]string{"AWS_ENDPOINT_URL=" + server.Endpoint, "AWS_ALLOW_HTTP=true"}, env...)
	query, err := tablesOf(t, "s3://docs/gauge", options...)
	return warehouse{
		name: "delta", env: append(env, "DOCGAUGE_DELTA_URL=s3://docs/gauge?endpoint="+server.Endpoint),
		query: query, absent: "TableNotFound",
		empty: func(t *testing.T) {
			check(t, server.CreateBucket(t.Context(), "docs"))
		},
	}, err
}

// tablesOf returns what asks the Delta Lake tables below a root, in one Python process.
func tablesOf(
	t *testing.T, root string, options ...string,
) (query func(ctx context.Context, sql string) (string, error), err error) {
	python, err := engines.DeltaPython()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(python, append([]string{"testdata/tables.py", root}, options...)...)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	lines := bufio.NewReader(out)
	var asking sync.Mutex
	return func(_ context.Context, sql string) (tsv string, err error) {
		asking.Lock()
		defer asking.Unlock()
		if _, err := fmt.Fprintln(in, strings.Join(strings.Fields(sql), " ")); err != nil {
			return "", err
		}
		var all strings.Builder
		for {
			line, err := lines.ReadString('\n')
			switch {
			case err != nil:
				return "", err
			case line == ".\n":
				return all.String(), nil
			case strings.HasPrefix(line, "!"):
				return "", errors.New(strings.TrimSpace(line[1:]))
			}
			all.WriteString(line)
		}
	}, nil
}

// reader polls a warehouse while runs write to it and are killed.
type reader struct {
	warehouse
	t       *testing.T
	service *sandbox.Sandbox
	looking sync.Mutex // not while the tables are emptied
	looks   int
}

// betweenLooks leaves the processors to the runs that are to be killed. The remains of a kill stay until the next
// run; readers beside one replacement are a case of the contract of sinks.
const betweenLooks = 20 * time.Millisecond

// watch polls until stop: every window it sees must be whole.
func (r *reader) watch() (stop func() (looks int)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() {
		for ctx.Err() == nil {
			r.look(ctx)
			r.looks++
			time.Sleep(betweenLooks)
		}
	})
	stop = func() int { cancel(); wait.Wait(); return r.looks }
	r.t.Cleanup(func() { stop() }) // where the test has failed before
	return stop
}

// look expects every window that has totals to have its rows, all of them.
func (r *reader) look(ctx context.Context) {
	r.looking.Lock()
	defer r.looking.Unlock()
	listed := r.read(ctx, "SELECT project, granularity, window_start, window_end FROM docgauge_totals WHERE page_count > 0")
	shown := r.read(ctx, `SELECT project, granularity, window_start, window_end, count(*), count(DISTINCT path),
		count(DISTINCT revision) FROM docgauge_visitors GROUP BY project, granularity, window_start, window_end`)
	agents := r.read(ctx, agentSums)
	if ctx.Err() != nil {
		return
	}
	for _, f := range agents {
		if want := r.agentSums(f); strings.Join(f, " ") != want {
			r.t.Errorf("a reader of %s sees of agents %s, the service has %s", r.name, f, want)
		}
	}
	whole := map[string]bool{}
	for _, f := range shown {
		whole[strings.Join(f[:4], " ")] = true
		window := analytics.Window{From: date(r.t, f[2]), To: date(r.t, f[3])}
		_, want, err := r.service.Visitors(f[0], window)
		if err != nil {
			r.t.Error(err)
		}
		if n := fmt.Sprint(len(want)); f[4] != n || f[5] != n || f[6] != "1" {
			r.t.Errorf("a reader of %s sees of %s %s %s: %s rows, %s paths, %s revisions; the service has %s rows", r.name,
				f[0], f[1], window, f[4], f[5], f[6], n)
		}
	}
	for _, f := range listed {
		if !whole[strings.Join(f, " ")] {
			r.t.Errorf("a reader of %s sees totals of %s, but no rows", r.name, f)
		}
	}
}

func (r *reader) read(ctx context.Context, query string) (rows [][]string) {
	out, err := r.query(ctx, query)
	if err != nil && ctx.Err() == nil && !strings.Contains(err.Error(), r.absent) {
		r.t.Errorf("a reader of %s: %v", r.name, err)
	}
	if err == nil {
		for line := range strings.Lines(out) {
			rows = append(rows, strings.Fields(line))
		}
	}
	return rows
}

func date(t *testing.T, s string) analytics.Date {
	d, err := analytics.ParseDate(s)
	if err != nil {
		t.Error(err)
	}
	return d
}

// compare expects the windows that are over and their rows as Parquet has them, all with the service's sums, and
// empties the tables.
func (r *reader) compare(windows, rows int) {
	r.t.Helper()
	over := fmt.Sprintf("window_end <= '%s'", analytics.DateOf(time.Now()))
	got := strings.Fields(r.ask(
		"SELECT count(*), sum(CASE WHEN page_count > 0 THEN page_count ELSE 0 END) FROM docgauge_totals WHERE " + over))
	agents := 0
	for line := range strings.Lines(r.ask(agentSums)) {
		f := strings.Fields(line)
		if isOver(analytics.Window{From: date(r.t, f[2]), To: date(r.t, f[3])}) {
			agents++
		}
		if want := r.agentSums(f); strings.Join(f, " ") != want {
			r.t.Errorf("%s has of agents %s, the service %s", r.name, f, want)
		}
	}
	rowsOf := r.ask("SELECT count(*) FROM docgauge_agents WHERE path <> '' AND " + over)
	if got[0] != fmt.Sprint(windows-agents) || number(r.t, got[1])+number(r.t, rowsOf) != rows {
		r.t.Errorf("%s has %s windows with %s rows of visitors, and %d of agents with %s, Parquet %d and %d", r.name,
			got[0], got[1], agents, rowsOf, windows, rows)
	}
	for line := range strings.Lines(r.ask("SELECT project, window_start, window_end, sum(human), sum(ai), sum(total) " +
		"FROM docgauge_visitors GROUP BY project, window_start, window_end")) {
		f := strings.Fields(line)
		window := analytics.Window{From: date(r.t, f[1]), To: date(r.t, f[2])}
		if want := r.sums(f[0], window); strings.Join(f[3:], " ") != want {
			r.t.Errorf("%s has sums %s of %s %s, the service %s", r.name, f[3:], f[0], window, want)
		}
	}
	r.looking.Lock()
	defer r.looking.Unlock()
	r.empty(r.t)
}

// agentSums is the query for a fingerprint of each window of agents.
const agentSums = `SELECT project, granularity, window_start, window_end, count(*), sum(visitors), sum(requests),
	count(DISTINCT revision) FROM docgauge_agents GROUP BY project, granularity, window_start, window_end`

// agentSums returns the answer that is right for the window of answer.
func (r *reader) agentSums(answer []string) string {
	rev := analytics.Revision{Key: analytics.Key{Project: answer[0],
		Window: analytics.Window{From: date(r.t, answer[2]), To: date(r.t, answer[3])}}}
	if answer[1] == "3d" { // 3d:totals
		rev.Rows = analytics.TotalsOnlyRows
	}
	rows := agentsOf(r.t, r.service, rev)
	var visitors, requests int64
	for _, row := range rows {
		visitors, requests = visitors+row.Visitors, requests+row.Requests
	}
	return fmt.Sprintf("%s %d %d %d 1", strings.Join(answer[:4], " "), len(rows), visitors, requests)
}

func number(t *testing.T, text string) int {
	n, err := strconv.Atoi(text)
	check(t, err)
	return n
}

// sums adds up the rows of a window, as a fingerprint of them.
func (r *reader) sums(project string, w analytics.Window) string {
	_, rows, err := r.service.Visitors(project, w)
	if err != nil {
		r.t.Error(err)
	}
	var human, ai, total int64
	for _, r := range rows {
		human, ai, total = human+r.Human, ai+r.AI, total+r.Total
	}
	return fmt.Sprint(human, ai, total)
}

func (r *reader) ask(sql string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	out, err := r.query(ctx, sql)
	check(r.t, err)
	return strings.TrimSpace(out)
}
