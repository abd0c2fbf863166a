package parquet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	// tailBytes is what is fetched to read a footer: most files are smaller.
	tailBytes = 64 << 10
	// fetchTries is how often an object is fetched that breaks off.
	fetchTries = 3
)

// object is an open object: its end is here, the rest is fetched when asked for.
type object struct {
	ctx    context.Context
	bucket *bucket
	name   string
	size   int64
	etag   *string
	tail   []byte
}

func (o *object) Size() int64 { return o.size }

func (o *object) Close() error { return nil }

// ReadAt reads from the end that is here, or asks for the range, of the same
// version of the object.
func (o *object) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > o.size {
		return 0, io.EOF
	}
	if start := o.size - int64(len(o.tail)); off >= start {
		n := copy(p, o.tail[off-start:])
		if n < len(p) {
			return n, io.EOF
		}
		return n, nil
	}
	end := min(off+int64(len(p)), o.size)
	got, _, err := o.bucket.get(o.ctx, o.name, fmt.Sprintf("bytes=%d-%d", off, end-1), o.etag)
	n := copy(p, got)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// open fetches the end of an object.
func (b *bucket) open(ctx context.Context, name string) (file, error) {
	tail, answer, err := b.get(ctx, name, fmt.Sprintf("bytes=-%d", tailBytes), nil)
	if err != nil {
		return nil, err
	}
	size := int64(len(tail))
	if answer.ContentRange != nil {
		_, total, _ := strings.Cut(*answer.ContentRange, "/")
		if size, err = strconv.ParseInt(total, 10, 64); err != nil || size < int64(len(tail)) {
			return nil, fmt.Errorf("%s: the server says that bytes %.60q were sent", name, *answer.ContentRange)
		}
	}
	return &object{ctx: ctx, bucket: b, name: name, size: size, etag: answer.ETag, tail: tail}, nil
}

// get fetches a range of an object into memory.
func (b *bucket) get(ctx context.Context, name, bytes string, etag *string) ([]byte, *s3.GetObjectOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client, err := b.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	for try := 1; ; try++ {
		answer, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: b.key(name), Range: aws.String(bytes), IfMatch: etag})
		if err != nil {
			return nil, nil, b.explain(err)
		}
		data, err := io.ReadAll(io.LimitReader(answer.Body, maxRange))
		_ = answer.Body.Close()
		if err == nil {
			return data, answer, nil
		}
		if try == fetchTries || ctx.Err() != nil {
			return nil, nil, b.explain(err)
		}
	}
}

// maxRange bounds what is read into memory, if a server ignores ranges.
const maxRange = 256 << 20

// fetch copies an object to a file in dir. One that breaks off is fetched again.
func (b *bucket) fetch(ctx context.Context, name, dir string) (string, func() error, error) {
	path := filepath.Join(dir, rand.Text()+suffix)
	done := func() error { return os.Remove(path) }
	for try := 1; ; try++ {
		err := b.copyTo(ctx, name, path)
		if err == nil {
			return path, done, nil
		}
		if rerr := done(); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) || try == fetchTries || ctx.Err() != nil {
			return "", nil, err
		}
	}
}

func (b *bucket) copyTo(ctx context.Context, name, path string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	client, err := b.connect(ctx)
	if err != nil {
		return err
	}
	answer, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: b.key(name)})
	if err != nil {
		return b.explain(err)
	}
	defer answer.Body.Close()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, answer.Body)
	if err == nil && answer.ContentLength != nil && n != *answer.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(b.explain(err), out.Close())
}
