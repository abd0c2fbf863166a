package parquet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/durable"
)

const (
	dirMode  = 0o755
	fileMode = 0o644
	// leftoverAge is the age from which a staging file belongs to a dead process.
	leftoverAge = time.Hour
	// checkBytes is more than a full disk still has room for in one block.
	checkBytes = 64 << 10
)

// directory is a tree of the file system.
type directory struct {
	root string

	mu     sync.Mutex
	opened bool            // root was there or made by this process
	synced map[string]bool // directories whose entries are known to be durable
}

func newDirectory(root string) (*directory, error) {
	if root == "" {
		return nil, errors.New("parquet directory: its name is empty")
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("parquet directory %q: %w", root, err)
	}
	if info, err := os.Stat(abs); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("parquet directory %s: is a file, must be a directory", abs)
	}
	return &directory{root: abs, synced: map[string]bool{}}, nil
}

func (d *directory) location() string { return d.root }

func (d *directory) describe(name string) string { return d.path(name) }

func (d *directory) readers() int { return 1 }

func (d *directory) close() error { return nil }

func (d *directory) path(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

func (d *directory) staging() string { return filepath.Join(d.root, stagingName) }

func (d *directory) stagingFile() string {
	return filepath.Join(d.staging(), rand.Text()+stagedSuffix)
}

// prepare makes root and _staging where they are missing. It does not make a root
// again that was there and is gone: more likely its file system is not mounted, and
// a new directory would hide that.
func (d *directory) prepare(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	info, err := os.Stat(d.root)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("directory %s: is a file, must be a directory", d.root)
	case errors.Is(err, fs.ErrNotExist) && d.opened:
		return fmt.Errorf("directory %s is gone since it was first used: mount it or put it back: %w", d.root, err)
	case errors.Is(err, fs.ErrNotExist):
		err = os.Mkdir(d.root, dirMode)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("directory %s: its parent does not exist: create that or name another directory: %w", d.root, err)
		}
		if err == nil {
			err = durable.SyncDir(filepath.Dir(d.root))
		}
	}
	if err != nil {
		return err
	}
	if err := d.makeDir(d.staging()); err != nil {
		return err
	}
	if d.opened {
		return nil
	}
	d.opened = true
	// Staging files of processes that died are removed. Those of living processes are
	// younger; one that cannot be removed takes room and does no other harm.
	entries, _ := os.ReadDir(d.staging())
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasSuffix(e.Name(), stagedSuffix) && time.Since(info.ModTime()) > leftoverAge {
			_ = os.Remove(filepath.Join(d.staging(), e.Name()))
		}
	}
	return nil
}

// publish renames: readers see the former file or this one.
func (d *directory) publish(_ context.Context, staged, name string) error {
	path := d.path(name)
	d.mu.Lock()
	err := d.makeDir(filepath.Dir(path))
	d.mu.Unlock()
	if err != nil {
		return err
	}
	return durable.Rename(staged, path)
}

// makeDir makes dir below root, and the directories above it, durably. An entry that
// is there may be one that a crashed process did not flush, so the first use flushes
// it in any case.
func (d *directory) makeDir(dir string) error {
	if dir == d.root {
		return nil
	}
	if info, err := os.Stat(dir); err == nil && info.IsDir() && d.synced[dir] {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := d.makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := durable.SyncDir(parent); err != nil {
		return err
	}
	d.synced[dir] = true
	return nil
}

func (d *directory) remove(_ context.Context, name string) error {
	path := d.path(name)
	if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

func (d *directory) list(_ context.Context, dir string, found func(name string)) error {
	return filepath.WalkDir(d.path(dir), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		if rel, err := filepath.Rel(d.root, path); err == nil {
			found(filepath.ToSlash(rel))
		}
		return nil
	})
}

// localFile is an open file of the file system.
type localFile struct {
	*os.File
	size int64
}

func (f localFile) Size() int64 { return f.size }

func (d *directory) open(_ context.Context, name string) (file, error) {
	return openLocal(d.path(name))
}

// openWhole is open: an open file stays as it is.
func (d *directory) openWhole(ctx context.Context, name string) (file, error) {
	return d.open(ctx, name)
}

func openLocal(path string) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return localFile{f, info.Size()}, nil
}

// fetch gives the file a second name, so that it stays although another file takes
// its place, or copies it where links cannot be made.
func (d *directory) fetch(ctx context.Context, name, dir string) (string, func() error, error) {
	path := filepath.Join(dir, rand.Text()+suffix)
	done := func() error { return os.Remove(path) }
	if os.Link(d.path(name), path) == nil {
		return path, done, nil
	}
	// Also a file that is replaced at this moment cannot be linked, but opened.
	in, err := os.Open(d.path(name))
	if err != nil {
		return "", nil, err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", nil, err
	}
	if err = errors.Join(copyAll(ctx, out, in), out.Close()); err != nil {
		return "", nil, errors.Join(err, done())
	}
	return path, done, nil
}

// check makes the directory if need be, and writes, flushes and removes a file
// in _staging.
func (d *directory) check(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	f, err := os.OpenFile(d.stagingFile(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, checkBytes))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
