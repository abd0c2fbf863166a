// Package filestore is a directory, or the objects below a prefix of an S3 bucket, as
// one tree of files. A file appears under its name whole and durable: in a directory by
// rename or link from _staging on the same file system, in a bucket by one PUT whose
// body the server checks. It has no multipart uploads: one PUT carries 5 GiB.
//
// It does not know the contents of the files. Nothing else imports the AWS SDK.
package filestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// StagingDir is where files are staged and checks leave their traces, for a moment.
	StagingDir   = "_staging"
	stagedSuffix = ".tmp"
)

// Store is the place files are published in: a directory, or a bucket. Names are
// relative to its root, with slashes, and sound: they name no place outside of it. It
// is used by many goroutines at once.
type Store interface {
	// Location names the root for people, without secrets.
	Location() string
	// Describe names a file for people.
	Describe(name string) string
	// Path is the file's name in the file system, whether it is there or not; empty in a
	// bucket.
	Path(name string) string
	// Prepare makes sure that files can be staged, published and created.
	Prepare(ctx context.Context) error
	// StagingFile returns a new name of a local file to write a file to first.
	StagingFile() string
	// Publish gives the staged file its name: readers see the former file or
	// this one, whole. It returns when that is durable.
	Publish(ctx context.Context, staged, name string) error
	// Create makes a file of data, whole and durable, under a name that is free: if
	// it is taken, even since a moment, the error is fs.ErrExist. In a bucket that can
	// be because an answer was lost: the file may hold data. After any other error
	// the file may be there too.
	Create(ctx context.Context, name string, data []byte) error
	// Remove removes a file for good; a missing file is not an error.
	Remove(ctx context.Context, name string) error
	// List calls found for each file below dir whose name is greater than after.
	List(ctx context.Context, dir, after string, found func(name string)) error
	// Mark returns a text that is another one once a file was published or removed in the directories down to depth
	// below dir; empty in a bucket, and if it cannot tell.
	Mark(ctx context.Context, dir string, depth int) string
	// Open opens a file of which a small part will be read; for a missing file the error
	// is fs.ErrNotExist.
	Open(ctx context.Context, name string) (File, error)
	// OpenWhole is Open for a file that will be read to its end.
	OpenWhole(ctx context.Context, name string) (File, error)
	// Fetch returns a local file that holds what the named one holds now, in dir
	// if it must be made; done ends its use.
	Fetch(ctx context.Context, name, dir string) (path string, done func() error, err error)
	// Check proves that a file could be published now.
	Check(ctx context.Context) error
	// Readers is the number of files that are worth reading at once.
	Readers() int
	// Close gives up what the store holds open.
	Close() error
}

// File is an open file of a store. If another one takes its place, it keeps its
// contents or returns an error.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// New returns the store in a directory, or at s3://bucket/prefix with the options
// region, endpoint and path_style as a query. It writes nothing and connects to
// nothing.
func New(root string) (Store, error) { return NewWithin(root, usualLimits) }

// NewWithin is [New] with other limits for a bucket.
func NewWithin(root string, limits Limits) (Store, error) {
	switch scheme, _, remote := strings.Cut(root, ":"); {
	case remote && strings.EqualFold(scheme, "s3"):
		a, err := parseAddress(root)
		if err != nil {
			return nil, err
		}
		return &bucket{address: a, limits: limits}, nil
	case !strings.Contains(root, "://"):
		d, err := newDirectory(root)
		if err != nil {
			return nil, err
		}
		return d, nil
	}
	return nil, errors.New("want a directory or s3://bucket/prefix")
}

// Same reports whether a and b, as New takes them, are the same place: one may be a symbolic
// link to the other, which need not exist yet.
func Same(a, b string) bool {
	first, err := New(a)
	if err != nil {
		return false
	}
	second, err := New(b)
	if err != nil {
		return false
	}
	d, local := first.(*directory)
	e, bothLocal := second.(*directory)
	if !local || !bothLocal {
		return first.Location() == second.Location()
	}
	x, xerr := os.Stat(d.root)
	y, yerr := os.Stat(e.root)
	return xerr == nil && yerr == nil && os.SameFile(x, y) || resolve(d.root) == resolve(e.root)
}

// resolve follows the symbolic links of a path, of which the last part may not exist.
func resolve(path string) string {
	for range 40 {
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return path
}

// Stage copies what open opens to a new file at path, durably, and has check read it:
// the published bytes are the written ones.
func Stage(
	ctx context.Context, path string, open func() (io.ReadCloser, error), check func(r io.ReaderAt, size int64) error,
) error {
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	err = copyAll(ctx, out, in)
	if err == nil {
		err = out.Sync()
	}
	var info fs.FileInfo
	if err == nil {
		info, err = out.Stat()
	}
	if err == nil {
		err = check(out, info.Size())
	}
	return errors.Join(err, out.Close())
}

// copyAll copies until the end of in, or of ctx.
func copyAll(ctx context.Context, out io.Writer, in io.Reader) error {
	const chunk = 64 << 10
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_, err := io.CopyN(out, in, chunk)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// CheckCreate proves that Create of s refuses a name that is taken. It creates a probe in
// _staging twice, and removes it.
func CheckCreate(ctx context.Context, s Store) error {
	if err := s.Prepare(ctx); err != nil {
		return err
	}
	name := StagingDir + "/" + rand.Text() + stagedSuffix
	err := s.Create(ctx, name, []byte(name))
	if err != nil && !errors.Is(err, fs.ErrExist) { // the name is random: it was made, and the answer lost
		return err
	}
	switch err = s.Create(ctx, name, []byte(name)); {
	case err == nil:
		err = fmt.Errorf("%s: the server ignores If-None-Match: two writers could overwrite each other: use a "+
			"server that honours it, or a directory", s.Location())
	case errors.Is(err, fs.ErrExist):
		err = nil
	}
	return errors.Join(err, s.Remove(context.WithoutCancel(ctx), name))
}
