package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

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
