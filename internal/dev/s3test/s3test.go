// Package s3test is one S3 server for the tests of a package, and a proxy in front of it
// that harms requests.
package s3test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// shared is the server of the package under test; each test has a bucket.
var shared struct {
	sync.Mutex
	server *engines.S3
	dir    string
	count  atomic.Int64
}

// Main is for TestMain: it runs the tests and stops the server. A child process of a
// test keeps the environment that its test set.
func Main(m *testing.M, child bool) int {
	if !child {
		forgetSurroundings()
	}
	code := m.Run()
	if shared.server != nil {
		_ = shared.server.Kill()
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	return code
}

// forgetSurroundings takes away what would lead the SDK to other credentials,
// another server or a proxy: a machine in a cloud has some of it set.
func forgetSurroundings() {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if upper := strings.ToUpper(name); strings.HasPrefix(upper, "AWS_") || strings.HasSuffix(upper, "_PROXY") {
			_ = os.Unsetenv(name)
		}
	}
}

// Server returns the server, and sets its credentials for the test.
func Server(t *testing.T) *engines.S3 {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		dir, err := os.MkdirTemp("", "s3-test-") //nolint:usetesting // outlives the test
		if err != nil {
			t.Fatal(err)
		}
		shared.dir = dir
		s, err := engines.StartS3(dir)
		engines.Need(t, err)
		shared.server = s
	}
	t.Setenv("AWS_ACCESS_KEY_ID", shared.server.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", shared.server.SecretKey)
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return shared.server
}

// NewBucket makes a bucket.
func NewBucket(t *testing.T) (name string) {
	t.Helper()
	name = fmt.Sprintf("bucket-%d", shared.count.Add(1))
	if err := Server(t).CreateBucket(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// Dir is the directory in which the server keeps the bucket's objects.
func Dir(bucket string) string { return filepath.Join(shared.dir, "buckets", bucket) }

// URL is the address of a place in the bucket, reached at the endpoint, or at the
// server itself if that is empty.
func URL(t *testing.T, bucket, endpoint string) string {
	t.Helper()
	server := Server(t)
	if endpoint == "" {
		endpoint = server.Endpoint
	}
	return fmt.Sprintf("s3://%s/docs/gauge?region=%s&endpoint=%s", bucket, server.Region, endpoint)
}

// Clean fails if text is not one sentence for people, without secrets.
func Clean(t *testing.T, text string) {
	t.Helper()
	for _, bad := range []string{"\n", "operation error", "X-Amz-", "https response error", "RequestID",
		"exceeded maximum", shared.server.SecretKey} {
		if strings.Contains(text, bad) {
			t.Errorf("the message has %q in it: %s", bad, text)
		}
	}
}
