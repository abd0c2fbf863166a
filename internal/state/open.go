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
	"strconv"
	"strings"
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
	memory = ":memory:"
	remedy = "`docgauge status --rebuild` puts it aside and reads the ledger back from the sinks"
)

// Errors that a caller decides on.
var (
	// ErrNewer: the database was written by a newer docgauge.
	ErrNewer = errors.New("the state was written by a newer docgauge")
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
	// file is the database's file as it was opened; nil in memory.
	file fs.FileInfo
}

// Open opens the database in dir and migrates it; it creates the directory and the
// database if they are missing. Errors: ErrNewer, ErrCorrupt, or one that names the
// directory.
func Open(dir string) (*DB, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	return open(dir, filepath.Join(dir, FileName))
}

// OpenExisting opens the database in dir for a command that only reads. If there is
// none it returns an empty one in memory and creates nothing.
func OpenExisting(dir string) (*DB, error) {
	file := filepath.Join(dir, FileName)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return open(dir, memory)
	}
	return open(dir, file)
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

func open(dir, file string) (*DB, error) {
	pragmas := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)",
	}, "_txlock": {"immediate"}}
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
	for err = db.prepare(context.Background()); isBusy(err) && time.Since(began) < busyTimeout; {
		time.Sleep(busyPause)
		err = db.prepare(context.Background())
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

// prepare checks the database and applies the migrations that it lacks.
func (db *DB) prepare(ctx context.Context) error {
	var verdict string
	if err := db.sql.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return wrap(db.dir, err)
	}
	if verdict != "ok" {
		return fmt.Errorf("%s: %s: %w (%s)", filepath.Join(db.dir, FileName), verdict, ErrCorrupt, remedy)
	}
	scripts, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	slices.Sort(scripts)
	// A reader does not wait for writers: it needs no transaction if nothing is lacking.
	if have, err := userVersion(ctx, db.sql); err == nil && have == len(scripts) {
		return nil
	}
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		have, err := userVersion(ctx, tx)
		if err != nil {
			return err
		}
		if have > len(scripts) {
			return fmt.Errorf("%w: schema %d, this binary knows up to %d; use the newer docgauge, "+
				"or another DOCGAUGE_STATE_DIR", ErrNewer, have, len(scripts))
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
	return wrap(db.dir, cmp.Or(c.err, err))
}

// commit makes the changes in one transaction. A statement that is interrupted would undo
// all of it, so the end of one caller's context only keeps its change from being begun.
func (db *DB) commit(ctx context.Context, all []*change) error {
	tx, err := db.sql.BeginTx(ctx, nil)
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
	_, err := db.sql.ExecContext(ctx, statement, args...)
	return wrap(db.dir, err)
}

// each calls do with each row of a query; fields returns where its columns go.
func each[T any](ctx context.Context, q querier, fields func(*T) []any, do func(T), query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var row T
		if err := rows.Scan(fields(&row)...); err != nil {
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
		return nil, wrap(db.dir, err)
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

func isBusy(err error) bool {
	se, ok := errors.AsType[*sqlite.Error](err)
	return ok && se.Code()&0xff == sqlite3.SQLITE_BUSY
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
type Lock struct{ file *os.File }

// LockExport takes the exporter's lock: one process exports at a time.
// It never waits; ErrLocked if another process holds it.
func LockExport(dir string) (*Lock, error) { return lock(dir, "export.lock") }

// LockQueue takes the queue's lock: one process runs the prompt queue at a time.
// It never waits; ErrLocked if another process holds it.
func LockQueue(dir string) (*Lock, error) { return lock(dir, "queue.lock") }

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
		return nil, errors.Join(fmt.Errorf("%s: %w%s", path, ErrLocked, holder(file)), file.Close())
	}
	if err == nil {
		// The process id is a hint for people; the lock itself is the kernel's.
		if err = file.Truncate(0); err == nil {
			_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state lock %s: %w", path, err), file.Close())
	}
	return &Lock{file}, nil
}

func holder(file *os.File) string {
	buf := make([]byte, 32)
	n, _ := file.ReadAt(buf, 0)
	if pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n]))); err == nil {
		return fmt.Sprintf(" (process %d)", pid)
	}
	return ""
}

// Release gives the lock up.
func (l *Lock) Release() error { return l.file.Close() }
