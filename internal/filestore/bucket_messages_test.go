package filestore

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

const html = "<!DOCTYPE html>\n<html><body><h1>Welcome</h1><br></body></html>"

// TestBucketMessages has each operation fail in each way: the message is one sentence with the
// place, the cause and the remedy, and comes in time.
func TestBucketMessages(t *testing.T) {
	for name, tc := range map[string]struct {
		meddle engines.Meddler
		want   string
	}{
		"403":            {engines.S3Says(403, "AccessDenied", "Access Denied"), "s3:PutObject"},
		"403 of a proxy": {engines.S3Page(403, "text/html", html), "s3:PutObject"},
		"403, no body":   {engines.S3Page(403, "", ""), "s3:PutObject"},
		"no bucket":      {engines.S3Says(404, "NoSuchBucket", "The specified bucket does not exist"), "create it"},
		"access key": {engines.S3Says(403, "InvalidAccessKeyId",
			"The AWS Access Key Id you provided does not exist in our records."), "AWS_ACCESS_KEY_ID"},
		"secret key": {engines.S3Says(403, "SignatureDoesNotMatch",
			"The request signature we calculated does not match."), "AWS_SECRET_ACCESS_KEY"},
		"expired token": {engines.S3Says(400, "ExpiredToken", "The provided token has expired."),
			"renew the credentials"},
		"clock": {engines.S3Says(403, "RequestTimeTooSkewed",
			"The difference between the request time and the server's time is too large."), "clock"},
		"region": {engines.S3Says(400, "AuthorizationHeaderMalformed",
			"the region 'us-east-1' is wrong; expecting 'eu-west-1'"), "?region="},
		"redirect 301":     {engines.S3Says(301, "PermanentRedirect", "use eu-west-1"), "?region="},
		"redirect, silent": {engines.S3Page(302, "text/html", ""), "?region="},
		"slow down": {engines.S3Says(503, "SlowDown", "Please reduce your request rate."),
			"slow down at every retry"},
		"500": {engines.S3Says(500, "InternalError", "We encountered an internal error."),
			"failed at every retry"},
		"502 of a proxy": {engines.S3Page(502, "text/html", html), "failed at every retry"},
		"503, no body":   {engines.S3Page(503, "", ""), "slow down at every retry"},
		"quota":          {engines.S3Says(403, "QuotaExceeded", "Quota"), "raise its quota"},
		"unknown": {engines.S3Says(400, "Teapot", "short\nand stout "+strings.Repeat("x", 5000)),
			"the server refuses the request (Teapot: short and stout"},
		"401":            {engines.S3Page(401, "text/plain", "who"), "s3:PutObject"},
		"404 of a proxy": {engines.S3Page(404, "text/html", html), "not an S3 server"},
		"HTML":           {engines.S3Page(200, "text/html", html), "not an S3 server"},
		"XHTML":          {engines.S3Page(200, "text/html", "<html><body>Welcome</body></html>"), "not an S3 server"},
		"nothing":        {engines.S3Page(200, "", ""), "not an S3 server"},
		"reset":          {engines.ResetBefore, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, p := behindProxy(t)
			p.Set(tc.meddle)
			failsAll(t, s, tc.want)
		})
	}
}

// failsAll expects an error with want of everything a store does.
func failsAll(t *testing.T, s Store, want string) {
	t.Helper()
	calls := map[string]func() error{
		"Publish": func() error { return publish(t, s, "visitors/x.parquet", "text") },
		"Create":  func() error { return s.Create(t.Context(), "log/0.json", []byte("text")) },
		"Check":   func() error { return s.Check(t.Context()) },
		"List":    func() error { return s.List(t.Context(), "visitors", "", func(string) {}) },
	}
	for call, f := range calls {
		begin := time.Now()
		err := f()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), s.Location()) {
			t.Errorf("%s = %v\nwant one with %q and %q", call, err, want, s.Location())
			continue
		}
		if took := time.Since(begin); took > engines.AtOnce {
			t.Errorf("%s took %s", call, took)
		}
		t.Logf("%s: %v", call, err)
		engines.S3Clean(t, err.Error())
	}
}

// TestNoCredentials finds none in time, also where the metadata service of a
// cloud does not answer.
func TestNoCredentials(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer silent.Close()
	refusing := engines.NewS3Proxy(t)
	refusing.Set(engines.S3Page(403, "text/plain", "no"))
	for name, tc := range map[string]struct{ disabled, endpoint string }{
		"no metadata service": {"true", ""}, "a silent one": {"false", "http://" + silent.Addr().String()},
		"one that refuses": {"false", refusing.URL},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, p := behindProxy(t)
			s.limits.Credentials = time.Second
			for _, variable := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
				t.Setenv(variable, "")
			}
			t.Setenv("AWS_EC2_METADATA_DISABLED", tc.disabled)
			t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", tc.endpoint)
			failsAll(t, s, "no credentials were found: set AWS_ACCESS_KEY_ID")
			if requests, _ := p.Seen(); len(requests) > 0 {
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
		s := newBucket(t, "")
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "wrong")
			failsAll(t, s, want)
		})
	}
	t.Run("profile", func(t *testing.T) {
		s := newBucket(t, "")
		t.Setenv("AWS_PROFILE", "nobody")
		failsAll(t, s, "nobody")
	})
}

func TestBucketMissing(t *testing.T) {
	failsAll(t, open(t, engines.S3URL(t, "no-such-bucket", "")), "create it")
}

func TestRegionMissing(t *testing.T) {
	engines.SharedS3(t)
	for _, variable := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		t.Setenv(variable, "")
	}
	failsAll(t, open(t, "s3://bucket/x"), "?region=")
}

func TestServerAway(t *testing.T) {
	engines.SharedS3(t)
	knowNoHost(t)
	for name, endpoint := range map[string]string{"down": "http://127.0.0.1:1",
		"unknown": "http://no-such-host.invalid"} {
		t.Run(name, func(t *testing.T) {
			failsAll(t, open(t, "s3://bucket/x?endpoint="+endpoint), "cannot be reached")
		})
	}
}

// knowNoHost lets every name be unknown at once, whatever name servers this
// machine has, or lacks.
func knowNoHost(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		query := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(query)
			if err != nil {
				return
			}
			query[2], query[3] = query[2]|0x80, 0x83 // an answer: the name does not exist
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
	for name, hasten := range map[string]func(*Limits){
		"no answer to any try":  func(p *Limits) { p.Answer = 20 * time.Millisecond },
		"no answer to the call": func(p *Limits) { p.Transfer, p.Call = 100*time.Millisecond, 100*time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			s, _, p := behindProxy(t)
			hasten(&s.limits)
			p.Set(engines.Stall)
			failsAll(t, s, "takes too long")
		})
	}
}

// TestRedirectsAreNotFollowed would send the signature to another host.
func TestRedirectsAreNotFollowed(t *testing.T) {
	other := engines.NewS3Proxy(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		s, _, p := behindProxy(t)
		p.Set(func(_ *engines.S3Proxy, w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, other.URL+r.URL.Path, status)
			return true
		})
		failsAll(t, s, "?region=")
	}
	if requests, _ := other.Seen(); len(requests) > 0 {
		t.Errorf("the other host was asked: %q", requests)
	}
}

// TestCheckProves each right that is needed, and leaves nothing.
func TestCheckProves(t *testing.T) {
	for _, method := range []string{"PUT", "GET", "DELETE"} {
		s, direct, p := behindProxy(t)
		check(t, s.Check(t.Context()))
		holds(t, direct)
		p.Set(engines.When(method, "/"+StagingDir+"/", -1, engines.S3Says(403, "AccessDenied", "Access Denied")))
		if err := s.Check(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "s3:"+map[string]string{"PUT": "Put", "GET": "Get",
				"DELETE": "Delete"}[method]) {
			t.Errorf("Check without %s = %v", method, err)
		}
	}
	s, direct, p := behindProxy(t)
	p.Set(engines.When("GET", "", 1, engines.S3Says(403, "AccessDenied", "Access Denied")))
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "s3:ListBucket") {
		t.Errorf("Check without the right to list = %v", err)
	}
	holds(t, direct)
}

// TestStagingIsPrivate looks at the local directory, before and after Close.
func TestStagingIsPrivate(t *testing.T) {
	b := newBucket(t, "")
	check(t, publish(t, b, "a", "1"))
	temp := b.temp.Path
	if info, err := os.Stat(temp); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v, %v", temp, info, err)
	}
	check(t, os.RemoveAll(temp))
	check(t, publish(t, b, "a", "2"))
	temp = b.temp.Path
	check(t, b.Close())
	if _, err := os.Stat(temp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there after Close: %v", temp, err)
	}
	check(t, publish(t, b, "a", "3"))
}
