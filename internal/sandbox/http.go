package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	slashpath "path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/sandbox/codehost"
)

// Timeouts of the server. Writing an answer may take writeTimeout after the injected latency.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = time.Minute
	idleTimeout       = 2 * time.Minute
	stopTimeout       = 5 * time.Second
	maxHeaderBytes    = 64 << 10
	// maxInFlight limits the requests being answered; one more gets 503.
	maxInFlight = 1024
)

// Listen opens a TCP address. Beyond loopback it needs allowRemote: the key of
// a sandbox is printed and often the well-known default.
func Listen(address string, allowRemote bool) (net.Listener, error) {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: want host:port, such as 127.0.0.1:8787: %w", address, err)
	}
	if !resolved.IP.IsLoopback() && !allowRemote {
		return nil, fmt.Errorf("listen on %s: other machines could reach the sandbox there; "+
			"use a loopback address such as 127.0.0.1:%d, or allow it with --allow-remote", address, resolved.Port)
	}
	ln, err := net.ListenTCP("tcp", resolved)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: another program, perhaps another sandbox, uses this port; "+
			"stop it, or let the system choose a free port with --listen 127.0.0.1:0", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return ln, nil
}

// Serve answers on ln until ctx ends, then finishes the requests in flight, for
// at most five seconds, and closes ln. An injected latency is cut short then.
func (s *Sandbox) Serve(ctx context.Context, ln net.Listener) error {
	agent := s.config.Agent.Faults
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout + s.config.Faults.Latency + agent.Latency + agent.Stall,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug),
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

// call is one request on its way to an answer.
type call struct {
	*http.Request
	began    time.Time // by the clock of the machine
	now      time.Time // by that of the service
	number   int64     // of analytics requests, 0 before authentication
	accepted bool      // an agent POST was accepted
}

func (s *Sandbox) newCall(r *http.Request) *call {
	return &call{Request: r, began: time.Now(), now: s.config.Now()}
}

// took is the time since a request arrived.
func (c *call) took() time.Duration { return time.Since(c.began) }

// operation is one operation of the service.
type operation struct {
	method string
	scope  scope
	// refuse returns the injected refusal of a request, if any.
	refuse  func(*call) error
	success int // status code
	run     func(*call, *project) (any, error)
}

// Handler serves the API below the root path: the base URL has no path.
func (s *Sandbox) Handler() http.Handler {
	mux := http.NewServeMux()
	// By section of the service's specification. The methods are not in the patterns:
	// every path has one, and the service answers 405 to HEAD.
	for pattern, o := range map[string]operation{
		// 4.1; the status codes of success are those of the live service
		"/v2/agent/{project}/job": {http.MethodPost, write, s.refusePost, http.StatusCreated, s.postJob},
		// 4.2
		"/v2/agent/{project}/job/{id}/message": {http.MethodPost, write, s.refusePost, http.StatusOK, s.postJob},
		// 4.3
		"/v1/analytics/{project}/visitors": {http.MethodGet, read, s.refuseAnalytics, http.StatusOK, s.visitors},
		// 4.4; method and path are those of the live service
		"/v2/agent/{project}/job/{id}": {http.MethodGet, read, func(*call) error { return nil },
			http.StatusOK, s.readJob},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, &o) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, nil) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.inFlight <- struct{}{}:
			defer func() { <-s.inFlight }()
		default:
			s.finish(w, s.newCall(r), 0, nil,
				fail(http.StatusServiceUnavailable, "more than %d requests at once", maxInFlight))
			return
		}
		switch escaped := r.URL.EscapedPath(); {
		case strings.HasPrefix(r.URL.Path, codehost.APIPath+"/"):
			s.serveBeside(w, r, s.serveGitHub)
		case isPage(r):
			s.serveBeside(w, r, s.servePage)
		case slashpath.Clean(escaped) != escaped: // the mux would redirect
			s.serve(w, r, nil)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// serve answers one request. o is nil for an unknown path.
func (s *Sandbox) serve(w http.ResponseWriter, r *http.Request, o *operation) {
	c := s.newCall(r)
	_ = clock.Sleep(r.Context(), s.config.Faults.Latency) // or until the client has gone
	c.now = s.config.Now()
	if o == nil {
		s.finish(w, c, 0, nil, fail(http.StatusNotFound, "path %.200q: not found", r.URL.Path))
		return
	}
	value, err := s.dispatch(c, o)
	s.finish(w, c, o.success, value, err)
}

// dispatch checks a request in the service's order and runs the operation.
func (s *Sandbox) dispatch(c *call, o *operation) (any, error) {
	if c.Method != o.method {
		return nil, fail(http.StatusMethodNotAllowed, "method %.20q: want %s", c.Method,
			o.method).with("Allow", o.method)
	}
	if err := s.keys.check(c.Header.Values("Authorization"), o.scope); err != nil {
		return nil, err
	}
	if err := o.refuse(c); err != nil {
		return nil, err
	}
	p, ok := s.projects[c.PathValue("project")]
	if !ok {
		return nil, unknownProject(c.PathValue("project"))
	}
	return o.run(c, p)
}

// finish writes status and value, or err, as JSON. The request is logged before its answer is
// written, so that a client that has the answer finds it in the request log.
func (s *Sandbox) finish(w http.ResponseWriter, c *call, status int, value any, err error) {
	header := w.Header()
	if errors.Is(err, errDropped) {
		s.requests.add(newRequest(c, 0), c.took(), 0)
		panic(http.ErrAbortHandler) // net/http's way to close the connection, without a trace in the log
	}
	if err != nil {
		refused := s.refusalOf(err, header)
		status, value = refused.status, refused
	}
	body, err := json.Marshal(value)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"answer cannot be written as JSON"}`)
	}
	s.requests.add(newRequest(c, status), c.took(), len(body))
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if every(s.config.Faults.CutEvery, c.number) {
		body = body[:len(body)/2] // net/http closes the connection after too short a body
	}
	_, _ = w.Write(body) // the client may have gone
}

// refusalOf returns the answer for err and sets its headers.
func (s *Sandbox) refusalOf(err error, header http.Header) *refusal {
	refused, ok := errors.AsType[*refusal](err)
	if !ok {
		s.config.Logger.Error("request not answered", "error", err)
		refused = fail(http.StatusInternalServerError, "%v", err)
	}
	for name, values := range refused.header {
		header[name] = values
	}
	return refused
}

// refusal is an error as the service answers it; its JSON is the error body.
type refusal struct {
	Message string `json:"error"`
	status  int
	header  http.Header
}

func (r *refusal) Error() string { return r.Message }

func fail(status int, format string, args ...any) *refusal {
	return &refusal{Message: fmt.Sprintf(format, args...), status: status}
}

func (r *refusal) with(name, value string) *refusal {
	r.header = http.Header{name: {value}}
	return r
}

func unknownProject(name string) error {
	return fail(http.StatusNotFound, "project %.140q: not found", name)
}

// scope is the set of requests that a key allows.
type scope int

const (
	read  scope = 1 << iota // GET
	write                   // everything else
)

// keyring holds the keys by their digests, so that the time of a look-up reveals nothing about
// a key.
type keyring map[[sha256.Size]byte]credential

type credential struct {
	scopes  scope
	expired bool
}

func newKeyring(c Config) keyring {
	keys := keyring{}
	for key, cred := range map[string]credential{
		c.APIKey: {scopes: read | write}, c.ReadOnlyKey: {scopes: read}, c.WriteOnlyKey: {scopes: write},
		c.ExpiredKey: {expired: true},
	} {
		if key != "" {
			keys[sha256.Sum256([]byte(key))] = cred
		}
	}
	return keys
}

// check refuses Authorization headers that do not allow need: 401 without a
// valid key, 403 without the scope.
func (k keyring) check(headers []string, need scope) error {
	unauthorized := func(message string) error {
		return fail(http.StatusUnauthorized, "%s", message).with("Www-Authenticate", "Bearer")
	}
	if len(headers) != 1 {
		return unauthorized("Authorization header: want one, Bearer <prefix>_<secret>")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || !keyForm.MatchString(token) {
		return unauthorized("Authorization header: want Bearer <prefix>_<secret>")
	}
	switch found, ok := k[sha256.Sum256([]byte(token))]; {
	case !ok:
		return unauthorized("API key: is not known")
	case found.expired:
		return unauthorized("API key: has expired")
	case found.scopes&need == 0:
		name := map[scope]string{read: "read", write: "write"}[need]
		return fail(http.StatusForbidden, "API key: lacks the %s scope", name)
	}
	return nil
}
