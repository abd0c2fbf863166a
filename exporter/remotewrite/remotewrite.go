// Package remotewrite fills a store of metrics with history, by Prometheus' remote
// write protocol: Prometheus itself, Mimir, Thanos, VictoriaMetrics and others receive
// it. It hides the protocol, its client library, batches, retries and credentials.
//
// A receiver accepts samples in order of time, and refuses those that are too old for it.
// Samples are therefore sent in the order in which they are added, one request after the
// other, and a refusal for their age is counted and not an error, because later samples may be
// accepted. Any other failure ends the writing, after retries if they can help.
//
// Invariants: at most two batches of samples are held in memory; nothing is sent
// twice at the same time; sending the same samples again does no harm; credentials are sent
// only to the given address, never in clear text to another machine, and are in no error.
package remotewrite

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/exp/api/remote"
	"github.com/prometheus/common/config"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/secretfile"
)

// Receiver is the destination of the samples.
type Receiver struct {
	// URL is the receiver's address with its path, without credentials.
	URL string
	// File is a YAML file with the credentials and TLS settings, the fields of
	// Prometheus' remote_write: basic_auth, authorization, oauth2, tls_config,
	// http_headers, proxy_url. Empty: none.
	File string
	// Protocol is "1.0" or "2.0".
	Protocol string
	// Retrying, unless nil, is called with each failure after which the request is sent again.
	Retrying func(error)
}

// protocols are the values of [Receiver.Protocol].
var protocols = map[string]remote.WriteMessageType{"1.0": remote.WriteV1MessageType, "2.0": remote.WriteV2MessageType}

const (
	// attemptTimeout bounds one attempt, the answer included.
	attemptTimeout = 30 * time.Second
	// maxRetries is the maximum number of retries of a request, with pauses from firstPause to
	// longestPause: three minutes in total, plus any longer pauses that the receiver asks for.
	maxRetries   = 10
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// New checks the configuration and returns a writer. It sends nothing.
func New(to Receiver) (*Writer, error) {
	client, err := readClient(to.File)
	if err != nil {
		return nil, fmt.Errorf("--remote-write.config.file: %w", err)
	}
	target, err := parseURL(to.URL, client)
	if err != nil {
		return nil, fmt.Errorf("--remote-write: %w", err)
	}
	message, ok := protocols[to.Protocol]
	if !ok {
		return nil, fmt.Errorf("--remote-write.protocol %q: want 1.0 or 2.0", to.Protocol)
	}
	transport, err := config.NewRoundTripperFromConfig(*client, "remote_write", config.WithUserAgent("docgauge"))
	if err != nil {
		return nil, fmt.Errorf("--remote-write.config.file: %w", plain(err))
	}
	return newWriter(target, message, transport, to.Retrying)
}

func newWriter(target *url.URL, message remote.WriteMessageType, transport http.RoundTripper,
	retrying func(error)) (*Writer, error) {
	w := &Writer{host: target.Host, message: message, retrying: retrying, batch: newBatch(),
		answers: &answers{next: transport}}
	var err error
	w.api, err = remote.NewAPI(target.String(), remote.WithAPIPath(""),
		remote.WithAPIBackoff(remote.BackoffConfig{Min: firstPause, Max: longestPause, MaxRetries: maxRetries}),
		remote.WithAPIHTTPClient(&http.Client{
			Transport: w.answers, Timeout: attemptTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}))
	return w, err
}

// quoted is what an error of the YAML library quotes from the file.
var quoted = regexp.MustCompile("`[^`]*`")

// readClient reads the file of credentials. Errors do not quote it.
func readClient(file string) (*config.HTTPClientConfig, error) {
	if file == "" {
		return &config.DefaultHTTPClientConfig, nil
	}
	f, err := secretfile.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c, err := config.LoadHTTPConfig(f.Text)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: want the fields of remote_write in prometheus.yml: basic_auth, "+
			"authorization, oauth2, tls_config, …",
			file, quoted.ReplaceAllString(strings.Join(strings.Fields(err.Error()), " "), "…"))
	}
	c.SetDirectory(filepath.Dir(file))
	for _, secret := range secretFiles(c) {
		if _, err := secretfile.Read(secret); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return c, nil
}

// secretFiles are the files that the library would read without a limit.
func secretFiles(c *config.HTTPClientConfig) (files []string) {
	if c.BasicAuth != nil {
		files = append(files, c.BasicAuth.UsernameFile, c.BasicAuth.PasswordFile)
	}
	if c.Authorization != nil {
		files = append(files, c.Authorization.CredentialsFile)
	}
	if c.OAuth2 != nil {
		files = append(files, c.OAuth2.ClientSecretFile, c.OAuth2.ClientCertificateKeyFile)
	}
	if c.HTTPHeaders != nil {
		for _, h := range c.HTTPHeaders.Headers {
			files = append(files, h.Files...)
		}
	}
	files = append(files, c.TLSConfig.CAFile, c.TLSConfig.CertFile, c.TLSConfig.KeyFile)
	named := files[:0]
	for _, file := range files {
		if file != "" {
			named = append(named, file)
		}
	}
	return named
}

// parseURL checks the URL of the receiver. Errors do not quote it: it may contain a password.
func parseURL(text string, c *config.HTTPClientConfig) (*url.URL, error) {
	u, err := analytics.ParseServiceURL(text, analytics.URLRules{
		Example:       "http://127.0.0.1:9090/api/v1/write",
		CredentialsIn: "they go into the file of --remote-write.config.file, as basic_auth",
		Query:         true, PlainHTTP: !authenticates(c),
	})
	if err == nil && strings.Trim(u.Path, "/") == "" {
		err = fmt.Errorf("the URL (host %s) has no path; Prometheus receives at /api/v1/write, Mimir at /api/v1/push",
			u.Host)
	}
	return u, err
}

// authenticates reports whether requests carry credentials.
func authenticates(c *config.HTTPClientConfig) bool {
	if c.HTTPHeaders != nil {
		for _, h := range c.HTTPHeaders.Headers {
			if len(h.Secrets)+len(h.Files) > 0 {
				return true
			}
		}
	}
	return c.BasicAuth != nil || c.Authorization != nil || c.OAuth2 != nil
}
