package parquet

import (
	"context"
	"io"
	"path"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	visitorsTable = "visitors"
	totalsTable   = "totals"
	version       = "v1"
	stagingName   = "_staging"
	suffix        = ".parquet"
	stagedSuffix  = ".tmp"
	monthLayout   = "2006-01"
)

// tree is the place files are published in: a directory, or a bucket. Names are
// relative to its root, with slashes, as place makes them.
type tree interface {
	// location names the root for people, without secrets.
	location() string
	// describe names a file for people.
	describe(name string) string
	// prepare makes sure that files can be staged and published.
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
	// open opens a file of which a small part will be read; the error is
	// fs.ErrNotExist if there is none.
	open(ctx context.Context, name string) (file, error)
	// openWhole is open for a file that will be read to its end.
	openWhole(ctx context.Context, name string) (file, error)
	// fetch returns a local file that holds what the named one holds now, in dir
	// if it must be made; done ends its use.
	fetch(ctx context.Context, name, dir string) (path string, done func() error, err error)
	// check proves that a file could be published now.
	check(ctx context.Context) error
	// readers is how many files are worth reading at once.
	readers() int
	// close gives up what the tree holds open.
	close() error
}

// file is an open file of a tree. It stays as it is although another one takes its
// place, or gives an error.
type file interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// place returns the name of key's file in table, relative to the root. The keys of
// the partitions are p, g and ym: engines let a partition key hide a column of the
// same name.
func place(table string, key analytics.Key) (string, error) {
	if err := analytics.CheckProject(key.Project); err != nil {
		return "", err
	}
	if _, err := analytics.ParseGranularity(string(key.Granularity)); err != nil {
		return "", err
	}
	return path.Join(table, version,
		"p="+key.Project,
		"g="+string(key.Granularity),
		"ym="+key.From.Time().Format(monthLayout),
		key.From.String()+"_"+key.To.String()+suffix), nil
}

// keyOf is the inverse of place; false where name is not one of ours.
func keyOf(name string) (analytics.Key, bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 6 {
		return analytics.Key{}, false
	}
	from, to, _ := strings.Cut(strings.TrimSuffix(parts[5], suffix), "_")
	key := analytics.Key{
		Project:     strings.TrimPrefix(parts[2], "p="),
		Granularity: analytics.Granularity(strings.TrimPrefix(parts[3], "g=")),
	}
	if key.From.UnmarshalText([]byte(from)) != nil || key.To.UnmarshalText([]byte(to)) != nil {
		return analytics.Key{}, false
	}
	again, err := place(parts[0], key)
	return key, err == nil && again == name
}
