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

// quoting is an error body that quotes the whole request.
const quoting = `{"error":"refused ` + testWriteKey + ` and ` + testKey + `: ` + testPrompt + `"}`

const doubt = "the service may have accepted it"

var writeRows = map[string]writeRow{
	"closed before reading":      {true, func(net.Conn) {}, "in doubt", 0, 0, []string{doubt}},
	"reset before reading":       {true, func(c net.Conn) { c.Read(make([]byte, 1)); reset(c) }, "in doubt", 0, 0, []string{doubt}},
	"closed after reading":       {false, func(net.Conn) {}, "in doubt", 0, 0, []string{doubt, "EOF"}},
	"reset after reading":        {false, reset, "in doubt", 0, 0, []string{doubt}},
	"stalls":                     {false, stalls, "in doubt", 0, 0, []string{doubt, "no whole answer within"}},
	"stalls before reading":      {true, stalls, "in doubt", 0, 0, []string{doubt, "no whole answer within"}},
	"stalls in the header":       {false, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 201 Cr"); stalls(c) }, "in doubt", 0, 0, []string{"no whole answer within"}},
	"stalls in the body":         {false, func(c net.Conn) { answers("201 Created\r\nContent-Length: 999", oneJob)(c); stalls(c) }, "in doubt", 201, 0, []string{"no whole answer within"}},
	"cut in the status line":     {false, replies("HTTP/1.1 20"), "in doubt", 0, 0, []string{doubt}},
	"cut in the header":          {false, replies("HTTP/1.1 201 Created\nContent-Ty"), "in doubt", 0, 0, []string{doubt}},
	"not HTTP":                   {false, replies("SSH-2.0-OpenSSH\n"), "in doubt", 0, 0, []string{doubt}},
	"cut in the body":            {false, answers("201 Created\r\nContent-Length: 999", oneJob[:40]), "in doubt", 201, 0, []string{doubt, "cut off"}},
	"cut in a chunk":             {false, replies("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n20\n{"), "in doubt", 200, 0, []string{doubt, "cut off"}},
	"100, closed":                {false, replies("HTTP/1.1 100 Continue\n\n"), "in doubt", 0, 0, []string{doubt}},
	"103, closed":                {false, replies("HTTP/1.1 103 Early Hints\nLink: </x>\n\n"), "in doubt", 0, 0, []string{doubt}},
	"101":                        {false, replies("HTTP/1.1 101 Switching Protocols\nConnection: Upgrade\nUpgrade: x\n\n"), "in doubt", 101, 0, []string{doubt}},
	"102, then a job":            {false, replies("HTTP/1.1 102 Processing\n\nHTTP/1.1 201 Created\n\n" + oneJob), "accepted", 0, 0, nil},
	"200 with a job":             {false, answers("200 OK", oneJob), "accepted", 0, 0, nil},
	"201 with a job":             {false, answers("201 Created", oneJob), "accepted", 0, 0, nil},
	"202 with a job":             {false, answers("202 Accepted", oneJob), "accepted", 0, 0, nil},
	"206 with a job":             {false, answers("206 Partial Content", oneJob), "accepted", 0, 0, nil},
	"200 with garbage":           {false, answers("200 OK", "\x00\xff{{"), "in doubt", 200, 0, []string{doubt, "specification"}},
	"200 with HTML":              {false, answers("200 OK", "<html>"), "in doubt", 200, 0, []string{doubt, "an HTML page"}},
	"200, empty":                 {false, answers("200 OK", ""), "in doubt", 200, 0, []string{doubt, "cut off"}},
	"200, not a job":             {false, answers("200 OK", `["job_1"]`), "in doubt", 200, 0, []string{doubt, "want an object"}},
	"200 without id":             {false, answers("200 OK", `{"status":"active"}`), "in doubt", 200, 0, []string{doubt, "no usable id", `the service says: {"status":"active"}`}},
	"201 with an id of a number": {false, answers("201 Created", `{"id":1}`), "in doubt", 201, 0, []string{"no usable id"}},
	"201, cut JSON":              {false, answers("201 Created", oneJob[:40]), "in doubt", 201, 0, []string{"cut off"}},
	"201, too large":             {false, answers("201 Created", oneJob+strings.Repeat(" ", maxBody)), "in doubt", 201, 0, []string{"over 16 MiB"}},
	"204":                        {false, replies("HTTP/1.1 204 No Content\n\n"), "in doubt", 204, 0, []string{doubt}},
	"301":                        {false, answers("301 Moved\r\nLocation: /elsewhere", ""), "in doubt", 301, 0, []string{"redirect not followed: check DOCGAUGE_BASE_URL"}},
	"307":                        {false, answers("307 Temporary Redirect\r\nLocation: /elsewhere", oneJob), "in doubt", 307, 0, []string{"redirect not followed"}},
	"400":                        {false, answers("400 Bad Request", quoting), "not accepted", 400, 0, []string{"the service says: refused [redacted] and [redacted]: [prompt]"}},
	"401":                        {false, answers("401 Unauthorized", quoting), "not accepted", 401, 0, []string{"DOCGAUGE_WRITE_API_KEY was refused", "expired"}},
	"403":                        {false, answers("403 Forbidden", ""), "not accepted", 403, 0, []string{"DOCGAUGE_WRITE_API_KEY was refused", "scope", "IP allow-list"}},
	"404":                        {false, answers("404 Not Found", `{"error":"none"}`), "not accepted", 404, 0, []string{"DOCGAUGE_BASE_URL", "the service says: none"}},
	"408":                        {false, answers("408 Request Timeout", ""), "in doubt", 408, 0, []string{doubt}},
	"409":                        {false, answers("409 Conflict", `{"error":"archived"}`), "not accepted", 409, 0, []string{"the service says: archived"}},
	"413":                        {false, answers("413 Content Too Large", ""), "not accepted", 413, 0, nil},
	"425":                        {false, answers("425 Too Early", ""), "not accepted for a time", 425, 0, nil},
	"429":                        {false, answers("429 Too Many Requests", quoting), "not accepted for a time", 429, 0, []string{"request limit"}},
	"429 with Retry-After":       {false, answers("429 Too Many Requests\r\nRetry-After: 40", ""), "not accepted for a time", 429, 40 * time.Second, []string{"request limit"}},
	"429, cut":                   {false, answers("429 Too Many Requests\r\nContent-Length: 99", "{"), "not accepted for a time", 429, 0, nil},
	"500":                        {false, answers("500 Internal Server Error", quoting), "in doubt", 500, 0, []string{doubt, "refused [redacted]"}},
	"502 after reading":          {false, answers("502 Bad Gateway", "<html>"), "in doubt", 502, 0, []string{doubt, "an HTML page"}},
	"503 with Retry-After":       {false, answers("503 Service Unavailable\r\nRetry-After: 5", ""), "in doubt", 503, 5 * time.Second, []string{doubt}},
	"999":                        {false, answers("999 Whatever", oneJob), "in doubt", 999, 0, []string{doubt}},
}

// TestWriteRows ends both writes in every way, and checks what the caller learns
// and what was on the wire.
func TestWriteRows(t *testing.T) {
	for name, row := range writeRows {
		for op, do := range map[string]func(context.Context, *Client) (Job, error){
			"create": func(ctx context.Context, c *Client) (Job, error) { return c.CreateJob(ctx, "prj_a", testPrompt) },
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
					service := servePipes(inOrder(row.early, row.handle))
					check(t, service, agentClient(t, service.base, func(cfg *ClientOptions) {
						transport := NewWriteTransport(cfg.WriteTimeout)
						transport.DialContext = service.dial
						cfg.WriteTransport = func(string) http.RoundTripper { return transport }
					}))
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
	for _, says := range row.says {
		if !strings.Contains(e.Message, says) {
			t.Errorf("%q does not say %q", e.Message, says)
		}
	}
	checkNoSecret(t, printed(err))
}

// TestWriteRowsCoverTheTable: each rule of classification is reached over a socket.
func TestWriteRowsCoverTheTable(t *testing.T) {
	covered := map[string]bool{
		"no connection": true, "service not reached": true, "certificate not trusted": true, // TestWriteNotSent
	}
	for _, row := range writeRows {
		var err error
		switch {
		case row.fate == "accepted":
			covered["200"], covered["other 2xx"] = true, true
			continue
		case row.status == 0:
			err = io.EOF
		case 200 <= row.status && row.status <= 299:
			err = errCut
			if strings.Contains(strings.Join(row.says, " "), "specification") {
				err = errShape
			}
		}
		covered[match(row.status, err).name] = true
	}
	for _, row := range rules {
		if !covered[row.name] {
			t.Errorf("no write over a socket ends in %q", row.name)
		}
	}
}

// TestWriteNotSent: writes that end before they have a connection.
func TestWriteNotSent(t *testing.T) {
	hangsUp := serveRaw(t, true, func(net.Conn) {})
	plain := serveRaw(t, true, replies("HTTP/1.1 400 Bad Request\n\n"))
	var handled atomic.Int32
	untrusted := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled.Add(1) }))
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
			_, err := agentClient(t, tc.base).CreateJob(t.Context(), "prj_a", testPrompt)
			if fate(err) != "not sent" || outcomeOf(err) != tc.outcome || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s, %v: %v; want not sent, %v, %q", fate(err), outcomeOf(err), err, tc.outcome, tc.says)
			}
			checkNoSecret(t, printed(err))
		})
	}
	if handled.Load() != 0 {
		t.Error("a request went to the untrusted server")
	}
	for name, dial := range map[string]error{"no such host": &net.DNSError{Err: "no such host", Name: "nx.invalid", IsNotFound: true}, "dial time-out": context.DeadlineExceeded} {
		c := agentClient(t, "https://api.example.com", func(cfg *ClientOptions) {
			transport := NewWriteTransport(time.Minute)
			transport.Proxy = nil
			transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, dial }
			cfg.WriteTransport = func(string) http.RoundTripper { return transport }
		})
		_, err := c.CreateJob(t.Context(), "prj_a", testPrompt)
		if fate(err) != "not sent" || outcomeOf(err) != Transient {
			t.Errorf("%s: %s: %v", name, fate(err), err)
		}
		if says := "nx.invalid: no such host: is DOCGAUGE_BASE_URL right?"; strings.Contains(err.Error(), says) != (name == "no such host") {
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
	for name, tc := range map[string]struct {
		do      func(*Client) (Job, error)
		change  func(*ClientOptions)
		outcome Outcome
		says    string
	}{
		"no project": {func(c *Client) (Job, error) { return c.CreateJob(t.Context(), "..", testPrompt) }, nil, Permanent, "no project id"},
		"no prompt":  {func(c *Client) (Job, error) { return c.CreateJob(t.Context(), "p", " \n") }, nil, Permanent, "prompt is empty"},
		"not UTF-8":  {func(c *Client) (Job, error) { return c.CreateJob(t.Context(), "p", testPrompt+"\xff") }, nil, Permanent, "not UTF-8"},
		"no id":      {func(c *Client) (Job, error) { return c.SendMessage(t.Context(), "p", "", testPrompt) }, nil, Permanent, "no job id"},
		"parent":     {func(c *Client) (Job, error) { return c.SendMessage(t.Context(), "p", "..", testPrompt) }, nil, Permanent, "no job id"},
		"control":    {func(c *Client) (Job, error) { return c.SendMessage(t.Context(), "p", "a\nb", testPrompt) }, nil, Permanent, "no job id"},
		"read":       {func(c *Client) (Job, error) { return c.Job(t.Context(), "p", strings.Repeat("i", maxID+1)) }, nil, Permanent, "no job id"},
		"budget":     {func(c *Client) (Job, error) { return c.CreateJob(t.Context(), "p", testPrompt) }, refusing, Transient, "budget used up"},
		"transport":  {func(c *Client) (Job, error) { return c.CreateJob(t.Context(), "p", testPrompt) }, missing, Permanent, "no transport"},
		"bad key": {func(c *Client) (Job, error) {
			c.write.get = StaticKey("hunter22")
			return c.CreateJob(t.Context(), "p", testPrompt)
		}, nil, Permanent, "DOCGAUGE_WRITE_API_KEY: want"},
	} {
		if tc.change == nil {
			tc.change = func(*ClientOptions) {}
		}
		_, err := tc.do(agentClient(t, service.base, tc.change))
		if fate(err) != "not sent" || outcomeOf(err) != tc.outcome || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "hunter22") {
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
	transport.TLSClientConfig = &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	c := agentClient(t, server.URL, writesVia(transport))
	if _, err := c.CreateJob(t.Context(), "prj_a", testPrompt); err != nil || len(protocols) != 1 || protocols[0] != "HTTP/1.1" {
		t.Errorf("%v, spoken: %v", err, protocols)
	}
}

// TestWriteCancelled cancels a write at each of its stages. Before it has a
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
			c := agentClient(t, service.base, writesVia(tripper(func(r *http.Request) (*http.Response, error) {
				sending = r.Context()
				return bottom.RoundTrip(r)
			})))
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
	if _, err := agentClient(t, service.base).CreateJob(ctx, "prj_a", testPrompt); fate(err) != "not sent" || !errors.Is(err, context.Canceled) {
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

// TestWriteDeadline: once connected, only the write's own deadline ends it, or StopGrace
// after its caller stopped, whichever comes first. It is in doubt then, and says why.
func TestWriteDeadline(t *testing.T) {
	for _, tc := range []struct {
		timeout, stopped, want time.Duration
		why                    string
	}{
		{40 * time.Second, 0, 40 * time.Second, "no whole answer within 40s (DOCGAUGE_TIMEOUT)"},
		{40 * time.Second, time.Second, 26 * time.Second, "docgauge was stopped and had no whole answer 25s later"},
		{10 * time.Minute, time.Minute, 85 * time.Second, "docgauge was stopped and had no whole answer 25s later"},
		{20 * time.Second, time.Second, 20 * time.Second, "no whole answer within 20s (DOCGAUGE_TIMEOUT)"},
	} {
		calls := map[string]func(context.Context, *Client) error{
			"create": func(ctx context.Context, c *Client) error { _, err := c.CreateJob(ctx, "prj_a", "x"); return err },
			"follow-up": func(ctx context.Context, c *Client) error {
				_, err := c.SendMessage(ctx, "prj_a", "job_1", "x")
				return err
			},
		}
		for name, call := range calls {
			inBubble(t, func(t *testing.T) {
				c := agentClient(t, "https://api.example.com", func(cfg *ClientOptions) {
					cfg.WriteTimeout = tc.timeout
					cfg.WriteTransport = func(string) http.RoundTripper { return tripper(hang) }
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.stopped > 0 {
					time.AfterFunc(tc.stopped, cancel)
				}
				start := time.Now()
				err := call(ctx, c)
				if took := time.Since(start); fate(err) != "in doubt" || took != tc.want || !strings.Contains(err.Error(), tc.why) {
					t.Errorf("%s, timeout %v, stopped after %v: %s after %v: %v", name, tc.timeout, tc.stopped, fate(err), took, err)
				}
			})
		}
	}
	inBubble(t, func(t *testing.T) {
		c := agentClient(t, "https://api.example.com", writesVia(tripper(func(r *http.Request) (*http.Response, error) {
			httptrace.ContextClientTrace(r.Context()).GetConn("")
			<-r.Context().Done()
			return nil, r.Context().Err()
		})))
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
		c := agentClient(t, service.base, func(cfg *ClientOptions) {
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
		c := agentClient(t, service.base, writesVia(transport))
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
// write: with an Idempotency-Key it sends the write again, here it never does.
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
			c := agentClient(t, s.base, writesVia(tc.transport))
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

// TestWriteIsSentOnce: no answer makes the client send a write again, whatever a
// read would do.
func TestWriteIsSentOnce(t *testing.T) {
	for _, answer := range tell(status(500, ""), status(503, "", "Retry-After", "1"), status(408, ""), status(425, ""), status(429, ""), status(200, ""), breaks(io.EOF), breaks(errors.New("refused"))) {
		inBubble(t, func(t *testing.T) {
			s := &scripted{answers: tell(answer, status(201, oneJob))}
			c := agentClient(t, "https://api.example.com", writesVia(s))
			start := time.Now()
			if _, err := c.CreateJob(t.Context(), "prj_a", "x"); err == nil || len(s.at) != 1 || time.Since(start) != 0 {
				t.Errorf("%v after %d attempts and %v", err, len(s.at), time.Since(start))
			}
		})
	}
}
