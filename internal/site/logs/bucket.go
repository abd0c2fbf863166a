package logs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/filestore"
)

const (
	// bucketInterval is the time between two listings of a bucket, which cost money.
	bucketInterval = time.Minute
	// aheadObjects is the number of objects that are fetched while one is read, and aheadBytes what they have on disk.
	aheadObjects = 64
	aheadBytes   = 256 << 20
)

// bucket is a source of objects. Each is whole when it appears; late ones appear anywhere in the order of names.
type bucket struct {
	inbox  *filestore.Inbox
	listed time.Time
	// failed is why some objects could not be read, until the next listing.
	failed error
}

// bucket reads the objects that were not read to their end.
func (p *poll) bucket(source int, where string, b *bucket) error {
	if now := p.now(); now.Sub(b.listed) < bucketInterval {
		return b.failed
	}
	var objects []filestore.Object
	if err := b.inbox.List(p.ctx, func(o filestore.Object) { objects = append(objects, o) }); err != nil {
		return err
	}
	b.listed, p.listed[where] = p.now(), len(objects)
	type version struct{ name, etag string }
	read := map[version]*known{}
	for _, k := range p.known {
		read[version{k.Path, k.ETag}] = k
	}
	slices.SortFunc(objects, func(a, b filestore.Object) int { return strings.Compare(a.Name, b.Name) })
	var problems []error
	open, end := b.ahead(p.ctx, slices.DeleteFunc(slices.Clone(objects), func(o filestore.Object) bool {
		k := read[version{o.Name, o.ETag}]
		return k != nil && (!k.Modified.IsZero() || k.failed != nil)
	}))
	defer end()
	for _, o := range objects {
		k := read[version{o.Name, o.ETag}]
		if k == nil {
			k = &known{key: rand.Text(), position: position{Path: o.Name, ETag: o.ETag}}
			p.known = append(p.known, k)
		}
		k.Where, k.at = where, &candidate{source: source, path: o.Name}
		if !k.Modified.IsZero() || p.stopped != nil {
			continue
		}
		if k.failed == nil {
			file, err := open()
			if err != nil {
				b.listed = time.Time{} // and not each of the others, if the server is gone
				return errors.Join(append(problems, cmp.Or(context.Cause(p.ctx), err))...)
			}
			err = p.archive(k, io.NewSectionReader(file, 0, file.Size()), file.Size(), p.now())
			switch {
			case errors.Is(err, ErrSkip):
			case errors.Is(err, ErrWait):
				problems = append(problems, err)
			case err != nil && !errors.Is(err, errStopped):
				k.failed = fmt.Errorf("%s: %w", o.Name, err) // another version may be better
			}
			problems = append(problems, file.Close())
		}
		problems = append(problems, k.failed)
	}
	b.failed = errors.Join(problems...)
	return b.failed
}

// ahead returns a function that opens one object after the other, and fetches the next ones meanwhile. The other one
// ends that.
func (b *bucket) ahead(ctx context.Context, objects []filestore.Object) (
	open func() (filestore.File, error), end func()) {
	type fetched struct {
		file filestore.File
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	var coming []chan fetched
	given, asked, size := 0, 0, int64(0) // the bytes of those that are coming
	open = func() (filestore.File, error) {
		for asked < len(objects) && (asked == given ||
			asked-given < aheadObjects && size+objects[asked].Size <= aheadBytes) {
			one, o := make(chan fetched, 1), objects[asked]
			coming, asked, size = append(coming, one), asked+1, size+o.Size
			go func() {
				file, err := b.inbox.Open(ctx, o)
				one <- fetched{file, err}
			}()
		}
		next := <-coming[0]
		coming, size, given = coming[1:], size-objects[given].Size, given+1
		return next.file, next.err
	}
	return open, func() {
		cancel()
		for _, one := range coming {
			if next := <-one; next.err == nil {
				next.file.Close() //nolint:errcheck // it was only read
			}
		}
	}
}
