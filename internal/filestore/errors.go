package filestore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	hintDenied = "the credentials may not do this: they need s3:PutObject, s3:GetObject and s3:DeleteObject " +
		"below the prefix, and s3:ListBucket"
	hintElsewhere     = "the bucket is in another region or at another endpoint: name it, ?region= or ?endpoint="
	hintNoCredentials = "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile " +
		"(AWS_PROFILE), or a role"
	hintUnknownKey = "the access key is not known there: check AWS_ACCESS_KEY_ID or the profile, and the endpoint"
	hintSlowDown   = "the server asked to slow down at every retry: the next run tries again"
	hintDamaged    = "the body was damaged on the way at every retry: check network and proxies"
)

// hints explain the most common error codes of S3.
var hints = map[string]string{
	"NoSuchBucket":                 "the bucket does not exist: create it, or check name, region and endpoint",
	"AccessDenied":                 hintDenied,
	"InvalidAccessKeyId":           hintUnknownKey,
	"XAdminUserNotFound":           hintUnknownKey,
	"SignatureDoesNotMatch":        "the secret key is wrong: check AWS_SECRET_ACCESS_KEY or the profile",
	"ExpiredToken":                 "the session token has expired: renew the credentials",
	"RequestTimeTooSkewed":         "the clock of this machine is wrong: set it",
	"AuthorizationHeaderMalformed": hintElsewhere,
	"SlowDown":                     hintSlowDown,
	"BadDigest":                    hintDamaged,
	"XAmzContentSHA256Mismatch":    hintDamaged,
	"QuotaExceeded":                "the bucket is full: raise its quota or free space",
	"InvalidRange":                 "the object is empty: export the window again",
	"PreconditionFailed":           "the object was replaced while it was read: try again",
	"ConditionalRequestConflict": "another writer was putting the same object at every retry: the next run tries " +
		"again",
	"NotImplemented": "the server cannot do this: docgauge needs PUT, GET, DELETE and ListObjectsV2, " +
		"and for Delta tables If-None-Match",
}

var (
	errNotS3 = errors.New("what answered is not an S3 server: check the endpoint, and whether there is a proxy " +
		"in between")
	errNoRegion = errors.New("the region is not known: set AWS_REGION, or ?region= in the URL")
	errDamaged  = errors.New("the object is not what was published, by its SHA-256: export the window again")
)

// brokenOff is an answer that ended early or came damaged: another try can help.
type brokenOff struct{ error }

func (e brokenOff) Unwrap() error { return e.error }

// credentialsError is the result of looking for credentials.
type credentialsError struct{ error }

func (e credentialsError) Unwrap() error { return e.error }

// bucketError is an error of a bucket in plain words, without the wrappings of the
// SDK.
type bucketError struct {
	location, text string
	err            error
}

func (e bucketError) Error() string { return e.location + ": " + e.text }

func (e bucketError) Unwrap() error { return e.err }

// explain adds to an error its location, its meaning and the remedy. Errors of local files
// need no explanation.
func explain(location string, err error) error {
	_, explained := errors.AsType[bucketError](err)
	_, local := err.(*fs.PathError) //nolint:errorlint // those that the SDK wraps are not ours
	if err == nil || explained || local {
		return err
	}
	return bucketError{location, describe(err), err}
}

func describe(err error) string {
	text := innermost(err)
	_, noCredentials := errors.AsType[credentialsError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, broken := errors.AsType[brokenOff](err)
	_, connection := errors.AsType[*net.OpError](err)
	_, lookup := errors.AsType[*net.DNSError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	slow := errors.Is(err, context.DeadlineExceeded)
	for _, own := range []error{errNotS3, errNoRegion, errDamaged} {
		if errors.Is(err, own) {
			return own.Error()
		}
	}
	switch answer := describeAnswer(err); {
	case errors.Is(err, context.Canceled):
		return "stopped: " + context.Canceled.Error()
	case noCredentials && (slow || strings.Contains(text, "EC2 IMDS")): // the last place that is searched
		return hintNoCredentials
	case noCredentials:
		return "the credentials cannot be used: " + text
	case answer != "":
		return answer
	case slow || isNet && timeout.Timeout():
		return "the server takes too long: check it and the network, the next run tries again (" + text + ")"
	case untrusted:
		return "the server's certificate is not trusted: name the file of its authority in AWS_CA_BUNDLE (" + text + ")"
	case connection || lookup:
		return "the server cannot be reached: check the endpoint, the region and the network (" + text + ")"
	case broken:
		return "the answer broke off at every try: the next run tries again (" + text + ")"
	}
	return text
}

// describeAnswer explains the server's answer; it is empty without an answer.
func describeAnswer(err error) string {
	var code, message string
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() != "UnknownError" {
		code, message = api.ErrorCode(), oneLine(api.ErrorMessage())
	}
	status := 0
	if r, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		status = r.HTTPStatusCode()
	}
	if code == "" && status == 0 {
		return ""
	}
	hint := hints[code]
	switch {
	case hint != "":
	case status >= 300 && status < 400:
		hint = hintElsewhere
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		hint = hintDenied
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		hint = hintSlowDown
	case status >= 500:
		hint = "the server failed at every retry: the next run tries again"
	case code == "":
		hint = errNotS3.Error()
	default:
		hint = "the server refuses the request"
	}
	if message != "" && message != code {
		code += ": " + message
	}
	return fmt.Sprintf("%s (%s)", hint, cmp.Or(code, "it answered "+http.StatusText(status)))
}

// innermost is the text of the error below the SDK's errors, without the URL, which is signed.
func innermost(err error) string {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	} else if re, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		err = re.Err
	} else if oe, ok := errors.AsType[*smithy.OperationError](err); ok {
		err = oe.Err
	}
	return oneLine(err.Error())
}

// oneLine shortens a text from outside.
func oneLine(text string) string {
	const most = 200 // bytes
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// Unavailable reports whether err says nothing about what a file holds: it could not be
// opened or fetched.
func Unavailable(err error) bool {
	_, local := errors.AsType[*fs.PathError](err)
	_, remote := errors.AsType[bucketError](err)
	return (local || remote || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) &&
		!errors.Is(err, errDamaged) && !hasCode(err, "InvalidRange") // an empty object
}

// isAbsent reports whether err means that the object does not exist.
func isAbsent(err error) bool { return hasCode(err, "NoSuchKey") }

func hasCode(err error, code string) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == code
}
