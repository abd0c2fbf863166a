package filestore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
)

var (
	bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$`)
	regionForm = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	prefixForm = regexp.MustCompile(`^[A-Za-z0-9!_.*'()=-]+(/[A-Za-z0-9!_.*'()=-]+)*$`)
)

// address is s3://bucket/prefix with the settings of its query; the AWS SDK finds the rest
// where it always looks.
type address struct {
	bucket, prefix   string
	region, endpoint string
	pathStyle        *bool
}

var (
	errForm = errors.New("s3: want a URL like " +
		"s3://bucket/prefix?region=eu-west-1&endpoint=https://minio.example:9000")
	errCredentials = errors.New("s3: credentials do not belong in the URL: set AWS_ACCESS_KEY_ID and " +
		"AWS_SECRET_ACCESS_KEY, a profile, or a role")
)

// parseAddress reads s3://bucket/prefix?region=&endpoint=&path_style=. Errors do not
// repeat what may be a secret in the wrong place.
func parseAddress(raw string) (a address, err error) {
	if len(raw) < len("s3://") || !strings.EqualFold(raw[:len("s3://")], "s3://") {
		return a, errForm
	}
	if place, _, _ := strings.Cut(raw, "?"); strings.Contains(place, "@") {
		return a, errCredentials
	}
	u, err := url.Parse(raw)
	if err != nil {
		return a, errForm
	}
	a = address{bucket: u.Host, prefix: strings.Trim(u.Path, "/")}
	switch {
	case u.Port() != "":
		return a, errors.New("s3: the URL begins with the bucket: name the server with ?endpoint=")
	case !bucketForm.MatchString(a.bucket):
		return a, fmt.Errorf("s3: bucket %.80q: must match %s", a.bucket, bucketForm)
	case a.prefix != "" && !prefixForm.MatchString(a.prefix), slices.ContainsFunc(strings.Split(a.prefix, "/"),
		func(part string) bool { return part == "." || part == ".." }):
		return a, fmt.Errorf("s3: prefix %.80q: must match %s, without . and .. as parts", a.prefix, prefixForm)
	case u.Fragment != "":
		return a, errors.New("s3: a # has no meaning in the URL: leave it out")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return a, errForm
	}
	for name, values := range query {
		if len(values) > 1 {
			return a, errors.New("s3: a parameter is given twice: name it once")
		}
		if err := a.set(strings.ToLower(name), values[0]); err != nil {
			return a, err
		}
	}
	return a, nil
}

// set takes one parameter of the query. Plain http is allowed: signatures do
// not carry the secret, and servers inside a cluster often have no certificate.
func (a *address) set(name, value string) error {
	switch name {
	case "region":
		if !regionForm.MatchString(value) {
			return fmt.Errorf("s3: region: want one like eu-west-1, which matches %s", regionForm)
		}
		a.region = value
	case "endpoint":
		u, err := url.Parse(value)
		if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil ||
			u.RawQuery != "" || u.Fragment != "" {
			return errors.New("s3: endpoint: want a URL like https://minio.example:9000, without credentials or " +
				"parameters")
		}
		a.endpoint = strings.TrimRight(value, "/")
	case "path_style":
		b, err := strconv.ParseBool(strings.ToLower(value))
		if err != nil {
			return errors.New("s3: path_style: want true or false")
		}
		a.pathStyle = &b
	default:
		return errors.New("s3: a parameter is not known: there are region, endpoint and path_style")
	}
	return nil
}

// object is the address of an object below the prefix, or of the prefix for an empty
// name. Of the parameters it has the endpoint only, which tells places of the same
// name apart.
func (a address) object(name string) string {
	s := "s3://" + path.Join(a.bucket, a.prefix, name)
	if a.endpoint != "" {
		s += " at " + a.endpoint
	}
	return s
}

// newClient looks for credentials immediately, so that the error for missing ones says so, and
// does not name the last of the many places that were searched.
func (b *bucket) newClient(ctx context.Context) (*s3.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limits.Credentials)
	defer cancel()
	base := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.ResponseHeaderTimeout = b.limits.Answer
		t.MaxIdleConnsPerHost = t.MaxIdleConns // there is one host
		t.DisableCompression = true
	})
	// Each call is retried on its own: the SDK's quota for all of them together would give up
	// early where many windows wait for one server. Damaged bodies are sent again, too.
	retryer := func() aws.Retryer {
		r := retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff, o.RateLimiter = requestTries, b.limits.Backoff, ratelimit.None
		})
		return retry.AddWithErrorCodes(r, "BadDigest", "XAmzContentSHA256Mismatch", "ConditionalRequestConflict")
	}
	c, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(base),
		config.WithRetryer(retryer), config.WithLogger(logging.Nop{}))
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
		stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		// Signed requests must not be sent to another server.
		o.HTTPClient = &http.Client{Transport: base.GetTransport(), CheckRedirect: stay}
	})
	if client.Options().Region == "" {
		return nil, errNoRegion
	}
	return client, nil
}

// options sets what the URL says, and uses only what every S3 server knows: older
// servers refuse the checksums that the SDK sends by default.
func (b *bucket) options(o *s3.Options) {
	if b.address.region != "" {
		o.Region = b.address.region
	}
	if b.address.endpoint != "" {
		o.BaseEndpoint = aws.String(b.address.endpoint)
	}
	other := o.BaseEndpoint != nil
	if o.Region == "" && other {
		o.Region = defaultRegion
	}
	o.UsePathStyle = other
	if b.address.pathStyle != nil {
		o.UsePathStyle = *b.address.pathStyle
	}
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	// Some servers (Google's) change this header before they test the signature, which covers it.
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		_, _ = stack.Finalize.Remove("DisableAcceptEncodingGzip") // not every call has it
		return nil
	})
}
