package sandbox

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Request is one request as the service saw it. From, To, Limit and Offset are
// as sent, empty if absent; the key and a prompt are never part of it.
type Request struct {
	Time    time.Time `json:"time"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Project string    `json:"project,omitempty"`
	From    string    `json:"from,omitempty"`
	To      string    `json:"to,omitempty"`
	// Limit and Offset are the defaults if absent, -1 if they are no numbers.
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
	// Status is 0 if the connection was closed instead of an answer.
	Status int `json:"status"`
	// Accepted reports whether an agent POST was accepted, whatever was answered.
	Accepted bool `json:"accepted,omitempty"`
}

func newRequest(c *call, status int) Request {
	q := c.URL.Query()
	return Request{
		Time: c.now.UTC(), Method: c.Method, Path: c.URL.Path, Project: c.PathValue("project"),
		From: q.Get("dateFrom"), To: q.Get("dateTo"),
		Limit: queryNumber(q, "limit", defaultLimit), Offset: queryNumber(q, "offset", 0), Status: status,
		Accepted: c.accepted,
	}
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

// keptRequests is how many requests Sandbox.Requests remembers.
const keptRequests = 1 << 16

// requestLog remembers the newest requests and writes all of them to out.
type requestLog struct {
	out    io.Writer // nil = nowhere
	logger *slog.Logger

	mu   sync.Mutex
	kept []Request // less than twice keptRequests
}

func (l *requestLog) add(r Request) {
	l.logger.Debug("request", "method", r.Method, "path", r.Path, "from", r.From, "to", r.To, "offset", r.Offset,
		"status", r.Status)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept = append(l.kept, r); len(l.kept) == 2*keptRequests {
		l.kept = slices.Clone(l.kept[keptRequests:])
	}
	if l.out == nil {
		return
	}
	if err := json.NewEncoder(l.out).Encode(r); err != nil {
		l.logger.Error("request log not written", "error", err)
	}
}

func (l *requestLog) newest() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.kept[max(0, len(l.kept)-keptRequests):])
}
