package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// findings compare what a client wrote with what the server serves.
type findings struct {
	Rows    int64 // that there are
	Missing int64 // rows of the server that are not there
	Doubled int64 // rows that are there once more
	Wrong   int64 // rows that the server does not have in that window
}

// findRows compares every row below dir, in a process of its own: the bench holds
// no data.
func findRows(ctx context.Context, dir string, w workload, first time.Time) (f findings, err error) {
	cmd, err := child(ctx, checkRole, dir, w.project(), strconv.Itoa(w.windows), first.Format(time.DateOnly))
	if err != nil {
		return f, err
	}
	out, _, err := measure(cmd)
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(out, &f)
}

// check is a child's role: it reads all Parquet and CSV files below dir and prints
// its findings. Folders whose name begins with _ are a tool's own notes, state and
// totals are docgauge's.
func check(out io.Writer, dir, project, windows, firstDay string) error {
	n, windowsErr := strconv.Atoi(windows)
	work, err := parseProject(project)
	first, firstErr := time.Parse(time.DateOnly, firstDay)
	if err := errors.Join(windowsErr, err, firstErr); err != nil {
		return err
	}
	work.windows = n
	c := newChecker(work, first)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), "_") || d.Name() == "state" || d.Name() == "totals"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".csv"):
			return c.readCSV(path)
		case strings.HasSuffix(path, ".parquet"):
			return c.readParquet(path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.Missing = work.totalRows() + c.Doubled + c.Wrong - c.Rows
	return json.NewEncoder(out).Encode(c.findings)
}

// checker knows what the server serves, and keeps whether it has seen each row.
type checker struct {
	findings
	work    workload
	first   time.Time
	seen    [][]bool // by window and index of the row
	unmixer uint32
	path    []byte
}

func newChecker(w workload, first time.Time) *checker {
	c := &checker{work: w, first: first, seen: make([][]bool, w.windows), unmixer: mixer}
	for i := range c.seen {
		c.seen[i] = make([]bool, w.rows)
	}
	for range 4 { // Newton's method: each step doubles the right bits, of three at first
		c.unmixer *= 2 - mixer*c.unmixer
	}
	return c
}

// add takes a row of the window that begins on day.
func (c *checker) add(day time.Time, v visitor) {
	c.Rows++
	mixed, err := strconv.ParseUint(v.Path[max(0, len(v.Path)-8):], 16, 32)
	window, index := int(day.Sub(c.first)/(24*time.Hour)), int(uint32(mixed)*c.unmixer)
	if err != nil || window < 0 || window >= c.work.windows || index >= c.work.rows {
		c.Wrong++
		return
	}
	c.path = appendPath(c.path[:0], uint32(mixed))
	human, ai, total := counts(uint32(mixed), day.YearDay())
	switch {
	case v != visitor{string(c.path), human, ai, total}:
		c.Wrong++
	case c.seen[window][index]:
		c.Doubled++
	default:
		c.seen[window][index] = true
	}
}

func (c *checker) readCSV(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := csv.NewReader(f)
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		day, dayErr := time.Parse(time.DateOnly, cells[0])
		human, humanErr := strconv.ParseInt(cells[2], 10, 64)
		ai, aiErr := strconv.ParseInt(cells[3], 10, 64)
		total, totalErr := strconv.ParseInt(cells[4], 10, 64)
		if err := errors.Join(dayErr, humanErr, aiErr, totalErr); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		c.add(day, visitor{cells[1], human, ai, total})
	}
}

// readParquet takes the columns by name; the day may be a date or a text, and its
// name may have something in front.
func (c *checker) readParquet(path string) error {
	r, err := file.OpenParquetFile(path, false)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer r.Close()
	for i := range r.NumRowGroups() {
		group := r.RowGroup(i)
		starts, err := readDays(group)
		paths, pathsErr := readColumn[parquet.ByteArray](group, "path")
		human, humanErr := readColumn[int64](group, "human")
		ai, aiErr := readColumn[int64](group, "ai")
		total, totalErr := readColumn[int64](group, "total")
		if err := errors.Join(err, pathsErr, humanErr, aiErr, totalErr); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for i := range paths {
			c.add(starts[i], visitor{string(paths[i]), human[i], ai[i], total[i]})
		}
	}
	return nil
}

func readDays(group *file.RowGroupReader) (all []time.Time, err error) {
	dates, err := readColumn[int32](group, "window_start")
	for _, d := range dates {
		all = append(all, time.Unix(int64(d)*86_400, 0).UTC())
	}
	if err == nil {
		return all, nil
	}
	texts, err := readColumn[parquet.ByteArray](group, "window_start")
	for _, text := range texts {
		day, dayErr := time.Parse(time.DateOnly, string(text))
		if dayErr != nil {
			return nil, dayErr
		}
		all = append(all, day)
	}
	return all, err
}

// readColumn reads the column whose name ends with name; it must have no nulls.
func readColumn[T any](group *file.RowGroupReader, name string) ([]T, error) {
	for i := range group.NumColumns() {
		column, err := group.Column(i)
		if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(column.Descriptor().Name(), name) {
			continue
		}
		r, ok := column.(interface {
			ReadBatch(n int64, values []T, defLevels, repLevels []int16) (total int64, read int, err error)
		})
		if !ok {
			return nil, fmt.Errorf("column %s is of type %s", name, column.Descriptor().PhysicalType())
		}
		values := make([]T, group.NumRows())
		_, n, err := r.ReadBatch(group.NumRows(), values, make([]int16, len(values)), make([]int16, len(values)))
		if err == nil && n != len(values) {
			err = fmt.Errorf("column %s has %d values, want %d", name, n, len(values))
		}
		return values, err
	}
	return nil, fmt.Errorf("no column %s", name)
}
