package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
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
	"github.com/docgauge/docgauge/internal/dev/must"
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

// pages yields the pages of window i.
func (o order) pages(i int) iter.Seq[page] {
	return readPages(o.Base, o.project(), benchKey, o.day(i), o.day(i+1))
}

// readPages yields the pages of a window.
func readPages(base, project, key string, from, to time.Time) iter.Seq[page] {
	return func(yield func(page) bool) {
		for offset, p := 0, (page{HasMore: true}); p.HasMore; offset += pageRows {
			p = page{}
			body := open(fmt.Sprintf("%s/v1/analytics/%s/visitors?dateFrom=%s&dateTo=%s&limit=%d&offset=%d", base, project,
				from.Format(time.DateOnly), to.Format(time.DateOnly), pageRows, offset), key)
			must.Do(json.NewDecoder(body).Decode(&p))
			must.Do(body.Close())
			if !yield(p) {
				return
			}
		}
	}
}

// open returns the body of an answer; a status other than 200 is an error.
func open(url, key string) io.ReadCloser {
	req := must.Get(http.NewRequest(http.MethodGet, url, nil))
	req.Header.Set("Authorization", "Bearer "+key)
	resp := must.Get(http.DefaultClient.Do(req))
	if resp.StatusCode != http.StatusOK {
		must.Do(fmt.Errorf("%s: %s: %.200s", url, resp.Status, must.Get(io.ReadAll(resp.Body))))
	}
	return resp.Body
}

func get(url string) string {
	body := open(url, benchKey)
	defer body.Close()
	return string(must.Get(io.ReadAll(body)))
}

// isUp reports whether a server answers.
func isUp(url string) bool {
	resp, err := http.Get(url)
	if err == nil {
		err = resp.Body.Close()
	}
	return err == nil && resp.StatusCode == http.StatusOK
}

// plain is the client that people write first: one window after the other into one CSV file.
func plain(o order) any {
	f := must.Get(os.Create(filepath.Join(o.Dir, "rows.csv")))
	buffered := bufio.NewWriter(f)
	w := csv.NewWriter(buffered)
	var done tally
	for i := range o.Work.Windows {
		day := o.day(i).Format(time.DateOnly)
		for p := range o.pages(i) {
			done.Requests++
			for _, v := range p.Visitors {
				done.Rows++
				human, ai := strconv.FormatInt(v.Human, 10), strconv.FormatInt(v.AI, 10)
				_ = w.Write([]string{day, v.Path, human, ai, strconv.FormatInt(v.Total, 10)}) // w.Error has the error
			}
		}
	}
	w.Flush()
	must.Do(w.Error())
	must.Do(buffered.Flush())
	must.Do(f.Close())
	return done
}

// readIntoParquet is go-parquet, the usual next step when plain is too slow: several windows at
// once, the rows of each in memory until they become its file. A window that has its file is not
// read again.
func readIntoParquet(o order) any {
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = o.InFlight
	var rows, requests atomic.Int64
	var group errgroup.Group
	group.SetLimit(o.InFlight)
	for i := range o.Work.Windows {
		group.Go(func() (err error) {
			defer must.Catch(&err)
			path := filepath.Join(o.Dir, o.day(i).Format(time.DateOnly)+".parquet")
			if _, err := os.Stat(path); err == nil {
				return nil
			}
			var all []visitor
			for p := range o.pages(i) {
				requests.Add(1)
				all = append(all, p.Visitors...)
			}
			rows.Add(int64(len(all)))
			writeParquet(path, int32(analytics.DateOf(o.First))+int32(i), all)
			return nil
		})
	}
	must.Do(group.Wait())
	return tally{rows.Load(), requests.Load()}
}

// fileColumns are the columns of a file of go-parquet.
var fileColumns = must.Get(schema.NewSchemaFromStruct(struct {
	Day   int32  `parquet:"name=window_start, logical=date"`
	Path  string `parquet:"name=path, logical=string"`
	Human int64  `parquet:"name=human"`
	AI    int64  `parquet:"name=ai"`
	Total int64  `parquet:"name=total"`
}{}))

// writeParquet writes rows of one day under a temporary name and renames the file. It uses the low-level writer,
// because pqarrow needs gRPC.
func writeParquet(path string, day int32, rows []visitor) {
	zstd, plain := parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDictionaryFor("path", false)
	w := must.Get(file.NewParquetWriterWithError(must.Get(os.Create(path+".tmp")), fileColumns.Root(),
		file.WithWriterProps(parquet.NewWriterProperties(zstd, plain))))
	group := must.Get(w.AppendRowGroupChecked())
	writeColumn(group, column(rows, func(visitor) int32 { return day }))
	writeColumn(group, column(rows, func(v visitor) parquet.ByteArray { return parquet.ByteArray(v.Path) }))
	writeColumn(group, column(rows, func(v visitor) int64 { return v.Human }))
	writeColumn(group, column(rows, func(v visitor) int64 { return v.AI }))
	writeColumn(group, column(rows, func(v visitor) int64 { return v.Total }))
	must.Do(group.Close())
	must.Do(w.Close()) // and the file
	must.Do(os.Rename(path+".tmp", path))
}

// column returns one value of each row.
func column[R, T any](rows []R, value func(R) T) []T {
	values := make([]T, len(rows))
	for i, r := range rows {
		values[i] = value(r)
	}
	return values
}

// writeColumn writes the next column of group.
func writeColumn[T any](group file.SerialRowGroupWriter, values []T) {
	w := must.Get(group.NextColumn()).(interface {
		WriteBatch(values []T, defLevels, repLevels []int16) (int64, error)
	})
	must.Get(w.WriteBatch(values, nil, nil))
}
