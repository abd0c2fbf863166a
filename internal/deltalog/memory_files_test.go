package deltalog_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/docgauge/docgauge/internal/filestore"
)

// memoryFiles is what a table needs of a store, in memory. A test can have any call fail, before or after it
// took effect.
type memoryFiles struct {
	// Before is called before each call takes effect, After when it has; an error is that
	// of the call. Either may be nil.
	Before, After func(call, name string) error

	filestore.Store // nil
	dir             string
	mu              sync.Mutex
	files           map[string][]byte
}

// newMemoryFiles returns an empty store that stages files in dir.
func newMemoryFiles(dir string) *memoryFiles {
	return &memoryFiles{files: map[string][]byte{}, dir: dir}
}

// Names returns the names of all files, sorted.
func (f *memoryFiles) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.files))
}

// Get returns a file, or nil if it does not exist.
func (f *memoryFiles) Get(name string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files[name]
}

// Put makes or replaces a file; nil removes it.
func (f *memoryFiles) Put(name string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[name] = data
	if data == nil {
		delete(f.files, name)
	}
}

// call does what a call does, between the test's errors.
func (f *memoryFiles) call(ctx context.Context, call, name string, do func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if f.Before != nil {
		if err := f.Before(call, name); err != nil {
			return &fs.PathError{Op: call, Path: name, Err: err}
		}
	}
	f.mu.Lock()
	err := do()
	f.mu.Unlock()
	if f.After != nil && err == nil {
		err = f.After(call, name)
	}
	if err != nil {
		return &fs.PathError{Op: call, Path: name, Err: err}
	}
	return nil
}

// Describe is the name.
func (f *memoryFiles) Describe(name string) string { return "memory:" + name }

// Create makes a file under a name that is free.
func (f *memoryFiles) Create(ctx context.Context, name string, data []byte) error {
	return f.call(ctx, "create", name, func() error {
		if _, taken := f.files[name]; taken {
			return fs.ErrExist
		}
		f.files[name] = bytes.Clone(data)
		return nil
	})
}

// Remove takes a file away.
func (f *memoryFiles) Remove(ctx context.Context, name string) error {
	return f.call(ctx, "remove", name, func() error { delete(f.files, name); return nil })
}

// List lists the files below dir whose names are greater than after.
func (f *memoryFiles) List(ctx context.Context, dir, after string, found func(name string)) error {
	var names []string
	err := f.call(ctx, "list", dir, func() error {
		names = slices.Sorted(maps.Keys(f.files))
		return nil
	})
	for _, name := range names {
		if err == nil && strings.HasPrefix(name, dir+"/") && name > after {
			found(name)
		}
	}
	return err
}

// Open is OpenWhole.
func (f *memoryFiles) Open(ctx context.Context, name string) (filestore.File, error) {
	return f.OpenWhole(ctx, name)
}

// OpenWhole opens a file. Its data stay the same even if the file is replaced.
func (f *memoryFiles) OpenWhole(ctx context.Context, name string) (filestore.File, error) {
	var data []byte
	err := f.call(ctx, "open", name, func() error {
		var there bool
		if data, there = f.files[name]; !there {
			return fs.ErrNotExist
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return opened{io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))}, nil
}

type opened struct{ *io.SectionReader }

func (opened) Close() error { return nil }

// StagingFile names a new local file.
func (f *memoryFiles) StagingFile() string {
	return filepath.Join(f.dir, rand.Text()+".tmp")
}

// Publish takes the staged file into memory, and removes it.
func (f *memoryFiles) Publish(ctx context.Context, staged, name string) error {
	return f.call(ctx, "publish", name, func() error {
		data, err := os.ReadFile(staged)
		if err == nil {
			f.files[name] = data
			err = os.Remove(staged)
		}
		return err
	})
}
