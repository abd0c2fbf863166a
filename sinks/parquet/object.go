package parquet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	// tailBytes is what is fetched to read a footer: most files are smaller.
	tailBytes = 64 << 10
	// fetchTries is how often an object is fetched that breaks off.
	fetchTries = 3
	// maxRange bounds what is read into memory, if a server ignores ranges.
	maxRange = 256 << 20
)

// object is an open object: its end is here, the rest is fetched when asked for.
type object struct {
	part
	ctx    context.Context
	bucket *bucket
	name   string
}

// part is some of an object: data begins at off of the size bytes in all.
type part struct {
	data      []byte
	off, size int64
	etag      *string
}

func (o *object) Size() int64 { return o.size }

func (o *object) Close() error { return nil }

// ReadAt reads from the end that is here, or asks for the range, of the same
// version of the object.
func (o *object) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= o.size {
		return 0, io.EOF
	}
	from := o.part
	if off < from.off {
		var err error
		end := min(off+int64(len(p)), o.size)
		if from, err = o.bucket.get(o.ctx, o.name, fmt.Sprintf("bytes=%d-%d", off, end-1), o.etag); err != nil {
			return 0, err
		}
	}
	if off < from.off || off-from.off > int64(len(from.data)) {
		return 0, explain(o.bucket.describe(o.name), errNotS3)
	}
	n := copy(p, from.data[off-from.off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// open fetches the end of an object.
func (b *bucket) open(ctx context.Context, name string) (file, error) {
	tail, err := b.get(ctx, name, fmt.Sprintf("bytes=-%d", tailBytes), nil)
	if err != nil {
		return nil, err
	}
	if tail.off+int64(len(tail.data)) != tail.size {
		return nil, explain(b.describe(name), errNotS3)
	}
	return &object{part: tail, ctx: ctx, bucket: b, name: name}, nil
}

// get fetches a range of an object into memory.
func (b *bucket) get(ctx context.Context, name, bytes string, etag *string) (p part, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.call)
	defer cancel()
	err = b.untilWhole(ctx, name, func() (err error) {
		p, err = b.getOnce(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: b.key(name), Range: aws.String(bytes), IfMatch: etag})
		return err
	})
	return p, err
}

func (b *bucket) getObject(ctx context.Context, in *s3.GetObjectInput) (*s3.GetObjectOutput, error) {
	client, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := client.GetObject(ctx, in)
	if err == nil && answer.ETag == nil {
		return nil, errors.Join(errNotS3, answer.Body.Close())
	}
	return answer, err
}

func (b *bucket) getOnce(ctx context.Context, in *s3.GetObjectInput) (p part, err error) {
	answer, err := b.getObject(ctx, in)
	if err != nil {
		return p, err
	}
	defer answer.Body.Close()
	if p.data, err = io.ReadAll(io.LimitReader(answer.Body, maxRange)); err != nil {
		return p, brokenOff{err}
	}
	p.etag, p.size = answer.ETag, int64(len(p.data))
	if answer.ContentRange != nil {
		var end int64
		if _, err := fmt.Sscanf(*answer.ContentRange, "bytes %d-%d/%d", &p.off, &end, &p.size); err != nil || p.off < 0 || end >= p.size || end-p.off+1 != int64(len(p.data)) {
			return p, errNotS3
		}
	}
	return p, p.verify(answer)
}

// verify can tell of the end of an object, and of all of it.
func (p part) verify(answer *s3.GetObjectOutput) error {
	sum := sha256.Sum256(p.data)
	switch int64(len(p.data)) {
	case p.size:
		return verify(answer, sumKey, sum[:])
	case p.size - p.off:
		if len(p.data) == tailBytes {
			return verify(answer, tailSumKey, sum[:])
		}
	}
	return nil
}

// untilWhole repeats fetch while bodies break off or are damaged. The SDK
// repeats requests, but not the reading of their answers.
func (b *bucket) untilWhole(ctx context.Context, name string, fetch func() error) error {
	for try := 1; ; try++ {
		err := fetch()
		if absent(err) {
			return fs.ErrNotExist
		}
		if _, again := errors.AsType[brokenOff](err); !again || try == fetchTries || ctx.Err() != nil {
			return explain(b.describe(name), err)
		}
	}
}

// fetch copies an object to a file in dir.
func (b *bucket) fetch(ctx context.Context, name, dir string) (string, func() error, error) {
	ctx, cancel := context.WithTimeout(ctx, b.transfer)
	defer cancel()
	path := filepath.Join(dir, rand.Text()+suffix)
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", nil, err
	}
	done := func() error { return os.Remove(path) }
	err = b.untilWhole(ctx, name, func() error { return b.copyTo(ctx, name, out) })
	if err = errors.Join(err, out.Close()); err != nil {
		return "", nil, errors.Join(err, done())
	}
	return path, done, nil
}

// copyTo makes out what the object is.
func (b *bucket) copyTo(ctx context.Context, name string, out *os.File) error {
	answer, err := b.getObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: b.key(name)})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := out.Truncate(0); err != nil {
		return err
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, sum), body{answer.Body}); err != nil {
		return err
	}
	return verify(answer, sumKey, sum.Sum(nil))
}

// body tells the errors of an answer from those of what it is copied to.
type body struct{ io.Reader }

func (b body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = brokenOff{err}
	}
	return n, err
}
