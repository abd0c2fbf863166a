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

// bucketInterval is the time between two listings of a bucket, which cost money.
const bucketInterval = time.Minute

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
			file, err := b.inbox.Open(p.ctx, o)
			if err != nil {
				b.listed = time.Time{} // and not each of the others, if the server is gone
				return errors.Join(append(problems, cmp.Or(context.Cause(p.ctx), err))...)
			}
			err = p.archive(k, io.NewSectionReader(file, 0, file.Size()), file.Size(), p.now())
			switch {
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
