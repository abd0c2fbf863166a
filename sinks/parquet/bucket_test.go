package parquet

import (
	"os"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/s3test"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestMain(m *testing.M) { os.Exit(s3test.Main(m, os.Getenv(sinktest.ChildPlace) != "")) }

// newBucketSink returns a sink on a new bucket, reached at the endpoint, and the
// bucket's name.
func newBucketSink(t *testing.T, endpoint string) (s *Sink, name string) {
	t.Helper()
	name = s3test.NewBucket(t)
	return open(t, s3test.URL(t, name, endpoint)), name
}

// open returns a sink that waits between its tries as little as a test wants to.
func open(t *testing.T, url string) *Sink {
	t.Helper()
	store, err := filestore.NewWithin(url, filestore.Limits{
		Transfer: 3 * s3test.AtOnce, Call: 3 * s3test.AtOnce, Answer: 2 * s3test.AtOnce,
		Credentials: 2 * s3test.AtOnce, Backoff: time.Millisecond,
	})
	check(t, err)
	s := &Sink{store: store}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestContractBucket(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) (sinks.Sink, sinktest.Reader) {
		s, _ := newBucketSink(t, "")
		return s, reader{t, s}
	})
}

// behindProxy returns a sink on a new bucket that is reached through a s3test.Proxy,
// and another on the same bucket that is not.
func behindProxy(t *testing.T) (*Sink, *Sink, *s3test.Proxy) {
	t.Helper()
	p := s3test.NewProxy(t)
	s, name := newBucketSink(t, p.URL)
	return s, openBucket(t, name), p
}

func openBucket(t *testing.T, name string) *Sink { return open(t, s3test.URL(t, name, "")) }
