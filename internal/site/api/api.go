// Package api is the service of the specification as HTTP: keys, projects, validation, paging,
// errors, the request log and the server. It serves whatever counts readers and runs agent jobs.
//
// A request is checked in this order: method, key, scope, project, parameters. Every refusal names
// the thing and the rule, and nothing of a key or a prompt.
package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	slashpath "path"
	"strconv"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// MaxInFlight limits the requests being answered; one more gets 503.
const MaxInFlight = 1024

// Options are what a service serves.
type Options struct {
	// FindKey returns what the key with a digest allows; false without such a key.
	FindKey    func(ctx context.Context, digest [sha256.Size]byte) (Credential, bool, error)
	HasProject func(name string) bool
	// Reports are what can be asked of a project.
	Reports map[analytics.Report]Report
	// Jobs is nil if the service runs none.
	Jobs   Jobs
	Now    func() time.Time
	Logger *slog.Logger
	// Remember keeps the newest requests for Service.Requests.Newest.
	Remember bool
	// RequestLog gets a record for each request before its answer is written, with the names of a
	// Request's JSON, and the duration in seconds and the bytes of the answer. nil = none.
	RequestLog slog.Handler
	// Beside answers requests that are not for the API, and reports whether this is one. nil = none.
	Beside func(http.ResponseWriter, *http.Request) bool
	// Faults are for trials.
	Faults Faults
}

// Report returns the page that answers a query; see [NewPage].
type Report func(*Call, Query) (any, error)

// Jobs runs agent jobs of the project of a call. What it returns is shown as JSON.
type Jobs interface {
	Create(c *Call, prompt string) (any, error)
	Message(c *Call, id, prompt string) (any, error)
	Get(c *Call, id string) (any, error)
}

// Faults change how requests are answered.
type Faults struct {
	Wait   func(*Call)       // before every answer
	Refuse func(*Call) error // a request with a good key, before its project is looked up
	Cut    func(*Call) bool  // reports whether the answer ends in the middle
}

// Service is one service. Its methods are safe for concurrent use.
type Service struct {
	Options
	Requests RequestLog
	inFlight chan struct{} // one slot for each request
}

// New returns a service.
func New(o Options) *Service {
	return &Service{Options: o, Requests: RequestLog{out: o.RequestLog, logger: o.Logger, remember: o.Remember},
		inFlight: make(chan struct{}, MaxInFlight)}
}

// Call is one request on its way to an answer.
type Call struct {
	*http.Request
	Began    time.Time // by the clock of the machine
	Now      time.Time // by that of the service
	Key      Credential
	Project  string // that is served; empty before it is known
	Number   int64  // of analytics requests, as Faults.Refuse counts them
	Accepted bool   // an agent POST was accepted
}

// NewCall returns a call that begins now.
func (s *Service) NewCall(r *http.Request) *Call {
	return &Call{Request: r, Began: time.Now(), Now: s.Now()}
}

// Took is the time since a request arrived.
func (c *Call) Took() time.Duration { return time.Since(c.Began) }

// operation is one operation of the service.
type operation struct {
	method  string
	scope   Scope
	success int // status code
	run     func(*Call) (any, error)
}

// Handler serves the API below the root path: the base URL has no path.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	// By section of the service's specification. The methods are not in the patterns:
	// every path has one, and the service answers 405 to HEAD.
	operations := map[string]operation{
		// 4.1; the status codes of success are those of the live service
		"/v2/agent/{project}/job": {http.MethodPost, Write, http.StatusCreated, s.postJob},
		// 4.2
		"/v2/agent/{project}/job/{id}/message": {http.MethodPost, Write, http.StatusOK, s.postJob},
		// 4.4; method and path are those of the live service
		"/v2/agent/{project}/job/{id}": {http.MethodGet, Read, http.StatusOK, s.readJob},
	}
	for name, answer := range s.Reports { // 4.3
		operations["/v1/analytics/{project}/"+name.String()] = operation{http.MethodGet, Read, http.StatusOK, report(answer)}
	}
	for pattern, o := range operations {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, &o) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, nil) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.inFlight <- struct{}{}:
			defer func() { <-s.inFlight }()
		default:
			s.finish(w, s.NewCall(r), 0, nil,
				Fail(http.StatusServiceUnavailable, "more than %d requests at once", MaxInFlight))
			return
		}
		switch escaped := r.URL.EscapedPath(); {
		case s.Beside != nil && s.Beside(w, r):
		case slashpath.Clean(escaped) != escaped: // the mux would redirect
			s.serve(w, r, nil)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// serve answers one request. o is nil for an unknown path.
func (s *Service) serve(w http.ResponseWriter, r *http.Request, o *operation) {
	c := s.NewCall(r)
	if s.Faults.Wait != nil {
		s.Faults.Wait(c)
	}
	c.Now = s.Now()
	if o == nil {
		s.finish(w, c, 0, nil, Fail(http.StatusNotFound, "path %.200q: not found", r.URL.Path))
		return
	}
	value, err := s.dispatch(c, o)
	s.finish(w, c, o.success, value, err)
}

// dispatch checks a request in the service's order and runs the operation.
func (s *Service) dispatch(c *Call, o *operation) (any, error) {
	if c.Method != o.method {
		return nil, Fail(http.StatusMethodNotAllowed, "method %.20q: want %s", c.Method,
			o.method).With("Allow", o.method)
	}
	if err := s.authenticate(c, o.scope); err != nil {
		return nil, err
	}
	if s.Faults.Refuse != nil {
		if err := s.Faults.Refuse(c); err != nil {
			return nil, err
		}
	}
	name := c.PathValue("project")
	if !s.HasProject(name) || c.Key.Project != "" && c.Key.Project != name {
		return nil, UnknownProject(name)
	}
	c.Project = name
	return o.run(c)
}

// finish writes status and value, or err, as JSON. The request is logged before its answer is
// written, so that a client that has the answer finds it in the request log.
func (s *Service) finish(w http.ResponseWriter, c *Call, status int, value any, err error) {
	header := w.Header()
	if errors.Is(err, ErrDropped) {
		s.Requests.add(newRequest(c, 0), c.Took(), 0)
		panic(http.ErrAbortHandler) // net/http's way to close the connection, without a trace in the log
	}
	if err != nil {
		refused := s.RefusalOf(err, header)
		status, value = refused.Status, refused
	}
	body, err := json.Marshal(value)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"answer cannot be written as JSON"}`)
	}
	s.Requests.add(newRequest(c, status), c.Took(), len(body))
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if s.Faults.Cut != nil && s.Faults.Cut(c) {
		body = body[:len(body)/2] // net/http closes the connection after too short a body
	}
	_, _ = w.Write(body) // the client may have gone
}
