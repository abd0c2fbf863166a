package docsapi

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
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// writeRow is one way a write can end, over a socket.
type writeRow struct {
	early  bool // before the request is read
	handle func(net.Conn)
	fate   string
	status int
	after  time.Duration
	says   []string
}

// responds is the end of a write by a whole response.
func responds(statusLine, body, fate string, says ...string) writeRow {
	code, _ := strconv.Atoi(statusLine[:3])
	return writeRow{handle: answers(statusLine, body), fate: fate, status: code, says: says}
}

// breaksOff is the end of a write without a whole response.
func breaksOff(handle func(net.Conn), status int, says ...string) writeRow {
	return writeRow{handle: handle, fate: inDoubt, status: status, says: says}
}

// quoting is an error body that quotes the whole request.
const quoting = `{"error":"refused ` + testWriteKey + ` and ` + testKey + `: ` + testPrompt + `"}`

const inDoubt, accepted, notAccepted, later = "in doubt", "accepted", "not accepted", "not accepted for a time"

var writeRows = map[string]writeRow{
	"closed before reading": {early: true, handle: func(net.Conn) {}, fate: inDoubt},
	"reset before reading": {early: true, fate: inDoubt,
		handle: func(c net.Conn) { c.Read(make([]byte, 1)); reset(c) }},
	"stalls before reading": {early: true, handle: stalls, fate: inDoubt, says: []string{"no whole answer within"}},
	"closed after reading":  breaksOff(func(net.Conn) {}, 0, "EOF"),
	"reset after reading":   breaksOff(reset, 0),
	"stalls":                breaksOff(stalls, 0, "no whole answer within"),
	"stalls in the header": breaksOff(func(c net.Conn) { io.WriteString(c, "HTTP/1.1 201 Cr"); stalls(c) }, 0,
		"no whole answer within"),
	"stalls in the body": breaksOff(func(c net.Conn) {
		answers("201 Created\r\nContent-Length: 999", oneJob)(c)
		stalls(c)
	}, 201, "no whole answer within"),
	"cut in the status line": breaksOff(replies("HTTP/1.1 20"), 0),
	"cut in the header":      breaksOff(replies("HTTP/1.1 201 Created\nContent-Ty"), 0),
	"not HTTP":               breaksOff(replies("SSH-2.0-OpenSSH\n"), 0),
	"cut in a chunk": breaksOff(replies("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n20\n{"), 200,
		"cut off"),
	"100, closed": breaksOff(replies("HTTP/1.1 100 Continue\n\n"), 0),
	"103, closed": breaksOff(replies("HTTP/1.1 103 Early Hints\nLink: </x>\n\n"), 0),
	"101":         breaksOff(replies("HTTP/1.1 101 Switching Protocols\nConnection: Upgrade\nUpgrade: x\n\n"), 101),
	"204":         breaksOff(replies("HTTP/1.1 204 No Content\n\n"), 204),
	"102, then a job": {fate: accepted,
		handle: replies("HTTP/1.1 102 Processing\n\nHTTP/1.1 201 Created\n\n" + oneJob)},
	"cut in the body":            responds("201 Created\r\nContent-Length: 999", oneJob[:40], inDoubt, "cut off"),
	"200 with a job":             responds("200 OK", oneJob, accepted),
	"201 with a job":             responds("201 Created", oneJob, accepted),
	"202 with a job":             responds("202 Accepted", oneJob, accepted),
	"206 with a job":             responds("206 Partial Content", oneJob, accepted),
	"200 with garbage":           responds("200 OK", "\x00\xff{{", inDoubt, "specification"),
	"200 with HTML":              responds("200 OK", "<html>", inDoubt, "an HTML page"),
	"200, empty":                 responds("200 OK", "", inDoubt, "cut off"),
	"200, not a job":             responds("200 OK", `["job_1"]`, inDoubt, "want an object"),
	"200 without id":             responds("200 OK", `{"x":1}`, inDoubt, "no usable id", `the service says: {"x":1}`),
	"201 with an id of a number": responds("201 Created", `{"id":1}`, inDoubt, "no usable id"),
	"201, cut JSON":              responds("201 Created", oneJob[:40], inDoubt, "cut off"),
	"201, too large":             responds("201 Created", oneJob+strings.Repeat(" ", maxBody), inDoubt, "over 16 MiB"),
	"301":                        responds("301 Moved\r\nLocation: /x", "", inDoubt, "not followed", "_BASE_URL"),
	"307":                        responds("307 Temporary\r\nLocation: /x", oneJob, inDoubt, "redirect not followed"),
	"400": responds("400 Bad Request", quoting, notAccepted,
		"the service says: refused [redacted] and [redacted]: [prompt]"),
	"401":       responds("401 Unauthorized", quoting, notAccepted, "DOCGAUGE_WRITE_API_KEY was refused", "expired"),
	"403":       responds("403 Forbidden", "", notAccepted, "DOCGAUGE_WRITE_API_KEY was refused", "scope"),
	"404":       responds("404 Not Found", `{"error":"none"}`, notAccepted, "_BASE_URL", "the service says: none"),
	"408":       responds("408 Request Timeout", "", inDoubt),
	"409":       responds("409 Conflict", `{"error":"archived"}`, notAccepted, "the service says: archived"),
	"413":       responds("413 Content Too Large", "", notAccepted),
	"425":       responds("425 Too Early", "", later),
	"429":       responds("429 Too Many Requests", quoting, later, "request limit"),
	"429, cut":  responds("429 Too Many Requests\r\nContent-Length: 99", "{", later),
	"429, wait": responds("429 Too Many Requests\r\nRetry-After: 40", "", later, "limit").wait(40 * time.Second),
	"500":       responds("500 Internal Server Error", quoting, inDoubt, "refused [redacted]"),
	"502":       responds("502 Bad Gateway", "<html>", inDoubt, "an HTML page"),
	"503, wait": responds("503 Service Unavailable\r\nRetry-After: 5", "", inDoubt).wait(5 * time.Second),
	"999":       responds("999 Whatever", oneJob, inDoubt),
}

func (row writeRow) wait(d time.Duration) writeRow { row.after = d; return row }

// TestWriteRows ends both writes in every way, and checks the caller's result
// and the bytes on the wire.
func TestWriteRows(t *testing.T) {
	for name, row := range writeRows {
		for op, do := range map[string]func(context.Context, *Client) (Job, error){
			"create": func(ctx context.Context, c *Client) (Job, error) {
				return c.CreateJob(ctx, "prj_a", testPrompt, "")
			},
			"message": func(ctx context.Context, c *Client) (Job, error) {
				return c.SendMessage(ctx, "prj_a", "job_1", testPrompt)
			},
		} {
			check := func(t *testing.T, service *rawService, c *Client) {
				job, err := do(t.Context(), c)
				connections, requests := service.seen()
				row.check(t, job, err)
				if connections != 1 || len(requests) > 1 || !row.early && len(requests) != 1 {
					t.Errorf("%d connections, %d requests", connections, len(requests))
				}
			}
			t.Run(name+"/"+op, func(t *testing.T) {
				if !strings.HasPrefix(name, "stalls") {
					service := serveRaw(t, row.early, row.handle)
					check(t, service, agentClient(t, service.base))
					return
				}
				inBubble(t, func(t *testing.T) { // the deadline is all that ends it
					service, transport := servePipes(inOrder(row.early, row.handle)), NewWriteTransport(time.Minute)
					transport.DialContext = service.dial
					check(t, service, agentClient(t, service.base, writesVia(transport)))
				})
			})
		}
	}
}

func (row writeRow) check(t *testing.T, job Job, err error) {
	t.Helper()
	if fate(err) != row.fate {
		t.Errorf("%s, want %s: %v", fate(err), row.fate, err)
	}
	if (err == nil) != (job.ID == "job_1") || err != nil && job != (Job{}) {
		t.Errorf("job %+v with error %v", job, err)
	}
	if err == nil {
		return
	}
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Status != row.status || e.RetryAfter != row.after || e.Method != http.MethodPost {
		t.Fatalf("%#v: want *Error of a POST with status %d, after %v", err, row.status, row.after)
	}
	if IsUnauthorized(err) != (row.status == 401 || row.status == 403) || IsThrottled(err) != (row.status == 429) {
		t.Errorf("%v: unauthorized %t, throttled %t", err, IsUnauthorized(err), IsThrottled(err))
	}
	if row.fate == inDoubt {
		row.says = append(row.says, "the service may have accepted it")
	}
	for _, says := range row.says {
		if !strings.Contains(e.Message, says) {
			t.Errorf("%q does not say %q", e.Message, says)
		}
	}
	checkNoSecret(t, printed(err))
}

// TestWriteNotSent: writes that end before they have a connection.
func TestWriteNotSent(t *testing.T) {
	hangsUp := serveRaw(t, true, func(net.Conn) {})
	plain := serveRaw(t, true, replies("HTTP/1.1 400 Bad Request\n\n"))
	var handled atomic.Int32
	count := func(http.ResponseWriter, *http.Request) { handled.Add(1) }
	untrusted := httptest.NewUnstartedServer(http.HandlerFunc(count))
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	for name, tc := range map[string]struct {
		base    string
		outcome Outcome
		says    string
	}{
		"refused":               {refusing(t), Transient, ": connection refused: is DOCGAUGE_BASE_URL right?"},
		"untrusted certificate": {untrusted.URL, Permanent, "certificate is not trusted"},
		"closed in handshake":   {strings.Replace(hangsUp.base, "http", "https", 1), Transient, "nothing was sent"},
		"no TLS":                {strings.Replace(plain.base, "http", "https", 1), Transient, "nothing was sent"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := agentClient(t, tc.base).CreateJob(t.Context(), "prj_a", testPrompt, "")
			if fate(err) != "not sent" || outcomeOf(err) != tc.outcome || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s, %v: %v; want not sent, %v, %q", fate(err), outcomeOf(err), err, tc.outcome, tc.says)
			}
			checkNoSecret(t, printed(err))
		})
	}
	if handled.Load() != 0 {
		t.Error("a request went to the untrusted server")
	}
	for name, dial := range map[string]error{
		"no such host":  &net.DNSError{Err: "no such host", Name: "nx.invalid", IsNotFound: true},
		"dial time-out": context.DeadlineExceeded,
	} {
		transport := NewWriteTransport(time.Minute)
		transport.Proxy = nil
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, dial }
		c := agentClient(t, "https://api.example.com", writesVia(transport))
		_, err := c.CreateJob(t.Context(), "prj_a", testPrompt, "")
		if fate(err) != "not sent" || outcomeOf(err) != Transient {
			t.Errorf("%s: %s: %v", name, fate(err), err)
		}
		const says = "nx.invalid: no such host: is DOCGAUGE_BASE_URL right?"
		if strings.Contains(err.Error(), says) != (name == "no such host") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWriteRefusedHere: writes that are not sent because of an argument, the key or
// the budget.
func TestWriteRefusedHere(t *testing.T) {
	service := serveRaw(t, false, answers("201 Created", oneJob))
	refusing := writesVia(tripper(breaks(notBefore{time.Now().Add(time.Minute)})))
	missing := writesVia(nil)
	create := func(project, prompt string) func(*Client) (Job, error) {
		return func(c *Client) (Job, error) { return c.CreateJob(t.Context(), project, prompt, "") }
	}
	message := func(id string) func(*Client) (Job, error) {
		return func(c *Client) (Job, error) { return c.SendMessage(t.Context(), "p", id, testPrompt) }
	}
	read := func(c *Client) (Job, error) { return c.Job(t.Context(), "p", strings.Repeat("i", maxID+1)) }
	for name, tc := range map[string]struct {
		do      func(*Client) (Job, error)
		change  func(*ClientOptions)
		outcome Outcome
		says    string
	}{
		"no project": {create("..", testPrompt), nil, Permanent, "no project id"},
		"no prompt":  {create("p", " \n"), nil, Permanent, "prompt is empty"},
		"not UTF-8":  {create("p", testPrompt+"\xff"), nil, Permanent, "not UTF-8"},
		"no id":      {message(""), nil, Permanent, "no job id"},
		"parent":     {message(".."), nil, Permanent, "no job id"},
		"control":    {message("a\nb"), nil, Permanent, "no job id"},
		"read":       {read, nil, Permanent, "no job id"},
		"budget":     {create("p", testPrompt), refusing, Transient, "budget used up"},
		"transport":  {create("p", testPrompt), missing, Permanent, "no transport"},
		"bad key": {func(c *Client) (Job, error) {
			c.write.get = StaticKey("hunter22")
			return create("p", testPrompt)(c)
		}, nil, Permanent, "DOCGAUGE_WRITE_API_KEY: want"},
	} {
		if tc.change == nil {
			tc.change = func(*ClientOptions) {}
		}
		_, err := tc.do(agentClient(t, service.base, tc.change))
		if fate(err) != "not sent" || outcomeOf(err) != tc.outcome || !strings.Contains(err.Error(), tc.says) ||
			strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %s, %v: %v; want not sent, %v, %q", name, fate(err), outcomeOf(err), err, tc.outcome, tc.says)
		}
		if e, ok := errors.AsType[*Error](err); !ok || (e.RetryAfter > 50*time.Second) != (name == "budget") {
			t.Errorf("%s: %#v", name, err)
		}
	}
	if connections, _ := service.seen(); connections != 0 {
		t.Errorf("%d connections", connections)
	}
}

// TestWriteSpeaksHTTP1: a server that offers HTTP/2 gets HTTP/1.1.
func TestWriteSpeaksHTTP1(t *testing.T) {
	var protocols []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols = append(protocols, r.Proto)
		io.WriteString(w, oneJob)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	transport := NewWriteTransport(time.Minute)
	roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	_, err := agentClient(t, server.URL, writesVia(transport)).CreateJob(t.Context(), "prj_a", testPrompt, "")
	if err != nil || len(protocols) != 1 || protocols[0] != "HTTP/1.1" {
		t.Errorf("%v, spoken: %v", err, protocols)
	}
}

// TestWriteCancelled cancels a write at each of its stages. Before it has a
// connection it is not sent; afterwards it is finished, and its answer counts.
func TestWriteCancelled(t *testing.T) {
	for name, tc := range map[string]struct {
		trace func(trace *httptrace.ClientTrace, cancel func())
		fate  string
	}{
		"when it asks for a connection": {func(t *httptrace.ClientTrace, cancel func()) {
			t.GetConn = func(string) { cancel() }
		}, "not sent"},
		"when it dials": {func(t *httptrace.ClientTrace, cancel func()) {
			t.ConnectStart = func(string, string) { cancel() }
		}, "not sent"},
		"with the header written": {func(t *httptrace.ClientTrace, cancel func()) {
			t.WroteHeaders = cancel
		}, accepted},
		"with the body written": {func(t *httptrace.ClientTrace, cancel func()) {
			t.WroteRequest = func(httptrace.WroteRequestInfo) { cancel() }
		}, accepted},
		"at the first byte of the answer": {func(t *httptrace.ClientTrace, cancel func()) {
			t.GotFirstResponseByte = cancel
		}, accepted},
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
			c := agentClient(t, service.base, writesVia(tripper(func(r *http.Request) (*http.Response, error) {
				sending = r.Context()
				return bottom.RoundTrip(r)
			})))
			trace := new(httptrace.ClientTrace)
			tc.trace(trace, func() {
				cancel()
				if tc.fate == "not sent" {
					<-sending.Done()
				}
			})
			job, err := c.CreateJob(httptrace.WithClientTrace(ctx, trace), "prj_a", testPrompt, "")
			_, requests := service.seen()
			if fate(err) != tc.fate || (len(requests) == 1) != (tc.fate == "accepted") {
				t.Errorf("%s with %d requests, want %s: %v", fate(err), len(requests), tc.fate, err)
			}
			if tc.fate == "accepted" && job.ID != "job_1" {
				t.Errorf("job %+v", job)
			}
			if tc.fate == "not sent" && (!errors.Is(err, context.Canceled) || outcomeOf(err) != Transient) {
				t.Errorf("%v: want the cause, and transient", err)
			}
		})
	}
}

func TestWriteCancelledBefore(t *testing.T) {
	service := serveRaw(t, false, answers("201 Created", oneJob))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := agentClient(t, service.base).CreateJob(ctx, "prj_a", testPrompt, "")
	if fate(err) != "not sent" || !errors.Is(err, context.Canceled) {
		t.Errorf("%s: %v", fate(err), err)
	}
	if connections, _ := service.seen(); connections != 0 {
		t.Errorf("%d connections", connections)
	}
}

// TestWriteWaitsInTheBudget: a wait in the transport before the connection ends with
// the context, and does not count towards the deadline.
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
		c := agentClient(t, "https://api.example.com", writesVia(budget))
		if _, err := c.CreateJob(t.Context(), "prj_a", "x", ""); err != nil {
			t.Errorf("after a wait of an hour: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.CreateJob(ctx, "prj_a", "x", "")
		if fate(err) != "not sent" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", fate(err), err)
		}
	})
}

// TestWriteDeadline: once connected, a write ends at its deadline or stopGrace after its caller
// stopped, at the earlier of the two. It is then in doubt, and its error says why.
func TestWriteDeadline(t *testing.T) {
	const late, stopped = "no whole answer within ", "docgauge was stopped and had no whole answer 25s later"
	asks := func(r *http.Request) (*http.Response, error) {
		httptrace.ContextClientTrace(r.Context()).GetConn("")
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	for _, tc := range []struct {
		transport              tripper
		timeout, stopped, want time.Duration
		fate, says             string
	}{
		{hang, 40 * time.Second, 0, 40 * time.Second, inDoubt, late + "40s (DOCGAUGE_TIMEOUT)"},
		{hang, 40 * time.Second, time.Second, 26 * time.Second, inDoubt, stopped},
		{hang, 10 * time.Minute, time.Minute, 85 * time.Second, inDoubt, stopped},
		{hang, 20 * time.Second, time.Second, 20 * time.Second, inDoubt, late + "20s (DOCGAUGE_TIMEOUT)"},
		{asks, 0, 0, defaultTimeout, "not sent", late},
	} {
		for _, id := range []string{"", "job_1"} {
			inBubble(t, func(t *testing.T) {
				c := agentClient(t, "https://api.example.com", writesVia(tc.transport),
					func(cfg *ClientOptions) { cfg.Timeout = tc.timeout })
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.stopped > 0 {
					time.AfterFunc(tc.stopped, cancel)
				}
				start := time.Now()
				write := c.CreateJob
				if id != "" {
					write = func(ctx context.Context, project, prompt, _ string) (Job, error) {
						return c.SendMessage(ctx, project, id, prompt)
					}
				}
				_, err := write(ctx, "prj_a", "x", "")
				took := time.Since(start)
				if fate(err) != tc.fate || took != tc.want || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%q, %+v: %s after %v: %v", id, tc, fate(err), took, err)
				}
			})
		}
	}
}

// TestWriteGivenUpThenConnected: net/http can hand over a connection after the attempt was given up,
// and then writes to it.
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
		c := agentClient(t, service.base, func(cfg *ClientOptions) {
			cfg.Timeout = time.Millisecond
			cfg.WriteTransport = func(string) http.RoundTripper { return late }
		})
		_, err := c.CreateJob(ctx, "prj_a", testPrompt, "")
		cancel()
		connections, requests := service.seen()
		if fate(err) != "not sent" || connections != 1 || len(requests) != 0 {
			t.Errorf("%s: %s with %d connections and %d requests: %v", name, fate(err), connections, len(requests), err)
		}
	}
}

// TestWriteCancelIsNeverInDoubt lets the cancellation race with the connection: the client's report agrees with what
// the service saw.
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
		c := agentClient(t, service.base, writesVia(transport))
		_, err := c.CreateJob(ctx, "prj_a", testPrompt, "")
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

// TestWriteIsNotReplayed: net/http could send a write again on a connection that dies under it; here it
// never does.
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
			c := agentClient(t, s.base, writesVia(tc.transport))
			_, first := c.CreateJob(t.Context(), "prj_a", "one", "")
			_, second := c.CreateJob(t.Context(), "prj_a", "two", "")
			tc.transport.CloseIdleConnections()
			connections, requests := s.seen()
			if first != nil || fate(second) != tc.second || len(requests) != 2 || connections != tc.connections {
				t.Errorf("%v, then %s (%v), with %d connections and %d requests",
					first, fate(second), second, connections, len(requests))
			}
			for _, r := range requests {
				if r.header.Get("Idempotency-Key") != "" {
					t.Error("an Idempotency-Key was sent")
				}
			}
		})
	}
}
