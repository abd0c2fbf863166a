package engines

import (
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
)

// S3 is a running S3 server (versitygw) that keeps its objects as files. It
// wants path-style addresses and knows one account, which owns everything.
type S3 struct {
	process
	Endpoint  string // http://127.0.0.1:PORT
	AccessKey string
	SecretKey string
	Region    string

	health string // a path only this server has, so that no other is taken for it
}

// StartS3 starts a server that keeps its buckets below dir, and waits until it
// answers. It has no bucket yet.
func StartS3(dir string) (*S3, error) {
	var server *S3
	err := withPorts(1, func(ports []int) (err error) {
		if server, err = newS3(dir, ports[0]); err != nil {
			return err
		}
		return server.Restart()
	})
	if err != nil {
		return nil, err
	}
	return server, nil
}

func newS3(dir string, port int) (*S3, error) {
	binary, err := program("versitygw")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	s := &S3{
		Endpoint:  "http://" + loopback(port),
		AccessKey: rand.Text(),
		SecretKey: rand.Text(),
		Region:    "us-east-1",
		health:    "/" + rand.Text(),
	}
	s.process = process{
		name: "versitygw",
		argv: []string{binary, "--port", loopback(port), "--region", s.Region, "--health", s.health,
			"--quiet", "posix", s.buckets(dir)},
		env:   []string{"ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.SecretKey},
		dir:   dir,
		ports: []int{port},
		ready: s.answers,
	}
	return s, os.MkdirAll(s.buckets(dir), 0o700)
}

// CreateBucket makes an empty bucket that is not there yet. The server takes
// every directory for a bucket, so no request is needed.
func (s *S3) CreateBucket(_ context.Context, name string) error {
	return os.Mkdir(filepath.Join(s.buckets(s.dir), name), 0o700)
}

func (*S3) buckets(dir string) string { return filepath.Join(dir, "buckets") }

func (s *S3) answers(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint+s.health, nil)
	if err != nil {
		return false
	}
	status, _, err := send(request)
	return err == nil && status == http.StatusOK
}
