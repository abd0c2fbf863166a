package engines_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

const everyType = `CREATE TABLE t (s String, i Int64, d Date, u UInt64, b UInt8, at DateTime)
	ENGINE = MergeTree ORDER BY u`

// manyRows is the number of rows that the tests insert at once.
const manyRows = 100_000

// columns holds rows of a table that everyType makes.
type columns struct {
	s  []string
	i  []int64
	d  []time.Time
	u  []uint64
	b  []uint8
	at []time.Time
}

func makeColumns(n int) (c columns) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	day := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	for n := range n {
		c.s = append(c.s, string(every[n%256:])+string(every[:n%7]))
		c.i = append(c.i, []int64{math.MinInt64, math.MaxInt64, 0, -1, int64(n)}[n%5])
		c.d = append(c.d, day.AddDate(0, 0, n%28))
		c.u = append(c.u, uint64(n))
		c.b = append(c.b, uint8(n))
		c.at = append(c.at, day.Add(time.Duration(n)*time.Second))
	}
	return c
}

func TestEngine26RoundTrip(t *testing.T) {
	engine := engines.RunEngine26(t)
	for name, compression := range map[string]clickhouse.CompressionMethod{
		"plain": clickhouse.CompressionNone, "lz4": clickhouse.CompressionLZ4, "zstd": clickhouse.CompressionZSTD,
	} {
		t.Run(name, func(t *testing.T) {
			conn := connect(t, engine, func(o *clickhouse.Options) {
				o.Compression = &clickhouse.Compression{Method: compression}
			})
			run(t, conn, "DROP TABLE IF EXISTS t")
			run(t, conn, everyType)
			want := makeColumns(manyRows)
			if err := insert(t.Context(), conn, want); err != nil {
				t.Fatal(err)
			}
			compare(t, conn, want)
		})
	}
}

func insert(ctx context.Context, conn driver.Conn, c columns) error {
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO t (s, i, d, u, b, at)")
	if err != nil {
		return err
	}
	for n, column := range []any{c.s, c.i, c.d, c.u, c.b, c.at} {
		if err := batch.Column(n).Append(column); err != nil {
			return err
		}
	}
	return batch.Send()
}

func compare(t *testing.T, conn driver.Conn, want columns) {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT s, i, d, u, b, at FROM t ORDER BY u")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var s string
		var i int64
		var u uint64
		var b uint8
		var d, at time.Time
		if err := rows.Scan(&s, &i, &d, &u, &b, &at); err != nil {
			t.Fatal(err)
		}
		if s != want.s[n] || i != want.i[n] || u != want.u[n] || b != want.b[n] || !d.Equal(want.d[n]) ||
			!at.Equal(want.at[n]) {
			t.Fatalf("row %d: %q %d %v %d %d %v", n, s, i, d, u, b, at)
		}
	}
	if err := rows.Err(); err != nil || n != len(want.u) {
		t.Fatalf("%d rows, %v; want %d", n, err, len(want.u))
	}
}

// TestEngine26Errors: a failed query keeps its code and does not affect the next
// one on the same connection.
func TestEngine26Errors(t *testing.T) {
	engine := engines.RunEngine26(t)
	conn := connect(t, engine, func(o *clickhouse.Options) { o.MaxOpenConns = 1 })
	run(t, conn, "CREATE TABLE t (u UInt64) ENGINE = MergeTree ORDER BY u")
	for sql, code := range map[string]int32{
		"SELECT * FROM nowhere": 60,
		"SELEC 1":               62,
		"SELECT throwIf(number = 5) FROM numbers(10)":            395,
		"SELECT throwIf(number = 2999999) FROM numbers(3000000)": 395, // after blocks were sent
		"INSERT INTO t VALUES (1), ('x')":                        6,
	} {
		if got := errorCode(drain(t.Context(), conn, sql)); got != code {
			t.Errorf("%s: code %d, want %d", sql, got, code)
		}
		if got := number(t, conn, "SELECT 42"); got != 42 {
			t.Errorf("after %s: SELECT 42 is %d", sql, got)
		}
	}
	if got := number(t, conn, "SELECT count() FROM t"); got != 0 {
		t.Errorf("%d rows of a refused INSERT", got)
	}
	run(t, conn, "INSERT INTO t VALUES (7)")
	if got := number(t, conn, "SELECT sum(u) FROM t"); got != 7 {
		t.Errorf("sum %d after a good INSERT, want 7", got)
	}
}

// TestEngine26RefusesBrokenData sends bodies that are not Native blocks, or end
// inside one.
func TestEngine26RefusesBrokenData(t *testing.T) {
	engine := engines.RunEngine26(t)
	query(t, engine, "CREATE TABLE t (u UInt64) ENGINE = MergeTree ORDER BY u")
	block := nativeBlock(1000)
	breakOff := func() error {
		return errors.Join(poll(func() bool { return inserting(engine) }), errors.New("the client broke off"))
	}
	for name, body := range map[string]io.Reader{
		"garbage":           strings.NewReader("\x01\x02no block at all"),
		"short":             bytes.NewReader(block[:len(block)-1]),
		"cut after a block": io.MultiReader(bytes.NewReader(block), reader(breakOff)),
	} {
		if err := post(t, engine, "INSERT INTO t FORMAT Native", body); err == nil {
			t.Errorf("%s: no error", name)
		}
		waitFor(t, func() bool { return !inserting(engine) })
		if got := query(t, engine, "SELECT count() FROM t"); got != "0\n" {
			t.Errorf("%s: %s rows", name, got)
		}
	}
	if err := post(t, engine, "INSERT INTO t FORMAT Native", bytes.NewReader(block)); err != nil {
		t.Error(err)
	}
	if got := query(t, engine, "SELECT count(), sum(u) FROM t"); got != "1000\t499500\n" {
		t.Errorf("after a good INSERT: %s", got)
	}
}

// nativeBlock is a block of one column u UInt64 with 0 … n-1.
func nativeBlock(n int) []byte {
	b := []byte{1, byte(n) | 0x80, byte(n >> 7), 1, 'u', 6, 'U', 'I', 'n', 't', '6', '4'}
	for i := range n {
		b = append(b, byte(i), byte(i>>8), 0, 0, 0, 0, 0, 0)
	}
	return b
}

// inserting reports whether an INSERT is under way.
func inserting(engine *engines.Engine26) bool {
	n, err := engine.Exec(context.Background(), "SELECT count() FROM system.processes WHERE query LIKE 'INSERT%'")
	return err == nil && n != "0\n"
}

// reader yields no bytes: it calls a function, which also returns the error.
type reader func() error

func (do reader) Read([]byte) (int, error) { return 0, do() }

func TestEngine26ReadsWhileItWrites(t *testing.T) {
	engine := engines.RunEngine26(t)
	query(t, engine, everyType)
	conn := connect(t, engine, nil)
	rows := makeColumns(manyRows)
	done := make(chan struct{})
	group, ctx := errgroup.WithContext(t.Context())
	for range 4 {
		group.Go(func() error { return readUntil(ctx, conn, done) })
	}
	group.Go(func() error {
		defer close(done)
		for range 3 {
			if err := insert(ctx, conn, rows); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// readUntil checks until done is closed that only whole inserts are visible.
func readUntil(ctx context.Context, conn driver.Conn, done <-chan struct{}) error {
	for {
		var n uint64
		if err := conn.QueryRow(ctx, "SELECT count() FROM t").Scan(&n); err != nil {
			return err
		}
		if n%manyRows != 0 {
			return fmt.Errorf("a reader saw %d rows, part of an insert", n)
		}
		select {
		case <-done:
			return nil
		default:
		}
	}
}

// TestEngine26RunsQueriesAtOnce finishes queries while an endless one runs. Small
// blocks keep that one below the server's limit of three seconds of sleep a block.
func TestEngine26RunsQueriesAtOnce(t *testing.T) {
	engine := engines.RunEngine26(t)
	conn := connect(t, engine, nil)
	ctx, cancel := context.WithCancel(t.Context())
	slow := make(chan error, 1)
	go func() {
		slow <- drain(ctx, conn, "SELECT count() FROM system.numbers WHERE number = sleepEachRow(0.001) "+
			"SETTINGS max_block_size = 1000")
	}()
	waitFor(t, func() bool {
		return number(t, conn, "SELECT count() FROM system.processes WHERE query LIKE '%sleepEachRow(0.001)%'") > 1
	})
	cancel()
	if err := <-slow; err == nil {
		t.Error("the cancelled query has no error")
	}
	if got := number(t, conn, "SELECT 42"); got != 42 {
		t.Errorf("after a cancelled query: %d", got)
	}
}

// TestEngine26SurvivesAKill kills the engine during an INSERT: afterwards it is
// there completely, or not at all.
func TestEngine26SurvivesAKill(t *testing.T) {
	engine := engines.RunEngine26(t)
	query(t, engine, "CREATE TABLE t (u UInt64) ENGINE = MergeTree ORDER BY u")
	const rows, blocks = 10_000, 30
	all := bytes.Repeat(nativeBlock(rows), blocks)
	const insert = "INSERT INTO t FORMAT Native"
	if err := post(t, engine, insert, bytes.NewReader(all)); err != nil {
		t.Fatal(err)
	}
	killed := make(chan error, 1)
	kill := func() error {
		err := poll(func() bool { return inserting(engine) })
		go func() { killed <- engine.Kill() }()
		if err == nil {
			err = io.EOF
		}
		return err
	}
	half := len(all) / 2
	if err := post(t, engine, insert, io.MultiReader(bytes.NewReader(all[:half]), reader(kill),
		bytes.NewReader(all[half:]))); err == nil {
		t.Log("the insert was over before the kill")
	}
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := engine.Restart(); err != nil {
			t.Fatal(err)
		}
		if got := number(t, connect(t, engine, nil), "SELECT count() FROM t"); got != rows*blocks &&
			got != 2*rows*blocks {
			t.Errorf("%d rows, want whole inserts of %d", got, rows*blocks)
		}
		if err := engine.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEngine26ChecksThePassword(t *testing.T) {
	engine := engines.RunEngine26(t, "--password=secret")
	if err := connect(t, engine, nil).Ping(t.Context()); errorCode(err) != 516 {
		t.Errorf("without a password: %v, want code 516", err)
	}
	with := connect(t, engine, func(o *clickhouse.Options) { o.Auth.Username, o.Auth.Password = "default", "secret" })
	if err := with.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestEngine26ChecksGrants makes tables with every right and uses them with few.
func TestEngine26ChecksGrants(t *testing.T) {
	dir := t.TempDir()
	admin, err := engines.StartEngine26(dir)
	engines.Need(t, err)
	query(t, admin, "CREATE DATABASE db")
	for _, table := range []string{"mine", "other"} {
		query(t, admin, "CREATE TABLE db."+table+" (u UInt64) ENGINE = MergeTree ORDER BY u")
	}
	if err := admin.Kill(); err != nil {
		t.Fatal(err)
	}
	engine, err := engines.StartEngine26(dir, "--grant=GRANT SELECT, INSERT ON db.mine")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Kill() })
	conn := connect(t, engine, func(o *clickhouse.Options) { o.Auth.Database = "db" })
	run(t, conn, "INSERT INTO mine VALUES (7)")
	if got := number(t, conn, "SELECT sum(u) FROM mine"); got != 7 {
		t.Errorf("sum %d, want 7", got)
	}
	for _, sql := range []string{"SELECT * FROM other", "INSERT INTO other VALUES (1)", "DROP TABLE mine",
		"CREATE TABLE more (u UInt64) ENGINE = Memory"} {
		if err := drain(t.Context(), conn, sql); errorCode(err) != 497 {
			t.Errorf("%s: %v, want code 497", sql, err)
		}
	}
}

func TestEngine26Settings(t *testing.T) {
	engine := engines.RunEngine26(t)
	conn := connect(t, engine, nil)
	run(t, conn, "CREATE DATABASE `odd ``name`")
	ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"max_threads": 3}),
		clickhouse.WithParameters(clickhouse.Parameters{"n": "7"}))
	var threads, n uint64
	if err := conn.QueryRow(ctx, "SELECT toUInt64(getSetting('max_threads')), {n:UInt64}").Scan(&threads,
		&n); err != nil || threads != 3 || n != 7 {
		t.Errorf("max_threads %d, n %d, %v; want 3 and 7", threads, n, err)
	}
	ctx = clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"no_such_setting": 1}))
	if err := drain(ctx, conn, "SELECT 1"); errorCode(err) != 115 {
		t.Errorf("an unknown setting: %v, want code 115", err)
	}
	if err := drain(t.Context(), connect(t, engine,
		func(o *clickhouse.Options) { o.Auth.Database = "nowhere" }), "SELECT 1"); errorCode(err) != 81 {
		t.Errorf("an unknown database: %v, want code 81", err)
	}
	odd := connect(t, engine, func(o *clickhouse.Options) { o.Auth.Database = "odd `name" })
	var name string
	if err := odd.QueryRow(t.Context(), "SELECT currentDatabase()").Scan(&name); err != nil || name != "odd `name" {
		t.Errorf("database %q, %v", name, err)
	}
}

func connect(t *testing.T, engine *engines.Engine26, change func(*clickhouse.Options)) driver.Conn {
	t.Helper()
	options, err := clickhouse.ParseDSN(engine.DSN("default"))
	if err != nil {
		t.Fatal(err)
	}
	options.MaxOpenConns = 8
	if change != nil {
		change(options)
	}
	conn, err := clickhouse.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func run(t *testing.T, conn driver.Conn, sql string) {
	t.Helper()
	if err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// drain runs a query to its end.
func drain(ctx context.Context, conn driver.Conn, sql string) error {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return errors.Join(rows.Err(), rows.Close())
}

// number runs a query whose answer is one Int64, UInt64 or smaller.
func number(t *testing.T, conn driver.Conn, sql string) (n int64) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "SELECT toInt64(("+sql+"))").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func errorCode(err error) int32 {
	exception, ok := errors.AsType[*clickhouse.Exception](err)
	if !ok {
		return 0
	}
	return exception.Code
}

func query(t *testing.T, engine *engines.Engine26, sql string) string {
	t.Helper()
	out, err := engine.Exec(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func post(t *testing.T, engine *engines.Engine26, sql string, body io.Reader) error {
	t.Helper()
	address := "http://" + engine.Addr() + "/?query=" + url.QueryEscape(sql)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(string(text))
	}
	return err
}

// waitFor waits until ready returns true, or fails the test.
func waitFor(t *testing.T, ready func() bool) {
	t.Helper()
	if err := poll(ready); err != nil {
		t.Fatal(err)
	}
}

// poll is waitFor outside of the test's goroutine.
func poll(ready func() bool) error {
	for end := time.Now().Add(2 * time.Minute); !ready(); {
		if time.Now().After(end) {
			return errors.New("waited two minutes in vain")
		}
	}
	return nil
}
