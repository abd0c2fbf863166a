// Package facts keeps who read which page of a site, below one directory, for months: exactly, and
// so that nothing in it leads back to an address once an epoch is closed.
//
// A reader is an id: the SipHash-2-4-128 of its address and user agent under the key of an epoch, truncated to
// 64 bits. An epoch is two months; each view is kept in the two epochs that have its month, in files
// that nothing joins, without a time of day. So every window of two months or less that begins in
// the first month of an epoch can be counted exactly, and no reader can be followed for longer.
//
// Invariant: one transaction of the database makes facts, the positions of the logs that they came
// from and all else durable together. The facts are in files of their own, segments, which are whole
// and flushed before the transaction names them, never change, and are removed after another has
// ceased to name them; files that no row names are of a process that died, and Open removes them.
package facts

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/sqlite"
)

// fileName is the database's name in the directory of a site.
const fileName = "site.db"

const (
	segmentDir = "facts"
	suffix     = ".facts"
	lockName   = "lock"
	// version is the number of the schema.
	version = 4
)

// remedy is what to do about a file that is damaged or lost.
const remedy = "put it back from a backup, or stop the site, remove its directory and let it read the logs again"

//go:embed schema.sql
var schema string

// Errors that a caller decides on.
var (
	// ErrLocked: another process collects into the directory.
	ErrLocked = errors.New("another docgauge process writes to it")
	// ErrMissing: there is no site.
	ErrMissing = errors.New("there is no site in it: `docgauge site serve` makes one")
	// ErrUnusable: the database is damaged, lost, or not of this version.
	ErrUnusable = errors.New("its " + fileName + " cannot be used")
)

// Store is the facts of a site, safe for concurrent use. One process collects; others may open the
// same directory with [Attach] to manage keys and to read.
type Store struct {
	sql  *sql.DB
	dir  string
	lock *os.File

	// writing is locked while segments are written. unsettled: there may be segment files that no row names.
	writing   sync.Mutex
	unsettled atomic.Bool
	// damaged has the numbers of the segments that merging has found damaged; writing guards it.
	damaged map[int64]bool
	known   knownEvidence // writing guards it
	// files guards the segments: whoever removes some holds it, and whoever lists and opens some.
	files sync.RWMutex
	// last is the number of the newest segment.
	last atomic.Int64

	keying sync.Mutex
	made   map[epochOf]newKey // keys that are not durable yet

	naming sync.Mutex
	names  []string // paths of pages, by number; nil: not known

	// temporary: nothing of it is to survive the process, so that nothing waits for the disk, and no key is written.
	temporary bool

	// at is called before and after each durable step. Its error becomes the step's. Only tests set it.
	at func(step string) error
}

// step does what a crash must find done or not done.
func (s *Store) step(name string, do func() error) error {
	if s.at == nil {
		return do()
	}
	err := s.at("before " + name)
	if err == nil {
		err = do()
	}
	if err == nil {
		err = s.at("after " + name)
	}
	return err
}

func (s *Store) nextNumber() int64 { return s.last.Add(1) }

// paths returns the paths of pages, by number.
func (s *Store) paths(ctx context.Context) ([]string, error) {
	return s.addPages(ctx, nil)
}

// addPages adds new pages to the paths: before they are durable, because then facts may be read that have them.
func (s *Store) addPages(ctx context.Context, added []Page) ([]string, error) {
	s.naming.Lock()
	defer s.naming.Unlock()
	if s.lock == nil || s.names == nil {
		all, err := s.Pages(ctx)
		if err != nil {
			return nil, err
		}
		s.names = make([]string, 0, len(all)+len(added))
		added = append(all, added...)
	}
	for _, p := range added {
		s.names = append(s.names, p.Path)
	}
	return s.names, nil
}

// Open opens the site in dir to collect: it creates what is missing, and removes what a process that
// died has left. Only one process can. Close it.
func Open(dir string) (*Store, error) { return openTo(dir, &Store{dir: dir}) }

// OpenTemporary opens a site in an empty dir, which its caller removes after Close. A process that is killed leaves facts
// there whose readers nothing leads back to, since their keys are in memory alone.
func OpenTemporary(dir string) (*Store, error) { return openTo(dir, &Store{dir: dir, temporary: true}) }

func openTo(dir string, s *Store) (*Store, error) {
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return s, nil
}

func (s *Store) open() (err error) {
	dir := s.dir
	if err := durable.PrivateDir(dir); err != nil {
		return pathless(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, segmentDir), 0o700); err != nil {
		return pathless(err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return pathless(err)
	}
	s.lock, s.damaged, s.known, s.made = lock, map[int64]bool{}, make(knownEvidence, manyKnown), map[epochOf]newKey{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if held, err := durable.Lock(lock, durable.LockPatience); err != nil || !held {
		return errors.Join(err, ErrLocked)
	}
	// SQLite would create it for everybody.
	db, err := os.OpenFile(filepath.Join(dir, fileName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return pathless(err)
	}
	if err := errors.Join(db.Close(), durable.SyncDir(dir)); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	known, err := s.version()
	if err == nil && known == 0 {
		if left, _ := filepath.Glob(filepath.Join(dir, segmentDir, "*"+suffix)); len(left) > 0 {
			return fmt.Errorf("%w: it is lost, but there are facts in %s: %s", ErrUnusable, segmentDir, remedy)
		}
		err = s.write(context.Background(), func(tx *sql.Tx) error {
			_, err := tx.Exec(schema + "; PRAGMA user_version = " + strconv.Itoa(version))
			return err
		})
	}
	if err == nil {
		err = sqlite.Check(context.Background(), s.sql)
	}
	if err != nil {
		return unusable(err)
	}
	var last sql.NullInt64
	if err := s.sql.QueryRow("SELECT max(seq) FROM sqlite_sequence").Scan(&last); err != nil {
		return unusable(err)
	}
	s.last.Store(last.Int64)
	if _, err := s.paths(context.Background()); err != nil {
		return err
	}
	return s.sweep()
}

// Attach opens the site in dir beside the process that collects.
func Attach(dir string) (*Store, error) {
	s := &Store{dir: dir}
	if _, err := os.Stat(filepath.Join(dir, fileName)); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrMissing)
	}
	if err := s.connect(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	known, err := s.version()
	if err == nil && known == 0 { // another process has just created the file
		err = ErrMissing
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, errors.Join(unusable(err), s.Close()))
	}
	return s, nil
}

func (s *Store) connect() (err error) {
	pragmas := []string{"secure_delete(ON)"}
	if s.temporary {
		pragmas = append(pragmas, "synchronous(OFF)")
	}
	s.sql, err = sqlite.Open(filepath.Join(s.dir, fileName), sqlite.Writing, pragmas...)
	return unusable(err)
}

// version returns the number of the schema, 0 for a database without tables, and an error for another version.
func (s *Store) version() (known int, err error) {
	err = s.sql.QueryRow("PRAGMA user_version").Scan(&known)
	if err == nil && known != 0 && known != version {
		err = fmt.Errorf("%w: its format is %d, and this docgauge reads and writes %d: use the docgauge that wrote it, or "+
			"name another directory and let it read the logs again", ErrUnusable, known, version)
	}
	return known, err
}

// unusable names the database in errors that say that it is damaged.
func unusable(err error) error {
	if sqlite.KindOf(err) == sqlite.Damaged && !errors.Is(err, ErrUnusable) {
		return fmt.Errorf("%w: %w: %s", ErrUnusable, err, remedy)
	}
	return err
}

// pathless returns an error of the file system without its path, which the caller names.
func pathless(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// Close releases the site.
func (s *Store) Close() (err error) {
	if s.sql != nil {
		err = s.sql.Close()
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// Dir is the directory.
func (s *Store) Dir() string { return s.dir }

// write runs do in one transaction: when it has returned nil, the effect is durable. After an error of the
// commit itself, such as a disk's, the effect may come back after a crash, unless another transaction was
// committed before.
func (s *Store) write(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.sql.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		if undo := tx.Rollback(); !errors.Is(undo, sql.ErrTxDone) {
			err = errors.Join(err, undo)
		}
		return unusable(err)
	}
	if err := s.step("transaction", tx.Commit); err != nil {
		_ = tx.Rollback() // of a commit that a test has kept from beginning
		return unusable(err)
	}
	return nil
}

// settle removes files that no row names, if a process that writes segments may have left some. It is for
// who holds writing, before more are written.
func (s *Store) settle(ctx context.Context) error {
	if !s.unsettled.Load() {
		return nil
	}
	// The transaction that would have named them may have failed so that a crash brings it back: not after this.
	if err := s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec("PRAGMA user_version = " + strconv.Itoa(version))
		return err
	}); err != nil {
		return err
	}
	err := s.sweep()
	s.unsettled.Store(err != nil)
	return err
}

// sweep removes the segments that no row names.
func (s *Store) sweep() error {
	named := map[string]bool{}
	rows, err := s.sql.Query("SELECT number FROM segments WHERE size > 0")
	if err != nil {
		return unusable(err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err says it
	for rows.Next() {
		var number int64
		if err := rows.Scan(&number); err != nil {
			return unusable(err)
		}
		named[segmentName(number)] = true
	}
	if err := rows.Err(); err != nil {
		return unusable(err)
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, segmentDir))
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) && !named[e.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(s.dir, segmentDir, e.Name())))
		}
	}
	return err
}

func segmentName(number int64) string { return strconv.FormatInt(number, 10) + suffix }
