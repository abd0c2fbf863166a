package filestore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
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

	// link makes a hard link; os.Link but for tests, as open is openRegular and readDir is
	// os.ReadDir.
	link    func(file, name string) error
	open    func(path string) (File, error)
	readDir func(path string) ([]fs.DirEntry, error)
	hanging hanging

	mu     sync.Mutex
	opened bool            // root was there or made by this process
	synced map[string]bool // directories whose entries are known to be durable
}

func newDirectory(root string) (*directory, error) {
	if root == "" {
		return nil, errors.New("directory: its name is empty")
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("directory %q: %w", root, err)
	}
	d := &directory{
		root: abs, link: os.Link, readDir: os.ReadDir, synced: map[string]bool{},
		open: func(path string) (File, error) { return openRegular(path) },
	}
	// A file system that does not answer fails at its use, not here.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	info, err := answered(ctx, &d.hanging, abs, func() (fs.FileInfo, error) { return os.Stat(abs) })
	if err == nil && !info.IsDir() {
		return nil, fmt.Errorf("directory %s: is a file, must be a directory", abs)
	}
	return d, nil
}

func (d *directory) Location() string { return d.root }

func (d *directory) Describe(name string) string { return d.Path(name) }

func (d *directory) Readers() int { return 1 }

func (d *directory) Close() error { return nil }

func (d *directory) Path(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

func (d *directory) staging() string { return filepath.Join(d.root, StagingDir) }

func (d *directory) StagingFile() string {
	return filepath.Join(d.staging(), rand.Text()+stagedSuffix)
}

// Prepare makes root and _staging where they are missing. It does not make a root
// again that was there and is gone: more likely its file system is not mounted, and
// a new directory would hide that.
func (d *directory) Prepare(context.Context) error {
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
			return fmt.Errorf("directory %s: its parent does not exist: create that or name another directory: %w",
				d.root, err)
		}
		if err == nil || errors.Is(err, fs.ErrExist) { // another process has made it since
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
	// Staging files of processes that died are removed. Files of living processes are younger; one that cannot be
	// removed takes room and does no other harm.
	entries, _ := os.ReadDir(d.staging())
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasSuffix(e.Name(), stagedSuffix) && time.Since(info.ModTime()) > leftoverAge {
			_ = os.Remove(filepath.Join(d.staging(), e.Name()))
		}
	}
	return nil
}

// Publish renames: readers see the former file or this one.
func (d *directory) Publish(_ context.Context, staged, name string) error {
	path := d.Path(name)
	if err := d.makeDirOf(path); err != nil {
		return err
	}
	if err := durable.Rename(staged, path); err != nil {
		return irregular(path, err)
	}
	return nil
}

// Create links a staged file to its name: the link is refused where the name is taken,
// and readers see all of the file or none. A process that dies before the link leaves a
// staging file, which a later one removes.
func (d *directory) Create(ctx context.Context, name string, data []byte) error {
	path, staged := d.Path(name), d.StagingFile()
	if err := d.makeDirOf(path); err != nil {
		return err
	}
	defer os.Remove(staged)
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	if err := Stage(ctx, staged, open, func(io.ReaderAt, int64) error { return nil }); err != nil {
		return err
	}
	err := d.link(staged, path)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EMLINK) {
		// the file system has no hard links
		if err = durable.RenameNew(staged, path); errors.Is(err, errors.ErrUnsupported) {
			err = claim(staged, path)
		}
	}
	// The entry of a name that is taken is flushed too: the process that took it may have died before it did that, and
	// the next steps build on it.
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = errors.Join(err, durable.SyncDir(filepath.Dir(path)))
	}
	return err
}

// claim is for file systems without hard links and without RenameNew. It takes the name by an empty file, which only
// one process can make, and puts the staged file in its place. Dying between the two leaves the empty file, which
// keeps the name taken: no later file can be mistaken for this one.
func claim(staged, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	if err = errors.Join(f.Close(), os.Rename(staged, path)); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// makeDirOf makes the directory of path.
func (d *directory) makeDirOf(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.makeDir(filepath.Dir(path))
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

func (d *directory) Remove(_ context.Context, name string) error {
	path := d.Path(name)
	if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// List reads one directory after the other; those that are gone have no files.
func (d *directory) List(ctx context.Context, dir, after string, found func(name string)) error {
	entries, err := answered(ctx, &d.hanging, d.Path(dir), func() ([]fs.DirEntry, error) {
		return d.readDir(d.Path(dir))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			if err := d.List(ctx, name, after, found); err != nil {
				return err
			}
		}
		// A directory with the name of a window is found: readers' globs find it, too.
		if (!e.IsDir() || path.Ext(name) == ".parquet") && name > after {
			found(name)
		}
	}
	return err
}

func (d *directory) Open(ctx context.Context, name string) (File, error) {
	path := d.Path(name)
	f, err := answered(ctx, &d.hanging, path, func() (File, error) { return d.open(path) })
	if err != nil {
		return nil, err
	}
	return localFile{f, ctx, &d.hanging, path}, nil
}

// OpenWhole is Open: an open file keeps its contents.
func (d *directory) OpenWhole(ctx context.Context, name string) (File, error) {
	return d.Open(ctx, name)
}

// Fetch gives the file a second name, so that it stays although another file takes
// its place, or copies it where links cannot be made.
func (d *directory) Fetch(ctx context.Context, name, dir string) (string, func() error, error) {
	in, err := d.Open(ctx, name)
	if err != nil {
		return "", nil, err
	}
	defer in.Close()
	path := filepath.Join(dir, rand.Text())
	done := func() error { return os.Remove(path) }
	if os.Link(d.Path(name), path) == nil {
		return path, done, nil
	}
	// Also a file that is replaced at this moment cannot be linked, but opened.
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", nil, err
	}
	if err = errors.Join(copyAll(ctx, out, io.NewSectionReader(in, 0, in.Size())), out.Close()); err != nil {
		return "", nil, errors.Join(err, done())
	}
	return path, done, nil
}

// Check makes the directory if need be, and writes, flushes and removes a file
// in _staging.
func (d *directory) Check(ctx context.Context) error {
	if err := d.Prepare(ctx); err != nil {
		return err
	}
	f, err := os.OpenFile(d.StagingFile(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, checkBytes))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
