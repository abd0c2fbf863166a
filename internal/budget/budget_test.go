package budget

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
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/state"
)

// TestProcessesShareOneFile uses two handles of one database on disk, as two
// processes would; the third opens it after the first died without a Flush.
func TestProcessesShareOneFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, svc := t.TempDir(), new(service)
		open := func() *Budget {
			db, err := state.Open(dir)
			check(t, err)
			t.Cleanup(func() { db.Close() })
			return newBudget(4, logOf(db), svc)
		}
		a, b := open(), open()
		wantStatus(t, a, 200)
		wantStatus(t, b, 200)
		wantStatus(t, a, 200) // this one's answer is never entered
		wantStatus(t, b, 200)
		check(t, b.Flush(t.Context()))
		wantRefusal(t, b, false, Span)
		wantRefusal(t, open(), false, Span)
		time.Sleep(Span)
		for range 3 {
			wantStatus(t, b, 200)
		}
		wantRefusal(t, b, false, timeout)
		if svc.count() != 7 {
			t.Errorf("%d requests reached the service", svc.count())
		}
	})
}

// TestGivenUpRequestsStayInTheLog: a request without response can still be on
// its way until its timeout.
func TestGivenUpRequestsStayInTheLog(t *testing.T) {
	for after, occupied := range map[time.Duration]time.Duration{
		time.Second:     timeout - time.Second + Span,
		timeout:         Span,
		timeout + 10000: Span,
	} {
		synctest.Test(t, func(t *testing.T) {
			store := openLog(t)
			b := newBudget(1, store, &service{there: time.Hour})
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			if _, err := send(ctx, b); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			check(t, b.Flush(t.Context()))
			wantRefusal(t, b, false, occupied)
			time.Sleep(time.Hour) // until it arrives
		})
	}
}

func TestUnlimited(t *testing.T) {
	inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
		a, b := newBudget(0, store, svc), newBudget(0, store, svc)
		for range 50 {
			wantStatus(t, a, 200)
		}
		check(t, a.Flush(t.Context()))
		wantSlots(t, store, slices.Repeat([]time.Duration{Span}, 50)...)
		wantRefusal(t, newBudget(50, store, svc), false, Span) // a limit that is set later counts them
		svc.answers(429, 0)
		wantStatus(t, a, 429)
		svc.answers(200, 0)
		wantRefusal(t, a, true, 5*time.Minute)
		wantRefusal(t, b, true, 5*time.Minute)
		if svc.count() != 51 {
			t.Errorf("%d requests reached the service", svc.count())
		}
		time.Sleep(5*time.Minute + time.Microsecond)
		wantStatus(t, b, 200)
	})
}

func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := options(0, time.Now)
		cfg.InFlight = 2
		svc := new(service)
		b := New(cfg, openLog(t), svc)
		var open []io.Closer
		for range 2 {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody)
			resp, err := b.RoundTrip(req)
			check(t, err)
			open = append(open, resp.Body)
		}
		third := make(chan error, 1)
		go func() {
			_, err := send(t.Context(), b)
			third <- err
		}()
		synctest.Wait()
		if svc.count() != 2 {
			t.Errorf("%d requests were sent, 2 are in flight", svc.count())
		}
		check(t, open[0].Close())
		check(t, open[0].Close()) // the second Close frees nothing
		check(t, <-third)
		if len(b.places) != 1 {
			t.Errorf("%d places are taken, one body is open", len(b.places))
		}
		check(t, open[1].Close())
	})
}

// TestCancelledWhileItWaits: a request that is cancelled while it waits for a place in flight, its turn
// or a slot is not sent, and its body is closed.
func TestCancelledWhileItWaits(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"for a place":  func(c *Options) { c.InFlight = 1 },
		"for its turn": func(c *Options) { c.MinInterval = time.Hour },
		"for a slot":   func(c *Options) { c.Limit, c.Patience = 1, 2*Span },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, log state.BudgetLog, svc *service) {
				options := options(5, time.Now)
				change(&options)
				b := New(options, log, svc)
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody)
				resp, err := b.RoundTrip(req)
				check(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				reqBody := &replyBody{Reader: strings.NewReader("x")}
				_, err = b.RoundTrip((&http.Request{Body: reqBody}).WithContext(ctx))
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				check(t, resp.Body.Close())
				sent, _ := b.Sent()
				if !reqBody.closed || svc.count() != 1 || sent != 1 || len(b.places) != 0 {
					t.Errorf("body closed %v, %d requests arrived, %d counted, %d places are taken",
						reqBody.closed, svc.count(), sent, len(b.places))
				}
			})
		})
	}
}

// TestMinInterval: the interval also holds when the last of many requests waits for
// hours, and when the clock is set back.
func TestMinInterval(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, 40 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			wall, svc := new(wallClock), new(service)
			cfg := options(0, wall.now)
			cfg.MinInterval = interval
			b := New(cfg, by(wall.now, openLog(t)), svc)
			errs := make(chan error)
			for range 6 {
				go func() {
					_, err := send(t.Context(), b)
					errs <- err
				}()
			}
			for range 3 {
				check(t, <-errs)
			}
			wall.set(-48 * time.Hour)
			for range 3 {
				check(t, <-errs)
			}
			time.Sleep(interval / 2)
			_, err := send(t.Context(), b)
			check(t, err)
			arrived := svc.arrivals()
			for i := range arrived[1:] {
				if d := arrived[i+1].Sub(arrived[i]); d != interval {
					t.Errorf("interval %v: request %d came after %v", interval, i+1, d)
				}
			}
		})
	}
}

func TestStoreFailureSendsNothing(t *testing.T) {
	for _, limit := range []int{0, 3} {
		for _, store := range []*broken{{charge: true}, {throttles: true}} {
			synctest.Test(t, func(t *testing.T) {
				svc := new(service)
				store.BudgetLog = openLog(t)
				b := newBudget(limit, store, svc)
				reqBody := &replyBody{Reader: strings.NewReader("x")}
				_, err := b.RoundTrip((&http.Request{Body: reqBody}).WithContext(t.Context()))
				wantLogError(t, err)
				if svc.count() != 0 || !reqBody.closed || len(b.places) != 0 {
					t.Errorf("sent %d, body closed %v, places taken %d", svc.count(), reqBody.closed, len(b.places))
				}
			})
		}
	}
}

// TestStoreFailureAfterA429: for a read it is an error, and the body is closed. A write keeps its
// answer: an error would put an accepted POST in doubt.
func TestStoreFailureAfterA429(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		inBubble(t, func(t *testing.T, log state.BudgetLog, svc *service) {
			svc.answers(429, 0)
			b := newBudget(3, &broken{BudgetLog: log, cooldown: true}, svc)
			req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost/", http.NoBody)
			check(t, err)
			resp, err := b.RoundTrip(req)
			if method == http.MethodGet {
				wantLogError(t, err)
			} else if check(t, err); resp.StatusCode != http.StatusTooManyRequests || resp.Body.Close() != nil {
				t.Errorf("%+v", resp)
			}
			if !svc.bodies[0].closed || len(b.places) != 0 {
				t.Errorf("%s: body closed %v, places taken %d", method, svc.bodies[0].closed, len(b.places))
			}
		})
	}
}

// wire is a transport that gets no answer, and the URL to request.
type wire struct {
	*http.Transport
	url string
}

func dials(dial func(ctx context.Context) (net.Conn, error)) func(*testing.T) wire {
	return func(*testing.T) wire {
		dials := func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
		return wire{&http.Transport{DialContext: dials}, "http://api.example.com/"}
	}
}

// deadPort is a port without a listener.
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
	forbids := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	s := httptest.NewServer(http.HandlerFunc(forbids))
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

// TestNeverSentNeverCharged: if no byte of a request can have left this machine, its
// slot is free again, for reads and writes, with a limit and without.
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
					b := newBudget(limit, logOf(db), w)
					want := 0
					for range 3 {
						req, err := http.NewRequestWithContext(t.Context(), method, w.url, strings.NewReader("x"))
						check(t, err)
						req.GetBody = nil
						_, err = b.RoundTrip(req) //nolint:bodyclose // every request fails
						if err == nil || isExhausted(err) != (tc.charged && want > 0 && limit > 0) {
							t.Fatalf("limit %d, after %d: %v", limit, want, err)
						}
						if tc.charged && (limit == 0 || want == 0) {
							want++
						}
					}
					if sent, _ := b.Sent(); sent != want || len(b.places) != 0 {
						t.Errorf("limit %d: sent %d, want %d; places taken %d", limit, sent, want, len(b.places))
					}
				}
				taken, _, err := logOf(db).Occupied(t.Context(), 0)
				if err != nil || (taken > 0) != tc.charged {
					t.Errorf("%d slots are taken, %v", taken, err)
				}
			})
		}
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestInDoubtStaysCharged: a transport can get a connection for a request that was
// given up, and write to it; and one that reports no connections may have sent it.
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
				store, begin := openLog(t), time.Now()
				b := newBudget(1, store, base)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := send(ctx, b); err == nil {
					t.Error("no error")
				}
				wantRefusal(t, b, false, timeout+Span-time.Since(begin))
			})
		})
	}
}

// TestRelease: the slot of an unsent request is freed although its context has ended. If the log
// fails, both errors are returned, and the slot stays taken.
func TestRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, log state.BudgetLog, svc *service) {
		svc.conn, svc.there = refused, time.Minute
		store := &broken{BudgetLog: log}
		b := newBudget(1, store, svc)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := send(ctx, b); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		wantSlots(t, log)
		store.release, svc.there = true, 0
		_, err := send(t.Context(), b)
		if !errors.Is(err, errRefused) {
			t.Errorf("got %v", err)
		}
		wantLogError(t, err)
		wantRefusal(t, b, false, timeout+Span)
	})
}

func patientBudget(limit int, patience time.Duration, store requestLog, base http.RoundTripper) *Budget {
	cfg := options(limit, time.Now)
	cfg.Patience = patience
	return New(cfg, store, base)
}

// TestPatienceEnds: the waits of a run together are at most as long as its patience,
// and a wait that exceeds the rest is not begun.
func TestPatienceEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
		first := newBudget(4, store, svc)
		for range 4 { // at 0, 40, 80 and 120 s
			wantStatus(t, first, 200)
			check(t, first.Flush(t.Context()))
			time.Sleep(40 * time.Second)
		}
		time.Sleep(Span - 4*40*time.Second - 10*time.Second)
		b := patientBudget(4, time.Minute, store, svc)
		begin := time.Now()
		wantStatus(t, b, 200) // waits 10 s
		wantStatus(t, b, 200) // waits 40 s
		if waited := time.Since(begin).Truncate(time.Millisecond); waited != 50*time.Second {
			t.Errorf("waited %v", waited)
		}
		begin = time.Now()
		wantRefusal(t, b, false, 40*time.Second-(time.Since(begin)))
		if !time.Now().Equal(begin) {
			t.Errorf("waited %v, then refused", time.Since(begin))
		}
		b.Renew()
		wantStatus(t, b, 200)
	})
}

// TestWaitsAtOnceCountOnce: four requests that wait for the same half minute use up
// half a minute of patience.
func TestWaitsAtOnceCountOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
		first := newBudget(4, store, svc)
		for range 4 {
			wantStatus(t, first, 200)
		}
		check(t, first.Flush(t.Context()))
		time.Sleep(Span - 30*time.Second)
		b := patientBudget(4, 31*time.Second, store, svc)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { wantStatus(t, b, 200) })
		}
		all.Wait()
		if err := withinLimit(svc.arrivals(), 4); err != nil {
			t.Error(err)
		}
	})
}

// TestNoPatienceForACooldown: a request does not wait for the end of a long cooldown.
func TestNoPatienceForACooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []int{0, 10} {
			svc := new(service)
			b := patientBudget(limit, time.Hour, openLog(t), svc)
			throttle(t, b, svc, 2*time.Minute)
			wantRefusal(t, b, true, 2*time.Minute)
		}
	})
}

// TestLogStaysShort: a charge drops the entries whose slots are free, so that it reads no others.
func TestLogStaysShort(t *testing.T) {
	inBubble(t, func(t *testing.T, log state.BudgetLog, svc *service) {
		begin, b := time.Now(), newBudget(100, log, svc)
		for range 50 {
			wantStatus(t, b, 200)
		}
		check(t, b.Flush(t.Context()))
		time.Sleep(Span + time.Microsecond)
		wantStatus(t, b, 200)
		u, err := log.DB.Usage(t.Context(), "b", begin) // as if all entries still counted
		if err != nil || len(u.Slots(100)) != 1 {
			t.Errorf("the log has %d requests, want the last one (%v)", len(u.Slots(100)), err)
		}
	})
}
