package parquet

import (
	"errors"
	"io/fs"

	"github.com/aws/smithy-go"
)

const (
	denied        = "the credentials may not do this: they need s3:PutObject, s3:GetObject and s3:DeleteObject below the prefix, and s3:ListBucket"
	elsewhere     = "the bucket is in another region or at another endpoint: name it, ?region= or ?endpoint="
	failing       = "the server failed at every retry: the next run tries again"
	noCredentials = "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile (AWS_PROFILE), or a role"
	strange       = "what answered is not an S3 server: check the endpoint, and whether a proxy is between"
)

// rules says what an error code of S3 means to whoever runs docgauge.
var rules = map[string]string{
	"NoSuchBucket":                 "there is no such bucket: create it, or check name, region and endpoint",
	"AccessDenied":                 denied,
	"InvalidAccessKeyId":           "the access key is not known there: check AWS_ACCESS_KEY_ID or the profile, and the endpoint",
	"XAdminUserNotFound":           "the access key is not known there: check AWS_ACCESS_KEY_ID or the profile, and the endpoint",
	"SignatureDoesNotMatch":        "the secret key is wrong: check AWS_SECRET_ACCESS_KEY or the profile",
	"ExpiredToken":                 "the session token has expired: renew the credentials",
	"InvalidToken":                 "the session token is not valid: check AWS_SESSION_TOKEN",
	"RequestTimeTooSkewed":         "the clock of this machine is wrong: set it",
	"AuthorizationHeaderMalformed": elsewhere,
	"IllegalLocationConstraint":    elsewhere,
	"PermanentRedirect":            elsewhere,
	"TemporaryRedirect":            elsewhere,
	"MovedPermanently":             elsewhere,
	"SlowDown":                     "the server asked to slow down at every retry: the next run tries again",
	"BadDigest":                    "the body was damaged on the way at every retry: check network and proxies",
	"XAmzContentSHA256Mismatch":    "the body was damaged on the way at every retry: check network and proxies",
	"QuotaExceeded":                "the bucket is full: raise its quota or free space",
	"XMinioStorageFull":            "the bucket is full: raise its quota or free space",
	"InvalidObjectState":           "the object is in an archive storage class: restore it",
	"InvalidRange":                 "the object is empty: export the window again",
	"PreconditionFailed":           "the object was replaced while it was read: try again",
}

var (
	errNotS3   = errors.New(strange)
	errDamaged = errors.New("the object is not what was published, by its SHA-256: export the window again")
)

// brokenOff is an answer that ended early or came damaged: another try can help.
type brokenOff struct{ error }

func (e brokenOff) Unwrap() error { return e.error }

// credentialsError is what came of looking for credentials.
type credentialsError struct{ error }

func (e credentialsError) Unwrap() error { return e.error }

// bucketError is an error of a bucket in plain words.
type bucketError struct {
	place, text string
	err         error
}

func (e bucketError) Error() string { return e.place + ": " + e.text }

func (e bucketError) Unwrap() error { return e.err }

func (b *bucket) explain(err error) error { return explain(b.location(), err) }

// explain says where, what the error means and what to do, without the wrappings
// of the SDK. Errors of local files speak for themselves.
func explain(place string, err error) error {
	if err == nil {
		return nil
	}
	if _, said := errors.AsType[bucketError](err); said {
		return err
	}
	if _, ours := err.(*fs.PathError); ours { //nolint:errorlint // those that the SDK wraps are not ours
		return err
	}
	return bucketError{place, meaning(err), err}
}

// absent reports whether err is of an object that is not there.
func absent(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == "NoSuchKey"
}

// emptyObject reports whether err is of an object without a byte.
func emptyObject(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == "InvalidRange"
}
