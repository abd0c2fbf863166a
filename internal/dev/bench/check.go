package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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
	Doubled int64 // rows that were found again
	Wrong   int64 // rows that the server does not have in that window
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

// check compares the rows in docgauge's files below o.Dir one by one, and counts those in other Parquet and CSV
// files. Folders whose name begins with _ are a tool's own notes; state and totals are docgauge's.
func check(o order, out io.Writer) error {
	c := checker{order: o, seen: make([]bool, o.Work.totalRows()), unmixer: mixer}
	for range 4 { // Newton's method: each step doubles the correct bits, of which there are three at first
		c.unmixer *= 2 - mixer*c.unmixer
	}
	err := filepath.WalkDir(o.Dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), "_") || d.Name() == "state" || d.Name() == "totals"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".csv"):
			text, err := os.ReadFile(path)
			c.Rows += int64(bytes.Count(text, []byte("\n")))
			return err
		case strings.HasSuffix(path, ".parquet"):
			return c.readParquet(path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.Missing = max(0, o.Work.totalRows()+c.Doubled+c.Wrong-c.Rows)
	c.Doubled = max(c.Doubled, c.Rows-o.Work.totalRows()-c.Wrong)
	return json.NewEncoder(out).Encode(c.findings)
}

func (c *checker) readParquet(path string) error {
	f, err := archive.Open(path)
	if err != nil {
		r, err := file.OpenParquetFile(path, false)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		c.Rows += r.NumRows()
		return r.Close()
	}
	for r, err := range f.Rows() {
		if err != nil {
			return err
		}
		c.add(f.Revision().From.Time(), visitor{r.Path, r.Human, r.AI, r.Total})
	}
	return nil
}

// checker knows the rows of the server, and which of them it has seen.
type checker struct {
	findings
	order   order
	seen    []bool // by window and index of the row
	unmixer uint32 // undoes mixer
	path    []byte
}

// add takes a row of the window that begins on day.
func (c *checker) add(day time.Time, v visitor) {
	c.Rows++
	mixed, err := strconv.ParseUint(v.Path[max(0, len(v.Path)-8):], 16, 32)
	window, index := int(day.Sub(c.order.First)/(24*time.Hour)), int(uint32(mixed)*c.unmixer)
	c.path = appendPath(c.path[:0], uint32(mixed))
	human, ai, total := counts(uint32(mixed), day.YearDay())
	if err != nil || window < 0 || window >= c.order.Work.Windows || index >= c.order.Work.Rows ||
		v != (visitor{string(c.path), human, ai, total}) {
		c.Wrong++
		return
	}
	seen := &c.seen[window*c.order.Work.Rows+index]
	if *seen {
		c.Doubled++
	}
	*seen = true
}
