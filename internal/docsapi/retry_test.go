package docsapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// scripted is a transport in memory: it answers request n with answers[n], the
// last one again and again, and notes when it was asked.
type scripted struct {
	answers []func(*http.Request) (*http.Response, error)
	at      []time.Time
}

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	n := min(len(s.at), len(s.answers)-1)
	s.at = append(s.at, time.Now())
	return s.answers[n](r)
}

func (s *scripted) waits() (waits []time.Duration) {
	for i := 1; i < len(s.at); i++ {
		waits = append(waits, s.at[i].Sub(s.at[i-1]))
	}
	return waits
}

func status(code int, body string, header ...string) func(*http.Request) (*http.Response, error) {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func breaks(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// hang takes a connection and never answers.
func hang(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).GetConn("")
	httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// inBubble runs f with fake time that does not begin on the full hour.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(11*time.Minute + 7*time.Second)
		f(t)
	})
}

func scriptedClient(t *testing.T, answers ...func(*http.Request) (*http.Response, error)) (*Client, *scripted) {
	s := &scripted{answers: answers}
	return newClient(t, "https://api.example.com", s), s
}

type notBefore struct{ at time.Time }

func (e notBefore) Error() string      { return "budget used up" }
func (e notBefore) RetryAt() time.Time { return e.at }

func TestWhatIsRetried(t *testing.T) {
	shape := `{"hasMore":false}`
	for name, tc := range map[string]struct {
		answer   func(*http.Request) (*http.Response, error)
		attempts int
	}{
		"network":               {breaks(errors.New("reset")), 5},
		"deadline":              {hang, 5},
		"cut body":              {status(200, onePage[:9]), 5},
		"408":                   {status(408, ""), 5},
		"425":                   {status(425, ""), 5},
		"500":                   {status(500, ""), 5},
		"503 for half a minute": {status(503, "", "Retry-After", "30"), 5},
		"503 for longer":        {status(503, "", "Retry-After", "31"), 1},
		"429":                   {status(429, ""), 1},
		"429 for a second":      {status(429, "", "Retry-After", "1"), 1},
		"400":                   {status(400, ""), 1},
		"401":                   {status(401, ""), 1},
		"302":                   {status(302, ""), 1},
		"wrong shape":           {status(200, shape), 1},
		"budget":                {breaks(fmt.Errorf("wrapped: %w", notBefore{})), 1},
		"success":               {status(200, onePage), 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c, s := scriptedClient(t, tc.answer)
				_, err := c.VisitorsPage(t.Context(), query())
				if len(s.at) != tc.attempts {
					t.Errorf("%d attempts, want %d (%v)", len(s.at), tc.attempts, err)
				}
				if (err == nil) != (name == "success") {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

func TestRetrySucceeds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c, s := scriptedClient(t, status(500, ""), breaks(io.ErrUnexpectedEOF), status(200, onePage))
		page, err := c.VisitorsPage(t.Context(), query())
		if err != nil || len(page.Rows) != 1 || len(s.at) != 3 {
			t.Errorf("%v, %v after %d attempts", page, err, len(s.at))
		}
	})
}

// TestFullJitter holds the waits of many calls to [0, 1s], [0, 2s], [0, 4s],
// [0, 8s], and sees that each interval is used from end to end.
func TestFullJitter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const calls = 300
		var waits [maxAttempts - 1][]time.Duration
		for range calls {
			c, s := scriptedClient(t, status(500, ""))
			c.VisitorsPage(t.Context(), query())
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

func TestRetryAfterIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c, s := scriptedClient(t, status(503, "", "Retry-After", "20"))
		c.VisitorsPage(t.Context(), query())
		for _, w := range s.waits() {
			if w != 20*time.Second {
				t.Errorf("waited %v, want 20s", w)
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
		if e == nil || e.Outcome != Transient || !strings.Contains(e.Message, "no whole answer within 1m0s") || errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("error %v", e)
		}
	})
}

// TestDeadlineCoversTheBody: an answer that begins and never ends.
func TestDeadlineCoversTheBody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c, _ := scriptedClient(t, func(r *http.Request) (*http.Response, error) {
			httptrace.ContextClientTrace(r.Context()).GetConn("")
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(stuck{r.Context()})}, nil
		})
		if e := c.once(t.Context()); e == nil || e.Outcome != Transient || !strings.Contains(e.Message, "no whole answer") {
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

type closer struct {
	io.Reader
	times int
}

func (c *closer) Close() error {
	c.times++
	return nil
}

type stuck struct{ ctx context.Context }

func (s stuck) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// isBare reports whether err is want itself, not a request's error around it.
func isBare(err, want error) bool {
	_, ours := errors.AsType[*Error](err)
	return !ours && errors.Is(err, want)
}

func TestCancel(t *testing.T) {
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"in an attempt":    hang,
		"between attempts": status(503, "", "Retry-After", "30"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(10*time.Second, cancel)
				c, s := scriptedClient(t, answer)
				start := time.Now()
				_, err := c.VisitorsPage(ctx, query())
				if !isBare(err, context.Canceled) || OutcomeOf(err) != Transient || time.Since(start) != 10*time.Second || len(s.at) != 1 {
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
		if _, err := c.VisitorsPage(ctx, query()); !isBare(err, context.Canceled) || len(s.at) != maxAttempts {
			t.Errorf("in the last attempt: %v after %d", err, len(s.at))
		}
	})
	inBubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		c, _ := scriptedClient(t, hang)
		if _, err := c.VisitorsPage(ctx, query()); !isBare(err, context.DeadlineExceeded) {
			t.Errorf("deadline of the caller: %v", err)
		}
	})
}

func TestRefusalOfTheTransport(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		want := notBefore{time.Now().Add(25 * time.Minute)}
		c, _ := scriptedClient(t, breaks(fmt.Errorf("charge: %w", want)))
		_, err := c.VisitorsPage(t.Context(), query())
		got, ok := errors.AsType[notBefore](err)
		if !ok || got != want || OutcomeOf(err) != Transient {
			t.Errorf("%v: the transport's error is not found in it", err)
		}
		if e, ok := errors.AsType[*Error](err); !ok || e.RetryAfter != 25*time.Minute {
			t.Errorf("%#v: want to retry after 25m", err)
		}
	})
}

func TestErrorHelpers(t *testing.T) {
	wrapped := func(status int, o Outcome) error {
		return fmt.Errorf("export: %w", &Error{Status: status, Outcome: o})
	}
	for _, tc := range []struct {
		err                     error
		outcome                 Outcome
		unauthorized, throttled bool
	}{
		{nil, OK, false, false},
		{wrapped(401, Permanent), Permanent, true, false},
		{wrapped(403, Permanent), Permanent, true, false},
		{wrapped(429, Transient), Transient, false, true},
		{wrapped(502, InDoubt), InDoubt, false, false},
		{fmt.Errorf("x: %w", context.Canceled), Transient, false, false},
		{errors.New("disk full"), Permanent, false, false},
	} {
		if OutcomeOf(tc.err) != tc.outcome || IsUnauthorized(tc.err) != tc.unauthorized || IsThrottled(tc.err) != tc.throttled {
			t.Errorf("%v: %v, %t, %t", tc.err, OutcomeOf(tc.err), IsUnauthorized(tc.err), IsThrottled(tc.err))
		}
	}
}
