package budget_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/budget"
	"github.com/docgauge/docgauge/internal/state"
)

// wire is how net/http is kept from an answer, and the URL to ask.
type wire struct {
	*http.Transport
	url string
}

func dials(dial func(ctx context.Context) (net.Conn, error)) func(*testing.T) wire {
	return func(*testing.T) wire {
		return wire{&http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}, "http://api.example.com/"}
	}
}

// deadPort is one on which nobody listens.
func deadPort(t *testing.T) wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	check(t, l.Close())
	return wire{&http.Transport{}, "http://" + l.Addr().String()}
}

func untrusted(t *testing.T) wire {
	s := httptest.NewUnstartedServer(nil)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return wire{&http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}, s.URL}
}

func proxied(t *testing.T) wire {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	check(t, err)
	return wire{&http.Transport{Proxy: http.ProxyURL(u)}, "https://api.example.com/"}
}

// hangsUp takes the request and closes the connection.
func hangsUp(t *testing.T) wire {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(s.Close)
	return wire{&http.Transport{}, s.URL}
}

// TestNeverSentNeverCharged: a request of which no byte can have left this machine
// leaves its slot to the next, for reads and writes, with a limit and without.
func TestNeverSentNeverCharged(t *testing.T) {
	for name, tc := range map[string]struct {
		wire    func(*testing.T) wire
		charged bool
	}{
		"name not resolved": {wire: dials(func(context.Context) (net.Conn, error) {
			return nil, &net.DNSError{Err: "no such host", Name: "api.example.com", IsNotFound: true}
		})},
		"dial timed out": {wire: dials(func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
		})},
		"connection refused":      {wire: deadPort},
		"certificate not trusted": {wire: untrusted},
		"proxy refused":           {wire: proxied},
		"connection lost":         {wire: hangsUp, charged: true},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(name+"/"+method, func(t *testing.T) {
				db, err := state.OpenExisting("nowhere")
				check(t, err)
				defer db.Close()
				w := tc.wire(t)
				defer w.CloseIdleConnections()
				for _, limit := range []int{1, 0} {
					b := newBudget(limit, db, w)
					want := 0
					for range 3 {
						req, err := http.NewRequestWithContext(t.Context(), method, w.url, strings.NewReader("x"))
						check(t, err)
						req.GetBody = nil
						_, err = b.RoundTrip(req) //nolint:bodyclose // there is none
						if err == nil || errors.Is(err, budget.ErrExhausted) != (tc.charged && want > 0 && limit > 0) {
							t.Fatalf("limit %d, after %d: %v", limit, want, err)
						}
						if tc.charged && (limit == 0 || want == 0) {
							want++
						}
					}
					if sent, _ := b.Sent(); sent != want || len(b.Places()) != 0 {
						t.Errorf("limit %d: sent %d, want %d; places taken %d", limit, sent, want, len(b.Places()))
					}
				}
				taken, _, err := db.Occupied(t.Context(), "b", time.Now, 0, budget.Span, timeout)
				if err != nil || (taken > 0) != tc.charged {
					t.Errorf("%d slots are taken, %v", taken, err)
				}
			})
		}
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestInDoubtStaysCharged: a transport can be handed a connection for a request
// that was given up, and write to it; one that says nothing is believed nothing.
func TestInDoubtStaysCharged(t *testing.T) {
	for name, base := range map[string]tripper{
		"given up, then a connection": func(req *http.Request) (*http.Response, error) {
			trace := httptrace.ContextClientTrace(req.Context())
			trace.GetConn("api.example.com:443")
			<-req.Context().Done()
			trace.GotConn(httptrace.GotConnInfo{})
			return nil, req.Context().Err()
		},
		"a stale connection, then none": func(req *http.Request) (*http.Response, error) {
			trace := httptrace.ContextClientTrace(req.Context())
			trace.GetConn("api.example.com:443")
			trace.GotConn(httptrace.GotConnInfo{Reused: true})
			trace.GetConn("api.example.com:443")
			return nil, errRefused
		},
		"nothing is known": func(*http.Request) (*http.Response, error) { return nil, errRefused },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, begin := openStore(t), time.Now()
				b := newBudget(1, store, base)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := send(ctx, b); err == nil {
					t.Error("no error")
				}
				wantRefusal(t, b, false, timeout+budget.Span-time.Since(begin))
			})
		})
	}
}

// TestTheTraceOfTheCallerIsKept: the client learns of its connection as before.
func TestTheTraceOfTheCallerIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, got int
		b := newBudget(1, openStore(t), &service{conn: made})
		_, err := send(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GetConn: func(string) { asked++ }, GotConn: func(httptrace.GotConnInfo) { got++ },
		}), b)
		if err != nil || asked != 1 || got != 1 {
			t.Errorf("asked %d, got %d, %v", asked, got, err)
		}
	})
}

// TestReleaseFails: the error of the request is not lost, the store's is said too,
// and the slot stays taken.
func TestReleaseFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &broken{DB: openStore(t), release: true}
		b := newBudget(1, store, &service{conn: refused})
		_, err := send(t.Context(), b)
		if !errors.Is(err, errRefused) {
			t.Errorf("got %v", err)
		}
		wantStoreError(t, err)
		wantRefusal(t, b, false, timeout+budget.Span)
	})
}

// TestReleaseOfACancelledRequest: it is the user who gave up, and the slot is freed
// all the same.
func TestReleaseOfACancelledRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		b := newBudget(1, store, &service{there: time.Minute, conn: refused})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := send(ctx, b); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		wantSlots(t, store)
	})
}

// TestReleasedSlotsAreThereForOthers at once, without a Flush.
func TestReleasedSlotsAreThereForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, svc := openStore(t), &service{conn: refused}
		a, b := newBudget(1, store, svc), newBudget(1, store, svc)
		for range 10 {
			if _, err := send(t.Context(), a); !errors.Is(err, errRefused) {
				t.Fatalf("got %v", err)
			}
		}
		svc.conn = made
		wantStatus(t, b, 200)
		check(t, b.Flush(t.Context()))
		wantRefusal(t, a, false, budget.Span)
	})
}
