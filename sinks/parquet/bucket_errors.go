package parquet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strings"

	"github.com/aws/smithy-go"
)

// rules says what an error code of S3 means to whoever runs docgauge.
var rules = map[string]string{
	"NoSuchBucket":                 "there is no such bucket: create it, or check name, region and endpoint",
	"AccessDenied":                 "the credentials may not do this: they need s3:PutObject, s3:GetObject and s3:DeleteObject below the prefix, and s3:ListBucket",
	"Forbidden":                    "the credentials may not do this: they need s3:PutObject, s3:GetObject and s3:DeleteObject below the prefix, and s3:ListBucket",
	"InvalidAccessKeyId":           "the access key is not known there: check AWS_ACCESS_KEY_ID or the profile",
	"SignatureDoesNotMatch":        "the secret key is wrong: check AWS_SECRET_ACCESS_KEY or the profile",
	"ExpiredToken":                 "the session token has expired: renew the credentials",
	"InvalidToken":                 "the session token is not valid: check AWS_SESSION_TOKEN",
	"RequestTimeTooSkewed":         "the clock of this machine is wrong",
	"PermanentRedirect":            "the bucket is in another region: name it, ?region=",
	"TemporaryRedirect":            "the bucket is in another region: name it, ?region=",
	"MovedPermanently":             "the bucket is in another region or at another endpoint: name it, ?region= or ?endpoint=",
	"AuthorizationHeaderMalformed": "the bucket is in another region: name it, ?region=",
	"IllegalLocationConstraint":    "the bucket is in another region: name it, ?region=",
	"SlowDown":                     "the server asks to slow down, and did so at every retry: the next run tries again",
	"ServiceUnavailable":           "the server is not available, at no retry: the next run tries again",
	"InternalError":                "the server failed, at every retry: the next run tries again",
	"BadDigest":                    "the body was damaged on the way, at every retry",
	"XAmzContentSHA256Mismatch":    "the body was damaged on the way, at every retry",
	"QuotaExceeded":                "the bucket is full: raise its quota or free space",
}

// explain says which bucket, what the error means and what to do, without the
// wrappings of the SDK. An object that is not there is fs.ErrNotExist.
func (b *bucket) explain(err error) error {
	if err == nil {
		return nil
	}
	api, ok := errors.AsType[smithy.APIError](err)
	if ok && (api.ErrorCode() == "NoSuchKey" || api.ErrorCode() == "NotFound") {
		return fs.ErrNotExist
	}
	return bucketError{b.location(), meaning(err, api), err}
}

func meaning(err error, api smithy.APIError) string {
	if api != nil {
		said := api.ErrorCode()
		if message := api.ErrorMessage(); message != "" {
			said += ": " + message
		}
		if rule := rules[api.ErrorCode()]; rule != "" {
			return fmt.Sprintf("%s (%s)", rule, said)
		}
		return said
	}
	text := innermost(err)
	switch {
	case strings.Contains(err.Error(), "get credentials:"):
		return "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role"
	case strings.Contains(err.Error(), "Missing Region") || strings.Contains(err.Error(), "missing region") || strings.Contains(err.Error(), "Invalid Configuration: Missing"):
		return "the region is not known: set AWS_REGION or ?region="
	case errors.Is(err, context.DeadlineExceeded):
		return "the server takes too long: " + text
	case network(err):
		return "the server cannot be reached: " + text
	}
	return text
}

func network(err error) bool {
	_, op := errors.AsType[*net.OpError](err)
	_, dns := errors.AsType[*net.DNSError](err)
	return op || dns
}

// innermost is the text of the error below those of the SDK, and without the
// URL, which is signed.
func innermost(err error) string {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return ue.Err.Error()
	}
	if oe, ok := errors.AsType[*smithy.OperationError](err); ok {
		return oe.Err.Error()
	}
	return err.Error()
}

// bucketError is an error of a bucket in plain words.
type bucketError struct {
	place, text string
	err         error
}

func (e bucketError) Error() string { return e.place + ": " + e.text }

func (e bucketError) Unwrap() error { return e.err }
