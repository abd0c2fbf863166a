// Package server is the HTTP side of "docgauge serve": one address, the
// handlers it is given, and the probes /healthz and /readyz. It hides
// exporter-toolkit (TLS, basic authentication), systemd's socket activation,
// time limits, headers and the way a server stops.
//
// Its invariants: a mistake in the configuration or a port in use is an error before
// anything is served; no client keeps a connection open, or delays a stop, longer than
// the constants of this package say; and a handler that panics ends its own request
// only.
//
// Basic authentication and client certificates cover every path, including /healthz
// and /readyz: a probe then needs credentials, or runs a command inside the container.
// The web configuration is read again for each request (users, headers) and each TLS
// connection (certificates); whether there is TLS at all is decided at the start.
//
// It knows neither metrics nor pages, serves no profiles (no pprof), and logs nothing
// of a request beyond its path.
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
	"os"
	"strconv"
	"syscall"
	"time"
)

// The longest a client can keep something busy.
const (
	// headerTimeout and readTimeout bound reading a request.
	headerTimeout = 10 * time.Second
	readTimeout   = 15 * time.Second
	// writeTimeout bounds answering one request. The slowest sensible scraper has a
	// timeout of its whole interval, a minute.
	writeTimeout = time.Minute
	// idleTimeout is longer than that interval, so that scrapes share a connection.
	idleTimeout = 2 * time.Minute
	// drainTimeout is how long requests in flight may take when the server stops.
	drainTimeout = 10 * time.Second
	// maxHeader is in bytes.
	maxHeader = 16 << 10
)

// Config says what to serve and where.
type Config struct {
	// Address is DOCGAUGE_LISTEN_ADDRESS, host:port of TCP; an empty host is every
	// address of the machine, port 0 picks a free one. With SystemdSocket it is unused.
	Address string
	// WebConfigFile is DOCGAUGE_WEB_CONFIG_FILE, in the format of exporter-toolkit;
	// empty: plain HTTP for everybody.
	WebConfigFile string
	// SystemdSocket takes the one TCP socket that systemd listens on for us.
	SystemdSocket bool
	// Handlers are by path, such as "/metrics"; "/" is that page alone. They get GET and
	// HEAD requests only, unless the path has another method before it, as "POST /mcp". The
	// paths of the probes are reserved.
	Handlers map[string]http.Handler
	// Ready returns the reasons why the process is not ready; none: it is. Every probe
	// calls it, so it must answer from memory. Nil: always ready.
	Ready func() []string
	// Logger may be nil.
	Logger *slog.Logger
}

// ConfigError is a mistake in the configuration: it names the variable, the rule and
// the remedy, and no secret. Other errors of Listen come from the machine.
type ConfigError string

func (e ConfigError) Error() string { return string(e) }

// Server is bound to its address until Serve returns.
type Server struct {
	http     *http.Server
	listener net.Listener
	tls      bool
	open     bool // without a web configuration
	drain    time.Duration
	log      *slog.Logger
}

// Check finds all mistakes in the configuration without listening. They are
// ConfigErrors.
func Check(cfg Config) error {
	var errs []error
	if !cfg.SystemdSocket {
		errs = append(errs, checkAddress(cfg.Address))
	}
	return errors.Join(append(errs, checkWebConfig(cfg.WebConfigFile))...)
}

// Listen checks the configuration and binds the address. It returns a ConfigError or an
// error of the machine if it cannot.
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

// URL is the server's address from this machine, without a path: with the real port if
// any free one was asked for, and the loopback if it listens on every address.
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
// requests in flight ten seconds, closes the rest, and returns nil. An error means that
// the socket failed before. It is called once.
func (s *Server) Serve(ctx context.Context) error {
	defer s.http.Close()
	s.log.Debug("listening", "url", s.URL())
	if ip := s.listener.Addr().(*net.TCPAddr).IP; s.open && !ip.IsLoopback() {
		s.log.Warn("open to the network without TLS or authentication: set DOCGAUGE_WEB_CONFIG_FILE, or listen on 127.0.0.1",
			"address", s.listener.Addr().String())
	}
	stopped := make(chan error, 1)
	cancel := context.AfterFunc(ctx, func() { stopped <- s.stop(context.WithoutCancel(ctx)) })
	serve := s.http.Serve
	if s.tls {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	err := serve(s.listener)
	if cancel() {
		return fmt.Errorf("serve %s: %w", s.URL(), err)
	}
	return <-stopped
}

func (s *Server) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.drain)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests cut off by the stop", "after_seconds", s.drain.Seconds())
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", s.URL(), err)
	}
	return nil
}

// firstSocket is the descriptor of the first socket that systemd passes.
const firstSocket = 3

func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err == nil {
		return nil
	}
	return ConfigError(fmt.Sprintf("DOCGAUGE_LISTEN_ADDRESS %.100q: want host:port with a port from 0 to 65535, such as 127.0.0.1:9817, or :9817 for every address", address))
}

// bind binds the socket. Its errors come from the machine, except where systemd did not
// pass exactly one socket.
func bind(cfg Config) (net.Listener, error) {
	if cfg.SystemdSocket {
		return activated()
	}
	l, err := net.Listen("tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("DOCGAUGE_LISTEN_ADDRESS %s: %w: %s", cfg.Address, err, remedy(err))
	}
	return l, nil
}

func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "another process has the port; stop it, or set another port"
	case errors.Is(err, os.ErrPermission):
		return "this user may not take the port; set one above 1023"
	}
	return "the host must be an address of this machine; 127.0.0.1 always is"
}

// activated returns the socket that systemd opened for this process, by the
// protocol of sd_listen_fds(3).
func activated() (net.Listener, error) {
	pid, count := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	if pid != strconv.Itoa(os.Getpid()) || count == "" {
		return nil, ConfigError("systemd socket activation: systemd handed over no socket: start docgauge with a .socket unit, or let it listen on DOCGAUGE_LISTEN_ADDRESS")
	}
	if count != "1" {
		return nil, ConfigError(fmt.Sprintf("systemd socket activation: systemd handed over %.10s sockets: want exactly one ListenStream= in the .socket unit", count))
	}
	file := os.NewFile(firstSocket, "LISTEN_FD_3")
	defer file.Close() // FileListener makes a copy
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("systemd socket activation: %w", err)
	}
	if _, ok := l.(*net.TCPListener); !ok {
		return nil, errors.Join(ConfigError(fmt.Sprintf("systemd socket activation: the socket is %s: want a TCP port in ListenStream=", l.Addr().Network())), l.Close())
	}
	return l, nil
}
