//go:build unix

package parquet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/s3test"
)

// TestStagingOfTheDead: what a killed process staged for a bucket goes with the next
// one that stages, not what another still uses.
func TestStagingOfTheDead(t *testing.T) {
	server := s3test.Server(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	staging := func(want int, when string) {
		t.Helper()
		if there, err := filepath.Glob(filepath.Join(dir, "docgauge-s3-staging-*")); len(there) != want || err != nil {
			t.Errorf("%s: %v, %v, want %d", when, there, err, want)
		}
	}
	living, bucket := newBucketSink(t, "")
	replace(t, living, seal(t, 1, 3))
	for range 2 {
		if !killed(t, fmt.Sprintf("s3://%s/docs/gauge?endpoint=%s", bucket, server.Endpoint), "before visitors",
			seal(t, 2, 50)) {
			t.Fatal("the process was not killed")
		}
	}
	staging(2, "the second of the dead swept the first")
	other, _ := newBucketSink(t, "")
	replace(t, other, seal(t, 1, 3))
	staging(2, "both that live")
	for _, s := range []*Sink{living, other} {
		replace(t, s, seal(t, 2, 3))
		check(t, s.Close())
	}
	staging(0, "closed")
}

// TestStagingFull has no room for staging files: the message names the place,
// and the bucket stays as it was.
func TestStagingFull(t *testing.T) {
	dir := mount(t)
	t.Setenv("TMPDIR", dir)
	s, _ := newBucketSink(t, "")
	former := seal(t, 1, 3)
	replace(t, s, former)
	ballast, err := os.Create(dir + "/ballast")
	check(t, err)
	defer ballast.Close()
	for err == nil {
		_, err = ballast.Write(make([]byte, 4096))
	}
	err = s.Replace(t.Context(), seal(t, 2, 80))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir+"/docgauge-s3-staging-") {
		t.Errorf("Replace = %v", err)
	}
	agreed(t, s, revOf(former))
	t.Setenv("TMPDIR", dir+"/none")
	other := newSink(t, "s3://bucket/x?endpoint=http://127.0.0.1:1")
	if err := other.Replace(t.Context(), seal(t, 2, 80)); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("Replace without a place for staging files = %v", err)
	}
}

// TestWindowOfDirectory gives a second name to a file, or a copy of it on
// another file system.
func TestWindowOfDirectory(t *testing.T) {
	t.Run("same file system", func(t *testing.T) { stays(t, newSink(t, t.TempDir())) })
	t.Run("another", func(t *testing.T) { stays(t, newSink(t, mount(t))) })
}
