package engines

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// sharedS3 is the server of the package under test; each test has a bucket.
var sharedS3 struct {
	sync.Mutex
	server *S3
	dir    string
	count  atomic.Int64
}

// S3Main is for TestMain: it runs the tests and stops the server. A child process of a
// test keeps the environment that its test set.
func S3Main(m *testing.M, child bool) int {
	if !child {
		forgetSurroundings()
	}
	code := m.Run()
	if sharedS3.server != nil {
		_ = sharedS3.server.Kill()
	}
	if sharedS3.dir != "" {
		_ = os.RemoveAll(sharedS3.dir)
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

// SharedS3 returns the S3 server of the package, and sets its credentials for the test.
func SharedS3(t *testing.T) *S3 {
	t.Helper()
	sharedS3.Lock()
	defer sharedS3.Unlock()
	if sharedS3.server == nil {
		dir, err := os.MkdirTemp("", "s3-test-") //nolint:usetesting // outlives the test
		if err != nil {
			t.Fatal(err)
		}
		sharedS3.dir = dir
		s, err := StartS3(dir)
		Need(t, err)
		sharedS3.server = s
	}
	t.Setenv("AWS_ACCESS_KEY_ID", sharedS3.server.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", sharedS3.server.SecretKey)
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return sharedS3.server
}

// S3Bucket makes a bucket of it.
func S3Bucket(t *testing.T) (name string) {
	t.Helper()
	name = fmt.Sprintf("bucket-%d", sharedS3.count.Add(1))
	if err := SharedS3(t).CreateBucket(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// S3Dir is the directory in which the server keeps the bucket's objects.
func S3Dir(bucket string) string { return filepath.Join(sharedS3.dir, "buckets", bucket) }

// S3URL is the address of a place in the bucket, reached at the endpoint, or at the
// server itself if that is empty.
func S3URL(t *testing.T, bucket, endpoint string) string {
	t.Helper()
	server := SharedS3(t)
	if endpoint == "" {
		endpoint = server.Endpoint
	}
	return fmt.Sprintf("s3://%s/docs/gauge?region=%s&endpoint=%s", bucket, server.Region, endpoint)
}

// S3Clean fails if text is not one sentence for people, without secrets.
func S3Clean(t *testing.T, text string) {
	t.Helper()
	for _, bad := range []string{"\n", "operation error", "X-Amz-", "https response error", "RequestID",
		"exceeded maximum", sharedS3.server.SecretKey} {
		if strings.Contains(text, bad) {
			t.Errorf("the message has %q in it: %s", bad, text)
		}
	}
}
