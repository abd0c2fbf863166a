package parquet

import (
	"context"
	"errors"
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

func meaning(err error) string {
	if errors.Is(err, context.Canceled) {
		return "stopped: " + context.Canceled.Error()
	}
	for _, own := range []error{errNotS3, errNoRegion, errDamaged} {
		if errors.Is(err, own) {
			return own.Error()
		}
	}
	if c, ok := errors.AsType[credentialsError](err); ok {
		return ofCredentials(c.error)
	}
	if said, ok := answered(err); ok {
		return said
	}
	return ofNetwork(err)
}

// ofCredentials tells where none are from where some are wrong.
func ofCredentials(err error) string {
	text := innermost(err)
	none := strings.Contains(text, "no EC2 IMDS role found") || strings.Contains(text, "access disabled to EC2 IMDS")
	if none || errors.Is(err, context.DeadlineExceeded) {
		return noCredentials
	}
	return "the credentials cannot be used: " + text
}

// answered says what the server's answer means; false where there was none.
func answered(err error) (string, bool) {
	code, message := "", ""
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code, message = api.ErrorCode(), oneLine(api.ErrorMessage())
	}
	status := 0
	if r, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		status = r.HTTPStatusCode()
	}
	if code == "" && status == 0 {
		return "", false
	}
	known := code != "" && code != "UnknownError"
	rule := rules[code]
	if rule == "" {
		rule = ofStatus(status, known)
	}
	switch {
	case !known:
		return rule + " (it answered " + http.StatusText(status) + ")", true
	case message == "" || message == code:
		return rule + " (" + code + ")", true
	}
	return rule + " (" + code + ": " + message + ")", true
}

// ofStatus says what a status means whose code, known to be one of S3 or not,
// says nothing to us.
func ofStatus(status int, known bool) string {
	switch {
	case status >= 300 && status < 400:
		return elsewhere
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return denied
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return rules["SlowDown"]
	case status >= 500:
		return failing
	case !known:
		return strange
	}
	return "the server refuses, for a reason of its own"
}

func ofNetwork(err error) string {
	text := innermost(err)
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout():
		return "the server takes too long: check it and the network, the next run tries again (" + text + ")"
	case network(err):
		return "the server cannot be reached: check the endpoint, the region and the network (" + text + ")"
	}
	if _, ok := errors.AsType[brokenOff](err); ok {
		return "the answer broke off at every try: the next run tries again (" + text + ")"
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
		return oneLine(ue.Err.Error())
	}
	if re, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return oneLine(re.Err.Error())
	}
	if oe, ok := errors.AsType[*smithy.OperationError](err); ok {
		return oneLine(oe.Err.Error())
	}
	return oneLine(err.Error())
}

// oneLine keeps a text of somebody else's short.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return text
}

// maxSaid is how much of a foreign text is passed on, in bytes.
const maxSaid = 200
