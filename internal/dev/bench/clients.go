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

// page is a page as the clients decode it.
type page struct {
	Totals   visitor   `json:"totals"`
	Visitors []visitor `json:"visitors"`
	HasMore  bool      `json:"hasMore"`
}

type visitor struct {
	Path  string `json:"path"`
	Human int64  `json:"human"`
	AI    int64  `json:"ai"`
	Total int64  `json:"total"`
}

// day returns the start of window i.
func (o order) day(i int) time.Time { return o.First.AddDate(0, 0, i) }

// readPages passes each page of window i to use.
func (o order) readPages(i int, use func(page) error) error {
	return readPages(o.Base, o.project(), benchKey, o.day(i), o.day(i+1), use)
}

// readPages passes each page of a window to use.
func readPages(base, project, key string, from, to time.Time, use func(page) error) error {
	for offset, more := 0, true; more; offset += pageRows {
		var p page
		err := ask(fmt.Sprintf("%s/v1/analytics/%s/visitors?dateFrom=%s&dateTo=%s&limit=%d&offset=%d", base, project,
			from.Format(time.DateOnly), to.Format(time.DateOnly), pageRows, offset), key,
			func(body io.Reader) error { return json.NewDecoder(body).Decode(&p) })
		if err == nil {
			err = use(p)
		}
		if err != nil {
			return err
		}
		more = p.HasMore
	}
	return nil
}

// get returns the body of an answer; a status other than 200 is an error.
func get(url, key string) (text []byte, err error) {
	err = ask(url, key, func(body io.Reader) (err error) {
		text, err = io.ReadAll(body)
		return err
	})
	return text, err
}

// ask passes the body of an answer to use.
func ask(url, key string, use func(io.Reader) error) error {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(resp.Body)
		return errors.Join(fmt.Errorf("%s: %s: %.200s", url, resp.Status, text), err)
	}
	return use(resp.Body)
}

// plain is the client that people write first: one window after the other into one CSV file.
func plain(o order, out io.Writer) error {
	f, err := os.Create(filepath.Join(o.Dir, "rows.csv"))
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(f)
	w := csv.NewWriter(buffered)
	var done tally
	for i := range o.Work.Windows {
		day := o.day(i).Format(time.DateOnly)
		err := o.readPages(i, func(p page) error {
			done.Requests++
			for _, v := range p.Visitors {
				done.Rows++
				human, ai := strconv.FormatInt(v.Human, 10), strconv.FormatInt(v.AI, 10)
				_ = w.Write([]string{day, v.Path, human, ai, strconv.FormatInt(v.Total, 10)}) // w.Error has the error
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

// readIntoParquet is go-parquet, the usual next step when plain is too slow: several windows at
// once, the rows of each in memory until they become its file. A window that has its file is not
// read again.
func readIntoParquet(o order, out io.Writer) error {
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = o.InFlight
	var rows, requests atomic.Int64
	var group errgroup.Group
	group.SetLimit(o.InFlight)
	for i := range o.Work.Windows {
		group.Go(func() error {
			path := filepath.Join(o.Dir, o.day(i).Format(time.DateOnly)+".parquet")
			if _, err := os.Stat(path); err == nil {
				return nil
			}
			var all []visitor
			err := o.readPages(i, func(p page) error {
				requests.Add(1)
				all = append(all, p.Visitors...)
				return nil
			})
			rows.Add(int64(len(all)))
			if err != nil {
				return err
			}
			return writeParquet(path, int32(analytics.DateOf(o.First))+int32(i), all)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(tally{rows.Load(), requests.Load()})
}

// writeParquet writes rows of one day under a temporary name and renames the file. It uses the low-level writer,
// because pqarrow needs gRPC.
func writeParquet(path string, day int32, rows []visitor) error {
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	required, date, text := parquet.Repetitions.Required, schema.DateLogicalType{}, schema.StringLogicalType{}
	columns := schema.MustGroup(schema.NewGroupNode("schema", required, schema.FieldList{
		schema.Must(schema.NewPrimitiveNodeLogical("window_start", required, date, parquet.Types.Int32, -1, -1)),
		schema.Must(schema.NewPrimitiveNodeLogical("path", required, text, parquet.Types.ByteArray, -1, -1)),
		schema.NewInt64Node("human", required, -1),
		schema.NewInt64Node("ai", required, -1),
		schema.NewInt64Node("total", required, -1),
	}, -1))
	zstd, plain := parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDictionaryFor("path", false)
	w, err := file.NewParquetWriterWithError(f, columns, file.WithWriterProps(parquet.NewWriterProperties(zstd, plain)))
	if err != nil {
		return errors.Join(err, f.Close())
	}
	group, err := w.AppendRowGroupChecked()
	if err == nil {
		err = errors.Join(
			writeColumn(group, rows, func(visitor) int32 { return day }),
			writeColumn(group, rows, func(v visitor) parquet.ByteArray { return parquet.ByteArray(v.Path) }),
			writeColumn(group, rows, func(v visitor) int64 { return v.Human }),
			writeColumn(group, rows, func(v visitor) int64 { return v.AI }),
			writeColumn(group, rows, func(v visitor) int64 { return v.Total }),
			group.Close())
	}
	if err := errors.Join(err, w.Close()); err != nil { // closes f
		return err
	}
	return os.Rename(path+".tmp", path)
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
	w := column.(interface {
		WriteBatch(values []T, defLevels, repLevels []int16) (int64, error)
	})
	_, err = w.WriteBatch(values, nil, nil)
	return err
}
