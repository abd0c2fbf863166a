package parquet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/docgauge/docgauge/internal/analytics"
)

const dirMode = 0o755

// prepare makes root and _staging where they are missing. A root that was
// there and is gone is not made again: more likely its file system is not
// mounted, and a new directory would hide that.
func (s *Sink) prepare() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(s.root)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("directory %s: is a file, must be a directory", s.root)
	case errors.Is(err, fs.ErrNotExist) && s.opened:
		return fmt.Errorf("directory %s is gone since it was first used: mount it or put it back: %w", s.root, err)
	case errors.Is(err, fs.ErrNotExist):
		err = s.makeRoot()
	}
	if err != nil {
		return err
	}
	if err := s.makeDir(s.staging()); err != nil {
		return err
	}
	if !s.opened {
		s.sweep()
	}
	s.opened = true
	return nil
}

func (s *Sink) makeRoot() error {
	err := os.Mkdir(s.root, dirMode)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("directory %s: its parent does not exist: create that or name another directory: %w", s.root, err)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(s.root))
}

// publish gives the durable file at staged its name in table: readers see the
// former file or this one. It returns when the name is durable too.
func (s *Sink) publish(staged, table string, key analytics.Key) error {
	path, err := s.path(table, key)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	s.mu.Lock()
	err = s.makeDir(dir)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := os.Rename(staged, path); err != nil {
		return err
	}
	at(table + " renamed")
	if err := syncDir(dir); err != nil {
		return err
	}
	at(table + " published")
	return nil
}

// makeDir makes dir below root and makes its entry durable, and so for the
// directories above it. An entry that is there may be one that a crashed
// process did not flush, so the first use flushes it in any case.
func (s *Sink) makeDir(dir string) error {
	if dir == s.root {
		return nil
	}
	if info, err := os.Stat(dir); err == nil && info.IsDir() && s.synced[dir] {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := s.makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := syncDir(parent); err != nil {
		return err
	}
	s.synced[dir] = true
	return nil
}

// syncDir makes the entries of dir durable. File systems that cannot do so for
// directories say EINVAL, and need no more than the rename.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
