package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/docgauge/docgauge/internal/durable"
)

// answerLimit is the time that one call to a file system may take. It only takes longer if its
// server is gone, and then the call never returns.
const answerLimit = time.Minute

// errSilent is why a call was given up.
var errSilent = fmt.Errorf("the file system has not answered for %v: check the disk or the server it is mounted from",
	answerLimit)

// hanging counts the calls to a file system that have taken longer than answerLimit and
// have not returned. While there is one, further calls fail at once: a command that reads
// thousands of files waits for one of them.
type hanging struct{ calls atomic.Int64 }

// answered returns what call returns, an error once ctx has ended, or errSilent. A call
// that was given up can still return later, so it must not use memory of the caller.
func answered[T any](ctx context.Context, h *hanging, path string, call func() (T, error)) (result T, err error) {
	type answer struct {
		result T
		err    error
	}
	silent := &fs.PathError{Op: "read", Path: path, Err: errSilent}
	if h.calls.Load() > 0 {
		return result, silent
	}
	done, late := make(chan answer, 1), make(chan struct{})
	go func() {
		timer := time.AfterFunc(answerLimit, func() {
			h.calls.Add(1)
			close(late)
		})
		v, err := call()
		if !timer.Stop() {
			<-late
			h.calls.Add(-1)
		}
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		return a.result, a.err
	case <-late:
		return result, silent
	case <-ctx.Done():
		return result, context.Cause(ctx)
	}
}

// openRegular opens a file without waiting: the open of a named pipe would wait for its
// writer.
func openRegular(path string) (plainFile, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) { // a socket cannot be opened
		return plainFile{}, irregular(path, err)
	}
	if err != nil {
		return plainFile{}, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path, info.Mode())
	}
	if err != nil {
		return plainFile{}, errors.Join(err, f.Close())
	}
	return plainFile{f, info.Size()}, nil
}

// irregular returns the error of a file at path that is not regular; else err.
func irregular(path string, err error) error {
	if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() {
		return notRegular(path, info.Mode())
	}
	return err
}

func notRegular(path string, mode fs.FileMode) error {
	return fmt.Errorf("%s is a %s, must be a file: move it away", path, durable.Kind(mode))
}

// plainFile is an open file of the file system.
type plainFile struct {
	*os.File
	size int64
}

func (f plainFile) Size() int64 { return f.size }

// localFile is an open file of a directory, whose reads end with ctx.
type localFile struct {
	File
	ctx     context.Context
	hanging *hanging
	path    string
}

func (f localFile) ReadAt(p []byte, off int64) (int, error) {
	size := len(p)
	data, err := answered(f.ctx, f.hanging, f.path, func() ([]byte, error) {
		buf := make([]byte, size)
		n, err := f.File.ReadAt(buf, off)
		return buf[:n], err
	})
	return copy(p, data), err
}
