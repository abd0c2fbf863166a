package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// server is the bench's service: section 4.3 of the specification, and /stats.
type server struct {
	requests atomic.Int64
	buffers  sync.Pool
}

// stats is what the server tells of itself at /stats.
type stats struct {
	// Requests for visitors since the start, good and bad.
	Requests int64 `json:"requests"`
	// CPUSeconds is user and system time of the server process.
	CPUSeconds float64 `json:"cpu_seconds"`
}

func newServer() *server {
	return &server{buffers: sync.Pool{New: func() any {
		b := make([]byte, 0, pageRows*rowBytes)
		return &b
	}}}
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/analytics/{project}/visitors", s.visitors)
	mux.HandleFunc("GET /stats", s.stats)
	return mux
}

// serve is a process that serves: it says its base URL on out, and ends with in, so
// that it does not outlive the bench.
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
	s.requests.Add(1)
	load, err := served(r.PathValue("project"))
	day, offset, limit, badQuery := parseQuery(r.URL.Query())
	if err := errors.Join(err, badQuery); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	time.Sleep(load.Latency)
	buffer := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buffer)
	*buffer = appendPage((*buffer)[:0], load.Rows, day, offset, limit)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(*buffer)))
	_, _ = w.Write(*buffer) // a client that is gone is its own loss
}

func parseQuery(q url.Values) (day, offset, limit int, err error) {
	from, err := time.Parse(dateLayout, q.Get("dateFrom"))
	if err != nil {
		return 0, 0, 0, err
	}
	offset, badOffset := strconv.Atoi(q.Get("offset"))
	limit, badLimit := strconv.Atoi(q.Get("limit"))
	if err := errors.Join(badOffset, badLimit); err != nil {
		return 0, 0, 0, err
	}
	if offset < 0 || limit < 1 || limit > pageRows {
		return 0, 0, 0, fmt.Errorf("offset %d, limit %d: want 0 or more, 1 to %d", offset, limit, pageRows)
	}
	return from.YearDay(), offset, limit, nil
}

func (s *server) stats(w http.ResponseWriter, _ *http.Request) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	cpu := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	_ = json.NewEncoder(w).Encode(stats{s.requests.Load(), cpu.Seconds()})
}

// readStats asks the server at base for its stats.
func readStats(base string) (s stats, err error) {
	resp, err := http.Get(base + "/stats")
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}
