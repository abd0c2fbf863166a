package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
)

// tally is a client's summary of its work.
type tally struct {
	Rows     int64 `json:"rows"`
	Requests int64 `json:"requests"`
}

// order is what a client has to do: read that many windows of a project, day after
// day from the first on, from base into dir, with so many in flight.
type order struct {
	base, project     string
	windows, inFlight int
	dir               string
	first             time.Time
}

// orderArgs are the arguments of a client, in Go or Python; parseOrder reads them.
func orderArgs(base string, w workload, inFlight int, dir string, first time.Time) []string {
	return []string{base, w.project(), strconv.Itoa(w.windows), strconv.Itoa(inFlight), dir, first.Format(time.DateOnly)}
}

func parseOrder(args []string) (o order, err error) {
	if len(args) != 6 {
		return o, fmt.Errorf("%d arguments, want 6", len(args))
	}
	windows, windowsErr := strconv.Atoi(args[2])
	inFlight, inFlightErr := strconv.Atoi(args[3])
	first, firstErr := time.Parse(time.DateOnly, args[5])
	return order{args[0], args[1], windows, inFlight, args[4], first}, errors.Join(windowsErr, inFlightErr, firstErr)
}

// page is a page as the clients decode it.
type page struct {
	Visitors []visitor `json:"visitors"`
	HasMore  bool      `json:"hasMore"`
}

type visitor struct {
	Path  string `json:"path"`
	Human int64  `json:"human"`
	AI    int64  `json:"ai"`
	Total int64  `json:"total"`
}

// readPages hands each page of window i to use.
func (o order) readPages(i int, use func([]visitor) error) error {
	from, to := days(o.first, i)
	for offset, more := 0, true; more; offset += pageRows {
		p, err := get(fmt.Sprintf("%s/v1/analytics/%s/visitors?dateFrom=%s&dateTo=%s&limit=%d&offset=%d",
			o.base, o.project, from, to, pageRows, offset))
		if err != nil {
			return err
		}
		if err := use(p.Visitors); err != nil {
			return err
		}
		more = p.HasMore
	}
	return nil
}

func get(url string) (p page, err error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return p, err
	}
	req.Header.Set("Authorization", "Bearer "+benchKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return p, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return p, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return p, json.NewDecoder(resp.Body).Decode(&p)
}

// plain is the plain client's process: one window after the other into one CSV
// file. It prints its tally to out.
func plain(out io.Writer, o order) error {
	f, err := os.Create(filepath.Join(o.dir, "rows.csv"))
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(f)
	w := csv.NewWriter(buffered)
	var done tally
	for i := range o.windows {
		from, _ := days(o.first, i)
		err := o.readPages(i, func(rows []visitor) error {
			done.Requests++
			for _, v := range rows {
				done.Rows++
				if err := w.Write([]string{from, v.Path, strconv.FormatInt(v.Human, 10), strconv.FormatInt(v.AI, 10), strconv.FormatInt(v.Total, 10)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return errors.Join(err, f.Close())
		}
	}
	w.Flush()
	if err := errors.Join(w.Error(), buffered.Flush(), f.Close()); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(done)
}

// readIntoParquet is the process of go-parquet: several windows at once, the rows
// of each in memory until they become its file. A window that has its file is not
// read again.
func readIntoParquet(out io.Writer, o order) error {
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = o.inFlight
	var rows, requests atomic.Int64
	var group errgroup.Group
	group.SetLimit(o.inFlight)
	for i := range o.windows {
		group.Go(func() error {
			from, _ := days(o.first, i)
			path := filepath.Join(o.dir, from+".parquet")
			if _, err := os.Stat(path); err == nil {
				return nil
			}
			var all []visitor
			err := o.readPages(i, func(rows []visitor) error {
				requests.Add(1)
				all = append(all, rows...)
				return nil
			})
			rows.Add(int64(len(all)))
			if err != nil {
				return err
			}
			return writeParquet(path, int32(analytics.DateOf(o.first))+int32(i), all)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(tally{rows.Load(), requests.Load()})
}

// writeParquet writes rows of one day under a temporary name and renames the file.
// It uses the low-level writer, because pqarrow needs gRPC.
func writeParquet(path string, day int32, rows []visitor) error {
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDictionaryFor("path", false))
	w, err := file.NewParquetWriterWithError(f, visitorColumns(), file.WithWriterProps(props))
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(writeColumns(w, day, rows), w.Close()); err != nil { // closes f
		return err
	}
	return os.Rename(path+".tmp", path)
}

func visitorColumns() *schema.GroupNode {
	required := parquet.Repetitions.Required
	return schema.MustGroup(schema.NewGroupNode("schema", required, schema.FieldList{
		schema.Must(schema.NewPrimitiveNodeLogical("window_start", required, schema.DateLogicalType{}, parquet.Types.Int32, -1, -1)),
		schema.Must(schema.NewPrimitiveNodeLogical("path", required, schema.StringLogicalType{}, parquet.Types.ByteArray, -1, -1)),
		schema.NewInt64Node("human", required, -1),
		schema.NewInt64Node("ai", required, -1),
		schema.NewInt64Node("total", required, -1),
	}, -1))
}

func writeColumns(w *file.Writer, day int32, rows []visitor) error {
	group, err := w.AppendRowGroupChecked()
	if err != nil {
		return err
	}
	return errors.Join(
		writeColumn(group, rows, func(visitor) int32 { return day }),
		writeColumn(group, rows, func(v visitor) parquet.ByteArray { return parquet.ByteArray(v.Path) }),
		writeColumn(group, rows, func(v visitor) int64 { return v.Human }),
		writeColumn(group, rows, func(v visitor) int64 { return v.AI }),
		writeColumn(group, rows, func(v visitor) int64 { return v.Total }),
		group.Close())
}

// writeColumn writes the next column of group.
func writeColumn[T any](group file.SerialRowGroupWriter, rows []visitor, value func(visitor) T) error {
	values := make([]T, len(rows))
	for i, v := range rows {
		values[i] = value(v)
	}
	column, err := group.NextColumn()
	if err != nil {
		return err
	}
	w, ok := column.(interface {
		WriteBatch(values []T, defLevels, repLevels []int16) (int64, error)
	})
	if !ok {
		return fmt.Errorf("column %s does not take %T", column.Descr().Name(), values)
	}
	_, err = w.WriteBatch(values, nil, nil)
	return err
}
