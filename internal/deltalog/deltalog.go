// Package deltalog hides the transaction log of a Delta Lake table: reader version 1,
// writer version 2, no partition columns. A [Table] appends entries that add and remove
// data files, and tells which files make up the table.
//
// Invariant: an entry is put under a name that is free and never changed, and version n
// is put only where n-1 is. So each commit takes effect once or not at all, whoever else
// writes. Checkpoints only save readers work: one that is missing or damaged costs time
// and loses nothing.
//
// It does not read, write or delete data files, and does not know what they hold.
package deltalog

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// Errors of a log that this program must leave alone. The text of the error that wraps one
// says what is wrong, where, and the remedy.
var (
	// ErrProtocol: the table needs a reader or a writer that knows more of Delta.
	ErrProtocol = errors.New("table needs a newer Delta protocol")
	// ErrSchema: columns or properties are not those that this program writes.
	ErrSchema = errors.New("table was altered")
	// ErrDamaged: an entry is missing or cannot be read, and no checkpoint makes up for it.
	ErrDamaged = errors.New("log is damaged")
	// ErrGone: the log that this process has read is no longer there. The next call takes
	// what is there for the table.
	ErrGone = errors.New("log is gone")
	// ErrBusy: other writers came first each time, or the store does not say what is there.
	ErrBusy = errors.New("no commit")
)

// Files is the store that the table is in. Names are relative to its root, with slashes.
type Files interface {
	// Describe names a file for people.
	Describe(name string) string
	// Create makes a file under a name that is free, whole and durable; the error is
	// fs.ErrExist if it is taken. After any other error the file may be there too.
	Create(ctx context.Context, name string, data []byte) error
	// Remove takes a file away; one that is not there is no error.
	Remove(ctx context.Context, name string) error
	// List calls found for each file below dir whose name is greater than after.
	List(ctx context.Context, dir, after string, found func(name string)) error
	// OpenWhole opens a file; the error is fs.ErrNotExist if there is none.
	OpenWhole(ctx context.Context, name string) (File, error)
	// StagingFile returns a new name of a local file, which Publish gives a name in the
	// store, durably, in the place of the former file.
	StagingFile() string
	Publish(ctx context.Context, staged, name string) error
}

// File is an open file of the store. It is an alias, so that stores need not know it.
type File = interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Column is a column of the table, with its type as Delta names it.
type Column struct {
	Name, Type string
	Nullable   bool
}

// Config says what table it is, and what a new one is to be like.
type Config struct {
	Files       Files
	Dir         string // of the table, relative to the root
	Columns     []Column
	Description string // of a new table
	Engine      string // name and version of this program
	Now         func() time.Time
}

// Add is a data file of the table.
type Add struct {
	Path     string // relative to Dir, not escaped
	Size     int64
	Modified time.Time         // whole milliseconds
	Stats    string            // JSON, or empty
	Tags     map[string]string // read only
}

// Tombstone is a file that was removed from the table, and perhaps is still there.
type Tombstone struct {
	Path    string // relative to Dir, not escaped
	Deleted time.Time
	Size    int64
}

// Table is a Delta table. It is used by many goroutines at once, which take turns.
type Table struct{ cfg Config }

// New returns the table in c.Dir. It reads nothing.
func New(c Config) *Table { return &Table{cfg: c} }

// Read brings the snapshot up to date and calls use with it, which must not keep it.
// Nothing else reads or commits meanwhile. A table that does not exist has version -1 and
// no files.
func (t *Table) Read(ctx context.Context, use func(*Snapshot) error) error {
	return errors.ErrUnsupported
}

// Commit appends one entry, which removes and adds what plan says. plan is called with
// the current snapshot, and again with a newer one if another writer came first. Without
// anything to add or to remove there is no entry. It makes the table if there is none. The
// version is that of the entry, or of the snapshot if there was none. After an error the
// entry may be there or come to be there: calling again is safe if plan goes by the snapshot.
func (t *Table) Commit(ctx context.Context, operation string, plan func(*Snapshot) (add []Add, remove []string, err error)) (version int64, err error) {
	return -1, errors.ErrUnsupported
}

// Expire deletes entries and checkpoints that are older than 30 days and that no reader
// needs for the versions since. found is called with each name, before it is deleted, and
// nothing is deleted if dryRun.
func (t *Table) Expire(ctx context.Context, dryRun bool, found func(name string)) error {
	return errors.ErrUnsupported
}

// Snapshot is the table at one version.
type Snapshot struct{}

// Version is the version of the newest entry, -1 if there is no table.
func (s *Snapshot) Version() int64 { return -1 }

// Len is the number of files.
func (s *Snapshot) Len() int { return 0 }

// Files yields the files of the table, in no order.
func (s *Snapshot) Files() iter.Seq[Add] { return func(func(Add) bool) {} }

// File returns one file of the table.
func (s *Snapshot) File(path string) (Add, bool) { return Add{}, false }

// Tombstones yields files that were removed within the last 7 days or somewhat more.
func (s *Snapshot) Tombstones() iter.Seq[Tombstone] { return func(func(Tombstone) bool) {} }
