package delta

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

const (
	visitorsTable = "visitors"
	totalsTable   = "totals"
	agentsTable   = "agents"
)

func TestMain(m *testing.M) { os.Exit(engines.S3Main(m, os.Getenv(sinktest.ChildPlace) != "")) }

func TestContract(t *testing.T) {
	for where, place := range map[string]func(t *testing.T) (url, root string){
		"directory": directory, "bucket": faults.Bucket,
	} {
		t.Run(where, func(t *testing.T) {
			opened := func(t *testing.T, reports ...analytics.Report) (sinks.Sink, sinktest.Reader) {
				url, root := place(t)
				return open(t, url, reports...), reader{root}
			}
			if where == "directory" {
				sinktest.Run(t, opened)
			} else {
				sinktest.RunMixed(t, opened)
			}
		})
	}
}

func directory(t *testing.T) (url, root string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "data")
	return root, root
}

func open(t *testing.T, url string, reports ...analytics.Report) *Sink {
	t.Helper()
	return newSink(Options{Now: time.Now, Version: "1.2.3", Reports: reports}, faults.FileStore(t, url))
}

func withStore(store filestore.Store) *Sink {
	return newSink(Options{Now: time.Now, Version: "1.2.3"}, store)
}

// action has the fields of the lines of a log that a reader of Delta must know.
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

// reader reads the tables below root.
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

func (r reader) Rows(key analytics.Key) ([]analytics.Record, []analytics.Revision, error) {
	return sinktest.FileRows(func(f func(string, analytics.Revision) error) error {
		return r.each(key.Report.String(), key, f)
	})
}

func (r reader) Totals(key analytics.Key) (revs []analytics.Revision, err error) {
	err = r.each(key.Report.Shape().TotalsTable, key, func(_ string, rev analytics.Revision) error {
		revs = append(revs, rev)
		return nil
	})
	return revs, err
}

var (
	seal       = faults.Window
	sealTotals = faults.Totals
	dataFiles  = faults.Published
	revOf      = sinktest.RevisionOf
	replace    = sinktest.Replace
	check      = sinktest.Check
)

func sealDay(t *testing.T, day int, number int32, n int) *archive.File {
	t.Helper()
	return sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", day), number), sinktest.Pages(n))
}

// agreed fails unless a listing and both tables show just one revision, one of these.
func agreed(t *testing.T, s *Sink, root string, revs ...analytics.Revision) {
	t.Helper()
	sinktest.Agreed(t, s, reader{root}, revs...)
}

// stepped returns s with a store that says its steps.
func stepped(s *Sink, at func(step string)) *Sink {
	return newSink(s.options, faults.Stepping{Store: s.store, At: at})
}

// entries counts the log entries of both tables, as text.
func entries(t *testing.T, root string) string {
	t.Helper()
	var all []int
	for _, table := range []string{visitorsTable, totalsTable} {
		version, _, err := replay(root, table)
		check(t, err)
		all = append(all, version+1)
	}
	return fmt.Sprint(all)
}
