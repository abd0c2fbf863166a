package filestore

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) { os.Exit(engines.S3Main(m, os.Getenv(childRoot) != "")) }

// open returns a store that waits between its tries as little as a test wants to.
func open(t *testing.T, root string) Store {
	t.Helper()
	s, err := NewWithin(root, Limits{
		Transfer: 3 * engines.AtOnce, Call: 3 * engines.AtOnce, Answer: 2 * engines.AtOnce,
		Credentials: 2 * engines.AtOnce, Backoff: time.Millisecond,
	})
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

// newBucket returns a store on a new bucket, reached at the endpoint.
func newBucket(t *testing.T, endpoint string) *bucket {
	t.Helper()
	return open(t, engines.S3URL(t, engines.S3Bucket(t), endpoint)).(*bucket)
}

// behindProxy returns a store on a new bucket that is reached through a proxy, and
// another on the same bucket that is not.
func behindProxy(t *testing.T) (far, direct *bucket, p *engines.S3Proxy) {
	t.Helper()
	p = engines.NewS3Proxy(t)
	name := engines.S3Bucket(t)
	return open(t, engines.S3URL(t, name, p.URL)).(*bucket), open(t, engines.S3URL(t, name, "")).(*bucket), p
}

// each runs test on a directory and on a bucket.
func each(t *testing.T, test func(t *testing.T, s Store)) {
	t.Run("directory", func(t *testing.T) { test(t, open(t, t.TempDir())) })
	t.Run("bucket", func(t *testing.T) { test(t, newBucket(t, "")) })
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// publish publishes a file of this text.
func publish(t *testing.T, s Store, name, text string) error {
	t.Helper()
	if err := s.Prepare(t.Context()); err != nil {
		return err
	}
	staged := s.StagingFile()
	defer os.Remove(staged)
	return errors.Join(os.WriteFile(staged, []byte(text), 0o600), s.Publish(t.Context(), staged, name))
}

// contents reads a file whole.
func contents(t *testing.T, s Store, name string) string {
	t.Helper()
	f, err := s.OpenWhole(t.Context(), name)
	check(t, err)
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
	check(t, err)
	return string(data)
}

// holds fails unless the store has just these files.
func holds(t *testing.T, s Store, want ...string) {
	t.Helper()
	var got []string
	check(t, s.List(t.Context(), "", "", func(name string) { got = append(got, name) }))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the store holds %q, want %q", got, want)
	}
}

// TestLeftovers removes the staging files of dead processes.
func TestLeftovers(t *testing.T) {
	root := t.TempDir()
	staging := filepath.Join(root, StagingDir)
	check(t, os.Mkdir(staging, 0o755))
	for name, age := range map[string]time.Duration{"old.tmp": 2 * leftoverAge, "young.tmp": leftoverAge / 2,
		"old.txt": 2 * leftoverAge} {
		path := filepath.Join(staging, name)
		then := time.Now().Add(-age)
		check(t, errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, then, then)))
	}
	check(t, publish(t, open(t, root), "x", "text"))
	var left []string
	entries, _ := os.ReadDir(staging)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{"old.txt", "young.tmp"}, left); diff != "" {
		t.Errorf("left in staging (-want +got):\n%s", diff)
	}
}
