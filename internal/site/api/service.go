// Package api is the service of the specification as HTTP: keys, projects, paging, errors and the request log, over any
// reports and agent jobs.
package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	slashpath "path"
	"strconv"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// maxInFlight limits the requests being answered; one more gets 503.
const maxInFlight = 1024

// Options are what a service serves.
type Options struct {
	// FindKey returns what the key with a digest allows; false without such a key.
	FindKey    func(ctx context.Context, digest [sha256.Size]byte) (Credential, bool, error)
	HasProject func(name string) bool
	// Reports are what can be asked of a project.
	Reports map[analytics.Report]Reporter
	// Jobs is nil if the service runs none.
	Jobs   agentJobs
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

// Reporter returns the page that answers a query; see [NewPage].
type Reporter func(*Call, Query) (any, error)

// agentJobs runs agent jobs of the project of a call. What it returns is shown as JSON.
type agentJobs interface {
	Create(c *Call, prompt, title string) (any, error)
	Message(c *Call, id, prompt string) (any, error)
	Get(c *Call, id string) (any, error)
}

// Faults change how requests are answered.
type Faults struct {
	Wait   func(*Call)       // before every answer
	Refuse func(*Call) error // a request with a good key, before its project is looked up
	Cut    func(*Call) bool  // reports whether the answer ends in the middle
}

// Service is the service of the specification as HTTP: keys, projects, validation, paging, errors and the request log.
// It serves whatever counts readers and runs agent jobs.
//
// A request is checked in this order: method, key, scope, project, parameters. Every refusal names the thing and the
// rule, and nothing of a key or a prompt. Its methods are safe for concurrent use.
type Service struct {
	Options
	Requests requestLog
	inFlight chan struct{} // one slot for each request
}

// NewService returns a service.
func NewService(o Options) *Service {
	return &Service{Options: o, Requests: requestLog{out: o.RequestLog, logger: o.Logger, remember: o.Remember},
		inFlight: make(chan struct{}, maxInFlight)}
}

// Call is one request on its way to an answer.
type Call struct {
	*http.Request
	Began    time.Time // by the clock of the machine
	Now      time.Time // by the clock of the service
	Key      Credential
	Project  string // that is served; empty before it is known
	Number   int64  // of analytics requests, as Faults.Refuse counts them
	Accepted bool   // an agent POST was accepted
}

// NewCall returns a call that begins now.
func (s *Service) NewCall(r *http.Request) *Call {
	return &Call{Request: r, Began: time.Now(), Now: s.Now()}
}

// operation is one operation of the service.
type operation struct {
	method  string
	scope   string
	success int // status code
	run     func(*Call) (any, error)
}

// Handler serves the API below the root path: the base URL has no path.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	// By section of the service's specification. The methods are not in the patterns:
	// every path has one, and the service answers 405 to HEAD.
	operations := map[string]operation{
		// 4.1; the status codes of success match the live service
		"/v2/agent/{project}/job": {http.MethodPost, ScopeWrite, http.StatusCreated, s.job},
		// 4.2
		"/v2/agent/{project}/job/{id}/message": {http.MethodPost, ScopeWrite, http.StatusOK, s.job},
		// 4.4; method and path match the live service
		"/v2/agent/{project}/job/{id}": {http.MethodGet, ScopeRead, http.StatusOK, s.job},
	}
	for name, page := range s.Reports { // 4.3
		operations["/v1/analytics/{project}/"+name.String()] = operation{http.MethodGet, ScopeRead, http.StatusOK,
			func(c *Call) (any, error) {
				q, err := ParseQuery(c.URL.RawQuery)
				if err != nil {
					return nil, err
				}
				if name.Shape().Additive && (q.FromDay == nil || q.ToDay == nil || *q.ToDay > *q.FromDay+1) {
					return nil, Fail(http.StatusBadRequest, "dateFrom and dateTo: want one day of %s, such as "+
						"dateFrom=2026-11-16&dateTo=2026-11-17: requests of longer spans are the sum of their days", name)
				}
				return page(c, q)
			}}
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
				Fail(http.StatusServiceUnavailable, "more than %d requests at once", maxInFlight))
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
		s.Requests.add(c, 0, 0)
		panic(http.ErrAbortHandler) // net/http's way to close the connection, without a trace in the log
	}
	var body []byte
	if err == nil {
		body, err = json.Marshal(value)
	}
	if err != nil {
		refused := s.RefusalOf(c, err, header)
		status = refused.Status
		body, _ = json.Marshal(refused) // it is a string
	}
	s.Requests.add(c, status, len(body))
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if s.Faults.Cut != nil && s.Faults.Cut(c) {
		body = body[:len(body)/2] // net/http closes the connection after too short a body
	}
	_, _ = w.Write(body) // the client may have gone
}

// Refusal is an error as the service answers it; its JSON is the error body.
type Refusal struct {
	Message string      `json:"error"`
	Status  int         `json:"-"`
	Header  http.Header `json:"-"`
}

func (r *Refusal) Error() string { return r.Message }

// Fail returns the answer with a status and a message that names the thing and the rule.
func Fail(status int, format string, args ...any) *Refusal {
	return &Refusal{Message: fmt.Sprintf(format, args...), Status: status}
}

// With sets a header of the answer.
func (r *Refusal) With(name, value string) *Refusal {
	r.Header = http.Header{name: {value}}
	return r
}

// UnknownProject is the refusal of a request for a project that is not served, or not for the key.
func UnknownProject(name string) error {
	return Fail(http.StatusNotFound, "project %.140q: not found with this API key", name)
}

// ErrDropped closes the connection instead of sending an answer.
var ErrDropped = errors.New("reply dropped")

// statusError is an error of agent jobs that may be shown to a client.
type statusError interface {
	error
	HTTPStatus() int
}

// RefusalOf returns the answer for an error and sets its headers. Errors that are not refusals have paths of this
// machine and the like: they go to the log, and the answer only says so.
func (s *Service) RefusalOf(c *Call, err error, header http.Header) *Refusal {
	refused, ok := errors.AsType[*Refusal](err)
	if e, hasStatus := errors.AsType[statusError](err); !ok && hasStatus {
		refused = Fail(e.HTTPStatus(), "%v", err)
	} else if !ok {
		s.Logger.Error("request not answered", "method", c.Method, "path", c.URL.Path, "error", err)
		refused = Fail(http.StatusInternalServerError, "internal error: the log of docgauge says why")
	}
	maps.Copy(header, refused.Header)
	return refused
}

// Timeouts of the server. Writing an answer may take writeTimeout after the longest wait.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = time.Minute
	idleTimeout       = 2 * time.Minute
	stopTimeout       = 5 * time.Second
	maxHeaderBytes    = 64 << 10
)

// Serve answers on ln until ctx ends, then finishes the requests in flight, for
// at most five seconds, and closes ln. An answer may wait for longest before it is written.
func (s *Service) Serve(ctx context.Context, ln net.Listener, longest time.Duration) error {
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout + longest,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err := server.Shutdown(grace)
		if err != nil {
			err = errors.Join(fmt.Errorf("stop: requests still in flight after %s: %w", stopTimeout, err),
				server.Close())
		}
		stopped <- err
	})
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serve on %s: %w", ln.Addr(), err)
	}
	return <-stopped
}
