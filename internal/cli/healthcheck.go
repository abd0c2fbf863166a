package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/secretfile"
)

const (
	// checkTimeout is the time that serve may take to answer: it answers from memory.
	checkTimeout = 5 * time.Second
	// checkedBytes of an answer are shown.
	checkedBytes = 4 << 10
)

type healthcheckOptions struct {
	ready       bool
	credentials string // a file
	timeout     time.Duration
}

func (a *Program) healthcheckCommand() *cobra.Command {
	var o healthcheckOptions
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "ask serve on this host whether it is alive, for containers",
		Long: `healthcheck asks the serve of this host, at the first DOCGAUGE_LISTEN_ADDRESS,
for /healthz, or with --ready for /readyz, and prints one line. An address of
every interface is asked on 127.0.0.1. It is the health check of images without
a shell.

With DOCGAUGE_WEB_CONFIG_FILE it speaks TLS where serve does. The certificate is
not verified: it is of a public name, and this is the same host. Where the
configuration asks for a user, --credentials names a file with user:password;
without it, 401 still says that the process is alive, but not whether it is
ready. The same goes for client certificates.

Exit codes: 0 alive, or ready; 1 not; 2 bad usage or configuration.`,
		Example: `  docgauge healthcheck
  docgauge healthcheck --ready --credentials /run/secrets/probe`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.healthcheck(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.ready, "ready", false, "ask /readyz: is a run not overdue, and can the sinks be reached?")
	f.StringVar(&o.credentials, "credentials", "", "file with user:password for basic auth")
	f.DurationVar(&o.timeout, "timeout", checkTimeout, "time limit for the answer")
	return cmd
}

func (a *Program) healthcheck(ctx context.Context, o healthcheckOptions) error {
	c, err := a.Config(config.NeedServer)
	if err != nil {
		return err
	}
	p := probe{path: "/healthz", lenient: !o.ready}
	if o.ready {
		p.path = "/readyz"
	}
	if p.host, err = probedHost(c.ListenAddress[0]); err != nil {
		return config.Problems{err.Error()}
	}
	if p.user, p.password, err = readCredentials(o.credentials); err != nil {
		return input.Usage(err)
	}
	if o.timeout <= 0 {
		return input.Usagef("--timeout %s: want more than 0", o.timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	scheme := "http"
	if c.WebConfigFile != "" { // serve may speak TLS
		scheme = "https"
	}
	answer, err := p.get(ctx, scheme)
	if errors.Is(err, http.ErrSchemeMismatch) {
		answer, err = p.get(ctx, "http")
	}
	if refusal, ok := errors.AsType[*net.OpError](err); ok && refusal.Op == "remote error" && p.lenient {
		answer, err = "alive; serve wants a client certificate", nil
	}
	if err != nil {
		return fmt.Errorf("%s of %s: %w", p.path, p.host, err)
	}
	fmt.Fprintln(a.Out, answer)
	return nil
}

// probedHost is where this host finds a listener of address.
func probedHost(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("DOCGAUGE_LISTEN_ADDRESS: %w", err)
	}
	if strings.Trim(port, "0") == "" {
		return "", errors.New("DOCGAUGE_LISTEN_ADDRESS: port 0 is any free port, which cannot be known here; set one")
	}
	// Go listens on IPv4 too where the address is every address of IPv6.
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// readCredentials reads user:password; without a file both are empty.
func readCredentials(path string) (user, password string, err error) {
	if path == "" {
		return "", "", nil
	}
	text, err := secretfile.Read(path)
	if err != nil {
		return "", "", fmt.Errorf("--credentials: %w", err)
	}
	user, password, found := strings.Cut(text, ":")
	if !found || user == "" {
		return "", "", fmt.Errorf("--credentials %s: want one line, user:password", path)
	}
	return user, password, nil
}

// probe is one question to serve.
type probe struct {
	host, path     string
	lenient        bool // a refusal proves that serve is alive
	user, password string
}

// get returns the response on one line. Any status but 200 is an error.
func (p probe) get(ctx context.Context, scheme string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+p.host+p.path, nil)
	if err != nil {
		return "", err
	}
	if p.user != "" {
		request.SetBasicAuth(p.user, p.password)
	}
	// Verification would need the name of the certificate; this is our own host.
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, checkedBytes))
	if err != nil {
		return "", err
	}
	line := render.Printable(strings.Join(strings.Split(strings.TrimSpace(string(text)), "\n"), "; "))
	switch {
	case response.StatusCode == http.StatusOK:
		return line, nil
	case response.StatusCode == http.StatusUnauthorized && p.lenient && p.user == "":
		return "alive; serve wants a user", nil
	case response.StatusCode == http.StatusUnauthorized:
		return "", errors.New("401: serve wants a user that it knows: --credentials FILE with user:password")
	}
	return "", fmt.Errorf("%d: %s", response.StatusCode, line)
}
