package filestore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Inbox reads what others put below a prefix of a bucket, under any name.
type Inbox struct{ bucket *bucket }

// Object is a version of an object in an Inbox.
type Object struct {
	Name string // for people, with its bucket
	ETag string
	Size int64
	name string
}

// NewInbox returns the Inbox at s3://bucket/prefix, with the options of New. It connects to nothing.
func NewInbox(url string) (*Inbox, error) {
	store, err := New(url)
	if err != nil {
		return nil, err
	}
	b, ok := store.(*bucket)
	if !ok {
		return nil, errors.New("want s3://bucket/prefix")
	}
	return &Inbox{b}, nil
}

// List calls found for each object, in order of name.
func (i *Inbox) List(ctx context.Context, found func(Object)) error {
	return i.bucket.list(ctx, "", "", func(name string, o types.Object) {
		if !strings.HasSuffix(name, "/") { // an empty object that some tools make for a directory
			found(Object{i.bucket.Describe(name), aws.ToString(o.ETag), aws.ToInt64(o.Size), name})
		}
	})
}

// Open copies the listed version to a local file. If another has taken its place, it is an error.
func (i *Inbox) Open(ctx context.Context, o Object) (File, error) {
	file, err := i.bucket.openWhole(ctx, o.name, &o.ETag)
	if hasCode(err, "PreconditionFailed") {
		err = fmt.Errorf("%s: was replaced since it was listed", o.Name)
	}
	return file, err
}

// Close removes the local files.
func (i *Inbox) Close() error { return i.bucket.Close() }
