package parquet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
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
		return s, bucketReader{t, s}
	})
}

// bucketReader lists objects and reads each whole, as a query does.
type bucketReader struct {
	t *testing.T
	s *Sink
}

func (r bucketReader) each(table string, key analytics.Key, f func(*os.File, string) error) error {
	var names []string
	if err := r.s.tree.list(r.t.Context(), table, func(name string) { names = append(names, name) }); err != nil {
		return err
	}
	for _, name := range names {
		if k, ours := keyOf(name); !ours || k != key {
			continue
		}
		if err := r.file(name, f); err != nil {
			return err
		}
	}
	return nil
}

func (r bucketReader) file(name string, f func(*os.File, string) error) error {
	path, done, err := r.s.tree.fetch(r.t.Context(), name, r.t.TempDir())
	if err != nil {
		return err
	}
	defer func() { _ = done() }()
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	return f(in, path)
}

func (r bucketReader) Visitors(key analytics.Key) (rows []analytics.Row, revs []analytics.Revision, err error) {
	err = r.each(visitorsTable, key, func(_ *os.File, path string) error {
		local := reader{root: filepath.Dir(path), scratch: r.t.TempDir()}
		f, err := local.snapshot(path)
		if err != nil {
			return err
		}
		revs = append(revs, f.Revision())
		for row, err := range f.Rows() {
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return nil
	})
	return rows, revs, err
}

func (r bucketReader) Totals(key analytics.Key) (revs []analytics.Revision, err error) {
	err = r.each(totalsTable, key, func(in *os.File, _ string) error {
		info, err := in.Stat()
		if err != nil {
			return err
		}
		rev, err := archive.ReadRevision(in, info.Size())
		revs = append(revs, rev)
		return err
	})
	return revs, err
}
