package filestore

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// long is a text of more than an object's end, each line different.
var long = func() string {
	var b strings.Builder
	for i := range 40_000 {
		fmt.Fprintln(&b, "line", i)
	}
	return b.String()
}()

// TestObjectTooLarge refuses what one PUT cannot carry, before it reads or
// sends any of it.
func TestObjectTooLarge(t *testing.T) {
	s, direct, p := behindProxy(t)
	large := filepath.Join(t.TempDir(), "large"+stagedSuffix)
	check(t, errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, maxObject+1)))
	const name = "visitors/large.parquet"
	err := s.Publish(t.Context(), large, name)
	if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "use a directory") {
		t.Errorf("publish = %v", err)
	}
	if requests, _ := p.Seen(); len(requests) > 0 {
		t.Errorf("the server was asked: %q", requests)
	}
	holds(t, direct)
}

// TestClientOptions looks at where requests go, by URL and by environment.
func TestClientOptions(t *testing.T) {
	for _, tc := range []struct {
		url, region, endpoint string
		want                  string
	}{
		{"s3://docs", "eu-west-1", "", "eu-west-1 <nil> false"},
		{"s3://docs?region=eu-north-1", "eu-west-1", "", "eu-north-1 <nil> false"},
		{"s3://docs?region=eu-north-1&path_style=true", "", "", "eu-north-1 <nil> true"},
		{"s3://docs?endpoint=https://minio.example:9000", "", "", "us-east-1 https://minio.example:9000 true"},
		{"s3://docs?endpoint=https://minio.example:9000&path_style=false", "", "",
			"us-east-1 https://minio.example:9000 false"},
		{"s3://docs", "", "https://other.example", "us-east-1 https://other.example true"},
		{"s3://docs?endpoint=https://minio.example:9000", "eu-west-1", "https://other.example",
			"eu-west-1 https://minio.example:9000 true"},
	} {
		engines.SharedS3(t)
		t.Setenv("AWS_DEFAULT_REGION", "")
		t.Setenv("AWS_REGION", tc.region)
		t.Setenv("AWS_ENDPOINT_URL_S3", tc.endpoint)
		client, err := open(t, tc.url).(*bucket).newClient(t.Context())
		check(t, err)
		o, endpoint := client.Options(), "<nil>"
		if o.BaseEndpoint != nil {
			endpoint = *o.BaseEndpoint
		}
		if got := fmt.Sprint(o.Region, " ", endpoint, " ", o.UsePathStyle); got != tc.want {
			t.Errorf("%s with region %q and endpoint %q: %s, want %s", tc.url, tc.region, tc.endpoint, got, tc.want)
		}
	}
}

// TestWrongRange answers another part than the end that was asked for.
func TestWrongRange(t *testing.T) {
	s, _, p := behindProxy(t)
	p.Set(func(_ *engines.S3Proxy, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("Content-Range", "bytes 0-99/200")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(make([]byte, 100))
		return true
	})
	if _, err := s.Open(t.Context(), "x"); !errors.Is(err, errNotS3) {
		t.Errorf("open = %v", err)
	}
}

// TestServerIgnoresRanges gives whole objects where a part was asked for.
func TestServerIgnoresRanges(t *testing.T) {
	s, _, p := behindProxy(t)
	p.Set(func(_ *engines.S3Proxy, rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("ETag", `"x"`)
		_, _ = io.WriteString(rw, long)
		return true
	})
	if got := contents(t, s, "x"); got != long {
		t.Errorf("%d bytes read of %d, or the wrong ones", len(got), len(long))
	}
	f, err := s.Open(t.Context(), "x")
	check(t, err)
	tail := &object{tail: part{size: f.Size(), off: f.Size()}, ctx: t.Context(), bucket: s, name: "x"}
	got := make([]byte, 100)
	if n, err := tail.ReadAt(got, 1000); n != 100 || err != nil || string(got) != long[1000:1100] {
		t.Errorf("ReadAt = %d, %v, or the wrong bytes", n, err)
	}
}

// TestReadAt reads an object at random places as if it were a file.
func TestReadAt(t *testing.T) {
	s := newBucket(t, "")
	check(t, publish(t, s, "x", long))
	f, err := s.Open(t.Context(), "x")
	if err != nil || f.Size() != int64(len(long)) || len(long) <= tailBytes {
		t.Fatalf("Open = %d bytes of %d, %v", f.Size(), len(long), err)
	}
	local, want := strings.NewReader(long), long
	size := int64(len(want))
	for _, off := range []int64{0, 1, 1000, size - tailBytes - 1, size - tailBytes, size - tailBytes + 1, size - 1,
		size, size + 1} {
		for _, n := range []int{1, 10, 100_000, len(want) + 1} {
			here, there := make([]byte, n), make([]byte, n)
			k, kerr := local.ReadAt(here, off)
			l, lerr := f.ReadAt(there, off)
			if k != l || !errors.Is(lerr, kerr) || string(here[:k]) != string(there[:l]) {
				t.Errorf("ReadAt of %d at %d: a file gives %d, %v, the object %d, %v", n, off, k, kerr, l, lerr)
			}
		}
	}
}

// TestReplacedWhileRead never mixes two versions of an object.
func TestReplacedWhileRead(t *testing.T) {
	s := newBucket(t, "")
	check(t, publish(t, s, "x", long))
	f, err := s.Open(t.Context(), "x")
	check(t, err)
	check(t, publish(t, s, "x", long+"\n"))
	if _, err := f.ReadAt(make([]byte, 10), 0); err == nil ||
		!strings.Contains(err.Error(), "replaced while it was read") {
		t.Errorf("ReadAt = %v", err)
	}
}

// TestManyObjects pages through more than one answer of a list.
func TestManyObjects(t *testing.T) {
	name := engines.S3Bucket(t)
	s := open(t, engines.S3URL(t, name, ""))
	dir := filepath.Join(engines.S3Dir(name), "docs", "gauge", "visitors")
	check(t, os.MkdirAll(dir, 0o700))
	var want []string
	for i := range 2100 {
		file := fmt.Sprintf("%04d", i)
		check(t, os.WriteFile(filepath.Join(dir, file), nil, 0o600))
		want = append(want, "visitors/"+file)
	}
	holds(t, s, want...)
}

// TestPutCarriesSums looks at what a server and a reader can check.
func TestPutCarriesSums(t *testing.T) {
	s, _, p := behindProxy(t)
	const text = "some text"
	short, all := md5.Sum([]byte(text)), sha256.Sum256([]byte(text)) //nolint:gosec // what Content-MD5 is
	var got http.Header
	p.Set(engines.When("PUT", "/x", 1, func(_ *engines.S3Proxy, _ http.ResponseWriter, r *http.Request) bool {
		got = r.Header.Clone()
		return false
	}))
	check(t, publish(t, s, "x", text))
	for name, want := range map[string]string{
		"Content-MD5":                base64.StdEncoding.EncodeToString(short[:]),
		"X-Amz-Content-Sha256":       hex.EncodeToString(all[:]),
		"X-Amz-Meta-Sha256":          hex.EncodeToString(all[:]),
		"X-Amz-Meta-Sha256-Last-64k": hex.EncodeToString(all[:]),
	} {
		if got.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Get(name), want)
		}
	}
}

// TestTLS trusts the certificates of AWS_CA_BUNDLE and no others. The signature
// does not cover the body then, but its MD5 does.
func TestTLS(t *testing.T) {
	p := engines.NewUnstartedS3Proxy(t)
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.StartTLS()
	failsAll(t, newBucket(t, p.URL), "AWS_CA_BUNDLE")

	bundle := filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	check(t, os.WriteFile(bundle, data, 0o600))
	t.Setenv("AWS_CA_BUNDLE", bundle)
	s := newBucket(t, p.URL)
	p.Set(engines.When("PUT", "", -1, engines.FlipUpload))
	if err := publish(t, s, "x", long); err == nil || !strings.Contains(err.Error(), "damaged on the way") {
		t.Errorf("Publish = %v", err)
	}
	holds(t, s)
	p.Set(engines.When("PUT", "", 1, engines.FlipUpload))
	check(t, publish(t, s, "x", long))
	if got := contents(t, s, "x"); got != long {
		t.Errorf("%d bytes read of %d, or the wrong ones", len(got), len(long))
	}
}

// TestDownloadFaults survives a few and reports those that stay; no file is left, and the bytes are
// the published ones.
func TestDownloadFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		meddle engines.Meddler
		want   string
	}{
		// It announces the whole body and sends half.
		"cut": {engines.HarmDownload(func(body []byte) []byte { return body[:len(body)/2] }), "broke off"},
		"flipped byte": {engines.HarmDownload(func(body []byte) []byte {
			body[len(body)/2] ^= 1
			return body
		}), "SHA-256"},
		"reset":     {engines.ResetBefore, "cannot be reached"},
		"slow down": {engines.S3Says(503, "SlowDown", "Please reduce your request rate."), "slow down"},
		"HTML":      {engines.S3Page(200, "text/html", html), "not an S3 server"},
	} {
		t.Run(name, func(t *testing.T) {
			s, direct, p := behindProxy(t)
			check(t, publish(t, direct, "x", long))
			dir := t.TempDir()
			fetch := func() (string, error) {
				path, done, err := s.Fetch(t.Context(), "x", dir)
				if err != nil {
					return "", err
				}
				data, err := os.ReadFile(path)
				return string(data), errors.Join(err, done())
			}
			if name != "HTML" {
				p.Set(engines.When("GET", "/x", 2, tc.meddle))
				if got, err := fetch(); err != nil || got != long {
					t.Errorf("Fetch gives %d bytes of %d, %v", len(got), len(long), err)
				}
				p.Set(engines.When("GET", "/x", 2, tc.meddle))
				if got := contents(t, s, "x"); got != long {
					t.Errorf("%d bytes read of %d", len(got), len(long))
				}
			}
			p.Set(engines.When("GET", "/x", -1, tc.meddle))
			_, ferr := fetch()
			_, oerr := s.Open(t.Context(), "x")
			for call, err := range map[string]error{"Fetch": ferr, "Open": oerr} {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s = %v, want %q", call, err, tc.want)
					continue
				}
				engines.S3Clean(t, err.Error())
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestTolerated: unusual answers of some servers are not errors.
func TestTolerated(t *testing.T) {
	for name, meddle := range map[string]engines.Meddler{
		"the header of a request changed on the way": func(_ *engines.S3Proxy, _ http.ResponseWriter,
			r *http.Request) bool {
			r.Header.Set("Accept-Encoding", "gzip,gzip(gfe)")
			return false
		},
		"an error for the deletion of nothing": engines.When("DELETE", "/none", -1,
			engines.S3Says(404, "NoSuchKey", "The specified key does not exist.")),
	} {
		s, _, p := behindProxy(t)
		p.Set(meddle)
		check(t, publish(t, s, "x", long))
		if got := contents(t, s, "x"); got != long {
			t.Errorf("%s: %d bytes read of %d, or the wrong ones", name, len(got), len(long))
		}
		check(t, errors.Join(s.Remove(t.Context(), "none"), s.Remove(t.Context(), "x")))
		holds(t, s)
	}
}
