package state_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
)

// now is an odd moment: nothing below may depend on full hours.
var now = time.Date(2026, 10, 5, 13, 37, 11, 123456000, time.UTC)

func open(t *testing.T, dir string) *state.DB {
	t.Helper()
	db := must(state.Open(dir))(t)
	t.Cleanup(func() { db.Close() })
	return db
}

// inMemory opens an empty database without a file.
func inMemory(t testing.TB) *state.DB {
	t.Helper()
	db := must(state.OpenExisting("nowhere"))(t)
	t.Cleanup(func() { db.Close() })
	return db
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns the value of a call, and ends the test if the call failed: must(call())(t).
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return value
	}
}

func same(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// wantMessage fails unless err's message names all of the words.
func wantMessage(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v does not say %q", err, word)
		}
	}
}

func day(d int) analytics.Key {
	from := analytics.NewDate(2026, 10, d)
	window := analytics.Window{From: from, To: from + 1}
	return analytics.Key{Project: "prj_a", Granularity: analytics.Day, Window: window}
}

func revision(k analytics.Key, number int32) analytics.Revision {
	return analytics.Revision{
		Key: k, Number: number, Verified: true, Rows: 100 + int64(number),
		Totals: analytics.Totals{Human: 7, AI: 5, Total: 11}, ExportedAt: now.Add(time.Duration(number) * time.Minute),
	}
}

// counter returns the value of a counter, 0 if it was never counted.
func counter(t *testing.T, db *state.DB, name string, labels ...string) int64 {
	t.Helper()
	for _, c := range must(db.Counters(t.Context()))(t) {
		if c.Name == name && c.Labels == state.Labels(labels...) {
			return c.Value
		}
	}
	return 0
}

const childEnv = "DOCGAUGE_STATE_TEST_CHILD"

// TestMain is also the second process of the tests that need one.
func TestMain(m *testing.M) {
	role, dir, ok := strings.Cut(os.Getenv(childEnv), " ")
	if !ok {
		os.Exit(m.Run())
	}
	if err := roles[role](dir); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

var roles = map[string]func(dir string) error{
	"hold":  holdLock,
	"count": func(dir string) error { return countTo(dir, 10) },
	"write": func(dir string) error { return countTo(dir, 1<<30) },
	"jobs":  moveJobs,
	"read":  readCounter,
}

// readCounter prints the counter n.
func readCounter(dir string) error {
	db, err := state.OpenExisting(dir)
	if err != nil {
		return err
	}
	counts, err := db.Counters(context.Background())
	for _, c := range counts {
		if c.Name == "n" {
			fmt.Println(c.Value)
		}
	}
	return errors.Join(err, db.Close())
}

func holdLock(dir string) error {
	if _, err := state.LockExport(dir); err != nil {
		return err
	}
	fmt.Println("locked")
	_, err := io.Copy(io.Discard, os.Stdin) // until the parent goes
	return err
}

// countTo records windows and prints a line after each one that was acknowledged.
func countTo(dir string, n int) error {
	db, err := state.Open(dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for i := range n {
		if err := db.Count(ctx, "done", 1); err != nil {
			return err
		}
		rev := revision(day(1+i), 1)
		if err := db.Record(ctx, rev, analytics.Provenance{Requests: 1}, []string{"parquet"}); err != nil {
			return err
		}
		if err := db.Committed(ctx, rev, "parquet", now); err != nil {
			return err
		}
		fmt.Println(i + 1)
	}
	return db.Close()
}

type child struct {
	*exec.Cmd
	in    io.Closer
	lines *bufio.Scanner
}

func start(t *testing.T, role, dir string, set ...func(*exec.Cmd)) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0])}
	for _, set := range set {
		set(c.Cmd)
	}
	c.Env = append(os.Environ(), childEnv+"="+role+" "+dir)
	c.Stderr = os.Stderr
	in := must(c.StdinPipe())(t)
	out := must(c.StdoutPipe())(t)
	c.in, c.lines = in, bufio.NewScanner(out)
	check(t, c.Start())
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c
}

func (c *child) line() string {
	if !c.lines.Scan() {
		return ""
	}
	return c.lines.Text()
}

// raw opens the database without this package.
func raw(t testing.TB, dir string) *sql.DB {
	t.Helper()
	db := must(sql.Open("sqlite", filepath.Join(dir, state.FileName)))(t)
	t.Cleanup(func() { db.Close() })
	return db
}
