package filestore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
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
	// tailBytes is the size of the part fetched to read a footer: most files are smaller.
	tailBytes = 64 << 10
	// fetchTries is the number of attempts to fetch an object whose transfer breaks off.
	fetchTries = 3
	// maxRange bounds the memory of a read, if a server ignores ranges.
	maxRange = 256 << 20
	// sumKey and tailSumKey are the metadata of an object that hold the SHA-256 of
	// all of it, and of its last tailBytes.
	sumKey, tailSumKey = "sha256", "sha256-last-64k"
)

// object is an open object: its end is in memory, the rest is fetched when asked for.
type object struct {
	ctx    context.Context
	bucket *bucket
	name   string
	tail   part
}

// part is some of an object: data begins at off of the size bytes in all.
type part struct {
	data      []byte
	off, size int64
	etag      *string
}

func (o *object) Size() int64 { return o.tail.size }

func (o *object) Close() error { return nil }

// ReadAt reads from the end in memory, or fetches the range, of the same version of
// the object.
func (o *object) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= o.Size() {
		return 0, io.EOF
	}
	from := o.tail
	if off < from.off {
		var err error
		end := min(off+int64(len(p)), o.Size())
		if from, err = o.bucket.get(o.ctx, o.name, fmt.Sprintf("bytes=%d-%d", off, end-1), o.tail.etag); err != nil {
			return 0, err
		}
	}
	if off < from.off || off-from.off > int64(len(from.data)) {
		return 0, explain(o.bucket.Describe(o.name), errNotS3)
	}
	n := copy(p, from.data[off-from.off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Open fetches the end of an object.
func (b *bucket) Open(ctx context.Context, name string) (File, error) {
	tail, err := b.get(ctx, name, fmt.Sprintf("bytes=-%d", tailBytes), nil)
	if err != nil {
		return nil, err
	}
	if tail.off+int64(len(tail.data)) != tail.size {
		return nil, explain(b.Describe(name), errNotS3)
	}
	return &object{ctx, b, name, tail}, nil
}

// get fetches a range of an object into memory.
func (b *bucket) get(ctx context.Context, name, bytes string, etag *string) (p part, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.limits.Call)
	defer cancel()
	err = b.untilWhole(ctx, name, aws.String(bytes), etag, func(answer *s3.GetObjectOutput) error {
		data, err := io.ReadAll(io.LimitReader(answer.Body, maxRange))
		if err != nil {
			return brokenOff{err}
		}
		n := int64(len(data))
		p = part{data: data, size: n, etag: answer.ETag}
		if answer.ContentRange != nil {
			var end int64
			if _, err := fmt.Sscanf(*answer.ContentRange, "bytes %d-%d/%d", &p.off, &end, &p.size); err != nil ||
				p.off < 0 || end >= p.size || end-p.off+1 != n {
				return errNotS3
			}
		}
		// The metadata has checksums of the whole object and of its end.
		sum := sha256.Sum256(p.data)
		switch {
		case n == p.size:
			return verify(answer, sumKey, sum[:])
		case n == p.size-p.off && n == tailBytes:
			return verify(answer, tailSumKey, sum[:])
		}
		return nil
	})
	return p, err
}

// untilWhole gives read the answer to a GET, again while bodies break off or are
// damaged. The SDK retries requests, but not the reading of their answers.
func (b *bucket) untilWhole(
	ctx context.Context, name string, bytes, etag *string, read func(*s3.GetObjectOutput) error,
) error {
	for try := 1; ; try++ {
		client, err := b.connect(ctx)
		if err != nil {
			return err
		}
		answer, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.address.bucket, Key: b.key(name),
			Range: bytes, IfMatch: etag})
		if err == nil {
			if err = errNotS3; answer.ETag != nil {
				err = read(answer)
			}
			_ = answer.Body.Close() // it was read to its end, or given up
		}
		if isAbsent(err) {
			return fs.ErrNotExist
		}
		if _, again := errors.AsType[brokenOff](err); !again || try == fetchTries || ctx.Err() != nil {
			return explain(b.Describe(name), err)
		}
	}
}

// verify compares the checksum with the published one.
// Objects that came otherwise have none, unless their metadata came along.
func verify(answer *s3.GetObjectOutput, key string, sum []byte) error {
	if want := answer.Metadata[key]; want != "" && want != hex.EncodeToString(sum) {
		return brokenOff{errDamaged}
	}
	return nil
}

// Fetch copies an object to a file in dir.
func (b *bucket) Fetch(ctx context.Context, name, dir string) (string, func() error, error) {
	return b.fetch(ctx, name, dir, nil)
}

// fetch is Fetch of the version with an ETag, if that is not nil.
func (b *bucket) fetch(ctx context.Context, name, dir string, etag *string) (string, func() error, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limits.Transfer)
	defer cancel()
	path := filepath.Join(dir, rand.Text())
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", nil, err
	}
	done := func() error { return os.Remove(path) }
	err = b.untilWhole(ctx, name, nil, etag, func(answer *s3.GetObjectOutput) error {
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
	})
	if err = errors.Join(err, out.Close()); err != nil {
		return "", nil, errors.Join(err, done())
	}
	return path, done, nil
}

// body marks the errors of an answer, as opposed to errors of the copy.
type body struct{ io.Reader }

func (b body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = brokenOff{err}
	}
	return n, err
}

// fetched is a local copy of an object, removed when it is closed.
type fetched struct {
	File
	done func() error
}

func (f fetched) Close() error { return errors.Join(f.File.Close(), f.done()) }

// OpenWhole fetches an object that is to be read to its end, with its checksum
// tested.
func (b *bucket) OpenWhole(ctx context.Context, name string) (File, error) {
	return b.openWhole(ctx, name, nil)
}

func (b *bucket) openWhole(ctx context.Context, name string, etag *string) (File, error) {
	if err := b.Prepare(ctx); err != nil {
		return nil, err
	}
	path, done, err := b.fetch(ctx, name, filepath.Dir(b.StagingFile()), etag)
	if err != nil {
		return nil, err
	}
	f, err := openRegular(path)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	return fetched{f, done}, nil
}
