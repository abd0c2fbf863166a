package parquet

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$`)
	regionForm = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	prefixForm = regexp.MustCompile(`^[A-Za-z0-9!_.*'()=-]+(/[A-Za-z0-9!_.*'()=-]+)*$`)
)

// address is s3://name/prefix with what its query sets; the rest is found where
// the AWS SDK finds it.
type address struct {
	name, prefix     string
	region, endpoint string
	pathStyle        *bool
}

var (
	errForm        = errors.New("s3: want a URL like s3://bucket/prefix?region=eu-west-1&endpoint=https://minio.example:9000")
	errCredentials = errors.New("s3: credentials do not belong in the URL: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role")
)

// parseAddress reads s3://bucket/prefix?region=&endpoint=&path_style=. What may
// be a secret in the wrong place is not repeated by errors.
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
	a = address{name: u.Host, prefix: strings.Trim(u.Path, "/")}
	switch {
	case u.Port() != "":
		return a, errors.New("s3: the URL begins with the bucket: name the server with ?endpoint=")
	case !bucketForm.MatchString(a.name):
		return a, fmt.Errorf("s3: bucket %.80q: must match %s", a.name, bucketForm)
	case a.prefix != "" && !prefixForm.MatchString(a.prefix) || dots(a.prefix):
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

func dots(prefix string) bool {
	return slices.ContainsFunc(strings.Split(prefix, "/"), func(part string) bool { return part == "." || part == ".." })
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
		if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return errors.New("s3: endpoint: want a URL like https://minio.example:9000, without credentials or parameters")
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

// String is the address without its parameters, but for the endpoint, which
// tells places of the same name apart.
func (a address) String() string { return a.of("") }

// of is the address of an object below the prefix.
func (a address) of(name string) string {
	s := "s3://" + path.Join(a.name, a.prefix, name)
	if a.endpoint != "" {
		s += " at " + a.endpoint
	}
	return s
}
