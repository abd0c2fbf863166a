package filestore

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/docgauge/docgauge/internal/durable"
)

const (
	// requestTries is the number of attempts of one request.
	requestTries = 5
	// maxObject is the largest object that S3 accepts in one PUT.
	maxObject = 5 << 30
	// defaultRegion is accepted by servers without regions.
	defaultRegion = "us-east-1"
	// bucketReaders is the number of objects that are read at once.
	bucketReaders = 16
)

// Limits are the maximum times of operations.
type Limits struct {
	Transfer    time.Duration // one object sent or fetched, with its retries
	Call        time.Duration // every other call, with its retries
	Answer      time.Duration // the server, to begin its answer to one request
	Credentials time.Duration // all places where credentials can be
	Backoff     time.Duration // between two tries, at most
}

var usualLimits = Limits{
	Transfer: 5 * time.Minute, Call: time.Minute, Answer: 30 * time.Second,
	Credentials: 10 * time.Second, Backoff: 5 * time.Second,
}

// bucket is a tree of objects below a prefix. An object appears whole, by one PUT
// whose body the server checks against its MD5. A PUT whose answer is lost is sent
// again: the same bytes under the same name. Checksums go along as metadata, so that
// a file or a footer that is read is known to be the one published.
type bucket struct {
	address address
	limits  Limits

	mu     sync.Mutex
	client *s3.Client
	temp   *durable.Temp // for staging files, made when needed
}

func (b *bucket) Location() string { return b.address.object("") }

// Path is empty: objects are not files.
func (b *bucket) Path(string) string { return "" }

func (b *bucket) Describe(name string) string { return b.address.object(name) }

func (b *bucket) Readers() int { return bucketReaders }

func (b *bucket) Mark(context.Context, string, int) string { return "" }

func (b *bucket) key(name string) *string { return aws.String(path.Join(b.address.prefix, name)) }

// Prepare finds region and credentials, and makes the directory of staging files,
// which only this user can read. It makes it again if the system has tidied it up.
func (b *bucket) Prepare(ctx context.Context) error {
	if _, err := b.connect(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.temp != nil {
		if _, err := os.Stat(b.temp.Path); err == nil {
			return nil
		}
		_ = b.temp.Remove() // it is gone
	}
	temp, err := durable.NewTemp("", "docgauge-s3-staging")
	if err != nil {
		return fmt.Errorf("no place for staging files, TMPDIR names another: %w", err)
	}
	b.temp = temp
	return nil
}

// connect finds region and credentials where the AWS SDK finds them. It asks nothing
// of the bucket.
func (b *bucket) connect(ctx context.Context) (*s3.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client != nil {
		return b.client, nil
	}
	client, err := b.newClient(ctx)
	if err != nil {
		return nil, explain(b.Location(), err)
	}
	b.client = client
	return client, nil
}

// StagingFile is a local file: an object needs no staging in the bucket.
func (b *bucket) StagingFile() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	dir := ""
	if b.temp != nil {
		dir = b.temp.Path
	}
	return filepath.Join(dir, rand.Text()+stagedSuffix)
}

func (b *bucket) Publish(ctx context.Context, staged, name string) (err error) {
	f, err := os.Open(staged)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > maxObject {
		return fmt.Errorf("%s: %d bytes are more than the %d that S3 takes in one PUT: use a directory for windows "+
			"as large as this",
			b.Describe(name), info.Size(), maxObject)
	}
	return b.put(ctx, name, f, nil)
}

// put sends an object, whole or not at all. The MD5 is for the server, on which every
// S3 server can rely; the checksums in the metadata are for readers. With unless, it is
// not sent in the place of an object whose ETag matches.
func (b *bucket) put(ctx context.Context, name string, body io.ReadSeeker, unless *string) error {
	ctx, cancel := context.WithTimeout(ctx, b.limits.Transfer)
	defer cancel()
	short, all, tail := md5.New(), sha256.New(), sha256.New() //nolint:gosec // detects damage on the way, not an attack
	size, err := io.Copy(io.MultiWriter(short, all), body)
	if err == nil {
		_, err = body.Seek(max(0, size-tailBytes), io.SeekStart)
	}
	if err == nil {
		_, err = io.Copy(tail, body)
	}
	if err == nil {
		_, err = body.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	client, err := b.connect(ctx)
	if err != nil {
		return err
	}
	answer, err := client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.address.bucket, Key: b.key(name), Body: body, ContentLength: &size,
		ContentMD5:  aws.String(base64.StdEncoding.EncodeToString(short.Sum(nil))),
		ContentType: contentType(name),
		IfNoneMatch: unless,
		Metadata: map[string]string{sumKey: hex.EncodeToString(all.Sum(nil)),
			tailSumKey: hex.EncodeToString(tail.Sum(nil))},
	})
	if err == nil && answer.ETag == nil {
		err = errNotS3
	}
	if unless != nil && hasCode(err, "PreconditionFailed") {
		return fmt.Errorf("%s: %w", b.Describe(name), fs.ErrExist)
	}
	return explain(b.Location(), err)
}

func contentType(name string) *string {
	switch path.Ext(name) {
	case ".parquet":
		return aws.String("application/vnd.apache.parquet")
	case ".json":
		return aws.String("application/json")
	}
	return aws.String("application/octet-stream")
}

// Create has the server refuse the PUT where the name is taken. The SDK sends a PUT
// again whose answer is lost: if the first had taken effect, the second is refused.
func (b *bucket) Create(ctx context.Context, name string, data []byte) error {
	return b.put(ctx, name, bytes.NewReader(data), aws.String("*"))
}

func (b *bucket) Remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, b.limits.Call)
	defer cancel()
	client, err := b.connect(ctx)
	if err != nil {
		return err
	}
	_, err = client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.address.bucket, Key: b.key(name)})
	if isAbsent(err) {
		return nil
	}
	return explain(b.Location(), err)
}

func (b *bucket) List(ctx context.Context, dir, after string, found func(name string)) error {
	return b.list(ctx, dir, after, func(name string, _ types.Object) { found(name) })
}

func (b *bucket) list(ctx context.Context, dir, after string, found func(name string, o types.Object)) error {
	client, err := b.connect(ctx)
	if err != nil {
		return err
	}
	input := &s3.ListObjectsV2Input{Bucket: &b.address.bucket}
	if prefix := *b.key(dir); prefix != "" {
		input.Prefix = aws.String(prefix + "/")
	}
	if after != "" {
		input.StartAfter = b.key(after)
	}
	pages := s3.NewListObjectsV2Paginator(client, input)
	for pages.HasMorePages() {
		within, cancel := context.WithTimeout(ctx, b.limits.Call)
		page, err := pages.NextPage(within)
		cancel()
		if err == nil && page.IsTruncated == nil && page.Name == nil {
			err = errNotS3
		}
		if err != nil {
			return explain(b.Location(), err)
		}
		for _, object := range page.Contents {
			name := strings.TrimPrefix(strings.TrimPrefix(*object.Key, b.address.prefix), "/")
			if name > after { // not every server knows StartAfter
				found(name, object)
			}
		}
	}
	return nil
}

// Check puts, lists, reads and deletes an object below _staging.
func (b *bucket) Check(ctx context.Context) (err error) {
	if err := b.Prepare(ctx); err != nil {
		return err
	}
	name := StagingDir + "/" + rand.Text() + stagedSuffix
	if err := b.put(ctx, name, strings.NewReader(name), nil); err != nil {
		return err
	}
	defer func() {
		if rerr := b.Remove(context.WithoutCancel(ctx), name); err == nil {
			err = rerr
		}
	}()
	listed := false
	if err := b.List(ctx, StagingDir, "", func(found string) { listed = listed || found == name }); err != nil {
		return err
	}
	if !listed {
		return fmt.Errorf("%s: an object that was put is not listed: docgauge needs a server that lists what it holds",
			b.Location())
	}
	_, err = b.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: an object that was put cannot be read: %w", b.Describe(name), err)
	}
	return err
}

// Close removes the directory of staging files.
func (b *bucket) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	temp := b.temp
	if b.client, b.temp = nil, nil; temp == nil {
		return nil
	}
	return temp.Remove()
}
