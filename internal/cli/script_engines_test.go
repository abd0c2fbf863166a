package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
)

// scriptCondition tells whether an engine is here, for [!clickhouse] skip. In CI
// it says yes: the script then fails where the engine is missing.
func scriptCondition(name string) (bool, error) {
	programs := map[string]string{
		"clickhouse": "clickhouse-server", "s3": "versitygw", "postgres": "PostgreSQL 15",
		"pushgateway": "prometheus-pushgateway", "nodeexporter": "prometheus-node-exporter",
	}
	program, ok := programs[name]
	if !ok {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	return engines.Has(program) || os.Getenv("CI") == "true", nil
}

// startEngine starts an engine in a new directory; it ends with the script.
func startEngine[E interface{ Kill() error }](ts *testscript.TestScript, name string,
	start func(dir string) (E, error)) E {
	dir := ts.MkAbs(name)
	ts.Check(os.MkdirAll(dir, 0o755))
	engine, err := start(dir)
	ts.Check(err)
	ts.Defer(func() { _ = engine.Kill() })
	return engine
}

// scriptClickHouse runs ClickHouse 18.16: clickhouse start sets
// DOCGAUGE_CLICKHOUSE_DSN; clickhouse kill, and clickhouse start again.
func scriptClickHouse(ts *testscript.TestScript, _ bool, args []string) {
	if server := startedBy(ts).clickhouse; server != nil {
		ts.Check(map[string]func() error{"kill": server.Kill, "start": server.Restart}[args[0]]())
		return
	}
	server := startEngine(ts, "clickhouse", func(dir string) (*engines.ClickHouse, error) {
		return engines.StartClickHouse(dir)
	})
	startedBy(ts).clickhouse = server
	ts.Setenv("DOCGAUGE_CLICKHOUSE_DSN", server.DSN("default"))
}

// scriptQuery compares the answer of a query, in TSV: query 'SELECT 1, 2' '1 2'.
func scriptQuery(ts *testscript.TestScript, neg bool, args []string) {
	out, err := startedBy(ts).clickhouse.Exec(context.Background(), args[0])
	ts.Check(err)
	compareAnswer(ts, neg, args, out)
}

// compareAnswer expects the answer to the query, the first argument, to be the second, if
// there is one.
func compareAnswer(ts *testscript.TestScript, neg bool, args []string, answer string) {
	got := strings.Join(strings.Fields(answer), " ")
	if len(args) > 1 && (got == args[1]) == neg {
		ts.Fatalf("%s = %s, want %s", args[0], got, args[1])
	}
	ts.Logf("%s", got)
}

// scriptPostgres runs PostgreSQL: postgres start sets DOCGAUGE_POSTGRES_DSN; postgres kill,
// and postgres start again.
func scriptPostgres(ts *testscript.TestScript, _ bool, args []string) {
	if server := startedBy(ts).postgres; server != nil {
		ts.Check(map[string]func() error{"kill": server.Kill, "start": server.Restart}[args[0]]())
		return
	}
	// Its user must be able to reach the directory.
	dir, err := os.MkdirTemp("", "docgauge-script-postgres-")
	ts.Check(err)
	server, err := engines.StartPostgres(dir, "15")
	ts.Check(err)
	startedBy(ts).postgres = server
	ts.Defer(func() { _ = server.Kill(); _ = os.RemoveAll(dir) })
	ts.Setenv("DOCGAUGE_POSTGRES_DSN", server.DSN("postgres"))
}

// scriptSQL is scriptQuery for PostgreSQL, and runs other statements too.
func scriptSQL(ts *testscript.TestScript, neg bool, args []string) {
	out, err := askPostgres(context.Background(), startedBy(ts).postgres.DSN("postgres"), args[0])
	ts.Check(err)
	compareAnswer(ts, neg, args, out)
}

// scriptFind sets a variable to the one file whose name matches: find FILE 'a/*.json'.
func scriptFind(ts *testscript.TestScript, _ bool, args []string) {
	found, err := filepath.Glob(ts.MkAbs(args[1]))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%s: found %q, want one file", args[1], found)
	}
	ts.Setenv(args[0], found[0])
}

// scriptEntry appends an entry to the log of a Delta table, as another engine would, and
// sets ENTRY to its name: entry FILE TABLE.
func scriptEntry(ts *testscript.TestScript, _ bool, args []string) {
	log := ts.MkAbs(filepath.Join(args[1], "_delta_log"))
	entries, err := filepath.Glob(filepath.Join(log, "*.json"))
	ts.Check(err)
	name := filepath.Join(log, fmt.Sprintf("%020d.json", len(entries)))
	ts.Check(os.WriteFile(name, []byte(ts.ReadFile(args[0])), 0o600))
	ts.Setenv("ENTRY", name)
}

// scriptLinked expects two names to be links to the same file.
func scriptLinked(ts *testscript.TestScript, neg bool, args []string) {
	a, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	b, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if os.SameFile(a, b) == neg {
		ts.Fatalf("%s and %s: one file is %t", args[0], args[1], neg)
	}
}

// scriptMutate runs an ALTER TABLE and waits until the server has done it, which
// it does in the background.
func scriptMutate(ts *testscript.TestScript, _ bool, args []string) {
	server := startedBy(ts).clickhouse
	_, err := server.Exec(context.Background(), args[0])
	ts.Check(err)
	ts.Check(testbed.Poll(args[0], func() (bool, error) {
		undone, err := server.Exec(context.Background(), "SELECT count() FROM system.mutations WHERE NOT is_done")
		return strings.TrimSpace(undone) == "0", err
	}))
}

// scriptS3 starts an S3 server with the bucket docs: s3 VARIABLE sets the
// variable to its address.
func scriptS3(ts *testscript.TestScript, _ bool, args []string) {
	server := startEngine(ts, "s3", engines.StartS3)
	ts.Check(server.CreateBucket(context.Background(), "docs"))
	ts.Setenv("AWS_ACCESS_KEY_ID", server.AccessKey)
	ts.Setenv("AWS_SECRET_ACCESS_KEY", server.SecretKey)
	ts.Setenv("AWS_REGION", server.Region)
	ts.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	ts.Setenv(args[0], "s3://docs/gauge?endpoint="+server.Endpoint)
}

// scriptPushgateway runs a Pushgateway: pushgateway start sets GATEWAY to its
// URL; pushgateway kill.
func scriptPushgateway(ts *testscript.TestScript, _ bool, args []string) {
	if args[0] == "kill" {
		ts.Check(startedBy(ts).pushgateway.Kill())
		return
	}
	server := startEngine(ts, "pushgateway", engines.StartPushgateway)
	startedBy(ts).pushgateway = server
	ts.Setenv("GATEWAY", server.URL)
}

// scriptNodeExporter runs a node_exporter: its metrics are at $NODE, it reads the
// textfiles in $TEXTFILES.
func scriptNodeExporter(ts *testscript.TestScript, _ bool, _ []string) {
	server := startEngine(ts, "node", engines.StartNodeExporter)
	ts.Setenv("NODE", server.URL)
	ts.Setenv("TEXTFILES", server.Dir)
}
