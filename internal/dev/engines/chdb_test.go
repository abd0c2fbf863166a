package engines_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestEngine26Errors: a failed query keeps its code and does not affect the next one on the same
// connection. The tests of the sink try everything else that the adapter does.
func TestEngine26Errors(t *testing.T) {
	options, err := clickhouse.ParseDSN(engines.RunEngine26(t).DSN("default"))
	if err != nil {
		t.Fatal(err)
	}
	options.MaxOpenConns = 1
	conn, err := clickhouse.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for sql, code := range map[string]int32{
		"SELECT * FROM nowhere": 60,
		"SELEC 1":               62,
		"SELECT throwIf(number = 5) FROM numbers(10)":            395,
		"SELECT throwIf(number = 2999999) FROM numbers(3000000)": 395, // after blocks were sent
	} {
		rows, err := conn.Query(t.Context(), sql)
		if err == nil {
			for rows.Next() {
			}
			err = errors.Join(rows.Err(), rows.Close())
		}
		if got, ok := errors.AsType[*clickhouse.Exception](err); !ok || got.Code != code {
			t.Errorf("%s: %v, want code %d", sql, err, code)
		}
		var n uint8
		if err := conn.QueryRow(t.Context(), "SELECT 42").Scan(&n); err != nil || n != 42 {
			t.Errorf("after %s: SELECT 42 is %d, %v", sql, n, err)
		}
	}
}

// TestEngine26RefusesBrokenData sends bodies that are not Native blocks, or end
// inside one.
func TestEngine26RefusesBrokenData(t *testing.T) {
	engine := engines.RunEngine26(t)
	query := func(sql string) string {
		out, err := engine.Exec(context.WithoutCancel(t.Context()), sql)
		if err != nil {
			t.Error(err)
		}
		return out
	}
	// awaitInserts waits until an INSERT is under way, or until none is.
	awaitInserts := func(isUnderWay bool) {
		for end := time.Now().Add(2 * time.Minute); ; {
			n := query("SELECT count() FROM system.processes WHERE query LIKE 'INSERT%'")
			if (n != "0\n") == isUnderWay {
				return
			}
			if time.Now().After(end) {
				t.Errorf("an INSERT is under way: %s, want %t", n, isUnderWay)
				return
			}
		}
	}
	insert := func(body io.Reader) error {
		address := engine.DSN("") + "?query=" + url.QueryEscape("INSERT INTO t FORMAT Native")
		response, err := http.Post(address, "", body)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
	query("CREATE TABLE t (u UInt64) ENGINE = MergeTree ORDER BY u")
	block := nativeBlock(1000)
	breakOff := func() error {
		awaitInserts(true)
		return errors.New("the client broke off")
	}
	for name, body := range map[string]io.Reader{
		"garbage":           strings.NewReader("\x01\x02no block at all"),
		"short":             bytes.NewReader(block[:len(block)-1]),
		"cut after a block": io.MultiReader(bytes.NewReader(block), reader(breakOff)),
	} {
		if err := insert(body); err == nil {
			t.Errorf("%s: no error", name)
		}
		awaitInserts(false)
		if got := query("SELECT count() FROM t"); got != "0\n" {
			t.Errorf("%s: %s rows", name, got)
		}
	}
	if err := insert(bytes.NewReader(block)); err != nil {
		t.Error(err)
	}
	if got := query("SELECT count(), sum(u) FROM t"); got != "1000\t499500\n" {
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

// reader yields no bytes: it calls a function, which also returns the error.
type reader func() error

func (do reader) Read([]byte) (int, error) { return 0, do() }
