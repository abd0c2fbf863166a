// Package state keeps all durable data in one SQLite database, <dir>/docgauge.db: the ledger
// of windows and their revisions in each sink, the sliding log of requests, counters, the history of
// runs, and the journal of the prompt queue with its events. It hides SQL, migrations and locking.
//
// Invariant: every method is one transaction with synchronous=FULL, which concurrent calls share.
// Once it has returned nil its effect survives a crash; after an error it has no effect. Times are
// UTC in microseconds.
//
// It decides nothing: package schedule decides which windows are due, package budget how many
// requests fit, and packages export and jobs the order of the steps.
package state

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/sqlite"
)

// FileName is the database's name inside the state directory.
const FileName = "docgauge.db"

const remedy = "`docgauge status --rebuild` puts it aside and reads the ledger back from the sinks"

// Errors that a caller decides on.
var (
	// ErrUnusable: the database is damaged, is not ours, or was written before 0.1.0.
	ErrUnusable = errors.New("the state database cannot be used")
	// ErrLocked: another process holds the state.
	ErrLocked = errors.New("another docgauge process holds the state")
	// ErrLost: the database file was removed or replaced while it was open.
	ErrLost = errors.New("the state was removed or replaced while docgauge ran")
)

// firstSchema is the number of the schema of docgauge 0.1.0. Development versions before it had
// numbers up to 13.
const firstSchema = 103

//go:embed schema.sql
var schemaText string

var schema = func() string {
	var record []string
	for name, kind := range recordColumns() {
		record = append(record, name+" "+kind+" NOT NULL,")
	}
	return strings.NewReplacer("{record}", strings.Join(record, " "),
		"{totals}", strings.Join(analytics.TotalsNames(), " INTEGER NOT NULL, ")+" INTEGER NOT NULL,").Replace(schemaText)
}()

// migrations bring a database from firstSchema to the schema of this version, one step each.
var migrations []string

func newestSchema() int { return firstSchema + len(migrations) }

// Open opens the database in dir and migrates it; it creates the directory and the database if they
// are missing. Errors: ErrUnusable, ErrLocked if the database must be migrated while
// another process uses it, or one that names the directory.
func Open(dir string) (*DB, error) { return create(dir, true) }

// OpenUnmigrated is Open for a command that must not migrate: it refuses a database of an older docgauge.
func OpenUnmigrated(dir string) (*DB, error) { return create(dir, false) }

func create(dir string, migrate bool) (*DB, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	return open(dir, filepath.Join(dir, FileName), sqlite.Creating, migrate)
}

// OpenExisting opens the database in dir for a command that only reads. It changes and creates
// nothing in dir, which may be read-only. Without a database, or for one without tables, it
// returns an empty one in memory. It refuses a database of an older docgauge.
func OpenExisting(dir string) (*DB, error) {
	file := filepath.Join(dir, FileName)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return open(dir, sqlite.Memory, sqlite.Creating, true)
	}
	db, err := open(dir, file, sqlite.Reading, false)
	if errors.Is(err, errEmpty) {
		return open(dir, sqlite.Memory, sqlite.Creating, true)
	}
	if sqlite.KindOf(err) != sqlite.Denied {
		return db, err
	}
	// SQLite can neither use nor create the files that it shares with other processes. Where they
	// exist, a process may be writing, or was killed and left changes in them. Where they do not,
	// no process writes, and the database is read as a file that does not change: a process that
	// starts now writes to the log first.
	if f, ferr := os.Open(file); ferr == nil {
		f.Close()
		for suffix, least := range map[string]int64{"-wal": 1, "-shm": 0} {
			if info, serr := os.Stat(file + suffix); serr == nil && info.Size() >= least {
				return nil, fmt.Errorf("state %s: its newest changes are in %s, which this user cannot use here: %w "+
					"(run the command as docgauge's user, with write access to DOCGAUGE_STATE_DIR)",
					file, info.Name(), err)
			}
		}
	}
	db, err = open(dir, file, sqlite.ReadingAlone, false)
	if sqlite.KindOf(err) == sqlite.Denied {
		err = fmt.Errorf("state %s: cannot be read: %w (check owner and mode of DOCGAUGE_STATE_DIR)", file, err)
	}
	return db, err
}

func makeDir(dir string) error {
	if err := durable.PrivateDir(dir); err != nil {
		return fmt.Errorf("state directory %s: %w (set DOCGAUGE_STATE_DIR to a private directory that can be written)",
			dir, err)
	}
	return nil
}

func open(dir, file string, access sqlite.Access, migrate bool) (*DB, error) {
	pool, err := sqlite.Open(file, access, "foreign_keys(ON)")
	if err != nil {
		return nil, wrap(dir, err)
	}
	// One connection: SQLite has one writer anyway, and a database in memory is one per connection.
	pool.SetMaxOpenConns(1)
	db := &DB{sql: pool, reads: pool, dir: dir}
	err = db.prepare(context.Background(), access, migrate)
	if err == nil && file != sqlite.Memory {
		if db.file, err = os.Stat(file); err != nil {
			err = wrap(dir, err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return db, nil
}

// errEmpty: a database to be read has no tables yet.
var errEmpty = errors.New("the state is empty")

// prepare checks the database, and creates or migrates its tables, if it may.
func (db *DB) prepare(ctx context.Context, access sqlite.Access, migrate bool) error {
	if err := sqlite.Check(ctx, db.sql); err != nil {
		return db.wrap(ctx, err)
	}
	have, err := schemaOf(ctx, db.sql)
	switch {
	case err != nil:
		return db.wrap(ctx, err)
	case have == newestSchema(): // a reader does not wait for writers
		return nil
	case have == 0 && access != sqlite.Creating:
		return errEmpty
	case have > 0 && !migrate:
		return wrap(db.dir, fmt.Errorf("the state was written by an older docgauge: schema %d, this binary has %d; "+
			"`docgauge export`, or a restart of `docgauge serve`, with this binary migrates it", have, newestSchema()))
	}
	return db.write(ctx, func(t *tx) {
		have, err := schemaOf(ctx, t.sql) // another process may have migrated it by now
		if err == nil && have > 0 && have < newestSchema() {
			err = noneOlder(db.dir, have)
		}
		t.fail(err)
		if have == 0 {
			t.exec(schema)
			have = firstSchema
		}
		for ; have < newestSchema(); have++ {
			t.exec(migrations[have-firstSchema])
		}
		t.exec(fmt.Sprintf("PRAGMA user_version = %d", have))
	})
}

// schemaOf returns the number of a database's schema, 0 if it has no tables, and an error if this
// version can never use it.
func schemaOf(ctx context.Context, q querier) (have int, err error) {
	err = q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have)
	switch {
	case err != nil:
	case have > newestSchema():
		err = fmt.Errorf("the state was written by a newer docgauge: schema %d, this binary knows up to %d; use the "+
			"newer docgauge, or another DOCGAUGE_STATE_DIR", have, newestSchema())
	case 0 < have && have < firstSchema:
		err = fmt.Errorf("%w: it was written by a development version (schema %d), and formats from before 0.1.0 "+
			"are not kept (%s; its job history stays in the file put aside)", ErrUnusable, have, remedy)
	}
	return have, err
}

// Present returns ErrLost if the database's file is not the one that was opened: later writes would
// be lost with the process.
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

// SetAside renames an unusable database and its journals, so that a new one can take its place, and
// returns the new name.
//
// The database goes last: after a crash, SQLite would play a journal that stayed behind into the
// new database.
func SetAside(dir string, now time.Time) (string, error) {
	file := filepath.Join(dir, FileName)
	aside := file + ".aside-" + now.UTC().Format("20060102T150405.000Z")
	for _, suffix := range []string{"-shm", "-wal", ""} {
		err := os.Rename(file+suffix, aside+suffix)
		if err != nil && (suffix == "" || !errors.Is(err, fs.ErrNotExist)) {
			return "", fmt.Errorf("state %s: %w", file+suffix, err)
		}
	}
	return aside, nil
}
