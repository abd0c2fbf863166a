package docsapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestClassify(t *testing.T) {
	untrusted := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	certificate := fmt.Errorf("%w: %w", ErrNotSent, untrusted)
	refusedConn := fmt.Errorf("%w: %w", ErrNotSent, errors.New("connection refused"))
	unknownHost := fmt.Errorf("%w: %w", ErrNotSent, &net.DNSError{Err: "no such host", Name: "nx.invalid"})
	cut := fmt.Errorf("%w: %w", errCut, io.ErrUnexpectedEOF)
	tested := map[string]bool{}
	for _, tc := range []struct {
		rule        string
		statuses    []int
		err         error
		read, write Outcome
	}{
		{"certificate not trusted", []int{0}, certificate, Permanent, Permanent},
		{"no connection", []int{0}, refusedConn, Transient, Transient},
		{"service not reached", []int{0}, unknownHost, Transient, Transient},
		{"no answer", []int{0}, io.EOF, Transient, InDoubt},
		{"200, body not as specified", []int{200}, errShape, Permanent, InDoubt},
		{"200, body cut", []int{200}, cut, Transient, InDoubt},
		{"200", []int{200}, nil, succeeded, succeeded},
		{"other 2xx", []int{201, 204, 206}, nil, Permanent, succeeded},
		{"other 2xx, no usable body", []int{201, 202}, errShape, Permanent, InDoubt},
		{"other 2xx, no usable body", []int{201, 202}, cut, Permanent, InDoubt},
		{"3xx", []int{301, 307}, nil, Permanent, InDoubt},
		{"401", []int{401}, nil, Permanent, Permanent},
		{"403", []int{403}, nil, Permanent, Permanent},
		{"404", []int{404}, nil, Permanent, Permanent},
		{"408", []int{408}, nil, Transient, InDoubt},
		{"425", []int{425}, nil, Transient, Transient},
		{"429", []int{429}, nil, Transient, Transient},
		{"429", []int{429}, cut, Transient, Transient},
		{"other 4xx", []int{400, 405, 422, 499}, nil, Permanent, Permanent},
		{"other 4xx", []int{405}, cut, Permanent, Permanent},
		{"501", []int{501}, nil, Permanent, InDoubt},
		{"5xx", []int{500, 503}, nil, Transient, InDoubt},
		{"5xx", []int{503}, cut, Transient, InDoubt},
		{"no HTTP status", []int{999, 100}, nil, Permanent, InDoubt},
	} {
		tested[tc.rule] = true
		for _, status := range tc.statuses {
			if got := match(status, tc.err).name; got != tc.rule {
				t.Errorf("%d, %v: rule %q, want %q", status, tc.err, got, tc.rule)
			}
			for method, want := range map[string]Outcome{http.MethodGet: tc.read, http.MethodPost: tc.write} {
				if got, after := classify(method, status, nil, tc.err); got != want || after != 0 {
					t.Errorf("%s: %d, %v: %v after %v, want %v", method, status, tc.err, got, after, want)
				}
			}
		}
	}
	// Retry-After counts from status 400 on.
	for status, want := range map[int]time.Duration{399: 0, 400: 7 * time.Second, 503: 7 * time.Second} {
		if _, after := classify(http.MethodGet, status, http.Header{"Retry-After": {"7"}}, nil); after != want {
			t.Errorf("%d: after %v, want %v", status, after, want)
		}
	}
	for _, row := range rules {
		if !tested[row.name] {
			t.Errorf("no test of row %q", row.name)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(17*time.Minute + 3*time.Second)
		at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
		for _, tc := range []struct {
			value, date string
			want        time.Duration
		}{
			{"", "", 0},
			{"120", "", 2 * time.Minute},
			{"0", "", 0},
			{"-5", "", 0},
			{"soon", "", 0},
			{"1.5", "", 0},
			{"86401", "", 24 * time.Hour},
			{"99999999999999999999999", "", 24 * time.Hour},
			{at(90 * time.Second), "", 90 * time.Second},
			{at(-time.Hour), "", 0},
			{at(1000 * time.Hour), "", 24 * time.Hour},
			{at(time.Hour + time.Minute), at(time.Hour), time.Minute},
			{at(time.Hour), "yesterday", time.Hour},
		} {
			header := http.Header{"Retry-After": {tc.value}, "Date": {tc.date}}
			if _, got := classify(http.MethodGet, 429, header, nil); got != tc.want {
				t.Errorf("Retry-After %q at %q: %v, want %v", tc.value, tc.date, got, tc.want)
			}
		}
	})
	if _, got := classify(http.MethodGet, 302, http.Header{"Retry-After": {"5"}}, nil); got != 0 {
		t.Errorf("Retry-After of a redirect: %v, want none", got)
	}
}

func TestStatuses(t *testing.T) {
	html := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	after := func(seconds string) http.Header { return http.Header{"Retry-After": {seconds}} }
	for name, tc := range map[string]struct {
		status  int
		header  http.Header
		body    string
		outcome Outcome
		after   time.Duration
		says    []string
	}{
		"expired key": {401, nil, `{"error":"key expired"}`, Permanent, 0, []string{"HTTP 401 Unauthorized",
			"DOCGAUGE_API_KEY", "expired", "scope", "IP allow-list", "the service says: key expired"}},
		"scope":    {403, nil, ``, Permanent, 0, []string{"HTTP 403 Forbidden", "DOCGAUGE_API_KEY"}},
		"redirect": {302, http.Header{"Location": {"/x"}}, ``, Permanent, 0, []string{"check DOCGAUGE_BASE_URL"}},
		"bad request": {400, nil, `{"error":{"x":1},"message":"bad\n\u001b[31m date"}`, Permanent, 0,
			[]string{"the service says: bad [31m date"}},
		"not found": {404, nil, "\n<html>Not here</html>", Permanent, 0,
			[]string{"DOCGAUGE_PROJECTS", "the service says: an HTML page"}},
		"plain text":   {405, nil, "  no  such\tmethod ", Permanent, 0, []string{"the service says: no such method"}},
		"throttled":    {429, after("40"), `{"error":"slow"}`, Transient, 40 * time.Second, []string{"request limit"}},
		"server error": {503, after("7"), `{"error":"down"}`, Transient, 7 * time.Second, []string{"HTTP 503", "down"}},
		"long error":   {500, nil, strings.Repeat("é", maxErrorBody), Transient, 0, []string{"éé…"}},
		"no content":   {204, nil, ``, Permanent, 0, []string{"HTTP 204"}},
		"created":      {201, nil, onePage, Permanent, 0, []string{"HTTP 201"}},
		"HTML":         {200, html, `<html>`, Permanent, 0, []string{"specification", "content type text/html"}},
		"empty body":   {200, nil, ``, Transient, 0, []string{"cut off"}},
		"cut JSON":     {200, nil, onePage[:60], Transient, 0, []string{"cut off"}},
		"wrong shape":  {200, nil, `{"visitors":[]}`, Permanent, 0, []string{"missing: totals, hasMore"}},
		"too large":    {200, nil, strings.Repeat(" ", maxBody+1), Permanent, 0, []string{"over 16 MiB"}},
		"largest":      {200, nil, onePage + strings.Repeat(" ", maxBody-len(onePage)), succeeded, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				for k, v := range tc.header {
					w.Header()[k] = v
				}
				w.WriteHeader(tc.status)
				io.WriteString(w, tc.body)
			})
			e := c.once(t.Context())
			if requests.Load() != 1 {
				t.Errorf("%d requests", requests.Load())
			}
			if e == nil {
				if tc.outcome != succeeded {
					t.Error("no error")
				}
				return
			}
			if e.Outcome != tc.outcome || e.Status != tc.status || e.RetryAfter != tc.after {
				t.Errorf("%v after %v; want %v after %v", e, e.RetryAfter, tc.outcome, tc.after)
			}
			place := []string{"visitors at offset 0: ", "GET http://127.0.0.1:", "/base/v1/analytics/prj_a/visitors)"}
			for _, says := range append(place, tc.says...) {
				if !strings.Contains(e.Error(), says) {
					t.Errorf("%q does not say %q", e.Error(), says)
				}
			}
			if n := len([]rune(e.Message)); n > maxMessage || strings.ContainsAny(e.Error(), "\n\x1b?") {
				t.Errorf("message of %d characters: %q", n, e.Error())
			}
		})
	}
}

// TestIsMalformed: only a page of a successful answer can be malformed.
func TestIsMalformed(t *testing.T) {
	bad := strings.Replace(onePage, `"human":1`, `"human":1.5`, 1)
	for name, tc := range map[string]struct {
		answer reply
		want   bool
	}{
		"bad count":           {status(200, bad), true},
		"too large":           {status(200, strings.Replace(onePage, "/a", strings.Repeat("a", maxBody), 1)), true},
		"too large, not ours": {status(200, strings.Repeat(" ", maxBody+1)), false},
		"a page":              {status(200, onePage), false},
		"of another status":   {status(201, bad), false},
		"refused":             {status(400, bad), false},
	} {
		c, _ := scriptedClient(t, tc.answer)
		_, err := c.Page(t.Context(), query())
		if got := IsMalformed(err); got != tc.want || (err == nil) != (name == "a page") {
			t.Errorf("%s: IsMalformed = %t for %v", name, got, err)
		}
	}
	if _, err := newClient(t, refusing(t), nil).Page(t.Context(), PageQuery{}); IsMalformed(err) {
		t.Error("a wrong call counts as a malformed answer")
	}
}
