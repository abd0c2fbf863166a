package sandbox

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// Request is one request as the service saw it. From, To, Limit and Offset are
// as sent, empty where absent; the key and a prompt are never part of it.
type Request struct {
	Time    time.Time `json:"time"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Project string    `json:"project,omitempty"`
	From    string    `json:"from,omitempty"`
	To      string    `json:"to,omitempty"`
	// Limit and Offset are the defaults where absent, -1 where no number.
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
	// Status is 0 where the connection was closed instead of an answer.
	Status int `json:"status"`
	// Accepted reports whether an agent POST was accepted, whatever was answered.
	Accepted bool `json:"accepted,omitempty"`
}

func newRequest(c *call, status int) Request {
	q := c.URL.Query()
	return Request{
		Time: c.now.UTC(), Method: c.Method, Path: c.URL.Path, Project: c.params["projectId"],
		From: q.Get("dateFrom"), To: q.Get("dateTo"),
		Limit: number(q, "limit", defaultLimit), Offset: number(q, "offset", 0), Status: status,
		Accepted: c.accepted,
	}
}

func number(q url.Values, name string, absent int) int {
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

// journal remembers the newest requests and writes all of them to out.
type journal struct {
	out    io.Writer // nil = nowhere
	logger *slog.Logger

	mu     sync.Mutex
	kept   []Request // a ring once it is full
	oldest int
}

func (j *journal) add(r Request) {
	j.logger.Debug("request", "method", r.Method, "path", r.Path, "from", r.From, "to", r.To, "offset", r.Offset, "status", r.Status)
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.kept) < keptRequests {
		j.kept = append(j.kept, r)
	} else {
		j.kept[j.oldest] = r
		j.oldest = (j.oldest + 1) % keptRequests
	}
	if j.out == nil {
		return
	}
	if err := json.NewEncoder(j.out).Encode(r); err != nil {
		j.logger.Error("request log not written", "error", err)
	}
}

func (j *journal) newest() []Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append(append([]Request(nil), j.kept[j.oldest:]...), j.kept[:j.oldest]...)
}
