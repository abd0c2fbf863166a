package parquet

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

var (
	bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	prefixForm = regexp.MustCompile(`^[A-Za-z0-9!_.*'()=-]+(/[A-Za-z0-9!_.*'()=-]+)*$`)
)

// address is s3://name/prefix with what its query sets; the rest is found where
// the AWS SDK finds it.
type address struct {
	name, prefix     string
	region, endpoint string
	pathStyle        *bool
}

// parseAddress reads s3://bucket/prefix?region=&endpoint=&path_style=.
func parseAddress(raw string) (a address, err error) {
	u, err := url.Parse(raw)
	if err != nil {
		return a, errors.New("s3: not a URL like s3://bucket/prefix")
	}
	a = address{name: u.Host, prefix: strings.Trim(u.Path, "/")}
	switch {
	case u.User != nil:
		return a, errors.New("s3: credentials do not belong in the URL: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role")
	case !bucketForm.MatchString(a.name):
		return a, fmt.Errorf("s3: bucket %.80q: must match %s", a.name, bucketForm)
	case a.prefix != "" && !prefixForm.MatchString(a.prefix) || strings.Contains("/"+a.prefix+"/", "/../") || strings.Contains("/"+a.prefix+"/", "/./"):
		return a, fmt.Errorf("s3: prefix %.80q: its parts must match %s", a.prefix, prefixForm)
	case u.Fragment != "":
		return a, errors.New("s3: a # has no meaning in the URL")
	}
	for name, values := range u.Query() {
		if err := a.set(name, values[len(values)-1]); err != nil {
			return a, fmt.Errorf("s3: %w", err)
		}
	}
	return a, nil
}

// set takes one parameter of the query. Plain http is allowed: signatures do
// not carry the secret, and servers inside a cluster often have no certificate.
func (a *address) set(name, value string) error {
	switch name {
	case "region":
		a.region = value
	case "endpoint":
		u, err := url.Parse(value)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
			return errors.New("endpoint: want a URL like https://minio.example:9000, without credentials")
		}
		a.endpoint = value
	case "path_style":
		b, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("path_style %.20q: want true or false", value)
		}
		a.pathStyle = &b
	default:
		return fmt.Errorf("parameter %.40q: there are region, endpoint and path_style", name)
	}
	return nil
}

// String is the address without its parameters, but for the endpoint, which
// tells places of the same name apart.
func (a address) String() string {
	s := "s3://" + a.name
	if a.prefix != "" {
		s += "/" + a.prefix
	}
	if a.endpoint != "" {
		s += " at " + a.endpoint
	}
	return s
}
