package parquet

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// shared is one S3 server for the tests of the package; each has a bucket.
var shared struct {
	sync.Mutex
	server *engines.S3
	dir    string
	count  atomic.Int64
}

func TestMain(m *testing.M) {
	if os.Getenv(childRoot) == "" { // a child has what its test set
		forgetSurroundings()
	}
	code := m.Run()
	if shared.server != nil {
		_ = shared.server.Kill()
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	os.Exit(code)
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

func s3server(t *testing.T) *engines.S3 {
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

// newBucketSink returns a sink on a bucket of its own, reached at the endpoint,
// and the directory in which the server keeps it.
func newBucketSink(t *testing.T, endpoint string) (s *Sink, name string) {
	t.Helper()
	server := s3server(t)
	name = fmt.Sprintf("bucket-%d", shared.count.Add(1))
	if err := server.CreateBucket(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if endpoint == "" {
		endpoint = server.Endpoint
	}
	s = newSink(t, fmt.Sprintf("s3://%s/docs/gauge?region=%s&endpoint=%s", name, server.Region, endpoint))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, name
}

func TestContractBucket(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) (sinks.Sink, sinktest.Reader) {
		s, _ := newBucketSink(t, "")
		return s, reader{t, s}
	})
}

// behindProxy returns a sink on a new bucket that is reached through a proxy,
// and another on the same bucket that is not.
func behindProxy(t *testing.T) (*Sink, *Sink, *proxy) {
	t.Helper()
	p := newProxy(t)
	s, name := newBucketSink(t, p.URL)
	return impatient(s), openBucket(t, name), p
}

func openBucket(t *testing.T, name string) *Sink {
	t.Helper()
	server := s3server(t)
	s := newSink(t, fmt.Sprintf("s3://%s/docs/gauge?endpoint=%s", name, server.Endpoint))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
