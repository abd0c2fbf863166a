package parquet

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

const html = "<!DOCTYPE html>\n<html><body><h1>Welcome</h1><br></body></html>"

// TestBucketMessages has each operation fail in each way: the message is one
// sentence that says where, what and what to do, and comes in time.
func TestBucketMessages(t *testing.T) {
	for name, tc := range map[string]struct {
		meddle meddler
		want   string
	}{
		"403":              {says(403, "AccessDenied", "Access Denied"), "s3:PutObject"},
		"403 of a proxy":   {page(403, "text/html", html), "s3:PutObject"},
		"403, no body":     {page(403, "", ""), "s3:PutObject"},
		"no bucket":        {says(404, "NoSuchBucket", "The specified bucket does not exist"), "create it"},
		"access key":       {says(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."), "AWS_ACCESS_KEY_ID"},
		"secret key":       {says(403, "SignatureDoesNotMatch", "The request signature we calculated does not match."), "AWS_SECRET_ACCESS_KEY"},
		"expired token":    {says(400, "ExpiredToken", "The provided token has expired."), "renew the credentials"},
		"clock":            {says(403, "RequestTimeTooSkewed", "The difference between the request time and the server's time is too large."), "clock"},
		"region":           {says(400, "AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong; expecting 'eu-west-1'"), "?region="},
		"redirect 301":     {says(301, "PermanentRedirect", "use eu-west-1"), "?region="},
		"redirect, silent": {page(302, "text/html", ""), "?region="},
		"slow down":        {says(503, "SlowDown", "Please reduce your request rate."), "slow down at every retry"},
		"500":              {says(500, "InternalError", "We encountered an internal error."), "failed at every retry"},
		"502 of a proxy":   {page(502, "text/html", html), "failed at every retry"},
		"503, no body":     {page(503, "", ""), "slow down at every retry"},
		"quota":            {says(403, "QuotaExceeded", "Quota"), "raise its quota"},
		"unknown":          {says(418, "Teapot", "short\nand stout "+strings.Repeat("x", 5000)), "Teapot: short and stout"},
		"401":              {page(401, "text/plain", "who"), "s3:PutObject"},
		"404 of a proxy":   {page(404, "text/html", html), "not an S3 server"},
		"HTML":             {page(200, "text/html", html), "not an S3 server"},
		"XHTML":            {page(200, "text/html", "<html><body>Welcome</body></html>"), "not an S3 server"},
		"nothing":          {page(200, "", ""), "not an S3 server"},
		"reset":            {resetBefore, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, p := behindProxy(t)
			p.set(tc.meddle)
			failsAll(t, s, tc.want)
		})
	}
}

// failsAll expects an error with want of everything a sink does.
func failsAll(t *testing.T, s *Sink, want string) {
	t.Helper()
	calls := map[string]func() error{
		"Replace": func() error { return s.Replace(t.Context(), seal(t, 1, 3)) },
		"Check":   func() error { return s.Check(t.Context()) },
		"Revisions": func() error {
			var errs []error
			for _, err := range s.Revisions(t.Context()) {
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	for call, f := range calls {
		begin := time.Now()
		err := f()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), s.Location()) {
			t.Errorf("%s = %v\nwant one with %q and %q", call, err, want, s.Location())
			continue
		}
		if took := time.Since(begin); took > atOnce {
			t.Errorf("%s took %s", call, took)
		}
		t.Logf("%s: %v", call, err)
		clean(t, err.Error())
	}
}

// TestNoCredentials finds none in time, also where the metadata service of a
// cloud does not answer.
func TestNoCredentials(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	refusing := newProxy(t)
	refusing.set(page(403, "text/plain", "no"))
	for name, tc := range map[string]struct{ disabled, endpoint string }{
		"no metadata service": {"true", ""}, "a silent one": {"false", "http://" + silent.Addr().String()}, "one that refuses": {"false", refusing.URL},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, p := behindProxy(t)
			s.tree.(*bucket).limits.credentials = time.Second
			for _, variable := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
				t.Setenv(variable, "")
			}
			t.Setenv("AWS_EC2_METADATA_DISABLED", tc.disabled)
			t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", tc.endpoint)
			failsAll(t, s, "no credentials were found: set AWS_ACCESS_KEY_ID")
			if requests, _ := p.seen(); len(requests) > 0 {
				t.Errorf("the server was asked: %q", requests)
			}
		})
	}
}

// TestCredentialsRefused asks the real server with wrong ones.
func TestCredentialsRefused(t *testing.T) {
	for variable, want := range map[string]string{
		"AWS_ACCESS_KEY_ID": "the access key is not known", "AWS_SECRET_ACCESS_KEY": "the secret key is wrong",
	} {
		s, _ := newBucketSink(t, "")
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "wrong")
			failsAll(t, s, want)
		})
	}
	t.Run("profile", func(t *testing.T) {
		s, _ := newBucketSink(t, "")
		t.Setenv("AWS_PROFILE", "nobody")
		failsAll(t, s, "nobody")
	})
}

func TestBucketMissing(t *testing.T) {
	server := s3server(t)
	failsAll(t, impatient(newSink(t, "s3://no-such-bucket/x?endpoint="+server.Endpoint)), "create it")
}

func TestRegionMissing(t *testing.T) {
	s3server(t)
	for _, variable := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		t.Setenv(variable, "")
	}
	failsAll(t, impatient(newSink(t, "s3://bucket/x")), "?region=")
}

func TestServerAway(t *testing.T) {
	s3server(t)
	knowNoHost(t)
	for name, endpoint := range map[string]string{"down": "http://127.0.0.1:1", "unknown": "http://no-such-host.invalid"} {
		t.Run(name, func(t *testing.T) {
			failsAll(t, impatient(newSink(t, "s3://bucket/x?endpoint="+endpoint)), "cannot be reached")
		})
	}
}

// knowNoHost lets every name be unknown at once, whatever name servers this
// machine has, or lacks.
func knowNoHost(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		query := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(query)
			if err != nil {
				return
			}
			query[2], query[3] = query[2]|0x80, 0x83 // an answer: there is no such name
			_, _ = server.WriteTo(query[:n], from)
		}
	}()
	former := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = former })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

func TestServerSlow(t *testing.T) {
	for name, hasten := range map[string]func(*limits){
		"no answer to any try":  func(p *limits) { p.answer = 20 * time.Millisecond },
		"no answer to the call": func(p *limits) { p.transfer, p.call = 100*time.Millisecond, 100*time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			s, _, p := behindProxy(t)
			hasten(&s.tree.(*bucket).limits)
			p.set(stall)
			failsAll(t, s, "takes too long")
		})
	}
}

// TestRedirectsAreNotFollowed would send the signature to another host.
func TestRedirectsAreNotFollowed(t *testing.T) {
	other := newProxy(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		s, _, p := behindProxy(t)
		p.set(func(_ *proxy, w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, other.URL+r.URL.Path, status)
			return true
		})
		failsAll(t, s, "?region=")
	}
	if requests, _ := other.seen(); len(requests) > 0 {
		t.Errorf("the other host was asked: %q", requests)
	}
}

// TestErrorsKeepTheirCause stops in each step and asks for the cause.
func TestErrorsKeepTheirCause(t *testing.T) {
	for _, request := range []string{"PUT /visitors/", "PUT /totals/", "GET /visitors/", "GET "} {
		method, in, _ := strings.Cut(request, " ")
		s, direct, p := behindProxy(t)
		former, next := seal(t, 1, 50), seal(t, 2, 80)
		replace(t, direct, former)
		ctx, cancel := context.WithCancel(t.Context())
		p.set(when(method, in, -1, func(p *proxy, w http.ResponseWriter, r *http.Request) bool {
			cancel()
			return stall(p, w, r)
		}))
		begin := time.Now()
		var err error
		if method == "PUT" {
			err = s.Replace(ctx, next)
		} else {
			for _, err = range s.Revisions(ctx) {
			}
		}
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "context canceled") || time.Since(begin) > atOnce {
			t.Errorf("%s = %v after %s", request, err, time.Since(begin))
		}
		whole(t, direct, revOf(former), revOf(next))
		agreed(t, direct, revOf(former), revOf(next))
	}
}

// TestReadOnlyCredentials may list and read, but not write.
func TestReadOnlyCredentials(t *testing.T) {
	s, direct, p := behindProxy(t)
	w := seal(t, 1, 3)
	replace(t, direct, w)
	p.set(when("PUT", "", -1, says(403, "AccessDenied", "Access Denied")))
	for call, err := range map[string]error{"Check": s.Check(t.Context()), "Replace": s.Replace(t.Context(), seal(t, 2, 3))} {
		if err == nil || !strings.Contains(err.Error(), "s3:PutObject") {
			t.Errorf("%s = %v", call, err)
		}
	}
	agreed(t, s, revOf(w))
}

// TestCheckBucket proves each right that is needed, and leaves nothing.
func TestCheckBucket(t *testing.T) {
	for _, method := range []string{"PUT", "GET", "DELETE"} {
		s, _, p := behindProxy(t)
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		whole(t, s)
		p.set(when(method, "/"+stagingName+"/", -1, says(403, "AccessDenied", "Access Denied")))
		if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "s3:"+map[string]string{"PUT": "Put", "GET": "Get", "DELETE": "Delete"}[method]) {
			t.Errorf("Check without %s = %v", method, err)
		}
	}
	s, direct, p := behindProxy(t)
	p.set(when("GET", "", 1, says(403, "AccessDenied", "Access Denied")))
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "s3:ListBucket") {
		t.Errorf("Check without the right to list = %v", err)
	}
	n := 0
	if err := direct.tree.list(t.Context(), "", func(string) { n++ }); err != nil || n > 0 {
		t.Errorf("Check leaves %d objects, %v", n, err)
	}
}

// TestStagingIsPrivate looks at the local directory, before and after Close.
func TestStagingIsPrivate(t *testing.T) {
	s, _ := newBucketSink(t, "")
	replace(t, s, seal(t, 1, 3))
	b := s.tree.(*bucket)
	temp := b.temp.Path
	if info, err := os.Stat(temp); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v, %v", temp, info, err)
	}
	if err := os.RemoveAll(temp); err != nil {
		t.Fatal(err)
	}
	replace(t, s, seal(t, 2, 3))
	temp = b.temp.Path
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(temp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there after Close: %v", temp, err)
	}
	replace(t, s, seal(t, 3, 3))
}
