package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Request is one request as the service saw it. From, To, Limit and Offset are as sent, empty
// if absent; the key and a prompt are never part of it.
type Request struct {
	Time    time.Time `json:"time"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Project string    `json:"project,omitempty"`
	From    string    `json:"from,omitempty"`
	To      string    `json:"to,omitempty"`
	// Limit and Offset are the defaults if absent, -1 if they are not numbers, and 0 where they
	// mean nothing.
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
	// Status is 0 if the connection was closed instead of an answer.
	Status int `json:"status"`
	// Accepted reports whether an agent POST was accepted, whatever was answered.
	Accepted bool `json:"accepted,omitempty"`
}

func newRequest(c *Call, status int) Request {
	r := Request{
		Time: c.Now.UTC(), Method: c.Method, Path: c.URL.Path, Project: c.PathValue("project"), Status: status,
		Accepted: c.Accepted,
	}
	if r.Project != "" && c.PathValue("id") == "" && c.Method == http.MethodGet {
		q := c.URL.Query()
		r.From, r.To = q.Get("dateFrom"), q.Get("dateTo")
		r.Limit, r.Offset = queryNumber(q, "limit", defaultLimit), queryNumber(q, "offset", 0)
	}
	return r
}

func queryNumber(q url.Values, name string, absent int) int {
	if !q.Has(name) {
		return absent
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil {
		return -1
	}
	return n
}

// maxRequests is the number of requests that a requestLog remembers.
const maxRequests = 1 << 16

// requestLog writes all requests to out, and remembers the newest if it is told to.
type requestLog struct {
	out      slog.Handler // nil = none
	logger   *slog.Logger
	remember bool

	mu     sync.Mutex
	recent []Request // less than twice maxRequests
}

// add writes and remembers a request whose answer of so many bytes is ready.
func (l *requestLog) add(c *Call, status, bytes int) {
	r := l.Write(c, status, bytes)
	if !l.remember {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.recent = append(l.recent, r); len(l.recent) == 2*maxRequests {
		l.recent = slices.Clone(l.recent[maxRequests:])
	}
}

// Write writes a request with the names of its JSON form. It does not remember it.
func (l *requestLog) Write(c *Call, status, bytes int) Request {
	r := newRequest(c, status)
	if l.out == nil {
		return r
	}
	record := slog.NewRecord(r.Time, slog.LevelInfo, "request", 0)
	record.Add("method", r.Method, "path", r.Path, "status", r.Status,
		"duration", time.Since(c.Began).Round(100*time.Microsecond).Seconds(), "bytes", bytes)
	if r.Project != "" {
		record.Add("project", r.Project)
	}
	if r.Limit != 0 {
		record.Add("from", r.From, "to", r.To, "limit", r.Limit, "offset", r.Offset)
	}
	if r.Accepted {
		record.Add("accepted", true)
	}
	if err := l.out.Handle(context.Background(), record); err != nil {
		l.logger.Error("request log not written", "error", err)
	}
	return r
}

// Newest returns the newest requests, in the order they were answered.
func (l *requestLog) Newest() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.recent[max(0, len(l.recent)-maxRequests):])
}
