package runner

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// JailOptions says what the commands in a jail can reach.
type JailOptions struct {
	// Hosts are the names that commands may connect to: "api.example.com", "*.example.com" for those
	// below it, with ":port" for another port than 443. None = no network at all.
	Hosts []string
	// Tools are directories that commands can read, besides those of the system's programs.
	Tools []string
	// Dir keeps the few files of the jail's /etc.
	Dir    string
	Logger *slog.Logger
}

// A hostPattern is one of JailOptions.Hosts.
type hostPattern struct {
	name  string
	below bool // the names below name, and not name itself
	port  string
}

var hostForm = regexp.MustCompile(
	`^(\*\.)?([a-z0-9]([a-z0-9_-]*[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]*[a-z0-9])?(:[0-9]{1,5})?$`)

// numeric is the last part of an address that is no name: 10.0.0.1, 127.1, 0x7f000001.
var numeric = regexp.MustCompile(`(^|\.)(0x[0-9a-f]*|[0-9]+)$`)

// ParseHosts parses JailOptions.Hosts.
func ParseHosts(list []string) (hosts []hostPattern, err error) {
	for _, text := range list {
		text = strings.ToLower(text)
		name, port, _ := strings.Cut(text, ":")
		if !hostForm.MatchString(text) || numeric.MatchString(name) {
			err = errors.Join(err, fmt.Errorf("%.100q: want a host name, such as api.example.com, *.example.com or "+
				"models.example.com:8443", text))
			continue
		}
		name, below := strings.CutPrefix(name, "*.")
		hosts = append(hosts, hostPattern{name, below, cmp.Or(port, "443")})
	}
	return hosts, err
}

// allows returns the first pattern that a name and a port match.
func allows(hosts []hostPattern, name, port string) (hostPattern, bool) {
	i := slices.IndexFunc(hosts, func(h hostPattern) bool {
		return h.port == port && (!h.below && name == h.name || h.below && strings.HasSuffix(name, "."+h.name))
	})
	if i < 0 {
		return hostPattern{}, false
	}
	return hosts[i], true
}

const (
	proxyTimeout = 30 * time.Second // for a request to the proxy, and for connecting
	// maxConnections limits those of one command at once.
	maxConnections = 64
	// maxRefused limits the refused hosts that an error names.
	maxRefused = 5
)

// proxy is the way out of a jail: it answers CONNECT for the hosts that are allowed, and nothing else.
// It looks up the names itself, so that a jail needs no resolver.
type proxy struct {
	hosts  []hostPattern
	logger *slog.Logger
	slots  chan struct{}
	wait   sync.WaitGroup
	ctx    context.Context
	stop   context.CancelFunc

	mu      sync.Mutex
	refused []string
}

// serveProxy answers on ln until end is called, which waits for the connections.
func serveProxy(ln net.Listener, hosts []hostPattern, logger *slog.Logger) (p *proxy) {
	p = &proxy{hosts: hosts, logger: logger, slots: make(chan struct{}, maxConnections)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	context.AfterFunc(p.ctx, func() { _ = ln.Close() })
	p.wait.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			select {
			case p.slots <- struct{}{}:
				p.wait.Go(func() {
					defer func() { <-p.slots }()
					p.serve(conn)
				})
			default:
				_ = conn.Close()
			}
		}
	})
	return p
}

func (p *proxy) end() {
	p.stop()
	p.wait.Wait()
}

// refusedHosts returns some of the hosts that were asked for and are not allowed.
func (p *proxy) refusedHosts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.refused)
}

// serve answers one connection.
func (p *proxy) serve(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // the other side has gone, or does not matter any more
	closed := context.AfterFunc(p.ctx, func() { _ = conn.Close() })
	defer closed()
	_ = conn.SetDeadline(time.Now().Add(proxyTimeout))
	in := bufio.NewReader(io.LimitReader(conn, 1<<20))
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	answer := func(status int, text string) {
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status,
			http.StatusText(status), len(text), text)
	}
	if r.Method != http.MethodConnect {
		answer(http.StatusMethodNotAllowed, "only CONNECT is allowed, for HTTPS\n")
		return
	}
	name, port, err := net.SplitHostPort(r.RequestURI)
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	allowed, ok := allows(p.hosts, name, port)
	if err != nil || !ok {
		p.refuse(r.RequestURI)
		answer(http.StatusForbidden, "DOCGAUGE_SITE_AGENT_HOSTS does not have this host and port\n")
		return
	}
	upstream, err := allowed.dial(p.ctx, net.JoinHostPort(name, port))
	if err != nil {
		p.logger.Warn("agent's connection failed", "host", name, "port", port, "error", err)
		answer(http.StatusBadGateway, "the host cannot be reached\n")
		return
	}
	defer upstream.Close() //nolint:errcheck // as above
	closedUp := context.AfterFunc(p.ctx, func() { _ = upstream.Close() })
	defer closedUp()
	_ = conn.SetDeadline(time.Time{})
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	early, _ := in.Peek(in.Buffered())
	if _, err := upstream.Write(early); err == nil {
		join(conn, upstream)
	}
}

// refuse remembers what was asked for and is not allowed.
func (p *proxy) refuse(target string) {
	target = fmt.Sprintf("%.100q", target)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.refused) < maxRefused && !slices.Contains(p.refused, target) {
		p.refused = append(p.refused, target)
		p.logger.Warn("agent's connection refused: DOCGAUGE_SITE_AGENT_HOSTS does not have it", "target", target)
	}
}

var errInside = errors.New("is an address of this machine or network: name the host itself to allow it")

// dial connects to a host. Names that a pattern allows must not lead to this machine or its network:
// others may own them.
func (h hostPattern) dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: proxyTimeout}
	if h.below {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			ip, err := netip.ParseAddrPort(address)
			if err == nil && (!ip.Addr().Unmap().IsGlobalUnicast() || ip.Addr().Unmap().IsPrivate()) {
				err = errInside
			}
			return err
		}
	}
	return d.DialContext(ctx, "tcp", address)
}

// join copies between two connections until both directions have ended.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			if half, ok := pair[0].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}
