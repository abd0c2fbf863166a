package delta

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/deltalog"
	"github.com/docgauge/docgauge/internal/filestore"
)

// table is one of the tables, with its contents after the last commit. Only the caller
// that leads a group calls set.
type table struct {
	name   string
	report analytics.Report
	store  filestore.Store
	log    *deltalog.Table

	// files are the files of each window at a version of the table, nil if that is not known: most windows have one. It
	// saves reading the tags of all files for every entry.
	files   map[analytics.Key][]string
	id      string
	version int64
}

// files has the one file that each window is to have, nil for no file.
type files map[analytics.Key]*deltalog.Add

var (
	keyColumns = []deltalog.Column{
		{Name: "project", Type: "string"}, {Name: "granularity", Type: "string"},
		{Name: "window_start", Type: "date"}, {Name: "window_end", Type: "date"},
	}
	readingColumns = []deltalog.Column{
		{Name: "revision", Type: "integer"}, {Name: "settled", Type: "boolean"}, {Name: "verified", Type: "boolean"},
		{Name: "exported_at", Type: "timestamp"},
	}
	types = [...]string{analytics.Text: "string", analytics.Truth: "boolean", analytics.Count: "long"}
)

// columnsOf returns the columns of a table of a report, in the order of its files.
func columnsOf(report analytics.Report, table string) []deltalog.Column {
	var own, more []deltalog.Column
	ofTotals := table == report.Shape().TotalsTable
	for _, c := range report.Shape().Columns {
		if !ofTotals || c.Kind == analytics.Count {
			own = append(own, deltalog.Column{Name: c.Name, Type: types[c.Kind]})
		}
	}
	if ofTotals {
		own = append(own, deltalog.Column{Name: "humans", Type: types[analytics.Text]})
		more = []deltalog.Column{{Name: "page_count", Type: "long"}}
	}
	return slices.Concat(keyColumns, own, readingColumns, more)
}

func newTable(c Options, store filestore.Store, report analytics.Report, name string) *table {
	about := report.Shape().About
	if name == report.Shape().TotalsTable {
		about = report.Shape().AboutSite
	}
	return &table{name: name, report: report, store: store, log: deltalog.New(deltalog.Options{
		Files: store, Dir: name, Columns: columnsOf(report, name), Description: about,
		Engine: "docgauge/" + c.Version, Now: c.Now, Readers: store.Readers(),
	})}
}

// parse reads the name of a data file of the table, as parseName does.
func (t *table) parse(path string) (key analytics.Key, published time.Time, ours bool) {
	key, published, ours = parseName(path)
	key.Report = t.report
	return key, published, ours
}

// errStray means that the table has files that no window of ours is in.
var errStray = errors.New("files of another writer")

// scan returns the files of each window, and those that are not ours.
func (t *table) scan(snap *deltalog.Snapshot) (filesOf map[analytics.Key][]string, strays []string) {
	filesOf = make(map[analytics.Key][]string, snap.Len())
	for add := range snap.Files() {
		foot, err := t.footerOf(add)
		if err != nil {
			strays = append(strays, add.Path)
			continue
		}
		filesOf[foot.Key] = append(filesOf[foot.Key], add.Path)
	}
	slices.Sort(strays)
	return filesOf, strays
}

// footerOf reads the tags of a file that this package wrote.
func (t *table) footerOf(add deltalog.Add) (archive.Footer, error) {
	foot, err := archive.ParseMetadata(add.Tags)
	if err == nil {
		if key, _, ours := t.parse(add.Path); !ours || key != foot.Key {
			err = errors.New("its tags are of another file")
		}
	}
	return foot, err
}

// refuse returns the error of a table that has strays.
func (t *table) refuse(snap *deltalog.Snapshot, strays []string) error {
	if len(strays) == 0 {
		return nil
	}
	return fmt.Errorf("%s: table %s at version %d: %w: %s, %d in all, hold rows that docgauge cannot tell by "+
		"window, and writing could double them: "+
		"RESTORE TABLE to a version before, or empty the directory and load it from an archive",
		t.store.Location(), t.name, snap.Version(), errStray, t.store.Describe(t.name+"/"+strays[0]), len(strays))
}

// set makes the table have just these files of their windows, by one entry; none, if it
// is so already. It leaves out the windows for which leave returns true, given the files that they have then.
func (t *table) set(ctx context.Context, want files, leave func(key analytics.Key, there []string) bool) error {
	if len(want) == 0 {
		return nil
	}
	var next map[analytics.Key][]string
	version, err := t.log.Commit(ctx,
		func(snap *deltalog.Snapshot) (add []deltalog.Add, remove []string, err error) {
			if t.files == nil || t.id != snap.ID() || t.version != snap.Version() {
				filesOf, strays := t.scan(snap)
				if err := t.refuse(snap, strays); err != nil {
					return nil, nil, err
				}
				t.files, t.id, t.version = filesOf, snap.ID(), snap.Version()
			}
			next = map[analytics.Key][]string{}
			for key, file := range want {
				there := t.files[key]
				if leave != nil && leave(key, there) {
					next[key] = there
					continue
				}
				if file != nil {
					next[key] = []string{file.Path}
					if !slices.Contains(there, file.Path) {
						add = append(add, *file)
					}
				}
				for _, path := range there {
					if !slices.Contains(next[key], path) {
						remove = append(remove, path)
					}
				}
			}
			return add, remove, nil
		})
	if err != nil {
		t.files = nil // the table will be read again
		return err
	}
	for key := range want {
		delete(t.files, key)
	}
	maps.Copy(t.files, next)
	t.version = version
	return nil
}
