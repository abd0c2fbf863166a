package delta

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/s3test"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestMain(m *testing.M) { os.Exit(s3test.Main(m, os.Getenv(sinktest.ChildPlace) != "")) }

func TestContract(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) (sinks.Sink, sinktest.Reader) {
		s := open(t, filepath.Join(t.TempDir(), "data"))
		return s, reader{s.Location()}
	})
}

func TestContractBucket(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) (sinks.Sink, sinktest.Reader) {
		s, root := openBucket(t, "")
		return s, reader{root}
	})
}

// open returns a sink that waits between its tries as little as a test wants to.
func open(t *testing.T, root string) *Sink {
	t.Helper()
	return openWith(t, Options{URL: root})
}

func openWith(t *testing.T, c Options) *Sink {
	t.Helper()
	store, err := filestore.NewWithin(c.URL, filestore.Limits{
		Transfer: 3 * s3test.AtOnce, Call: 3 * s3test.AtOnce, Answer: 2 * s3test.AtOnce,
		Credentials: 2 * s3test.AtOnce, Backoff: time.Millisecond,
	})
	check(t, err)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Version = "1.2.3"
	s := newSink(c, store)
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

// openBucket returns a sink on a new bucket, reached at the endpoint, and the
// directory in which the server keeps the objects below the prefix.
func openBucket(t *testing.T, endpoint string) (s *Sink, root string) {
	t.Helper()
	name := s3test.NewBucket(t)
	return open(t, s3test.URL(t, name, endpoint)), filepath.Join(s3test.Dir(name), "docs", "gauge")
}

func check(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// action is what a reader of Delta must know of the lines of a log.
type action struct {
	Add *struct {
		Path  string            `json:"path"`
		Size  int64             `json:"size"`
		Stats string            `json:"stats"`
		Tags  map[string]string `json:"tags"`
	} `json:"add"`
	Remove *struct {
		Path string `json:"path"`
	} `json:"remove"`
	MetaData *struct {
		Schema string `json:"schemaString"`
	} `json:"metaData"`
}

// replay reads the log of a table as any reader would, and returns the newest version,
// and the last action of each file.
func replay(root, table string) (version int, files map[string]action, err error) {
	names, err := filepath.Glob(filepath.Join(root, table, "_delta_log", "*.json"))
	if err != nil {
		return 0, nil, err
	}
	slices.Sort(names)
	files = map[string]action{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return 0, nil, err
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var a action
			if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
				return 0, nil, err
			}
			switch {
			case a.Add != nil:
				path, err := url.PathUnescape(a.Add.Path)
				if err != nil {
					return 0, nil, err
				}
				files[filepath.Join(root, table, path)] = a
			case a.Remove != nil:
				path, err := url.PathUnescape(a.Remove.Path)
				if err != nil {
					return 0, nil, err
				}
				delete(files, filepath.Join(root, table, path))
			}
		}
	}
	return len(names) - 1, files, nil
}

// reader sees what the tables below root show.
type reader struct{ root string }

func (r reader) each(table string, key analytics.Key, f func(path string, rev analytics.Revision) error) error {
	_, files, err := replay(r.root, table)
	if err != nil {
		return err
	}
	for path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rev, err := archive.ReadFooter(bytes.NewReader(data), int64(len(data)))
		if err == nil && rev.Key == key {
			err = f(path, rev.Revision)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r reader) Visitors(key analytics.Key) ([]analytics.Row, []analytics.Revision, error) {
	return sinktest.FileRows(func(f func(string, analytics.Revision) error) error {
		return r.each(visitorsTable, key, f)
	})
}

func (r reader) Totals(key analytics.Key) (revs []analytics.Revision, err error) {
	err = r.each(totalsTable, key, func(_ string, rev analytics.Revision) error {
		revs = append(revs, rev)
		return nil
	})
	return revs, err
}

func seal(t *testing.T, number int32, n int) *archive.File {
	t.Helper()
	return sealDay(t, 0, number, n)
}

func sealDay(t *testing.T, day int, number int32, n int) *archive.File {
	t.Helper()
	return sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", day), number), sinktest.Pages(n))
}

func sealTotals(t *testing.T, number int32) *archive.File {
	t.Helper()
	return sinktest.Seal(t, sinktest.TotalsOnly(sinktest.Revision(sinktest.Key("prj_a", 0), number)), nil)
}

func replace(t *testing.T, s *Sink, w sinks.Sealed) {
	t.Helper()
	sinktest.Replace(t, s, w)
}

var revOf = sinktest.RevisionOf

// agreed fails unless a listing and both tables show just one revision, one of these.
func agreed(t *testing.T, s *Sink, root string, revs ...analytics.Revision) {
	t.Helper()
	sinktest.Agreed(t, s, reader{root}, revs...)
}

// dataFiles are the data files below root, whether a reader sees them or not.
func dataFiles(t *testing.T, root string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && e.IsDir() && e.Name() == "_delta_log" {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(path, suffix) {
			paths = append(paths, path)
		}
		return err
	})
	check(t, err)
	return paths
}

// stepping is a store that says which step Replace has come to.
type stepping struct {
	filestore.Store
	at func(step string)
}

func (s stepping) Publish(ctx context.Context, staged, name string) error {
	table, _, _ := strings.Cut(name, "/")
	s.at("before " + table + " file")
	err := s.Store.Publish(ctx, staged, name)
	s.at("after " + table + " file")
	return err
}

func (s stepping) Create(ctx context.Context, name string, data []byte) error {
	table, _, _ := strings.Cut(name, "/")
	s.at("before " + table + " entry")
	err := s.Store.Create(ctx, name, data)
	s.at("after " + table + " entry")
	return err
}

// stepped returns s with a store that says its steps.
func stepped(s *Sink, at func(step string)) *Sink { return newSink(s.options, stepping{s.store, at}) }
