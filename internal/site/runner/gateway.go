package runner

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/net/netutil"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Gateway is a service of models that an agent reaches without TLS to it and without its address: in a jail it is
// gatewayInside. Requests go to the paths below its URL and nowhere else.
type Gateway struct {
	url *url.URL
	ca  string // file of the authorities that vouch for it; empty = the system's
}

const (
	// gatewayAddress is in the network of a jail, which nothing else uses.
	gatewayAddress = "127.0.0.1:4000"
	// gatewayVariable has the URL of the gateway as the agent reaches it.
	gatewayVariable = "AGENT_URL"
	gatewayExample  = "http://10.0.0.5:4000"
)

// ParseGateway returns the gateway at a URL, with the file of its authorities.
func ParseGateway(text, ca string) (*Gateway, error) {
	u, err := analytics.ParseServiceURL(text, analytics.URLRules{Example: gatewayExample, PlainHTTP: true,
		CredentialsIn: "name the variable of the key in DOCGAUGE_SITE_AGENT_ENV"})
	if err != nil {
		return nil, fmt.Errorf("DOCGAUGE_SITE_AGENT_URL: %w", err)
	}
	g := &Gateway{u, ca}
	u.Path = strings.TrimRight(u.Path, "/")
	ip, notAddress := netip.ParseAddr(u.Hostname())
	switch {
	case notAddress == nil && hostPattern{}.checkAddress(ip, nil) != nil:
		return nil, fmt.Errorf("DOCGAUGE_SITE_AGENT_URL: %s %w", ip, errNever)
	case !isBelow(u.Path + "/"):
		return nil, errors.New("DOCGAUGE_SITE_AGENT_URL: want a path without .., % and \\")
	case path.Base(u.Path) == "v1":
		return nil, errors.New("DOCGAUGE_SITE_AGENT_URL: leave /v1 out: agents add it")
	case ca != "" && u.Scheme == "http":
		return nil, errors.New("DOCGAUGE_SITE_AGENT_CA: has no effect with an http URL: unset it")
	}
	_, err = g.transport()
	return g, err
}

// isBelow reports whether every server takes a decoded path for one below the place that it is put behind.
func isBelow(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.ContainsAny(path, "%\\;\x00") && utf8.ValidString(path) &&
		!slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return strings.HasPrefix(part, "..") })
}

// transport connects to the gateway's addresses as they are looked up now, whatever proxies this process has.
func (g *Gateway) transport() (*http.Transport, error) {
	t := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: proxyTimeout,
		MaxConnsPerHost: maxConnections, IdleConnTimeout: time.Minute, DisableCompression: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return hostPattern{}.dial(ctx, address)
		}}
	if g.ca != "" {
		text, err := os.ReadFile(g.ca)
		if err != nil {
			return nil, fmt.Errorf("DOCGAUGE_SITE_AGENT_CA: %w", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("DOCGAUGE_SITE_AGENT_CA: %s: want certificates as PEM", g.ca)
		}
	}
	return t, nil
}

// Try returns an error if the gateway does not answer. Which answer it gives does not matter.
func (g *Gateway) Try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, proxyTimeout)
	defer cancel()
	t, err := g.transport()
	if err != nil {
		return err
	}
	defer t.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, g.url.String()+"/", nil)
	if err != nil {
		return err
	}
	response, err := t.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("DOCGAUGE_SITE_AGENT_URL %s: %w", g.url, err)
	}
	return response.Body.Close()
}

// String is the URL.
func (g *Gateway) String() string { return g.url.String() }

// serve offers the gateway on ln until end is called, which waits for the requests under way.
func (g *Gateway) serve(ln net.Listener, logger *slog.Logger) (end func(), err error) {
	transport, err := g.transport()
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	proxy := &httputil.ReverseProxy{
		Transport: transport, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(g.url)
			for _, name := range []string{"X-Original-Url", "X-Rewrite-Url"} { // some servers take them for the path
				r.Out.Header.Del(name)
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if to := r.Header.Get("Location"); to != "" && r.StatusCode/100 == 3 {
				return fmt.Errorf("leads to %.200q, which is not followed", to)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				logger.Warn("agent's request to DOCGAUGE_SITE_AGENT_URL failed", "path", r.URL.Path, "error", err)
			}
			http.Error(w, "DOCGAUGE_SITE_AGENT_URL: "+err.Error(), http.StatusBadGateway)
		},
	}
	var atWork sync.RWMutex // held by requests, and at the end for ever
	server := &http.Server{ReadHeaderTimeout: proxyTimeout, ErrorLog: proxy.ErrorLog, DisableGeneralOptionsHandler: true,
		BaseContext: func(net.Listener) context.Context { return ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !atWork.TryRLock() {
				return
			}
			defer atWork.RUnlock()
			r.Header.Del("Upgrade") // another protocol could ask for any path
			if r.Method == http.MethodConnect || !isBelow(r.URL.Path) {
				http.Error(w, "DOCGAUGE_SITE_AGENT_URL: want a path below it", http.StatusForbidden)
				return
			}
			// Without this, an answer that begins before the request has ended is cut.
			_ = http.NewResponseController(w).EnableFullDuplex()
			proxy.ServeHTTP(w, r)
		})}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(netutil.LimitListener(ln, maxConnections)) }) // it ends with end
	return func() {
		stop()
		_ = server.Close() // the agent's side of its connections has gone
		served.Wait()
		atWork.Lock()
		transport.CloseIdleConnections()
	}, nil
}
