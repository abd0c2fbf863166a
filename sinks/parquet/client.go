package parquet

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
)

// newClient asks for credentials at once: without any, that is the error, and
// not the last of many places where they were looked for.
func (b *bucket) newClient(ctx context.Context) (*s3.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, b.credentials)
	defer cancel()
	base := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.ResponseHeaderTimeout = b.answer
		t.MaxIdleConnsPerHost = bucketReaders
		t.DisableCompression = true
	})
	c, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(base),
		config.WithRetryer(b.retryer), config.WithLogger(logging.Nop{}))
	if err != nil {
		return nil, credentialsError{err}
	}
	if _, err := c.Credentials.Retrieve(ctx); err != nil {
		return nil, credentialsError{err}
	}
	if built, ok := c.HTTPClient.(*awshttp.BuildableClient); ok { // with AWS_CA_BUNDLE
		base = built
	}
	client := s3.NewFromConfig(c, b.options, func(o *s3.Options) {
		o.HTTPClient = &http.Client{Transport: base.GetTransport(), CheckRedirect: noRedirect}
	})
	if client.Options().Region == "" {
		return nil, errNoRegion
	}
	return client, nil
}

var errNoRegion = errors.New("the region is not known: set AWS_REGION, or ?region= in the URL")

// options sets what the URL says, and keeps to what every S3 server knows.
func (b *bucket) options(o *s3.Options) {
	if b.region != "" {
		o.Region = b.region
	}
	if b.endpoint != "" {
		o.BaseEndpoint = aws.String(b.endpoint)
	}
	other := o.BaseEndpoint != nil
	if o.Region == "" && other {
		o.Region = defaultRegion
	}
	o.UsePathStyle = other
	if b.pathStyle != nil {
		o.UsePathStyle = *b.pathStyle
	}
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	o.APIOptions = append(o.APIOptions, withoutAcceptEncoding)
}

// retryer tries each call on its own: the SDK's quota for all of them together
// would give up early where many windows wait for one server. A body that was
// damaged on the way is worth another try.
func (b *bucket) retryer() aws.Retryer {
	r := retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff, o.RateLimiter = requestTries, b.backoff, ratelimit.None
	})
	return retry.AddWithErrorCodes(r, "BadDigest", "XAmzContentSHA256Mismatch")
}

// withoutAcceptEncoding leaves out a header that some servers (Google's) change
// on the way in, which breaks its signature.
func withoutAcceptEncoding(stack *middleware.Stack) error {
	_, _ = stack.Finalize.Remove("DisableAcceptEncodingGzip") // not every call has it
	return nil
}

// noRedirect keeps requests, which are signed, where they were meant to go.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
