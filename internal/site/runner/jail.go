package runner

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
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
	// Tools are directories that commands can read, besides the directories of the system's programs.
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

const nameForm = `([a-z0-9]([a-z0-9_-]*[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]*[a-z0-9])?`

var (
	hostForm   = regexp.MustCompile(`^(\*\.)?` + nameForm + `(:[0-9]{1,5})?$`)
	targetForm = regexp.MustCompile(`^(` + nameForm + `)\.?:([0-9]{1,5})$`)
)

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

// parseTarget returns the host and the port of a CONNECT request. Addresses, also those that a resolver takes for
// such, zones and escapes are errors, so that a name that matches a pattern is looked up and nothing else.
func parseTarget(target string) (name, port string, err error) {
	parts := targetForm.FindStringSubmatch(strings.ToLower(target))
	if parts == nil || numeric.MatchString(parts[1]) {
		return "", "", fmt.Errorf("%.100q: want a host name and a port", target)
	}
	return parts[1], parts[len(parts)-1], nil
}

const (
	proxyTimeout = 30 * time.Second // for a request to the proxy, and for connecting
	// maxConnections limits the connections of one command at once.
	maxConnections = 64
	// maxRefused limits the refused hosts that an error names.
	maxRefused = 16
)

// proxy is the way out of a jail: it answers CONNECT for the hosts that are allowed, and lets only TLS for their
// names pass.
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
	name, port, err := parseTarget(r.RequestURI)
	allowed, ok := allows(p.hosts, name, port)
	if err != nil || !ok {
		p.refuse(r.RequestURI, "")
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
	_ = conn.SetDeadline(time.Now().Add(proxyTimeout))
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	server, hello, err := readHello(conn, in)
	switch {
	case err != nil:
		if len(hello) > 0 || errors.Is(err, os.ErrDeadlineExceeded) { // else it was closed unused
			p.refuse(r.RequestURI, " without TLS")
		}
		return
	case !strings.EqualFold(server, name):
		p.refuse(r.RequestURI, fmt.Sprintf(" with TLS for %.100q", server))
		return
	}
	_ = conn.SetDeadline(time.Time{})
	early, _ := in.Peek(in.Buffered())
	if _, err := upstream.Write(append(hello, early...)); err == nil {
		join(conn, upstream)
	}
}

// readHello reads the first message of a TLS client from in, without answering on conn. It returns the name of the
// server that the client wants, empty without one, and the bytes that were read, also with an error.
func readHello(conn net.Conn, in io.Reader) (server string, hello []byte, err error) {
	var read bytes.Buffer
	err = tls.Server(silent{conn, io.TeeReader(in, &read)}, &tls.Config{ //nolint:gosec // no handshake takes place
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			server = h.ServerName
			return nil, errHello
		},
	}).Handshake()
	if errors.Is(err, errHello) {
		err = nil
	}
	return server, read.Bytes(), err
}

var errHello = errors.New("enough was read")

// silent is a connection that is only read.
type silent struct {
	net.Conn
	in io.Reader
}

func (s silent) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s silent) Write(p []byte) (int, error) { return len(p), nil }

// refuse remembers what was asked for, and how, and is not allowed.
func (p *proxy) refuse(target, how string) {
	target = fmt.Sprintf("%.100q%s", target, how)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.refused) < maxRefused && !slices.Contains(p.refused, target) {
		p.refused = append(p.refused, target)
		p.logger.Warn("agent's connection refused: DOCGAUGE_SITE_AGENT_HOSTS does not allow it", "target", target)
	}
}

var (
	errInside = errors.New("is an address of this machine or network: name the host itself to allow it")
	errNever  = errors.New("is a link-local address, or a cloud's service for its machines: agents must not reach it")
)

// prefixes parses addresses of networks.
func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

var (
	// never has the addresses of metadata services, which hand out credentials of the machine, and addresses that no
	// host has.
	never = prefixes("0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4", "::/128", "fe80::/10", "ff00::/8",
		"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd20:ce::254/128")
	// inside are networks that begin here, or that lead back here, beside the private ones.
	inside = prefixes("127.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "::/96", "64:ff9b:1::/48",
		"2001::/32", "2002::/16", "fec0::/10")
	// nat64 has IPv4 addresses in its last four bytes.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// checkAddress returns an error if h must not lead to an address. A host that is named itself may be on this machine
// or its network, such as a gateway to models. A name below a pattern may belong to others, so it must not; own are
// the addresses of this machine.
func (h hostPattern) checkAddress(ip netip.Addr, own []net.Addr) error {
	ip = ip.Unmap().WithZone("")
	if nat64.Contains(ip) {
		bytes := ip.As16()
		ip = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	has := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
	isOwn := func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap() == ip
	}
	switch {
	case has(never):
		return errNever
	case h.below && (ip.IsPrivate() || has(inside) || slices.ContainsFunc(own, isOwn)):
		return errInside
	}
	return nil
}

// dial connects to a host. The name is looked up once, and each address is checked when it is connected to.
func (h hostPattern) dial(ctx context.Context, address string) (net.Conn, error) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: proxyTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		ip, err := netip.ParseAddrPort(address)
		if err == nil {
			err = h.checkAddress(ip.Addr(), own)
		}
		return err
	}}
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
