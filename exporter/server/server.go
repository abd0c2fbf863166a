package server

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"
)

// The longest a client can keep something busy.
const (
	// headerTimeout and readTimeout bound reading a request.
	headerTimeout = 10 * time.Second
	readTimeout   = 15 * time.Second
	// writeTimeout bounds answering one request. The slowest scraper that still
	// makes sense has a timeout of its whole interval, a minute.
	writeTimeout = time.Minute
	// idleTimeout is longer than that interval, so that scrapes share a connection.
	idleTimeout = 2 * time.Minute
	// drainTimeout is what requests in flight get when the server stops.
	drainTimeout = 10 * time.Second
	// maxHeader is in bytes.
	maxHeader = 16 << 10
)

// Config says what to serve and where.
type Config struct {
	// Address is DOCGAUGE_LISTEN_ADDRESS, host:port of TCP; an empty host is every
	// address of the machine, port 0 any free one. With SystemdSocket it is unused.
	Address string
	// WebConfigFile is DOCGAUGE_WEB_CONFIG_FILE, in the format of exporter-toolkit;
	// empty: plain HTTP for everybody.
	WebConfigFile string
	// SystemdSocket takes the one TCP socket that systemd listens on for us.
	SystemdSocket bool
	// Handlers are by path, such as "/metrics"; "/" is that page alone. They get
	// GET and HEAD only. The paths of the probes are taken.
	Handlers map[string]http.Handler
	// Ready says why the process is not ready, one reason an element; none: it is.
	// Every probe calls it, so it must answer from memory. Nil: always ready.
	Ready func() []string
	// Logger may be nil.
	Logger *slog.Logger
}

// ConfigError is a mistake in the configuration: it names the variable, the
// rule, and the remedy, and no secret. Other errors of Listen are of the machine.
type ConfigError string

func (e ConfigError) Error() string { return string(e) }

// Server is bound to its address. Only Serve gives it up.
type Server struct {
	http     *http.Server
	listener net.Listener
	tls      bool
	open     bool // without a web configuration
	drain    time.Duration
	log      *slog.Logger
}

// Check finds mistakes in the configuration, all of them, without listening.
// They are ConfigErrors.
func Check(cfg Config) error {
	var errs []error
	if !cfg.SystemdSocket {
		errs = append(errs, checkAddress(cfg.Address))
	}
	return errors.Join(append(errs, checkWebConfig(cfg.WebConfigFile))...)
}

// Listen checks the configuration and takes the address, or says in a
// ConfigError or an error of the machine why it cannot.
func Listen(cfg Config) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := Check(cfg); err != nil {
		return nil, err
	}
	s := &Server{http: newHTTP(cfg), open: cfg.WebConfigFile == "", drain: drainTimeout, log: cfg.Logger}
	if err := s.secure(cfg.WebConfigFile); err != nil {
		return nil, err
	}
	var err error
	if s.listener, err = bind(cfg); err != nil {
		return nil, err
	}
	return s, nil
}

func newHTTP(cfg Config) *http.Server {
	events := httpEvents{cfg.Logger, func() error { return checkWebConfig(cfg.WebConfigFile) }}
	return &http.Server{
		Handler:           recovering(newMux(cfg), cfg.Logger),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(events, "", 0),
	}
}

// URL is where to find the server from this machine, without a path: the real
// port where any was asked for, and the loopback where it is every address.
func (s *Server) URL() string {
	addr := *s.listener.Addr().(*net.TCPAddr)
	if addr.IP.IsUnspecified() {
		addr.IP = net.IPv4(127, 0, 0, 1)
	}
	u := url.URL{Scheme: "http", Host: addr.String()}
	if s.tls {
		u.Scheme = "https"
	}
	return u.String()
}

// Serve answers requests until ctx ends. Then it refuses new connections, gives
// requests in flight ten seconds, closes what is left, and returns nil. An error
// means that the socket failed before. It is called once.
func (s *Server) Serve(ctx context.Context) error {
	defer s.http.Close()
	s.announce()
	stopped := make(chan error, 1)
	cancel := context.AfterFunc(ctx, func() { stopped <- s.stop(context.WithoutCancel(ctx)) })
	err := s.accept()
	if cancel() {
		return fmt.Errorf("serve %s: %w", s.URL(), err)
	}
	return <-stopped
}

func (s *Server) announce() {
	s.log.Info("listening", "url", s.URL())
	if ip := s.listener.Addr().(*net.TCPAddr).IP; s.open && !ip.IsLoopback() {
		s.log.Warn("open to the network without TLS or authentication: set DOCGAUGE_WEB_CONFIG_FILE, or listen on 127.0.0.1",
			"address", s.listener.Addr().String())
	}
}

func (s *Server) accept() error {
	if s.tls {
		return s.http.ServeTLS(s.listener, "", "")
	}
	return s.http.Serve(s.listener)
}

func (s *Server) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.drain)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests cut off by the stop", "after", s.drain)
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", s.URL(), err)
	}
	return nil
}
