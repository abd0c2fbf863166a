package parquet

import (
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	// transferTimeout bounds one object sent or fetched, with its retries.
	transferTimeout = 5 * time.Minute
	// callTimeout bounds every other call, with its retries.
	callTimeout = time.Minute
	// answerTimeout is how long the server may take to answer one request.
	answerTimeout = 30 * time.Second
	// requestTries and maxBackoff bound the retries of one call.
	requestTries = 5
	maxBackoff   = 5 * time.Second
	// maxObject is the most that S3 takes in one PUT.
	maxObject = 5 << 30
	// defaultRegion is what servers that know no regions take.
	defaultRegion = "us-east-1"
	// bucketReaders is how many objects are read at once.
	bucketReaders = 16
)

// bucket is a tree of objects below a prefix. An object appears whole, by one
// PUT, whose body the server checks against its MD5 and its signed SHA-256. A
// PUT whose answer is lost is sent again: the same bytes under the same name.
type bucket struct {
	address

	mu     sync.Mutex
	client *s3.Client
	temp   string // directory of staging files, made when needed
}

func newBucket(url string) (*bucket, error) {
	a, err := parseAddress(url)
	if err != nil {
		return nil, err
	}
	return &bucket{address: a}, nil
}

func (b *bucket) location() string { return b.address.String() }

func (b *bucket) readers() int { return bucketReaders }

func (b *bucket) key(name string) *string { return aws.String(path.Join(b.prefix, name)) }

// prepare finds region and credentials where the AWS SDK finds them, and makes
// the directory for staging files, which only this user can read.
func (b *bucket) prepare(ctx context.Context) error {
	_, err := b.connect(ctx)
	return err
}

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
	if b.temp, err = os.MkdirTemp("", "docgauge-"); err != nil {
		return nil, err
	}
	b.client = client
	return client, nil
}

func (b *bucket) newClient(ctx context.Context) (*s3.Client, error) {
	base := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.ResponseHeaderTimeout = answerTimeout
		t.MaxIdleConnsPerHost = bucketReaders
	})
	c, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(base),
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = requestTries, maxBackoff })
		}))
	if err != nil {
		return nil, err
	}
	if built, ok := c.HTTPClient.(*awshttp.BuildableClient); ok { // with AWS_CA_BUNDLE
		base = built
	}
	return s3.NewFromConfig(c, func(o *s3.Options) {
		o.HTTPClient = &http.Client{Transport: base.GetTransport(), CheckRedirect: noRedirect}
		if b.region != "" {
			o.Region = b.region
		}
		if b.endpoint != "" {
			o.BaseEndpoint = aws.String(b.endpoint)
		}
		other := o.BaseEndpoint != nil
		if o.Region == "" && other {
			o.Region = defaultRegion
		}
		o.UsePathStyle = other
		if b.pathStyle != nil {
			o.UsePathStyle = *b.pathStyle
		}
		// The body is checked by the MD5 that is sent with it: every server knows that.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}), nil
}

// noRedirect keeps requests, which are signed, where they were meant to go.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// stagingFile is a local file: an object needs no staging in the bucket.
func (b *bucket) stagingFile() string { return filepath.Join(b.temp, rand.Text()+stagedSuffix) }

func (b *bucket) publish(ctx context.Context, staged, name string) (err error) {
	f, err := os.Open(staged)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := md5.New() //nolint:gosec // detects damage on the way, not an attack
	size, err := io.Copy(sum, f)
	if err != nil {
		return err
	}
	if size > maxObject {
		return fmt.Errorf("%s: %d bytes are more than the %d that S3 takes in one PUT: use a directory for windows as large as this", name, size, maxObject)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := b.put(ctx, name, f, size, sum.Sum(nil)); err != nil {
		return err
	}
	at(tableOf(name) + " renamed")
	return nil
}

func (b *bucket) put(ctx context.Context, name string, body io.ReadSeeker, size int64, sum []byte) error {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	client, err := b.connect(ctx)
	if err != nil {
		return err
	}
	_, err = client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.name, Key: b.key(name), Body: body, ContentLength: &size,
		ContentMD5: aws.String(base64.StdEncoding.EncodeToString(sum)), ContentType: aws.String("application/vnd.apache.parquet"),
	})
	return b.explain(err)
}

func (b *bucket) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client, err := b.connect(ctx)
	if err != nil {
		return err
	}
	if _, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: b.key(name)}); err != nil {
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
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	page, err := pages.NextPage(ctx)
	if err != nil {
		return b.explain(err)
	}
	for _, object := range page.Contents {
		found(strings.TrimPrefix(strings.TrimPrefix(*object.Key, b.prefix), "/"))
	}
	return nil
}

// check puts, lists and deletes an object below _staging.
func (b *bucket) check(ctx context.Context) error {
	name := stagingName + "/" + rand.Text() + stagedSuffix
	empty := md5.Sum(nil) //nolint:gosec // see publish
	if err := b.put(ctx, name, strings.NewReader(""), 0, empty[:]); err != nil {
		return err
	}
	seen := false
	err := b.list(ctx, stagingName, func(found string) { seen = seen || found == name })
	if err == nil && !seen {
		err = fmt.Errorf("bucket %s: an object that was put is not listed", b.name)
	}
	return errors.Join(err, b.remove(ctx, name))
}

// Close removes the directory of staging files.
func (b *bucket) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client = nil; b.temp == "" {
		return nil
	}
	return os.RemoveAll(b.temp)
}
