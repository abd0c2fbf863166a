//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/ClickHouse/ch-go/compress"
)

// exceptionTag stands where a server puts a random word, between the marker
// and the text of an exception that comes after the first block.
const exceptionTag = "docgaugeexceptio"

// answer writes the result of one request. Nothing is sent before the first
// block, so that an error up to there has its own status.
type answer struct {
	http.ResponseWriter
	frames *compress.Writer
	sent   bool
}

func newAnswer(w http.ResponseWriter, r *http.Request) *answer {
	a := &answer{ResponseWriter: w}
	q := r.URL.Query()
	if q.Get("compress") == "1" {
		method := compress.LZ4
		if q.Get("network_compression_method") == "ZSTD" {
			method = compress.ZSTD
		}
		a.frames = compress.NewWriter(compress.LevelZero, method)
	}
	return a
}

// block sends one piece of the result.
func (a *answer) block(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if !a.sent {
		a.Header().Set("Content-Type", "application/octet-stream")
		a.Header().Set("X-ClickHouse-Exception-Tag", exceptionTag)
		a.sent = true
	}
	for len(data) > 0 {
		piece := data[:min(len(data), 1<<20)]
		data = data[len(piece):]
		if err := a.piece(piece); err != nil {
			return err
		}
	}
	return nil
}

func (a *answer) piece(data []byte) error {
	if a.frames != nil {
		if err := a.frames.Compress(data); err != nil {
			return err
		}
		data = a.frames.Data
	}
	_, err := a.Write(data)
	return err
}

// end finishes the answer. An empty one says so in Content-Length: clickhouse-go
// would look for a block otherwise.
func (a *answer) end(err error) {
	switch {
	case err != nil && a.sent:
		a.exception(err)
	case err != nil:
		a.fail(err)
	case !a.sent:
		a.Header().Set("Content-Length", "0")
		a.WriteHeader(http.StatusOK)
	}
}

func (a *answer) fail(err error) {
	e := asEngineError(err)
	a.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	a.Header().Set("X-ClickHouse-Exception-Code", strconv.Itoa(e.Code))
	a.WriteHeader(e.status())
	fmt.Fprintln(a, e.Text)
}

func (a *answer) exception(err error) {
	text := asEngineError(err).Text
	fmt.Fprintf(a, "\r\n__exception__\r\n%s\r\n%s\n%d %s\r\n__exception__\r\n",
		exceptionTag, text, len(text)+1, exceptionTag)
}

func asEngineError(err error) *engineError {
	if e, ok := errors.AsType[*engineError](err); ok {
		return e
	}
	return &engineError{Code: 1000, Text: "Code: 1000. DB::Exception: " + err.Error() + " (POCO_EXCEPTION)"}
}
