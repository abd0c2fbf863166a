package export

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
)

// tree reads what the Parquet sink published, as a warehouse does: every file
// that a glob finds.
type tree struct{ dir string }

func (tr tree) glob(table string, k analytics.Key) ([]string, error) {
	return filepath.Glob(filepath.Join(tr.dir, table, "v1", "p="+k.Project, "g="+string(k.Granularity), "ym=*", fmt.Sprintf("%s_%s*.parquet", k.From, k.To)))
}

func (tr tree) Visitors(k analytics.Key) ([]analytics.Row, []analytics.Revision, error) {
	found, err := tr.glob("visitors", k)
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	if len(found) > 1 {
		return nil, nil, fmt.Errorf("%d files of one window", len(found))
	}
	f, err := archive.Open(found[0])
	if err != nil {
		return nil, nil, err
	}
	var rows []analytics.Row
	for row, err := range f.Rows() {
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, row)
	}
	return rows, []analytics.Revision{f.Revision()}, nil
}

// Totals returns the revision of the visitors file, as that is published first.
func (tr tree) Totals(k analytics.Key) ([]analytics.Revision, error) {
	_, revs, err := tr.Visitors(k)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return revs, err
}
