// Package sqlite opens SQLite databases, and classifies their errors. It hides the driver and its options; what to
// tell people about an error, and which schema a database has, is up to its caller.
//
// Invariant: a transaction that was committed survives a crash, and a transaction waits for transactions of other
// processes.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Memory is the name of a database without a file.
const Memory = ":memory:"

const (
	// patience is how long a statement waits for statements of other processes. SQLite has no queue: on a slow disk,
	// others may overtake it for a long time.
	patience = time.Minute
	// busyPause is the pause between two tries where SQLite itself does not wait.
	busyPause = 20 * time.Millisecond
)

// Access is what a connection may do.
type Access int

// The kinds of access.
const (
	// Creating creates a missing database, Writing does not.
	Creating Access = iota
	Writing
	// Reading refuses to write anything.
	Reading
	// ReadingAlone is reading without the files that SQLite shares with other processes: nothing
	// can be created beside the database.
	ReadingAlone
)

// Open opens the database in a file.
func Open(file string, access Access, pragmas ...string) (*sql.DB, error) {
	wait := fmt.Sprintf("busy_timeout(%d)", patience.Milliseconds())
	options := url.Values{"mode": {"rw"}, "_txlock": {"immediate"},
		"_pragma": append([]string{wait, "journal_mode(WAL)", "synchronous(FULL)"}, pragmas...)}
	switch access {
	case Creating:
		options.Del("mode")
	case Reading: // not mode=ro: a connection that may not write leaves the shared files behind
		options = url.Values{"mode": {"rw"}, "_pragma": {wait, "query_only(ON)"}}
	case ReadingAlone:
		options = url.Values{"mode": {"ro"}, "_pragma": {wait, "query_only(ON)"}, "immutable": {"1"}}
	}
	source := url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(), RawQuery: options.Encode()}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return nil, err
	}
	// SQLite does not wait while another process turns a new database into one with a WAL.
	began := time.Now()
	for err = db.Ping(); KindOf(err) == Busy && time.Since(began) < patience; err = db.Ping() {
		time.Sleep(busyPause)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// Check reads the whole database, and returns what is damaged.
func Check(ctx context.Context, db *sql.DB) error {
	var verdict string
	err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict)
	if err == nil && verdict != "ok" {
		err = damage(verdict)
	}
	return err
}

// damage is what SQLite says is damaged.
type damage string

func (d damage) Error() string { return string(d) }

// Kind is what an error is about.
type Kind int

// The kinds of errors.
const (
	Other   Kind = iota
	Damaged      // the file is damaged, or is no database
	Full         // the disk is, also for the files that SQLite shares with other processes
	Busy         // another program holds the database
	Denied       // the database, or a file beside it, cannot be opened or written
)

var kinds = map[int]Kind{
	sqlite3.SQLITE_CORRUPT: Damaged, sqlite3.SQLITE_NOTADB: Damaged,
	sqlite3.SQLITE_FULL: Full, sqlite3.SQLITE_IOERR_SHMSIZE: Full,
	sqlite3.SQLITE_BUSY:     Busy,
	sqlite3.SQLITE_READONLY: Denied, sqlite3.SQLITE_CANTOPEN: Denied, sqlite3.SQLITE_PERM: Denied,
}

// KindOf returns the kind of an error of a database.
func KindOf(err error) Kind {
	if _, ok := errors.AsType[damage](err); ok {
		return Damaged
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return Other
	}
	return cmp.Or(kinds[e.Code()], kinds[e.Code()&0xff])
}
