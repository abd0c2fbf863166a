package state_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/state"
)

func TestOpenMakesAPrivateDirectory(t *testing.T) {
	for _, before := range []os.FileMode{0, 0o755, 0o700} {
		dir := filepath.Join(t.TempDir(), "a", "state")
		if before != 0 {
			check(t, os.MkdirAll(dir, before))
		}
		open(t, dir)
		info := must(os.Stat(dir))(t)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("directory that was %o before is %o", before, info.Mode().Perm())
		}
	}
}

// TestOpenLeavesSharedDirectoriesAlone: setting /tmp to 0700 would shut out all other users.
func TestOpenLeavesSharedDirectoriesAlone(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Chmod(dir, 0o777|os.ModeSticky))
	_, err := state.Open(dir)
	wantMessage(t, err, dir, "shared", "DOCGAUGE_STATE_DIR")
	info := must(os.Stat(dir))(t)
	if info.Mode().Perm() != 0o777 {
		t.Errorf("its mode is %o now", info.Mode().Perm())
	}
}

func TestOpenDirectoryNames(t *testing.T) {
	for _, name := range []string{"with space", "a?b=c", "a#b", "a%20b", "a%", "ü", "a&b;c", "file:x", "-"} {
		dir := filepath.Join(t.TempDir(), name)
		check(t, open(t, dir).Count(t.Context(), "n", 1))
		if _, err := os.Stat(filepath.Join(dir, state.FileName)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		db := must(state.OpenExisting(dir))(t)
		if got := counter(t, db, "n"); got != 1 {
			t.Errorf("%q: counter is %d after opening again", name, got)
		}
		db.Close()
	}
	t.Chdir(t.TempDir())
	check(t, open(t, "rel?ative").Count(t.Context(), "n", 1))
	if _, err := os.Stat("rel?ative/" + state.FileName); err != nil {
		t.Error(err)
	}
}

func TestOpenExistingMakesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	db := must(state.OpenExisting(dir))(t)
	defer db.Close()
	entries, err := db.Entries(t.Context())
	if err != nil || len(entries) != 0 {
		t.Errorf("entries %v, %v", entries, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("stat %s: %v", dir, err)
	}
}

func TestOpenAgain(t *testing.T) {
	dir := t.TempDir()
	counted(t, dir, 3)
	same(t, int64(3), counter(t, open(t, dir), "n"))
	same(t, state.FirstSchema, userVersion(t, dir))
}

// counted leaves a database whose counter n has a value.
func counted(t *testing.T, dir string, n int64) {
	t.Helper()
	db := open(t, dir)
	check(t, db.Count(t.Context(), "n", n))
	check(t, db.Close())
}

// record records the window of a day for two sinks.
func record(t *testing.T, db *state.DB, d int) error {
	return db.Record(t.Context(), revision(day(1+d), 1), analytics.Provenance{Requests: 1},
		[]string{"parquet", "clickhouse"})
}

func userVersion(t *testing.T, dir string) (version int) {
	t.Helper()
	check(t, raw(t, dir).QueryRow("PRAGMA user_version").Scan(&version))
	return version
}

// TestForeignSchemaIsRefused: a database of a newer docgauge, or of one before 0.1.0, is refused
// and stays unchanged.
func TestForeignSchemaIsRefused(t *testing.T) {
	for schema, words := range map[int][]string{
		999: {"999", "use the newer docgauge", "DOCGAUGE_STATE_DIR"},
		13:  {"13", "development version", "0.1.0", "docgauge status --rebuild"},
	} {
		dir := t.TempDir()
		counted(t, dir, 1)
		must(raw(t, dir).Exec("PRAGMA user_version = " + strconv.Itoa(schema)))(t)
		for name, opens := range map[string]func(string) (*state.DB, error){
			"Open": state.Open, "OpenUnmigrated": state.OpenUnmigrated, "OpenExisting": state.OpenExisting,
		} {
			_, err := opens(dir)
			if errors.Is(err, state.ErrUnusable) != (schema < state.FirstSchema) {
				t.Errorf("%s of schema %d: %v", name, schema, err)
			}
			wantMessage(t, err, append(words, dir)...)
		}
		var count int
		check(t, raw(t, dir).QueryRow("SELECT value FROM counters").Scan(&count))
		if got := userVersion(t, dir); got != schema || count != 1 {
			t.Errorf("the schema is %d now, the counter %d", got, count)
		}
	}
}

// filled returns a directory with a closed database of many pages.
func filled(t *testing.T) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	db := open(t, dir)
	for d := range 300 {
		check(t, record(t, db, d))
	}
	check(t, db.Close())
	return dir, filepath.Join(dir, state.FileName)
}

func TestDamageIsNamed(t *testing.T) {
	junk := bytes.Repeat([]byte("docgauge"), 1024)
	for name, damage := range map[string]func([]byte) []byte{
		"bytes in the middle": func(b []byte) []byte { copy(b[len(b)/2:], junk[:4096]); return b },
		"bytes at the end":    func(b []byte) []byte { copy(b[len(b)-4096:], junk); return b },
		"second page":         func(b []byte) []byte { copy(b[4096:8192], junk); return b },
		"cut in half":         func(b []byte) []byte { return b[:len(b)/2/4096*4096] },
		"cut inside a page":   func(b []byte) []byte { return b[:len(b)/2/4096*4096+100] },
		"cut in the header":   func(b []byte) []byte { return b[:50] },
		"not a database":      func([]byte) []byte { return []byte(strings.Repeat("notes of mine\n", 1000)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, file := filled(t)
			content := must(os.ReadFile(file))(t)
			check(t, os.WriteFile(file, damage(content), 0o600))
			db, err := state.Open(dir)
			if err == nil {
				defer db.Close()
				_, err = db.Entries(t.Context())
			}
			if !errors.Is(err, state.ErrUnusable) {
				t.Fatalf("got %v, want ErrUnusable", err)
			}
			wantMessage(t, err, file, "status --rebuild")
		})
	}
}

func TestSetAside(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, state.FileName)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		check(t, os.WriteFile(file+suffix, []byte("old"+suffix), 0o600))
	}
	aside := must(state.SetAside(dir, now))(t)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		same(t, "old"+suffix, string(must(os.ReadFile(aside+suffix))(t)))
	}
	same(t, 0, len(must(open(t, dir).Entries(t.Context()))(t)))
	if _, err := state.SetAside(t.TempDir(), now); err == nil {
		t.Error("nothing to set aside is no error")
	}
}

// mount mounts a tmpfs at a new directory, or skips the test.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("NOT TESTED: mounting a small file system: %v (needs root)", err)
	}
	t.Cleanup(func() { check(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

func TestDiskFull(t *testing.T) {
	root := mount(t, "size=400k,mode=0700")
	db := must(state.Open(root))(t)
	defer db.Close()
	acknowledged := -1
	var err error
	for err == nil && acknowledged < 10_000 {
		acknowledged++
		err = record(t, db, acknowledged)
	}
	wantMessage(t, err, root, "disk is full", "free space")
	if acknowledged == 0 {
		t.Fatal("not even one window fits")
	}
	entries := must(db.Entries(t.Context()))(t)
	if len(entries) != acknowledged {
		t.Errorf("%d entries, %d were acknowledged", len(entries), acknowledged)
	}
	for _, e := range entries {
		if len(e.Sinks) != 2 {
			t.Errorf("%s is recorded in half: sinks %v", e.Key, e.Sinks)
		}
	}
	check(t, syscall.Mount("none", root, "tmpfs", syscall.MS_REMOUNT, "size=4m,mode=0700"))
	check(t, record(t, db, acknowledged))
}

// TestDiskFullAtStart: SQLite has another error where the file that it shares with other processes has no room.
func TestDiskFullAtStart(t *testing.T) {
	root := mount(t, "size=400k,mode=0700")
	check(t, open(t, root).Close())
	filler := must(os.Create(filepath.Join(root, "filler")))(t)
	for err := error(nil); err == nil; {
		_, err = filler.Write(make([]byte, 1<<10))
	}
	check(t, filler.Close())
	_, err := state.Open(root)
	wantMessage(t, err, root, "disk is full", "free space")
	check(t, os.Remove(filler.Name()))
	check(t, open(t, root).Close())
}

func TestReadOnlyDirectory(t *testing.T) {
	root := mount(t, "size=1m,mode=0700")
	check(t, open(t, root).Close())
	check(t, syscall.Mount("none", root, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	db, err := state.Open(root)
	if err == nil {
		err = db.Count(t.Context(), "n", 1)
		db.Close()
	}
	wantMessage(t, err, root, "cannot be written", "DOCGAUGE_STATE_DIR")
	_, err = state.Open(filepath.Join(root, "new"))
	wantMessage(t, err, root, "DOCGAUGE_STATE_DIR", "can be written")
}

// TestReadOnlyMount: a command that only reads needs no write access, whether the last
// process that wrote ended well or was killed, and it leaves nothing behind.
func TestReadOnlyMount(t *testing.T) {
	killed := func(t *testing.T, dir string) { // as its files are while a process has it open
		db := open(t, dir)
		check(t, db.Count(t.Context(), "n", 1))
		for _, suffix := range []string{"", "-wal", "-shm"} {
			content := must(os.ReadFile(filepath.Join(dir, state.FileName+suffix)))(t)
			check(t, os.WriteFile(filepath.Join(dir, "copy"+suffix), content, 0o600))
		}
		check(t, db.Close())
		for _, suffix := range []string{"", "-wal", "-shm"} {
			check(t, os.Rename(filepath.Join(dir, "copy"+suffix), filepath.Join(dir, state.FileName+suffix)))
		}
	}
	for name, tc := range map[string]struct {
		make func(t *testing.T, dir string)
		want []string // of the error
	}{
		"ended well": {func(t *testing.T, dir string) { counted(t, dir, 1) }, nil},
		"killed":     {killed, nil},
		"killed, and copied without its index": {func(t *testing.T, dir string) {
			killed(t, dir)
			check(t, os.Remove(filepath.Join(dir, state.FileName+"-shm")))
		}, []string{"docgauge.db-wal", "write access", "DOCGAUGE_STATE_DIR"}},
		"nothing there": {func(*testing.T, string) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := mount(t, "size=1m,mode=0755")
			tc.make(t, root)
			check(t, syscall.Mount("none", root, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
			before := listing(t, root)
			db, err := state.OpenExisting(root)
			if len(tc.want) > 0 {
				wantMessage(t, err, append(tc.want, root)...)
				return
			}
			check(t, err)
			if got, want := counter(t, db, "n"), int64(min(1, len(before))); got != want {
				t.Errorf("counter is %d, want %d", got, want)
			}
			check(t, db.Close())
			same(t, before, listing(t, root))
		})
	}
}

func listing(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries := must(os.ReadDir(dir))(t)
	for _, e := range entries {
		info := must(e.Info())(t)
		names = append(names, info.Name()+" "+info.Mode().String())
	}
	return names
}

// TestOtherUserReads: a user who may only read the directory sees the last writes of a live
// process, and the locks of a process that has ended.
func TestOtherUserReads(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: reading as another user (needs root)")
	}
	dir := t.TempDir()
	check(t, os.Chmod(filepath.Dir(dir), 0o755))
	read := func() string {
		t.Helper()
		check(t, os.Chmod(dir, 0o755))
		c := start(t, "read", dir, func(cmd *exec.Cmd) {
			cmd.Path = "/proc/self/exe" // its directory is another user's
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		})
		defer c.Wait()
		return c.line()
	}
	check(t, open(t, dir).Close())
	check(t, os.Chmod(filepath.Join(dir, state.FileName), 0o644))
	db := open(t, dir)
	check(t, db.Count(t.Context(), "n", 1))
	if got := read(); got != "1" {
		t.Errorf("beside a live process: %q", got)
	}
	check(t, db.Close())
	if got := read(); got != "1" {
		t.Errorf("after it: %q", got)
	}
	check(t, os.Chmod(filepath.Join(dir, state.FileName), 0o600))
	if got := read(); !strings.Contains(got, "cannot be read") || !strings.Contains(got, "check owner and mode") {
		t.Errorf("a database of mode 0600: %q", got)
	}
	check(t, os.Chmod(dir, 0o700))
	same(t, []string{state.FileName + " -rw-------"}, listing(t, dir))
}

// TestMigration: only a command that may write migrates, and only while no process of an older docgauge
// holds the state. The data stay.
func TestMigration(t *testing.T) {
	dir := t.TempDir()
	counted(t, dir, 3)
	state.Migrate(t, "ALTER TABLE counters ADD COLUMN unit TEXT NOT NULL DEFAULT 'one'",
		"CREATE TABLE later (a INTEGER)")
	const newest = state.FirstSchema + 2
	before := listing(t, dir)
	for _, opens := range []func(string) (*state.DB, error){state.OpenExisting, state.OpenUnmigrated} {
		_, err := opens(dir)
		wantMessage(t, err, dir, "an older docgauge", "schema 103", "has 105", "docgauge export")
	}
	same(t, before, listing(t, dir))
	// holds takes a lock as the process of a docgauge with the given newest schema does.
	holds := func(name string, schema int) *os.File {
		path := filepath.Join(dir, name)
		check(t, os.WriteFile(path, fmt.Appendf(nil, "4711 schema %d\n", schema), 0o600))
		holder := must(os.Open(path))(t)
		if taken, err := durable.TryLock(holder); !taken {
			t.Fatal(name, err)
		}
		return holder
	}
	for _, name := range []string{"export.lock", "queue.lock"} {
		holder := holds(name, newest-1)
		_, err := state.Open(dir)
		if !errors.Is(err, state.ErrLocked) {
			t.Errorf("Open beside %s: %v", name, err)
		}
		wantMessage(t, err, name, "process 4711", "schema 103", "restart it")
		check(t, holder.Close())
	}
	if got := userVersion(t, dir); got != state.FirstSchema {
		t.Errorf("the schema is %d now", got)
	}
	// Two processes of this docgauge do not keep each other from migrating.
	defer holds("export.lock", newest).Close()
	queue := must(state.LockQueue(dir))(t)
	db := open(t, dir)
	check(t, queue.Release())
	if got := userVersion(t, dir); got != newest || counter(t, db, "n") != 3 {
		t.Errorf("the schema is %d now, the counter %d", got, counter(t, db, "n"))
	}
	fresh := t.TempDir()
	check(t, open(t, fresh).Close())
	if got := userVersion(t, fresh); got != newest {
		t.Errorf("a new state has schema %d", got)
	}
}

// lock takes the lock of the database as another program.
func lock(t *testing.T, dir string) *sql.Conn {
	t.Helper()
	conn := must(raw(t, dir).Conn(t.Context()))(t)
	t.Cleanup(func() { conn.Close() })
	must(conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"))(t)
	return conn
}

// TestLockedByAnotherProgram: whatever a caller waited for says why.
func TestLockedByAnotherProgram(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	conn := lock(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	failed := make(chan error)
	for _, call := range []func() error{
		func() error { return db.Count(ctx, "n", 1) },
		func() error { return db.SetDone(ctx, "duty", now) },
		func() error { _, err := db.Entries(ctx); return err },
	} {
		go func() { failed <- call() }()
	}
	<-ctx.Done()
	must(conn.ExecContext(t.Context(), "ROLLBACK"))(t)
	for range 3 {
		if err := <-failed; err != nil { // a reading may have come before the lock was waited for
			wantMessage(t, err, dir, "locked by another program")
		}
	}
	if got := counter(t, db, "n"); got != 0 {
		t.Errorf("what was refused is there: %d", got)
	}
}

func TestStateDirIsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o600))
	_, err := state.Open(file)
	wantMessage(t, err, file, "DOCGAUGE_STATE_DIR")
	_, err = state.OpenExisting(file)
	wantMessage(t, err, file, "DOCGAUGE_STATE_DIR")
}

func TestPresent(t *testing.T) {
	for name, lose := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"replaced": func(dir string) error {
			file := filepath.Join(dir, state.FileName)
			return errors.Join(os.Rename(file, file+".old"), os.WriteFile(file, nil, 0o600))
		},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		db := open(t, dir)
		check(t, db.Present())
		check(t, lose(dir))
		if err := db.Present(); !errors.Is(err, state.ErrLost) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	db := must(state.OpenExisting(t.TempDir()))(t)
	defer db.Close()
	check(t, db.Present())
}

// TestProcessesAtOnce: several processes create, migrate and write one database at
// the same moment; nothing is lost and none is refused.
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
	if got := counter(t, db, "done"); got != 30 {
		t.Errorf("counter is %d after 3 processes added 10 each", got)
	}
	if got := counter(t, db, "windows_committed_total", "project", "prj_a", "sink", "parquet"); got != 10 {
		t.Errorf("%d windows counted, all processes committed the same 10", got)
	}
}

// TestReadersDoNotWait: a command that only reads does not wait for a write, which would make it fail
// after a minute.
func TestReadersDoNotWait(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	lock(t, dir)
	db := must(state.OpenExisting(dir))(t)
	defer db.Close()
	if got := counter(t, db, "done"); got != 0 {
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
	lock := must(state.LockExport(dir))(t)
	if _, err := state.LockExport(dir); !errors.Is(err, state.ErrLocked) {
		t.Errorf("a second lock of the same process: %v", err)
	}
	check(t, lock.Release())
	again := must(state.LockExport(dir))(t)
	check(t, again.Release())
}

// TestKillKeepsWhatWasAcknowledged kills a writer at random and compares what it
// reported with what the next process finds.
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

// compare returns the counter, which may be one ahead of the reports.
func compare(t *testing.T, dir string, round, said int) int {
	t.Helper()
	db := must(state.Open(dir))(t)
	defer db.Close()
	done := int(counter(t, db, "done"))
	if done < said || done > said+1 {
		t.Errorf("round %d: %d were acknowledged, the counter holds %d", round, said, done)
	}
	entries := must(db.Entries(t.Context()))(t)
	committed := 0
	for _, e := range entries {
		if at, owed := e.Sinks["parquet"]; !owed {
			t.Errorf("round %d: %s is recorded but owed to no sink", round, e.Key)
		} else if !at.IsZero() {
			committed++
		}
	}
	counted := counter(t, db, "windows_committed_total", "project", "prj_a", "sink", "parquet")
	if int(counted) != committed {
		t.Errorf("round %d: %d windows are committed, %d counted", round, committed, counted)
	}
	if len(entries)-committed > 1 {
		t.Errorf("round %d: %d windows are half way", round, len(entries)-committed)
	}
	return done
}
