package parquet

import (
	"context"
	"io"
)

// tree is the place files are published in: a directory, or a bucket. Names are
// relative to its root, with slashes, as layout.go makes them.
type tree interface {
	// location names the root for people, without secrets.
	location() string
	// describe names a file for people.
	describe(name string) string
	// prepare makes sure that files can be published, as far as that needs doing.
	prepare(ctx context.Context) error
	// stagingFile returns a new name of a local file to write a file to first.
	stagingFile() string
	// publish gives the staged file its name: readers see the former file or
	// this one, whole. It returns when that is durable.
	publish(ctx context.Context, staged, name string) error
	// remove takes a file away for good; one that is not there is no error.
	remove(ctx context.Context, name string) error
	// list calls found for each file below dir.
	list(ctx context.Context, dir string, found func(name string)) error
	// open opens a file for reading; the error is fs.ErrNotExist if there is none.
	open(ctx context.Context, name string) (file, error)
	// whole opens a file that will be read to its end.
	whole(ctx context.Context, name string) (file, error)
	// fetch returns a local file that holds what the named one holds now, in dir
	// if it must be made, and what ends its use.
	fetch(ctx context.Context, name, dir string) (path string, done func() error, err error)
	// check proves that a file could be published now.
	check(ctx context.Context) error
	// readers is how many files are worth reading at once.
	readers() int
	// close gives up what the tree holds open.
	close() error
}

// file is an open file of a tree.
type file interface {
	io.ReaderAt
	io.Closer
	Size() int64
}
