package parquet

import (
	"context"
	"crypto/rand"
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

	"github.com/docgauge/docgauge/internal/durable"
)

const (
	// requestTries is how often one request is sent.
	requestTries = 5
	// maxObject is the most that S3 takes in one PUT.
	maxObject = 5 << 30
	// defaultRegion is what servers that know no regions take.
	defaultRegion = "us-east-1"
	// bucketReaders is how many objects are read at once.
	bucketReaders = 16
	// sumKey and tailSumKey are the metadata of an object that hold the SHA-256
	// of all of it, and of its last tailBytes.
	sumKey, tailSumKey = "sha256", "sha256-last-64k"
)

// patience is how long things may take.
type patience struct {
	transfer    time.Duration // one object sent or fetched, with its retries
	call        time.Duration // every other call, with its retries
	answer      time.Duration // the server, to begin its answer to one request
	credentials time.Duration // all places where credentials can be
	backoff     time.Duration // between two tries, at most
}

var usualPatience = patience{
	transfer: 5 * time.Minute, call: time.Minute, answer: 30 * time.Second,
	credentials: 10 * time.Second, backoff: 5 * time.Second,
}

// bucket is a tree of objects below a prefix. An object appears whole, by one
// PUT, whose body the server checks against its MD5. A PUT whose answer is lost
// is sent again: the same bytes under the same name. Sums go along as metadata,
// so that a file or a footer that is read is known to be the one published.
type bucket struct {
	address
	patience

	mu     sync.Mutex
	client *s3.Client
	temp   *durable.Temp // for staging files, made when needed
}

func newBucket(url string) (*bucket, error) {
	a, err := parseAddress(url)
	if err != nil {
		return nil, err
	}
	return &bucket{address: a, patience: usualPatience}, nil
}

func (b *bucket) location() string { return b.address.String() }

func (b *bucket) describe(name string) string { return b.of(name) }

func (b *bucket) readers() int { return bucketReaders }

func (b *bucket) key(name string) *string { return aws.String(path.Join(b.prefix, name)) }

// prepare finds region and credentials, and makes the directory of staging
// files, which only this user can read. Systems that tidy up may have removed it.
func (b *bucket) prepare(ctx context.Context) error {
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

// connect finds region and credentials where the AWS SDK finds them. It asks
// nothing of the bucket.
func (b *bucket) connect(ctx context.Context) (*s3.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client != nil {
		return b.client, nil
	}
	client, err := b.newClient(ctx)
	if err != nil {
		return nil, b.explain(err)
	}
	b.client = client
	return client, nil
}

// stagingFile is a local file: an object needs no staging in the bucket.
func (b *bucket) stagingFile() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	dir := ""
	if b.temp != nil {
		dir = b.temp.Path
	}
	return filepath.Join(dir, rand.Text()+stagedSuffix)
}

func (b *bucket) publish(ctx context.Context, staged, name string) (err error) {
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
		return fmt.Errorf("%s: %d bytes are more than the %d that S3 takes in one PUT: use a directory for windows as large as this", b.describe(name), info.Size(), maxObject)
	}
	if err := b.put(ctx, name, f); err != nil {
		return err
	}
	at(tableOf(name) + " renamed")
	return nil
}

// put sends an object, whole or not at all.
func (b *bucket) put(ctx context.Context, name string, body io.ReadSeeker) error {
	ctx, cancel := context.WithTimeout(ctx, b.transfer)
	defer cancel()
	sent, err := sumsOf(body)
	if err != nil {
		return err
	}
	client, err := b.connect(ctx)
	if err != nil {
		return err
	}
	answer, err := client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.name, Key: b.key(name), Body: body, ContentLength: &sent.size,
		ContentMD5: &sent.md5, ContentType: aws.String("application/vnd.apache.parquet"), Metadata: sent.metadata,
	})
	if err == nil && answer.ETag == nil {
		err = errNotS3
	}
	return b.explain(err)
}

func (b *bucket) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, b.call)
	defer cancel()
	client, err := b.connect(ctx)
	if err != nil {
		return err
	}
	_, err = client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: b.key(name)})
	if err != nil && !absent(err) {
		return b.explain(err)
	}
	at(tableOf(name) + " removed")
	return nil
}

func (b *bucket) list(ctx context.Context, dir string, found func(name string)) error {
	client, err := b.connect(ctx)
	if err != nil {
		return err
	}
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: aws.String(*b.key(dir) + "/")})
	for pages.HasMorePages() {
		if err := b.page(ctx, pages, found); err != nil {
			return err
		}
	}
	return nil
}

func (b *bucket) page(ctx context.Context, pages *s3.ListObjectsV2Paginator, found func(name string)) error {
	ctx, cancel := context.WithTimeout(ctx, b.call)
	defer cancel()
	page, err := pages.NextPage(ctx)
	if err == nil && page.IsTruncated == nil && page.Name == nil {
		err = errNotS3
	}
	if err != nil {
		return b.explain(err)
	}
	for _, object := range page.Contents {
		found(strings.TrimPrefix(strings.TrimPrefix(*object.Key, b.prefix), "/"))
	}
	return nil
}

// check puts, lists, reads and deletes an object below _staging.
func (b *bucket) check(ctx context.Context) error {
	if err := b.prepare(ctx); err != nil {
		return err
	}
	name := stagingName + "/" + rand.Text() + stagedSuffix
	if err := b.put(ctx, name, strings.NewReader(name)); err != nil {
		return err
	}
	err := b.checkRead(ctx, name)
	if rerr := b.remove(context.WithoutCancel(ctx), name); err == nil {
		err = rerr
	}
	return err
}

func (b *bucket) checkRead(ctx context.Context, name string) error {
	seen := false
	if err := b.list(ctx, stagingName, func(found string) { seen = seen || found == name }); err != nil {
		return err
	}
	if !seen {
		return fmt.Errorf("%s: an object that was put is not listed: docgauge needs a server that lists what it holds", b.location())
	}
	_, err := b.open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: an object that was put cannot be read: %w", b.describe(name), err)
	}
	return err
}

// close removes the directory of staging files.
func (b *bucket) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	temp := b.temp
	if b.client, b.temp = nil, nil; temp == nil {
		return nil
	}
	return temp.Remove()
}
