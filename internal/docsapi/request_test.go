package docsapi

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsRetried(t *testing.T) {
	shape := `{"hasMore":false}`
	for name, tc := range map[string]struct {
		answer   reply
		attempts int
	}{
		"network":          {breaks(errors.New("reset")), 5},
		"deadline":         {hang, 5},
		"cut body":         {status(200, onePage[:9]), 5},
		"408":              {status(408, ""), 5},
		"425":              {status(425, ""), 5},
		"500":              {status(500, ""), 5},
		"503 for a minute": {status(503, "", "Retry-After", "60"), 5},
		"503 for longer":   {status(503, "", "Retry-After", "61"), 1},
		"429":              {status(429, ""), 1},
		"429 for a minute": {status(429, "", "Retry-After", "60"), 5},
		"429 for longer":   {status(429, "", "Retry-After", "61"), 1},
		"400":              {status(400, ""), 1},
		"401":              {status(401, ""), 1},
		"302":              {status(302, ""), 1},
		"wrong shape":      {status(200, shape), 1},
		"budget":           {breaks(fmt.Errorf("wrapped: %w", notBefore{})), 1},
		"success":          {status(200, onePage), 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c, s := scriptedClient(t, tc.answer)
				_, err := c.Page(t.Context(), query())
				if len(s.at) != tc.attempts {
					t.Errorf("%d attempts, want %d (%v)", len(s.at), tc.attempts, err)
				}
				if w := s.waits(); name == "503 for half a minute" && slices.Min(w) != 30*time.Second {
					t.Errorf("waited %v", w)
				}
				if (err == nil) != (name == "success") {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

// TestFullJitter: the waits of many calls are in [0, 1s], [0, 2s], [0, 4s] and
// [0, 8s], and spread over all of each interval.
func TestFullJitter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const calls = 300
		var waits [maxAttempts - 1][]time.Duration
		for range calls {
			c, s := scriptedClient(t, status(500, ""))
			c.Page(t.Context(), query())
			for i, w := range s.waits() {
				waits[i] = append(waits[i], w)
			}
		}
		for i, seen := range waits {
			end := time.Second << i
			lo, hi := slices.Min(seen), slices.Max(seen)
			if len(seen) != calls || hi > end || hi < end*8/10 || lo > end*2/10 {
				t.Errorf("wait %d: %d values in [%v, %v], want [0, %v]", i+1, len(seen), lo, hi, end)
			}
		}
	})
}

// TestDeadline: one attempt may take Timeout from the moment it asks for a
// connection, however long the transport held it back before.
func TestDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c, _ := scriptedClient(t, func(r *http.Request) (*http.Response, error) {
			time.Sleep(2 * time.Hour)
			return hang(r)
		})
		start := time.Now()
		e := c.once(t.Context())
		if took := time.Since(start) - 2*time.Hour; took != defaultTimeout {
			t.Errorf("the attempt took %v, want %v", took, defaultTimeout)
		}
		if e == nil || e.Outcome != Transient || !strings.Contains(e.Message, "no whole answer within 1m0s") ||
			errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("error %v", e)
		}
	})
}

// TestDeadlineCoversTheBody: it also ends an answer that begins and never ends.
func TestDeadlineCoversTheBody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c, _ := scriptedClient(t, func(r *http.Request) (*http.Response, error) {
			httptrace.ContextClientTrace(r.Context()).GetConn("")
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(stuck{r.Context()})}, nil
		})
		e := c.once(t.Context())
		if e == nil || e.Outcome != Transient || !strings.Contains(e.Message, "no whole answer") {
			t.Errorf("error %v", e)
		}
	})
}

// TestBodyIsClosed: whatever the answer, its connection is given back.
func TestBodyIsClosed(t *testing.T) {
	for name, body := range map[string]io.Reader{
		"whole":     strings.NewReader(onePage),
		"broken":    io.MultiReader(strings.NewReader(onePage[:9]), iotest.ErrReader(errors.New("reset"))),
		"too large": strings.NewReader(strings.Repeat(" ", maxBody+2)),
	} {
		closed := closer{Reader: body}
		c, _ := scriptedClient(t, func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: &closed}, nil
		})
		if c.once(t.Context()); closed.times != 1 {
			t.Errorf("%s: closed %d times", name, closed.times)
		}
	}
}

func TestCancel(t *testing.T) {
	for name, answer := range map[string]reply{
		"in an attempt":    hang,
		"between attempts": status(503, "", "Retry-After", "30"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				stopped := errors.New("stopped")
				time.AfterFunc(10*time.Second, func() { cancel(stopped) })
				c, s := scriptedClient(t, answer)
				start := time.Now()
				_, err := c.Page(ctx, query())
				if !isBare(err, stopped) || time.Since(start) != 10*time.Second || len(s.at) != 1 {
					t.Errorf("%v after %v and %d attempts", err, time.Since(start), len(s.at))
				}
			})
		})
	}
	inBubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		down := status(500, "")
		c, s := scriptedClient(t, down, down, down, down, func(*http.Request) (*http.Response, error) {
			cancel()
			return nil, errors.New("reset")
		})
		if _, err := c.Page(ctx, query()); !isBare(err, context.Canceled) || len(s.at) != maxAttempts {
			t.Errorf("in the last attempt: %v after %d", err, len(s.at))
		}
	})
	inBubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		c, _ := scriptedClient(t, hang)
		if _, err := c.Page(ctx, query()); !isBare(err, context.DeadlineExceeded) {
			t.Errorf("deadline of the caller: %v", err)
		}
	})
}

func TestRefusalOfTheTransport(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		want := notBefore{time.Now().Add(25 * time.Minute)}
		c, _ := scriptedClient(t, breaks(fmt.Errorf("charge: %w", want)))
		_, err := c.Page(t.Context(), query())
		got, ok := errors.AsType[notBefore](err)
		if !ok || got != want || outcomeOf(err) != Transient {
			t.Errorf("%v: the transport's error is not found in it", err)
		}
		if e, ok := errors.AsType[*Error](err); !ok || e.RetryAfter != 25*time.Minute {
			t.Errorf("%#v: want to retry after 25m", err)
		}
	})
}

func TestPageChecksItsQuery(t *testing.T) {
	c := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	for name, change := range map[string]func(*PageQuery){
		"project":   func(q *PageQuery) { q.Project = "" },
		"parent":    func(q *PageQuery) { q.Project = ".." },
		"window":    func(q *PageQuery) { q.Window.To = q.Window.From - 1 },
		"limit":     func(q *PageQuery) { q.Limit = maxLimit + 1 },
		"limit < 0": func(q *PageQuery) { q.Limit = -1 },
		"offset":    func(q *PageQuery) { q.Offset = -1 },
	} {
		q := query()
		change(&q)
		if _, err := c.Page(t.Context(), q); outcomeOf(err) != Permanent {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGzip(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, onePage)
		z.Close()
	})
	page, err := c.Page(t.Context(), query())
	if diff := cmp.Diff(onePageWant, page); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestBrokenConnections(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\n"
	for name, answer := range map[string]func(net.Conn){
		"no answer":  func(net.Conn) {},
		"reset":      reset,
		"cut header": func(c net.Conn) { io.WriteString(c, "HTTP/1.1 20") },
		"not HTTP":   func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH\r\n") },
		"cut body":   func(c net.Conn) { io.WriteString(c, head+"Content-Length: 112\r\n\r\n"+onePage[:50]) },
		"cut chunk":  func(c net.Conn) { io.WriteString(c, head+"Transfer-Encoding: chunked\r\n\r\n20\r\n{") },
		"no last chunk": func(c net.Conn) {
			fmt.Fprintf(c, head+"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(onePage), onePage)
		},
		"cut until closed": func(c net.Conn) { io.WriteString(c, head+"\r\n"+onePage[:50]) },
		"cut gzip":         func(c net.Conn) { io.WriteString(c, head+"Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08") },
	} {
		t.Run(name, func(t *testing.T) {
			service := serveRaw(t, false, answer)
			e := newClient(t, service.base, nil).once(t.Context())
			_, requests := service.seen()
			if e == nil || e.Outcome != Transient || len(requests) != 1 || errors.Is(e, ErrNotSent) {
				t.Errorf("%v after %d requests; want a transient error after one", e, len(requests))
			}
		})
	}
}

// TestNoHiddenReplay guards the budget: net/http by itself sends a GET again
// if a used connection dies before its answer.
func TestNoHiddenReplay(t *testing.T) {
	var requests atomic.Int32
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			io.WriteString(w, onePage)
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	})
	if e := c.once(t.Context()); e != nil {
		t.Fatal(e)
	}
	if e := c.once(t.Context()); e == nil || e.Outcome != Transient {
		t.Errorf("connection closed on the second request: %v", e)
	}
	if requests.Load() != 2 {
		t.Errorf("%d requests on the wire for 2 attempts", requests.Load())
	}
}

func TestConnectionIsReused(t *testing.T) {
	inBubble(t, func(t *testing.T) { // net/http gives up a connection whose writer is slow to end
		status := 200
		service := servePipes(func(s *rawService, conn net.Conn) {
			for s.take(conn) {
				fmt.Fprintf(conn, "HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n%s", status, len(onePage), onePage)
			}
		})
		transport := NewTransport(2, time.Minute)
		transport.DialContext = service.dial
		c := newClient(t, service.base, transport)
		for _, status = range []int{200, 500, 404, 302, 200} {
			c.once(t.Context())
		}
		transport.CloseIdleConnections()
		if connections, requests := service.seen(); connections != 1 || len(requests) != 5 {
			t.Errorf("%d connections for %d requests", connections, len(requests))
		}
	})
}

func TestKeyIsAskedEachTime(t *testing.T) {
	var got []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		io.WriteString(w, onePage)
	})
	keys := []string{"a_first1", "b_second", "broken"}
	c.admin.get = func() string { return keys[len(got)] }
	c.once(t.Context())
	c.once(t.Context())
	e := c.once(t.Context())
	if diff := cmp.Diff([]string{"Bearer a_first1", "Bearer b_second"}, got); diff != "" {
		t.Error(diff)
	}
	if e == nil || e.Outcome != Permanent || !strings.Contains(e.Error(), "DOCGAUGE_API_KEY") {
		t.Errorf("unusable key: %v", e)
	}
}
