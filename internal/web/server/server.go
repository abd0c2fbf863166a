// Package server is the HTTP side of "docgauge serve": its addresses, the caller's
// handlers, the probes /-/healthy and /-/ready, also at /healthz and /readyz, and
// /-/reload. It hides exporter-toolkit (TLS, basic authentication), systemd's socket
// activation, time limits, headers and the way a server stops.
//
// Its invariants: a mistake in the configuration or a port in use is an error before
// anything is served; no client keeps a connection open, or delays a stop, longer than
// the constants of this package allow; and a handler that panics ends only its own
// request.
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
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
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

// Options are the addresses and handlers of a server.
type Options struct {
	// Addresses are DOCGAUGE_LISTEN_ADDRESS, each host:port of TCP; an empty host is every address
	// of the machine, port 0 picks a free one. With SystemdSocket they are unused.
	Addresses []string
	// Setting is the name of another variable that has the addresses.
	Setting string
	// WebConfigFile is DOCGAUGE_WEB_CONFIG_FILE, in the format of exporter-toolkit; empty: plain
	// HTTP without authentication.
	WebConfigFile string
	// SystemdSocket takes the TCP sockets that systemd listens on for us.
	SystemdSocket bool
	// Handlers are by path, such as "/metrics"; "/" is that page alone. They get GET and HEAD
	// requests only, unless a method precedes the path, as in "POST /mcp". The paths of the probes
	// are reserved.
	Handlers map[string]http.Handler
	// AllowedHosts are DOCGAUGE_ALLOWED_HOSTS: the names, besides addresses and loopback names,
	// under which /-/reload and all handlers but "/metrics" answer.
	AllowedHosts []string
	// Handler takes the place of Handlers, probes and /-/reload.
	Handler http.Handler
	// Peers are the networks whose connections are taken; of others nothing is read. Empty: all.
	Peers []netip.Prefix
	// Ready returns the reasons why the process is not ready; none: it is. Every probe calls it, so
	// it must answer from memory. Nil: always ready.
	Ready func() []string
	// Reload answers POST and PUT of /-/reload: with 200, or with 500 and its error, which goes to
	// the client unchanged. Nil: 403.
	Reload func(context.Context) error
	// Logger may be nil.
	Logger *slog.Logger
}

// ConfigError is a mistake in the configuration: it names the variable, the rule and
// the remedy, and no secret. Other errors of Listen come from the machine.
type ConfigError string

func (e ConfigError) Error() string { return string(e) }

// Server is bound to its addresses until Serve returns.
type Server struct {
	http      *http.Server
	listeners []net.Listener // at least one
	tls       bool
	open      bool // without a web configuration
	drain     time.Duration
	log       *slog.Logger
}

// Check finds all mistakes in the configuration without listening. They are
// ConfigErrors.
func Check(o Options) error {
	var errs []error
	if !o.SystemdSocket {
		if len(o.Addresses) == 0 {
			errs = append(errs, o.checkAddress(""))
		}
		for _, address := range o.Addresses {
			errs = append(errs, o.checkAddress(address))
		}
	}
	return errors.Join(append(errs, checkWebConfig(o.WebConfigFile))...)
}

// Listen checks the configuration and binds all addresses, or none. Its error is a ConfigError, or
// comes from the machine.
func Listen(o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := Check(o); err != nil {
		return nil, err
	}
	events := httpEvents{o.Logger, func() error { return checkWebConfig(o.WebConfigFile) }}
	s := &Server{open: o.WebConfigFile == "", drain: drainTimeout, log: o.Logger, http: &http.Server{
		Handler:           recovering(cmp.Or(o.Handler, http.Handler(newMux(o))), o.Logger),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(events, "", 0),
	}}
	if err := s.secure(o.WebConfigFile); err != nil {
		return nil, err
	}
	var err error
	s.listeners, err = bind(o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// URL is the server's first address from this machine, without a path: with the real port
// if any free one was asked for, and the loopback if it listens on every address.
func (s *Server) URL() string { return s.urlOf(s.listeners[0]) }

func (s *Server) urlOf(l net.Listener) string {
	addr := *l.Addr().(*net.TCPAddr)
	if addr.IP.IsUnspecified() {
		addr.IP = net.IPv4(127, 0, 0, 1)
	}
	u := url.URL{Scheme: "http", Host: addr.String()}
	if s.tls {
		u.Scheme = "https"
	}
	return u.String()
}

// Close gives up a server that does not serve.
func (s *Server) Close() (err error) {
	for _, l := range s.listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}

// Serve answers requests until ctx ends. Then it refuses new connections, gives requests in flight
// ten seconds, closes the rest, and returns nil. An error means that a socket failed before. It is
// called once.
func (s *Server) Serve(ctx context.Context) error {
	defer s.http.Close()
	group, failed := errgroup.WithContext(ctx)
	for i, l := range s.listeners {
		level := slog.LevelInfo
		if i == 0 {
			level = slog.LevelDebug // the caller logs the first one
		}
		s.log.Log(ctx, level, "listening", "url", s.urlOf(l))
		if ip := l.Addr().(*net.TCPAddr).IP; s.open && !ip.IsLoopback() {
			s.log.Warn("open to the network without TLS or authentication: "+
				"set DOCGAUGE_WEB_CONFIG_FILE, or listen on 127.0.0.1", "address", l.Addr().String())
		}
		group.Go(func() (err error) {
			if s.tls {
				err = s.http.ServeTLS(l, "", "")
			} else {
				err = s.http.Serve(l)
			}
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return fmt.Errorf("serve %s: %w", s.urlOf(l), err)
		})
	}
	stopped := make(chan error, 1)
	cancel := context.AfterFunc(failed, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.drain)
		defer cancel()
		err := s.http.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			s.log.Warn("requests cut off by the stop", "after_seconds", s.drain.Seconds())
			err = nil
		}
		stopped <- err
	})
	err := group.Wait()
	if cancel() || ctx.Err() == nil {
		return err
	}
	if err := <-stopped; err != nil {
		return fmt.Errorf("stop %s: %w", s.URL(), err)
	}
	return nil
}

// IsLoopback reports whether only this machine reaches a host:port: false for a name besides localhost.
func IsLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	return isLoopbackName(strings.ToLower(host)) || net.ParseIP(host).IsLoopback()
}

// known is a listener for the peers of some networks.
type known struct {
	net.Listener
	peers []netip.Prefix
	log   *slog.Logger
}

// Accept closes the connections of others before anything is read.
func (k known) Accept() (net.Conn, error) {
	for {
		c, err := k.Listener.Accept()
		if err != nil || len(k.peers) == 0 {
			return c, err
		}
		peer := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
		if slices.ContainsFunc(k.peers, func(p netip.Prefix) bool { return p.Contains(peer) }) {
			return c, nil
		}
		k.log.Debug("peer refused", "peer", peer)
		_ = c.Close() // nothing was sent
	}
}

const (
	firstSocket = 3  // the descriptor of the first socket that systemd passes
	maxSockets  = 16 // that are taken
)

// setting is the variable with the addresses.
func (o Options) setting() string { return cmp.Or(o.Setting, "DOCGAUGE_LISTEN_ADDRESS") }

func (o Options) checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err == nil {
		return nil
	}
	return ConfigError(fmt.Sprintf("%s %.100q: want host:port with a port from 0 to 65535, "+
		"such as 127.0.0.1:9817, or :9817 for every address", o.setting(), address))
}

// bind binds the sockets: all, or none. Its errors come from the machine, except where systemd passed
// no TCP socket.
func bind(o Options) (all []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				err = errors.Join(err, l.Close())
			}
			all = nil
		}
	}()
	if o.SystemdSocket {
		return activated()
	}
	for _, address := range o.Addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return all, fmt.Errorf("%s %s: %w: %s", o.setting(), address, err, remedy(err))
		}
		all = append(all, known{l, o.Peers, o.Logger})
	}
	return all, nil
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

// activated returns the sockets that systemd opened for this process, by the protocol of
// sd_listen_fds(3).
func activated() (all []net.Listener, err error) {
	const problem = "systemd socket activation: "
	pid, text := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	count, err := strconv.Atoi(text)
	if pid != strconv.Itoa(os.Getpid()) || text == "" {
		return nil, ConfigError(problem + "systemd handed over no socket: start docgauge with a .socket unit, " +
			"or let it listen on DOCGAUGE_LISTEN_ADDRESS")
	}
	if err != nil || count < 1 || count > maxSockets {
		return nil, ConfigError(fmt.Sprintf(problem+"systemd handed over %.10s sockets: "+
			"want 1 to %d ListenStream= in the .socket unit", text, maxSockets))
	}
	for i := range count {
		file := os.NewFile(uintptr(firstSocket+i), fmt.Sprintf("LISTEN_FD_%d", firstSocket+i))
		l, err := net.FileListener(file) // makes a copy
		_ = file.Close()
		if err != nil {
			return all, fmt.Errorf(problem+"%w", err)
		}
		all = append(all, l)
		if _, ok := l.(*net.TCPListener); !ok {
			network := l.Addr().Network()
			return all, ConfigError(problem + "the socket is " + network + ": want a TCP port in ListenStream=")
		}
	}
	return all, nil
}
