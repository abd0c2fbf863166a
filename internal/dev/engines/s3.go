package engines

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// S3 is a running S3 server (versitygw) that keeps its objects as files. It
// needs path-style addresses and has one account, which owns everything.
type S3 struct {
	process
	Endpoint  string // http://127.0.0.1:PORT
	AccessKey string
	SecretKey string
	Region    string

	buckets string // directory
}

// RunS3 starts a server for one test, as [StartS3] does.
func RunS3(t testing.TB) *S3 {
	t.Helper()
	return run(t, StartS3)
}

// StartS3 starts a server that keeps its buckets below dir, and waits until it
// answers. It has no bucket yet.
func StartS3(dir string) (*S3, error) { return start(dir, 1, newS3) }

func newS3(dir string, ports []int) (*S3, error) {
	binary, err := program("versitygw")
	if err != nil {
		return nil, err
	}
	s := &S3{
		Endpoint:  "http://" + loopback(ports[0]),
		AccessKey: rand.Text(),
		SecretKey: rand.Text(),
		Region:    "us-east-1",
		buckets:   filepath.Join(dir, "buckets"),
	}
	health := "/" + rand.Text()
	s.process = process{
		name: "versitygw",
		argv: []string{binary, "--port", loopback(ports[0]), "--region", s.Region, "--health", health,
			"--quiet", "posix", s.buckets},
		env:   []string{"ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.SecretKey},
		dir:   dir,
		ports: ports,
		ready: answers(s.Endpoint+health, ""),
	}
	return s, os.MkdirAll(s.buckets, 0o700)
}

// CreateBucket makes an empty bucket, also of one that has objects. The server takes every directory for a
// bucket, so no request is needed.
func (s *S3) CreateBucket(_ context.Context, name string) error {
	bucket := filepath.Join(s.buckets, name)
	return errors.Join(os.RemoveAll(bucket), os.Mkdir(bucket, 0o700))
}
