package clickhouse

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

const (
	dialTimeout = 10 * time.Second
	// readTimeout is how long the server may say nothing. A quorum or a merge
	// under load takes long, so it is generous.
	readTimeout     = 2 * time.Minute
	defaultDatabase = "default"
	// connections bounds those to the server: one window uses one.
	connections = 32
)

var (
	databaseForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	clusterForm  = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
)

// schemes of a DSN, and whether they are encrypted.
var schemes = []string{"clickhouse", "tcp", "http", "https"}

// parse reads a DSN. No error shows a password.
func parse(dsn string) (*driver.Options, error) {
	scheme, rest, ok := strings.Cut(dsn, "://")
	if !ok || !slices.Contains(schemes, scheme) {
		return nil, errors.New("want clickhouse://[user:password@]host:9000/database (native) or https://…:8443/database (HTTP); ?secure=true encrypts the native protocol")
	}
	if scheme == "https" && !strings.Contains(rest, "secure=") {
		dsn += separator(rest) + "secure=true"
	}
	o, err := driver.ParseDSN(dsn)
	if err != nil {
		return nil, plainURLError(err)
	}
	if o.Auth.Database == "" {
		o.Auth.Database = defaultDatabase
	}
	if !databaseForm.MatchString(o.Auth.Database) {
		return nil, fmt.Errorf("database %q: must match %s", o.Auth.Database, databaseForm)
	}
	if slices.Contains(o.Addr, "") {
		return nil, errors.New("a host is missing")
	}
	fill(o)
	return o, nil
}

func separator(rest string) string {
	if strings.Contains(rest, "?") {
		return "&"
	}
	return "?"
}

// plainURLError drops the URL, of which the driver masks the password only.
func plainURLError(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("not a URL: %w", ue.Err)
	}
	return err
}

// fill sets what the DSN leaves open.
func fill(o *driver.Options) {
	if o.DialTimeout == 0 {
		o.DialTimeout = dialTimeout
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = readTimeout
	}
	if o.MaxOpenConns == 0 {
		o.MaxOpenConns, o.MaxIdleConns = connections, connections
	}
	if o.Compression == nil {
		o.Compression = &driver.Compression{Method: driver.CompressionLZ4}
	}
	o.TransportFunc = func(t *http.Transport) (http.RoundTripper, error) { return noRedirects{t}, nil }
}

// noRedirects refuses redirects: the headers carry the password, and the HTTP
// client would send them along.
type noRedirects struct{ base http.RoundTripper }

func (n noRedirects) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := n.base.RoundTrip(r)
	if err == nil && resp.StatusCode >= 300 && resp.StatusCode < 400 {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the server redirects to another address (HTTP %d): name that address in the DSN", resp.StatusCode)
	}
	return resp, err
}
