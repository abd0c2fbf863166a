package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Timeouts of the server. Writing an answer may take writeTimeout after the
// injected latency.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = time.Minute
	idleTimeout       = 2 * time.Minute
	stopTimeout       = 5 * time.Second
	maxHeaderBytes    = 64 << 10
)

// Listen opens a TCP address. Beyond loopback it needs allowRemote: the key of
// a sandbox is printed and often the well-known default.
func Listen(address string, allowRemote bool) (net.Listener, error) {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: want host:port, such as 127.0.0.1:8787: %w", address, err)
	}
	if !resolved.IP.IsLoopback() && !allowRemote {
		return nil, fmt.Errorf("listen on %s: other machines could reach the sandbox there; use a loopback address such as 127.0.0.1:%d, or allow it with --allow-remote", address, resolved.Port)
	}
	ln, err := net.ListenTCP("tcp", resolved)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return ln, nil
}

// Server returns a server of s with timeouts set, to be started by the caller.
func (s *Sandbox) Server() *http.Server {
	return &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout + s.config.Faults.Latency + s.config.Agent.Faults.Latency + s.config.Agent.Faults.Stall,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug),
	}
}

// Serve answers on ln until ctx ends, then finishes the requests in flight, for
// at most five seconds, and closes ln. An injected latency is cut short then.
func (s *Sandbox) Serve(ctx context.Context, ln net.Listener) error {
	server := s.Server()
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { stopped <- shutdown(ctx, server) })
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serve on %s: %w", ln.Addr(), err)
	}
	return <-stopped
}

func shutdown(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("stop: requests still in flight after %s: %w", stopTimeout, err), server.Close())
	}
	return nil
}
