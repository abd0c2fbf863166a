package docsapi

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"
)

// TestWriteCancelled cancels a write at each point of its way. Before it has a
// connection it is not sent; afterwards it is finished, and its answer counts.
func TestWriteCancelled(t *testing.T) {
	for name, tc := range map[string]struct {
		trace func(cancel func()) *httptrace.ClientTrace
		fate  string
	}{
		"when it asks for a connection": {func(cancel func()) *httptrace.ClientTrace {
			return &httptrace.ClientTrace{GetConn: func(string) { cancel() }}
		}, "not sent"},
		"when it dials": {func(cancel func()) *httptrace.ClientTrace {
			return &httptrace.ClientTrace{ConnectStart: func(string, string) { cancel() }}
		}, "not sent"},
		"with the header written": {func(cancel func()) *httptrace.ClientTrace {
			return &httptrace.ClientTrace{WroteHeaders: cancel}
		}, "accepted"},
		"with the body written": {func(cancel func()) *httptrace.ClientTrace {
			return &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel() }}
		}, "accepted"},
		"at the first byte of the answer": {func(cancel func()) *httptrace.ClientTrace {
			return &httptrace.ClientTrace{GotFirstResponseByte: cancel}
		}, "accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			service := serveRaw(t, false, func(c net.Conn) {
				io.WriteString(c, "HTTP/1.1 201 Created\r\n\r\n")
				<-ctx.Done()
				time.Sleep(5 * time.Millisecond) // in which a client that follows ctx hangs up
				io.WriteString(c, oneJob)
			})
			bottom, sending := NewWriteTransport(time.Minute), context.Context(nil)
			c := agentClient(t, service.base, func(cfg *Config) {
				cfg.WriteTransport = func(string) http.RoundTripper {
					return tripper(func(r *http.Request) (*http.Response, error) {
						sending = r.Context()
						return bottom.RoundTrip(r)
					})
				}
			})
			job, err := c.CreateJob(httptrace.WithClientTrace(ctx, tc.trace(func() {
				cancel()
				if tc.fate == "not sent" {
					<-sending.Done()
				}
			})), "prj_a", testPrompt)
			_, requests := service.seen()
			if fate(err) != tc.fate || (len(requests) == 1) != (tc.fate == "accepted") {
				t.Errorf("%s with %d requests, want %s: %v", fate(err), len(requests), tc.fate, err)
			}
			if tc.fate == "accepted" && job.ID != "job_1" {
				t.Errorf("job %+v", job)
			}
			if tc.fate == "not sent" && (!errors.Is(err, context.Canceled) || OutcomeOf(err) != Transient) {
				t.Errorf("%v: want the cause, and transient", err)
			}
		})
	}
}

func TestWriteCancelledBefore(t *testing.T) {
	service := serveRaw(t, false, answers("201 Created", oneJob))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := agentClient(t, service.base).CreateJob(ctx, "prj_a", testPrompt); fate(err) != "not sent" || !errors.Is(err, context.Canceled) {
		t.Errorf("%s: %v", fate(err), err)
	}
	if connections, _ := service.seen(); connections != 0 {
		t.Errorf("%d connections", connections)
	}
}

// TestWriteWaitsInTheBudget: a wait above the connection ends with the context,
// and takes nothing of the deadline.
func TestWriteWaitsInTheBudget(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		budget := tripper(func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(time.Hour):
				return status(201, oneJob)(r)
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
		c := agentClient(t, "https://api.example.com", func(cfg *Config) {
			cfg.WriteTransport = func(string) http.RoundTripper { return budget }
		})
		if _, err := c.CreateJob(t.Context(), "prj_a", "x"); err != nil {
			t.Errorf("after a wait of an hour: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.CreateJob(ctx, "prj_a", "x"); fate(err) != "not sent" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", fate(err), err)
		}
	})
}

// TestWriteDeadline: once connected, only the write's own deadline ends it, and
// it is in doubt then.
func TestWriteDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agentClient(t, "https://api.example.com", func(cfg *Config) {
			cfg.WriteTimeout = 40 * time.Second
			cfg.WriteTransport = func(string) http.RoundTripper { return tripper(hang) }
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := c.CreateJob(ctx, "prj_a", "x")
		if fate(err) != "in doubt" || time.Since(start) != 40*time.Second || !strings.Contains(err.Error(), "no whole answer within 40s") {
			t.Errorf("%s after %v: %v", fate(err), time.Since(start), err)
		}
	})
	inBubble(t, func(t *testing.T) {
		c := agentClient(t, "https://api.example.com", func(cfg *Config) {
			cfg.WriteTransport = func(string) http.RoundTripper {
				return tripper(func(r *http.Request) (*http.Response, error) {
					httptrace.ContextClientTrace(r.Context()).GetConn("")
					<-r.Context().Done()
					return nil, r.Context().Err()
				})
			}
		})
		start := time.Now()
		if _, err := c.CreateJob(t.Context(), "prj_a", "x"); fate(err) != "not sent" || time.Since(start) != defaultTimeout {
			t.Errorf("no connection: %s after %v: %v", fate(err), time.Since(start), err)
		}
	})
}

// TestWriteGivenUpThenConnected: net/http can hand over a connection after the
// attempt was given up, and goes on to write to it.
func TestWriteGivenUpThenConnected(t *testing.T) {
	for name, end := range map[string]func(r *http.Request, cancel func()){
		"by its caller":   func(_ *http.Request, cancel func()) { cancel() },
		"by its deadline": func(r *http.Request, _ func()) { httptrace.ContextClientTrace(r.Context()).GetConn("") },
	} {
		service := serveRaw(t, false, answers("201 Created", oneJob))
		ctx, cancel := context.WithCancel(t.Context())
		bottom := NewWriteTransport(time.Minute)
		late := tripper(func(r *http.Request) (*http.Response, error) {
			end(r, cancel)
			<-r.Context().Done()
			return bottom.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
		})
		c := agentClient(t, service.base, func(cfg *Config) {
			cfg.WriteTimeout = time.Millisecond
			cfg.WriteTransport = func(string) http.RoundTripper { return late }
		})
		_, err := c.CreateJob(ctx, "prj_a", testPrompt)
		cancel()
		connections, requests := service.seen()
		if fate(err) != "not sent" || connections != 1 || len(requests) != 0 {
			t.Errorf("%s: %s with %d connections and %d requests: %v", name, fate(err), connections, len(requests), err)
		}
	}
}

// TestWriteCancelIsNeverInDoubt lets the cancellation race with the connection:
// what the client says agrees with what the service saw.
func TestWriteCancelIsNeverInDoubt(t *testing.T) {
	fates := map[string]int{}
	for i := range 300 {
		service := serveRaw(t, false, answers("201 Created", oneJob))
		ctx, cancel := context.WithCancel(t.Context())
		transport := NewWriteTransport(time.Minute)
		dial := transport.DialContext
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			time.AfterFunc(time.Duration(i)*time.Microsecond/4, cancel)
			return conn, err
		}
		c := agentClient(t, service.base, func(cfg *Config) {
			cfg.WriteTransport = func(string) http.RoundTripper { return transport }
		})
		_, err := c.CreateJob(ctx, "prj_a", testPrompt)
		_, requests := service.seen()
		got := fate(err)
		fates[got]++
		if got == "accepted" && len(requests) == 1 || got == "not sent" && len(requests) == 0 {
			continue
		}
		t.Fatalf("%s with %d requests: %v", got, len(requests), err)
	}
	t.Log(fates)
}

// TestWriteIsNotReplayed measures net/http on a connection that dies under a
// write: what it does by itself with an Idempotency-Key, and never does here.
func TestWriteIsNotReplayed(t *testing.T) {
	// Each connection answers its first request, and dies on the next.
	overPipes := func(name string, test func(*testing.T, *rawService)) {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) { // net/http gives up a connection whose writer is slow to end
				test(t, servePipes(func(s *rawService, conn net.Conn) {
					if s.take(conn) {
						replies("HTTP/1.1 201 Created\nContent-Length: 14\n\n" + `{"id":"job_1"}`)(conn)
						s.take(conn)
					}
				}))
			})
		})
	}
	overPipes("the danger", func(t *testing.T, s *rawService) {
		kept := NewTransport(1, time.Minute)
		kept.DialContext = s.dial
		for range 2 {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Idempotency-Key", "1")
			resp, err := kept.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		kept.CloseIdleConnections()
		if _, requests := s.seen(); len(requests) != 3 {
			t.Errorf("%d requests for 2: this test no longer shows what it guards against", len(requests))
		}
	})
	for name, tc := range map[string]struct {
		transport   *http.Transport
		second      string
		connections int
	}{
		"a connection each": {NewWriteTransport(time.Minute), "accepted", 2},
		"a kept connection": {NewTransport(1, time.Minute), "in doubt", 1},
	} {
		overPipes(name, func(t *testing.T, s *rawService) {
			tc.transport.DialContext = s.dial
			c := agentClient(t, s.base, func(cfg *Config) {
				cfg.WriteTransport = func(string) http.RoundTripper { return tc.transport }
			})
			_, first := c.CreateJob(t.Context(), "prj_a", "one")
			_, second := c.CreateJob(t.Context(), "prj_a", "two")
			tc.transport.CloseIdleConnections()
			connections, requests := s.seen()
			if first != nil || fate(second) != tc.second || len(requests) != 2 || connections != tc.connections {
				t.Errorf("%v, then %s (%v), with %d connections and %d requests", first, fate(second), second, connections, len(requests))
			}
			for _, r := range requests {
				if r.header.Get("Idempotency-Key") != "" {
					t.Error("an Idempotency-Key was sent")
				}
			}
		})
	}
}
