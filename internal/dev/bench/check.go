package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/docgauge/docgauge/internal/archive"
)

// findings compare the rows that a client wrote with those that the server serves. For clients
// whose rows are only counted, missing and doubled rows cancel each other out.
type findings struct {
	Rows    int64 // found
	Missing int64 // rows of the server that were not found
	Doubled int64 // rows of windows that were found again
	Wrong   int64 // rows of windows that differ from those of the server
}

// findRows checks the files below o.Dir in a separate process: the bench holds no data.
func findRows(ctx context.Context, o order) (f findings, err error) {
	cmd, err := child(ctx, checkRole, o)
	if err != nil {
		return f, err
	}
	out, _, err := measure(cmd)
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(out, &f)
}

// check compares docgauge's files below o.Dir with what the server serves, and counts the rows of other Parquet and
// CSV files. Folders whose name begins with _ are a tool's own notes; state and totals are docgauge's.
func check(o order, out io.Writer) error {
	var f findings
	seen := map[time.Time]bool{}
	err := filepath.WalkDir(o.Dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), "_") || d.Name() == "state" || d.Name() == "totals"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".csv"):
			text, err := os.ReadFile(path)
			f.Rows += int64(bytes.Count(text, []byte("\n")))
			return err
		case strings.HasSuffix(path, ".parquet"):
			return f.readParquet(o, path, seen)
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.Missing = max(0, o.Work.totalRows()+f.Doubled+f.Wrong-f.Rows)
	f.Doubled = max(f.Doubled, f.Rows-o.Work.totalRows()-f.Wrong)
	return json.NewEncoder(out).Encode(f)
}

// readParquet takes a file of one window of docgauge, or counts the rows of another's.
func (f *findings) readParquet(o order, path string, seen map[time.Time]bool) error {
	w, err := archive.Open(path)
	if err != nil {
		r, err := file.OpenParquetFile(path, false)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		f.Rows += r.NumRows()
		return r.Close()
	}
	// Equal sums of hashes mean equal rows, in any order.
	var rows int64
	var read, served uint64
	for r, err := range w.Rows() {
		if err != nil {
			return err
		}
		rows++
		read += maphash.Comparable(hashSeed, visitor{r.Path, r.Human, r.AI, r.Total})
	}
	day := w.Revision().From.Time()
	if window := int(day.Sub(o.First) / (24 * time.Hour)); window >= 0 && window < o.Work.Windows {
		for i := range o.Work.Rows {
			served += maphash.Comparable(hashSeed, rowOf(i, day.YearDay()))
		}
	}
	f.Rows += rows
	switch {
	case read != served:
		f.Wrong += rows
	case seen[day]:
		f.Doubled += rows
	}
	seen[day] = true
	return nil
}

var hashSeed = maphash.MakeSeed()
