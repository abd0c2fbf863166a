// Package state keeps what must survive a process in one SQLite database,
// <dir>/docgauge.db: the ledger of windows and their revisions per sink, the
// sliding log of requests, counters, the history of runs, and the journal of the
// prompt queue with its notifications. It hides SQL, migrations and locking.
//
// Invariant: every method is one transaction with synchronous=FULL, which calls that are
// made at the same time share. Once it has returned nil its effect survives a crash; after
// an error it has no effect. Times are UTC in microseconds.
//
// It does not decide anything: package schedule knows what is due, package budget
// how many requests fit, and packages export and jobs in which order steps happen.
package state

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/docgauge/docgauge/internal/durable"
)

// FileName is the database's name inside the state directory.
const FileName = "docgauge.db"

const (
	dirMode = 0o700
	// busyTimeout is how long a write waits for those of other processes. SQLite
	// has no queue: on a slow disk the others may come first for long.
	busyTimeout = time.Minute
	// busyPause is between two tries where SQLite does not wait by itself.
	busyPause = 20 * time.Millisecond
	// memory is SQLite's name of a database without a file.
	memory   = ":memory:"
	lockedBy = "locked by another program"
	remedy   = "`docgauge status --rebuild` puts it aside and reads the ledger back from the sinks"
)

// Errors that a caller decides on.
var (
	// ErrNewer: the database was written by a newer docgauge.
	ErrNewer = errors.New("the state was written by a newer docgauge")
	// ErrOlder: the database was written by an older docgauge, and has to be migrated first.
	ErrOlder = errors.New("the state was written by an older docgauge")
	// ErrCorrupt: the database file is damaged or is not ours.
	ErrCorrupt = errors.New("the state database is damaged")
	// ErrLocked: another process holds the state.
	ErrLocked = errors.New("another docgauge process holds the state")
	// ErrLost: the database file was removed or replaced while it was open.
	ErrLost = errors.New("the state was removed or replaced while docgauge ran")
)

//go:embed migrations/*.sql
var migrations embed.FS

// DB is an open state database, safe for concurrent use.
type DB struct {
	sql     *sql.DB
	dir     string
	changes durable.Group[*change]
	// blocked is the last long wait for the lock of another program, or the present one.
	blocked atomic.Pointer[lockWait]
	// file is the database's file as it was opened; nil in memory.
	file fs.FileInfo
}

// access is what opening a database may do to it.
type access int

const (
	// migrating creates the database, or applies the migrations it lacks.
	migrating access = iota
	// writing creates the database, and refuses one that lacks migrations.
	writing
	// reading refuses to write anything.
	reading
	// readingAlone is reading without the files that SQLite shares with other processes:
	// nothing can be created beside the database.
	readingAlone
)

// Open opens the database in dir and migrates it; it creates the directory and the
// database if they are missing. Errors: ErrNewer, ErrCorrupt, ErrLocked if the database
// has to be migrated while another process uses it, or one that names the directory.
func Open(dir string) (*DB, error) { return create(dir, migrating) }

// OpenUnmigrated is Open for a command that must not migrate: it returns ErrOlder.
func OpenUnmigrated(dir string) (*DB, error) { return create(dir, writing) }

func create(dir string, how access) (*DB, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	return open(dir, filepath.Join(dir, FileName), how)
}

// OpenExisting opens the database in dir for a command that only reads. It changes and
// creates nothing in dir, which may be read-only. If there is no database, or one without
// tables, it returns an empty one in memory. Errors: as those of Open, and ErrOlder.
func OpenExisting(dir string) (*DB, error) {
	file := filepath.Join(dir, FileName)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return open(dir, memory, migrating)
	}
	db, err := open(dir, file, reading)
	switch {
	case errors.Is(err, errEmpty):
		return open(dir, memory, migrating)
	case !isDenied(err):
		return db, err
	}
	// SQLite can neither use nor create the files that it shares with other processes. If there
	// are none, no process writes, and the database is read as a file that does not change. One
	// that starts now writes to the log first.
	if left := besides(file); left != "" && readable(file) {
		return nil, fmt.Errorf("state %s: its newest changes are in %s, which this user cannot use here: %w "+
			"(run the command as docgauge's user, with write access to DOCGAUGE_STATE_DIR)", file, left, err)
	}
	db, err = open(dir, file, readingAlone)
	if isDenied(err) {
		err = fmt.Errorf("state %s: cannot be read: %w (check owner and mode of DOCGAUGE_STATE_DIR)", file, err)
	}
	return db, err
}

func readable(file string) bool {
	f, err := os.Open(file)
	return err == nil && f.Close() == nil
}

// besides names a file beside the database without which it cannot be read.
func besides(file string) string {
	if info, err := os.Stat(file + "-wal"); err == nil && info.Size() > 0 {
		return info.Name()
	}
	if info, err := os.Stat(file + "-shm"); err == nil {
		return info.Name()
	}
	return ""
}

// Present returns ErrLost if the database's file is not the one that was opened:
// later writes would be lost with the process.
func (db *DB) Present() error {
	if db.file == nil {
		return nil
	}
	path := filepath.Join(db.dir, FileName)
	info, err := os.Stat(path)
	if err == nil && os.SameFile(info, db.file) {
		return nil
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = ErrLost
	}
	return fmt.Errorf("state %s: %w (start docgauge again: a new ledger is read back from the sinks)", path, err)
}

// Dir returns the state directory.
func (db *DB) Dir() string { return db.dir }

// Close releases the database.
func (db *DB) Close() error { return db.sql.Close() }

func makeDir(dir string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("state directory %s: %w (set DOCGAUGE_STATE_DIR to a directory that can be written)", dir, err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("state directory %s: %w", dir, err)
	}
	if info.Mode()&fs.ModeSticky != 0 {
		return fmt.Errorf("state directory %s is shared by all users: set DOCGAUGE_STATE_DIR to a directory of its own", dir)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if err := os.Chmod(dir, dirMode); err != nil {
		return fmt.Errorf("state directory %s is open to other users and its mode cannot be set to 0700: %w", dir, err)
	}
	return nil
}

func open(dir, file string, how access) (*DB, error) {
	patience := fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds())
	pragmas := url.Values{
		"_pragma": {patience, "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)"}, "_txlock": {"immediate"},
	}
	if how >= reading {
		// Not mode=ro: a connection that may not write leaves the shared files behind.
		pragmas = url.Values{"_pragma": {patience, "query_only(ON)"}, "mode": {"rw"}}
	}
	if how == readingAlone {
		pragmas["mode"], pragmas["immutable"] = []string{"ro"}, []string{"1"}
	}
	source := url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(), RawQuery: pragmas.Encode()}
	pool, err := sql.Open("sqlite", source.String())
	if err != nil {
		return nil, wrap(dir, err)
	}
	// One connection: SQLite has one writer anyway, and :memory: is one per connection.
	pool.SetMaxOpenConns(1)
	db := &DB{sql: pool, dir: dir}
	// SQLite does not wait while another process turns a new database into one with a WAL.
	began := time.Now()
	for err = db.prepare(context.Background(), how); isBusy(err) && time.Since(began) < busyTimeout; {
		time.Sleep(busyPause)
		err = db.prepare(context.Background(), how)
	}
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	if file != memory {
		if db.file, err = os.Stat(file); err != nil {
			return nil, errors.Join(wrap(dir, err), pool.Close())
		}
	}
	return db, nil
}

// errEmpty says that a database to be read has no tables yet.
var errEmpty = errors.New("the state is empty")

// prepare checks the database and applies the migrations that it lacks, if it may.
func (db *DB) prepare(ctx context.Context, how access) error {
	var verdict string
	if err := db.sql.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return db.wrap(ctx, err)
	}
	if verdict != "ok" {
		return fmt.Errorf("%s: %s: %w (%s)", filepath.Join(db.dir, FileName), verdict, ErrCorrupt, remedy)
	}
	scripts := scripts()
	have, err := userVersion(ctx, db.sql)
	switch {
	case err != nil:
		return db.wrap(ctx, err)
	case have == len(scripts): // a reader does not wait for writers
		return nil
	case have > len(scripts):
		return wrap(db.dir, newer(have, len(scripts)))
	case have == 0 && how >= reading:
		return errEmpty
	case have > 0 && how != migrating:
		return wrap(db.dir, fmt.Errorf("%w: schema %d, this binary has %d; `docgauge export`, or a restart of "+
			"`docgauge serve`, with this binary migrates it", ErrOlder, have, len(scripts)))
	}
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		have, err := userVersion(ctx, tx) // another process may have migrated it by now
		switch {
		case err != nil:
			return err
		case have > len(scripts):
			return newer(have, len(scripts))
		case have > 0 && have < len(scripts):
			if err := noneOlder(db.dir, have, len(scripts)); err != nil {
				return err
			}
		}
		for _, name := range scripts[have:] {
			script, err := migrations.ReadFile(name)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, string(script)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(scripts)))
		return err
	})
}

func newer(have, known int) error {
	return fmt.Errorf("%w: schema %d, this binary knows up to %d; use the newer docgauge, "+
		"or another DOCGAUGE_STATE_DIR", ErrNewer, have, known)
}

// scripts returns the names of the migrations in their order. The schema of a database is how
// many of them it has.
func scripts() []string {
	names, _ := fs.Glob(migrations, "migrations/*.sql") // the pattern is right
	slices.Sort(names)
	return names
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func userVersion(ctx context.Context, q querier) (version int, err error) {
	err = q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	return version, err
}

// change is what one call of tx does.
type change struct {
	ctx context.Context
	do  func(context.Context, *sql.Tx) error
	err error
}

// tx runs f in one immediate transaction. Calls that are made while another is under way
// share the next one, and its flush to disk. A change that fails is undone alone, and no
// call returns before the transaction is over, so each can be taken for one of its own.
func (db *DB) tx(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	c := &change{ctx: ctx, do: f}
	err := db.changes.Do(c, func(all []*change) error { return db.commit(context.WithoutCancel(ctx), all) })
	return db.wrap(ctx, cmp.Or(c.err, err))
}

// commit makes the changes in one transaction. A statement that is interrupted would undo
// all of it, so the end of one caller's context only keeps its change from being begun.
func (db *DB) commit(ctx context.Context, all []*change) error {
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tx, err := db.begin(ctx, conn)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.err = context.Cause(c.ctx); c.err != nil {
			continue
		}
		if err := c.make(ctx, tx); err != nil {
			if rerr := tx.Rollback(); !errors.Is(rerr, sql.ErrTxDone) {
				err = errors.Join(err, rerr)
			}
			return err
		}
	}
	return tx.Commit()
}

// lockWait is a wait for the lock of another program. Its end is zero while it lasts.
type lockWait struct{ from, to time.Time }

func (w lockWait) covers(t time.Time) bool {
	return !t.Before(w.from) && (w.to.IsZero() || !t.After(w.to))
}

// longWait is how long a wait for the lock is worth remembering.
const longWait = 100 * time.Millisecond

// begin begins a transaction, and remembers when another program kept it waiting for long.
func (db *DB) begin(ctx context.Context, conn *sql.Conn) (*sql.Tx, error) {
	before, wait := db.blocked.Load(), lockWait{from: time.Now()}
	db.blocked.Store(&wait)
	tx, err := conn.BeginTx(ctx, nil)
	if ended := (lockWait{wait.from, time.Now()}); ended.to.Sub(ended.from) >= longWait {
		before = &ended
	}
	db.blocked.Store(before)
	return tx, err
}

// make makes the change, or none of it and notes its error. What it returns ends the whole
// transaction: where the disk is full, SQLite undoes all of it.
func (c *change) make(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT change"); err != nil {
		return err
	}
	if c.err = c.do(ctx, tx); c.err != nil {
		if _, err := tx.ExecContext(ctx, "ROLLBACK TO change"); err != nil {
			return errors.Join(c.err, err)
		}
	}
	_, err := tx.ExecContext(ctx, "RELEASE change")
	return err
}

// exec runs one statement.
func (db *DB) exec(ctx context.Context, statement string, args ...any) error {
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, statement, args...)
		return err
	})
}

// each calls do with each row of a query; fields returns where its columns go.
func each[T any](ctx context.Context, q querier, fields func(*T) []any, do func(T), query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var row, none T
	to := fields(&row) // one for all rows, of which there can be millions
	for rows.Next() {
		row = none
		if err := rows.Scan(to...); err != nil {
			return err
		}
		do(row)
	}
	return rows.Err()
}

// collect returns the rows of a query; fields returns where the columns of one go.
func collect[T any](ctx context.Context, db *DB, fields func(*T) []any, query string, args ...any) (out []T, err error) {
	err = each(ctx, db.sql, fields, func(row T) { out = append(out, row) }, query, args...)
	if err != nil {
		return nil, db.wrap(ctx, err)
	}
	return out, nil
}

// changed reports whether a statement changed any row.
func changed(res sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// instant is a time in a column, in microseconds. The zero time is written as 0, and
// read from 0 and NULL.
type instant struct{ *time.Time }

// Scan reads the column.
func (i instant) Scan(v any) error {
	*i.Time = time.Time{}
	switch v := v.(type) {
	case nil:
	case int64:
		if v != 0 {
			*i.Time = time.UnixMicro(v).UTC()
		}
	default:
		return fmt.Errorf("a time is %T, not a number", v)
	}
	return nil
}

// Value writes the column.
func (i instant) Value() (driver.Value, error) {
	if i.IsZero() {
		return int64(0), nil
	}
	return i.UnixMicro(), nil
}

// list is a list of texts: as JSON, or empty.
type list struct{ texts *[]string }

// Scan reads the column.
func (l list) Scan(v any) error {
	*l.texts = nil
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("a list is %T, not text", v)
	}
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), l.texts)
}

// Value writes the column.
func (l list) Value() (driver.Value, error) {
	if len(*l.texts) == 0 {
		return "", nil
	}
	text, err := json.Marshal(*l.texts)
	return string(text), err
}

func isBusy(err error) bool { return hasCode(err, sqlite3.SQLITE_BUSY) }

// isDenied reports whether the database, or a file beside it, cannot be opened or written.
func isDenied(err error) bool {
	return hasCode(err, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
}

func hasCode(err error, codes ...int) bool {
	se, ok := errors.AsType[*sqlite.Error](err)
	return ok && slices.Contains(codes, se.Code()&0xff)
}

// wrap is [wrap]; it also says so if a deadline passed while another program held the lock.
func (db *DB) wrap(ctx context.Context, err error) error {
	end, ok := ctx.Deadline()
	w := db.blocked.Load()
	if ok && w != nil && errors.Is(err, context.DeadlineExceeded) && w.covers(end) {
		err = fmt.Errorf("is %s: %w", lockedBy, err)
	}
	return wrap(db.dir, err)
}

// wrap names the database and, where there is one, the remedy.
func wrap(dir string, err error) error {
	if err == nil {
		return nil
	}
	file := filepath.Join(dir, FileName)
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return fmt.Errorf("state %s: %w", file, err)
	}
	switch se.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("state %s: %w: %w (%s)", file, ErrCorrupt, err, remedy)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("state %s: the disk is full: %w (free space; nothing was lost)", file, err)
	case sqlite3.SQLITE_BUSY:
		return fmt.Errorf("state %s: is %s: %w (end that program, then run this again)", file, lockedBy, err)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return fmt.Errorf("state %s: cannot be written: %w (check owner and mode of DOCGAUGE_STATE_DIR)", file, err)
	}
	return fmt.Errorf("state %s: %w", file, err)
}

// SetAside renames a damaged database (and its journals) so that a new one can
// take its place, and returns the new name. It is for status --rebuild.
//
// The database goes last: after a crash, SQLite would play a journal that stayed
// behind into the new database.
func SetAside(dir string, now time.Time) (string, error) {
	file := filepath.Join(dir, FileName)
	aside := file + ".damaged-" + now.UTC().Format("20060102T150405.000Z")
	for _, suffix := range []string{"-shm", "-wal"} {
		if err := os.Rename(file+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("state %s: %w", file+suffix, err)
		}
	}
	if err := os.Rename(file, aside); err != nil {
		return "", fmt.Errorf("state %s: %w", file, err)
	}
	return aside, nil
}

// Lock is a hold on the state that ends with Release or with the process.
type Lock struct {
	path string
	file *os.File
}

// LockExport takes the exporter's lock: one process exports at a time.
// It never waits; ErrLocked if another process holds it.
func LockExport(dir string) (*Lock, error) { return lock(dir, lockNames[0]) }

// LockQueue takes the queue's lock: one process runs the prompt queue at a time.
// It never waits; ErrLocked if another process holds it.
func LockQueue(dir string) (*Lock, error) { return lock(dir, lockNames[1]) }

// lockNames are the locks; held has the paths of those that this process holds.
var (
	lockNames = []string{"export.lock", "queue.lock"}
	held      sync.Map
)

// noneOlder returns ErrLocked if a process of an older docgauge, with another schema than
// this one, holds the state: it cannot write to a database that is migrated under it.
func noneOlder(dir string, have, schema int) error {
	for _, name := range lockNames {
		path := filepath.Join(dir, name)
		if _, ours := held.Load(path); ours {
			continue
		}
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("state lock: %w", err)
		}
		free, err := durable.TryLock(file)
		who, knows := holder(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("state lock: %w", err)
		}
		if !free && knows < schema {
			return fmt.Errorf("%s: %w%s: it has schema %d, of an older docgauge, and this binary has %d; stop that process, "+
				"or restart it with this binary, which migrates the state", path, ErrLocked, who, have, schema)
		}
	}
	return nil
}

func lock(dir, name string) (*Lock, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state lock: %w", err)
	}
	taken, err := durable.TryLock(file)
	if !taken && err == nil {
		who, _ := holder(file)
		return nil, errors.Join(fmt.Errorf("%s: %w%s", path, ErrLocked, who), file.Close())
	}
	if err == nil {
		// The process id is a hint for people, the schema one for noneOlder; the lock itself is
		// the kernel's.
		if err = file.Truncate(0); err == nil {
			_, err = file.WriteAt(fmt.Appendf(nil, "%d schema %d\n", os.Getpid(), len(scripts())), 0)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state lock %s: %w", path, err), file.Close())
	}
	held.Store(path, true)
	return &Lock{path, file}, nil
}

// holder names the process that wrote the lock file, and the schema of its binary; 0 is
// that of one that did not say.
func holder(file *os.File) (process string, schema int) {
	buf := make([]byte, 64)
	n, _ := file.ReadAt(buf, 0)
	var pid int
	if n, _ := fmt.Sscanf(string(buf[:n]), "%d schema %d", &pid, &schema); n > 0 {
		process = fmt.Sprintf(" (process %d)", pid)
	}
	return process, schema
}

// Release gives the lock up.
func (l *Lock) Release() error {
	held.Delete(l.path)
	return l.file.Close()
}
