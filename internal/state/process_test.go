package state_test

import (
	"database/sql"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/docgauge/docgauge/internal/state"
)

// TestProcessesAtOnce: several processes make, migrate and write one database
// at the same moment; nothing is lost, nobody is turned away.
func TestProcessesAtOnce(t *testing.T) {
	dir := t.TempDir()
	var children []*child
	for range 3 {
		children = append(children, start(t, "count", dir))
	}
	for _, c := range children {
		last := ""
		for c.lines.Scan() {
			last = c.lines.Text()
		}
		if err := c.Wait(); err != nil || last != "10" {
			t.Errorf("a process ended with %v, its last words: %s", err, last)
		}
	}
	db := open(t, dir)
	if got := counter(t, db, "done", ""); got != 30 {
		t.Errorf("counter is %d after 3 processes added 10 each", got)
	}
	if got := counter(t, db, "windows_committed_total", `{project="prj_a",sink="parquet"}`); got != 10 {
		t.Errorf("%d windows counted, all processes committed the same 10", got)
	}
}

// TestReadersDoNotWait: a command that only looks does not wait for a write, which
// would end it after a minute.
func TestReadersDoNotWait(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	writer, err := sql.Open("sqlite", filepath.Join(dir, state.FileName))
	check(t, err)
	defer writer.Close()
	conn, err := writer.Conn(t.Context())
	check(t, err)
	defer conn.Close()
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	check(t, err)
	db, err := state.OpenExisting(dir)
	check(t, err)
	defer db.Close()
	if got := counter(t, db, "done", ""); got != 0 {
		t.Errorf("counter is %d", got)
	}
}

func TestLockExport(t *testing.T) {
	dir := t.TempDir()
	holder := start(t, "hold", dir)
	if got := holder.line(); got != "locked" {
		t.Fatalf("the other process says %q", got)
	}
	for range 2 { // a refusal must not disturb the lock
		_, err := state.LockExport(dir)
		if !errors.Is(err, state.ErrLocked) {
			t.Fatalf("got %v, want ErrLocked", err)
		}
		wantMessage(t, err, dir, "process "+strconv.Itoa(holder.Process.Pid))
	}
	check(t, holder.Process.Kill())
	holder.Wait()
	lock, err := state.LockExport(dir)
	check(t, err)
	if _, err := state.LockExport(dir); !errors.Is(err, state.ErrLocked) {
		t.Errorf("a second lock of the same process: %v", err)
	}
	check(t, lock.Release())
	again, err := state.LockExport(dir)
	check(t, err)
	check(t, again.Release())
}

// TestKillKeepsWhatWasAcknowledged kills a writer at random and holds what it
// said it had done against what the next process finds.
func TestKillKeepsWhatWasAcknowledged(t *testing.T) {
	dir := t.TempDir()
	said := 0
	for round := range 6 {
		c := start(t, "write", dir)
		for range 1 + rand.IntN(20) {
			if c.line() == "" {
				t.Fatal("the writer ended by itself")
			}
			said++
		}
		check(t, c.Process.Kill())
		for c.lines.Scan() { // said before it died
			said++
		}
		c.Wait()
		said = compare(t, dir, round, said)
	}
}

// compare returns what the counter holds: it may be one ahead of what was said.
func compare(t *testing.T, dir string, round, said int) int {
	t.Helper()
	db, err := state.Open(dir)
	check(t, err)
	defer db.Close()
	done := int(counter(t, db, "done", ""))
	if done < said || done > said+1 {
		t.Errorf("round %d: %d were acknowledged, the counter holds %d", round, said, done)
	}
	entries, err := db.Entries(t.Context())
	check(t, err)
	committed := 0
	for _, e := range entries {
		if at, owed := e.Sinks["parquet"]; !owed {
			t.Errorf("round %d: %s is recorded but owed to no sink", round, e.Key)
		} else if !at.IsZero() {
			committed++
		}
	}
	if counted := counter(t, db, "windows_committed_total", `{project="prj_a",sink="parquet"}`); int(counted) != committed {
		t.Errorf("round %d: %d windows are committed, %d counted", round, committed, counted)
	}
	if len(entries)-committed > 1 {
		t.Errorf("round %d: %d windows are half way", round, len(entries)-committed)
	}
	return done
}
