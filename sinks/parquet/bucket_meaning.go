package parquet

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// meaning puts an error of the SDK in plain words.
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
	last := strings.Contains(text, "EC2 IMDS") // the last place to look at
	if last || errors.Is(err, context.DeadlineExceeded) {
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
	case untrusted(err):
		return "the server's certificate is not trusted: name the file of its authority in AWS_CA_BUNDLE (" + text + ")"
	case network(err):
		return "the server cannot be reached: check the endpoint, the region and the network (" + text + ")"
	}
	if _, ok := errors.AsType[brokenOff](err); ok {
		return "the answer broke off at every try: the next run tries again (" + text + ")"
	}
	return text
}

func untrusted(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
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
