// Package deltalog hides the transaction log of a Delta Lake table: reader version 1,
// writer version 2, no partition columns. A [Table] appends entries that add and remove
// data files, and tells which files make up the table.
//
// Invariant: an entry is put under a name that is free and never changed, and version n
// is put only where n-1 is. So each commit takes effect once or not at all, whatever other
// programs write. Checkpoints only save readers work: one that is missing or damaged costs time
// and loses nothing.
//
// It does not read, write or delete data files, and does not know their contents. Parquet
// libraries panic on some damaged input: such a panic leaves this package as an error.
//
// Source: PROTOCOL.md of github.com/delta-io/delta.
package deltalog

import (
	"context"
	"errors"
	"time"

	"github.com/docgauge/docgauge/internal/filestore"
)

// Errors of a log that this program must leave alone. The text of the error that wraps one
// names the problem, the place and the remedy.
var (
	// ErrProtocol: the table needs a reader or a writer that knows more of Delta.
	ErrProtocol = errors.New("the table needs a newer Delta protocol")
	// ErrSchema: columns or properties are not those that this program writes.
	ErrSchema = errors.New("the table was altered")
	// ErrDamaged: an entry is missing or cannot be read, and no checkpoint makes up for it.
	ErrDamaged = errors.New("the log is damaged")
	// ErrGone: entries that this process has read no longer exist. The next call reads
	// the present entries as the table.
	ErrGone = errors.New("the log is not the one it was")
	// errBusy: other writers came first each time.
	errBusy = errors.New("other writers came first each time")
)

// Column is a column of the table, with its type as Delta names it.
type Column struct {
	Name, Type string
	Nullable   bool
}

// Options identify a table, and describe a new one.
type Options struct {
	Files       filestore.Store
	Dir         string // of the table, relative to the root
	Columns     []Column
	Description string // of a new table
	Engine      string // name/version of this program
	Now         func() time.Time
	// Readers is the number of entries that are worth reading at once; 0 is 1.
	Readers int
}

// Add is a data file of the table.
type Add struct {
	Path     string // relative to Dir, not escaped
	Size     int64
	Modified time.Time         // whole milliseconds
	Stats    string            // JSON, or empty
	Tags     map[string]string // read only
}

// Table is a Delta table. It is used by many goroutines at once, which take turns.
type Table struct {
	options Options
	turn    chan struct{}
	snap    *Snapshot // nil: nothing is known
	mark    mark      // of the entry of snap's version
}

// New returns the table in c.Dir. It reads nothing.
func New(c Options) *Table { return &Table{options: c, turn: make(chan struct{}, 1)} }

// await waits for its turn, which done ends.
func (t *Table) await(ctx context.Context) (done func(), err error) {
	select {
	case t.turn <- struct{}{}:
		return func() { <-t.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Read brings the snapshot up to date and calls use with it, which must not keep it.
// Nothing else reads or commits at the same time. A table that does not exist has version -1 and
// no files.
func (t *Table) Read(ctx context.Context, use func(*Snapshot) error) error {
	done, err := t.await(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := t.refresh(ctx); err != nil && !errors.Is(err, ErrGone) { // the new log has been read
		return err
	}
	return use(t.snap)
}
