package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// pageRows is the most rows a page can have.
const pageRows = analytics.PageRows

// server is the bench's service: section 4.3 of the specification, /requests
// and /answers.
// It renders made-up rows as they are requested, and keeps none.
type server struct {
	requests atomic.Int64
	answers  atomic.Int64 // requests beyond this number get no answer; 0 is no limit
	buffers  sync.Pool
}

func newServer() *server {
	return &server{buffers: sync.Pool{New: func() any {
		b := make([]byte, 0, pageRows*96) // a row is about that long as JSON
		return &b
	}}}
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/analytics/{project}/visitors", s.visitors)
	mux.HandleFunc("GET /requests", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, s.requests.Load()) // for visitors, good and bad
	})
	mux.HandleFunc("POST /answers", func(_ http.ResponseWriter, r *http.Request) {
		n, _ := strconv.ParseInt(r.FormValue("until"), 10, 64) // the bench's own request
		s.answers.Store(n)
	})
	return mux
}

// serve is a process that serves: it prints its base URL to out, and ends when in
// does, so that it does not outlive the bench.
func serve(in io.Reader, out io.Writer, handler http.Handler) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = srv.Close()
	}()
	fmt.Fprintf(out, "http://%s\n", listener.Addr())
	if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *server) visitors(w http.ResponseWriter, r *http.Request) {
	n, until := s.requests.Add(1), s.answers.Load()
	if until > 0 && n > until {
		<-r.Context().Done() // until the client is gone
		return
	}
	work, err := parseProject(r.PathValue("project"))
	day, offset, limit, queryErr := parseQuery(r.URL.Query())
	if err := errors.Join(err, queryErr); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	time.Sleep(work.latency)
	buffer := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buffer)
	*buffer = appendPage((*buffer)[:0], work.rows, day, offset, limit)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(*buffer)))
	_, _ = w.Write(*buffer) // a client that is gone needs no answer
}

func parseQuery(q url.Values) (day, offset, limit int, err error) {
	from, fromErr := time.Parse(time.DateOnly, q.Get("dateFrom"))
	offset, offsetErr := strconv.Atoi(q.Get("offset"))
	limit, limitErr := strconv.Atoi(q.Get("limit"))
	if err := errors.Join(fromErr, offsetErr, limitErr); err != nil {
		return 0, 0, 0, err
	}
	if offset < 0 || limit < 1 || limit > pageRows {
		return 0, 0, 0, fmt.Errorf("offset %d, limit %d: want 0 or more, 1 to %d", offset, limit, pageRows)
	}
	return from.YearDay(), offset, limit, nil
}

// Sixteen of each, so that four bits choose one.
var (
	sections = [16]string{
		"guides", "concepts", "reference", "tutorials", "platform", "settings", "security", "analytics",
		"changelog", "billing", "deployment", "webhooks", "components", "examples", "overview", "migration",
	}
	topics = [16]string{
		"quickstart", "pagination", "rate-limits", "api-tokens", "single-sign", "custom-domain", "monitoring", "page-layout",
		"navigation", "versioning", "file-upload", "error-codes", "retry-policy", "data-export", "user-roles", "search-index",
	}
)

// appendPage appends the answer to a request for a page of a window with that
// many rows. All pages of a window carry the same totals. Each path appears once;
// the paths are in no order. The day changes the counts, but not the paths.
func appendPage(b []byte, rows, day, offset, limit int) []byte {
	b = append(b, `{"totals":{`...)
	b = appendCounts(b, int64(rows)*3, int64(rows), int64(rows)*7/2)
	b = append(b, `,"visitors":[`...)
	end := min(rows, offset+limit)
	for i := offset; i < end; i++ {
		if i > offset {
			b = append(b, ',')
		}
		mixed := uint32(i) * mixer
		b = appendPath(append(b, `{"path":"`...), mixed)
		human, ai, total := counts(mixed, day)
		b = appendCounts(append(b, `",`...), human, ai, total)
	}
	b = append(b, `],"hasMore":`...)
	return append(strconv.AppendBool(b, end < rows), '}')
}

// mixer makes of the index of a row the number its path ends with. Multiplying by
// an odd number is a bijection of the 32-bit numbers, so all paths differ, and
// neighbours are far apart.
const mixer uint32 = 2_654_435_761

func appendPath(b []byte, mixed uint32) []byte {
	b = append(append(append(b, "/docs/"...), sections[mixed>>28]...), '/')
	b = append(append(b, topics[mixed>>24&15]...), '-')
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[mixed>>shift&15])
	}
	return b
}

func counts(mixed uint32, day int) (human, ai, total int64) {
	human, ai = int64((mixed^uint32(day))%5000), int64((mixed>>13+uint32(day))%700)
	return human, ai, max(human, ai) + min(human, ai)/2
}

func appendCounts(b []byte, human, ai, total int64) []byte {
	b = strconv.AppendInt(append(b, `"human":`...), human, 10)
	b = strconv.AppendInt(append(b, `,"ai":`...), ai, 10)
	b = strconv.AppendInt(append(b, `,"total":`...), total, 10)
	return append(b, '}')
}
