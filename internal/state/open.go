package state

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// FileName is the database's name inside the state directory.
const FileName = "docgauge.db"

const (
	dirMode = 0o700
	// busyTimeout is how long a write waits for those of other processes. SQLite
	// lets nobody queue: on a slow disk the others may be first for long.
	busyTimeout = time.Minute
	// memory is SQLite's name of a database without a file.
	memory = ":memory:"
)

// Decisions a caller takes on an error of this package.
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
	sql *sql.DB
	dir string
	// file is the database's file as it was opened; nil in memory.
	file fs.FileInfo
}

// Open opens the database in dir, makes both if they are not there, and
// migrates it. Errors: ErrNewer, ErrCorrupt, or one that names the directory.
func Open(dir string) (*DB, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	return open(dir, filepath.Join(dir, FileName))
}

// OpenExisting opens the database in dir for a command that only looks. Where
// there is none it returns an empty one in memory and makes nothing.
func OpenExisting(dir string) (*DB, error) {
	file := filepath.Join(dir, FileName)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return open(dir, memory)
	}
	return open(dir, file)
}

// Present returns ErrLost where the database's file is not the one that was
// opened: what is written from then on would be gone with the process.
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
	pool, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(), RawQuery: pragmas.Encode()}).String())
	if err != nil {
		return nil, wrap(dir, err)
	}
	// One connection: SQLite has one writer anyway, and :memory: is one per connection.
	pool.SetMaxOpenConns(1)
	db := &DB{sql: pool, dir: dir}
	if err := db.prepare(context.Background()); err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	if file != memory {
		if db.file, err = os.Stat(file); err != nil {
			return nil, errors.Join(wrap(dir, err), pool.Close())
		}
	}
	return db, nil
}

func (db *DB) prepare(ctx context.Context) error {
	var verdict string
	if err := db.sql.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return wrap(db.dir, err)
	}
	if verdict != "ok" {
		return fmt.Errorf("%s: %s: %w (%s)", filepath.Join(db.dir, FileName), verdict, ErrCorrupt, remedy)
	}
	// Who only reads does not wait for those who write.
	if have, err := userVersion(ctx, db.sql); err == nil && have == Version() {
		return nil
	}
	return db.migrate(ctx)
}

const remedy = "`docgauge status --rebuild` puts it aside and reads the ledger back from the sinks"

// Version is the schema version this binary writes.
func Version() int {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		panic(err) // the pattern is constant
	}
	return len(names)
}

func userVersion(ctx context.Context, q querier) (version int, err error) {
	err = q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	return version, err
}

func (db *DB) migrate(ctx context.Context) error {
	return db.tx(ctx, func(tx *sql.Tx) error {
		have, err := userVersion(ctx, tx)
		if err != nil {
			return err
		}
		want := Version()
		if have > want {
			return fmt.Errorf("%w: schema %d, this binary knows up to %d; use the newer docgauge, or another DOCGAUGE_STATE_DIR", ErrNewer, have, want)
		}
		if have == want {
			return nil
		}
		return apply(ctx, tx, have)
	})
}

func apply(ctx context.Context, tx *sql.Tx, have int) error {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names[have:] {
		script, err := migrations.ReadFile(name)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(script)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(names)))
	return err
}

// tx runs f in one immediate transaction.
func (db *DB) tx(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := db.sql.BeginTx(ctx, nil)
	if err != nil {
		return wrap(db.dir, err)
	}
	if err := f(tx); err != nil {
		return wrap(db.dir, errors.Join(err, ignoreDone(tx.Rollback())))
	}
	return wrap(db.dir, tx.Commit())
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// wrap names the database and, where one exists, the remedy.
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
// The database goes last: a journal that stayed behind after a crash would be
// played into the new database.
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
