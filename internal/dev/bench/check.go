package main

import (
	"bytes"
	"context"
	"encoding/json"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/must"
)

// findings are about the rows that a client wrote.
type findings struct {
	Rows int64
	// Differ says that docgauge's rows are not those that the server serves; of other clients they are only counted.
	Differ bool
}

// findRows checks the files below o.Dir in a separate process: the bench holds no data.
func findRows(ctx context.Context, o order) (f findings) {
	out, _ := measure(child(ctx, checkRole, o))
	must.Do(json.Unmarshal(out, &f))
	return f
}

// check counts the rows of Parquet and CSV files below o.Dir, and compares the rows of docgauge's window files with
// what the server serves: equal sums of hashes mean equal rows, in any order. Folders whose name begins with _ are a
// tool's own notes; state and totals are docgauge's.
func check(o order) any {
	var f findings
	var read, served uint64
	seed := maphash.MakeSeed()
	hash := func(day analytics.Date, v visitor) uint64 {
		return maphash.Comparable(seed, struct {
			analytics.Date
			visitor
		}{day, v})
	}
	must.Do(filepath.WalkDir(o.Dir, func(path string, d fs.DirEntry, err error) error {
		must.Do(err)
		switch {
		case d.IsDir() && (strings.HasPrefix(d.Name(), "_") || d.Name() == "state" || d.Name() == "totals"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".csv"):
			f.Rows += int64(bytes.Count(must.Get(os.ReadFile(path)), []byte("\n")))
		case strings.HasSuffix(path, ".parquet"):
			w, err := archive.Open(path)
			if err != nil { // of another client
				r := must.Get(file.OpenParquetFile(path, false))
				f.Rows += r.NumRows()
				return r.Close()
			}
			for r, err := range analytics.Rows[analytics.Row](w.Rows()) {
				must.Do(err)
				f.Rows++
				read += hash(w.Revision().From, visitor{r.Path, r.Human, r.AI, r.Total})
			}
		}
		return nil
	}))
	for window := range o.Work.Windows {
		day := o.day(window)
		for i := range o.Work.Rows {
			human, ai, total := counts(i, day.YearDay())
			served += hash(analytics.DateOf(day), visitor{string(appendPath(nil, i)), human, ai, total})
		}
	}
	f.Differ = read != 0 && read != served
	return f
}
