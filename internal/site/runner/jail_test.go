package runner

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// newJail returns a jail, where this machine allows one.
func newJail(t *testing.T, o JailOptions) *Jail {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "jail")
	}
	o.Logger = slog.New(slog.DiscardHandler)
	j, err := NewJail(t.Context(), o)
	if err != nil {
		engines.Need(t, engines.Missing{Engine: "bubblewrap: " + err.Error(), Install: "apt-get install bubblewrap"})
	}
	return j
}

func TestHosts(t *testing.T) {
	hosts, err := ParseHosts([]string{"api.example.com", "*.Example.org", "models.local:8443"})
	check(t, err)
	for target, want := range map[[2]string]bool{
		{"api.example.com", "443"}: true, {"api.example.com", "80"}: false, {"x.api.example.com", "443"}: false,
		{"example.com", "443"}: false, {"a.example.org", "443"}: true, {"a.b.example.org", "443"}: true,
		{"example.org", "443"}: false, {"notexample.org", "443"}: false, {"models.local", "8443"}: true,
		{"models.local", "443"}: false, {"", "443"}: false,
	} {
		if _, got := allows(hosts, target[0], target[1]); got != want {
			t.Errorf("%v: %t", target, got)
		}
	}
	for _, bad := range []string{"", "*", "*.", "10.0.0.1", "127.1", "[::1]", "::1", "https://x", "x/y", "a.*.b", "x:",
		"0x7f000001", "2130706433", "x:y", "-x", "a b"} {
		if _, err := ParseHosts([]string{bad}); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	// A name below one that is allowed may belong to others: it must not lead inside.
	_, err = hostPattern{name: "example.org", below: true}.dial(t.Context(), "127.0.0.1:1")
	if !errors.Is(err, errInside) {
		t.Errorf("inside: %v", err)
	}
	if _, err = (hostPattern{name: "localhost"}).dial(t.Context(), "127.0.0.1:1"); errors.Is(err, errInside) ||
		err == nil || strings.Contains(err.Error(), "inside") {
		t.Errorf("named: %v", err)
	}
}

// TestCheckAddress: what a name leads to, whether the host itself is named or a pattern allows it.
func TestCheckAddress(t *testing.T) {
	own := []net.Addr{&net.IPNet{IP: net.ParseIP("8.8.4.4"), Mask: net.CIDRMask(24, 32)},
		&net.IPNet{IP: net.ParseIP("2606:4700::7"), Mask: net.CIDRMask(64, 128)}}
	for ip, want := range map[string][2]error{ // named, below a pattern
		"1.1.1.1": {}, "2606:4700::1111": {}, "::ffff:1.1.1.1": {}, "64:ff9b::101:101": {},
		"127.0.0.1": {nil, errInside}, "::1": {nil, errInside}, "10.0.0.1": {nil, errInside}, "fd00::1": {nil, errInside},
		"192.168.1.1": {nil, errInside}, "100.64.0.1": {nil, errInside}, "::ffff:10.0.0.1": {nil, errInside},
		"8.8.4.4": {nil, errInside}, "::ffff:8.8.4.4": {nil, errInside}, "2606:4700::7": {nil, errInside},
		"64:ff9b::a00:1": {nil, errInside}, "64:ff9b::808:404": {nil, errInside}, "64:ff9b:1::a00:1": {nil, errInside},
		"2002:a00:1::": {nil, errInside}, "2001::1": {nil, errInside}, "::10.0.0.1": {nil, errInside},
		"fec0::1": {nil, errInside}, "169.254.169.254": {errNever, errNever}, "fe80::1%eth0": {errNever, errNever},
		"::ffff:169.254.169.254": {errNever, errNever}, "64:ff9b::a9fe:a9fe": {errNever, errNever},
		"0.0.0.0": {errNever, errNever}, "::": {errNever, errNever}, "224.0.0.1": {errNever, errNever},
		"255.255.255.255": {errNever, errNever}, "ff02::1": {errNever, errNever},
		"fd00:ec2::254": {errNever, errNever}, "100.100.100.200": {errNever, errNever},
		"168.63.129.16": {errNever, errNever}, "192.0.0.192": {errNever, errNever}, "fd20:ce::254": {errNever, errNever},
		"192.0.0.8": {nil, errInside}, "198.18.0.1": {nil, errInside},
	} {
		for i, h := range []hostPattern{{name: "x"}, {name: "x", below: true}} {
			if got := h.checkAddress(netip.MustParseAddr(ip), own); !errors.Is(got, want[i]) {
				t.Errorf("%s, below a pattern %t: %v, want %v", ip, h.below, got, want[i])
			}
		}
	}
}

// TestConnect: forms of a CONNECT request. Only names are looked up.
func TestConnect(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer upstream.Close()
	_, port, err := net.SplitHostPort(upstream.Addr().String())
	check(t, err)
	hosts, err := ParseHosts([]string{"localhost:" + port, "*.example.com:" + port})
	check(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	p := serveProxy(ln, hosts, slog.New(slog.DiscardHandler))
	defer p.end()
	gateway, reached := serveGateway(t, "", nil)
	for target, want := range map[string]string{
		"localhost": "200", "LOCALHOST": "200", "localhost.": "200",
		"[2001:db8::7]": "403", "[2001:db8::7%25.example.com]": "403", "[2001:db8::7%251.example.com]": "403",
		"[::1%25.example.com]": "403", "[::ffff:127.0.0.1%25.example.com]": "403", "127.0.0.1%25.example.com": "403",
		"2001:db8::7%25.example.com": "403", "[localhost]": "403", "[x.example.com]": "403", "127.0.0.1": "403",
		"127.1": "403", "0x7f000001": "403", "2130706433": "403", "017700000001": "403", "x@localhost": "403",
		"localhost..": "403", "x..example.com": "403", ".example.com": "403", "example.com": "403", "": "403",
		"x_.example.com": "403", "-x.example.com": "403", "x%2e.example.com": "403", "*.example.com": "403",
		"\u2487.example.com": "403", "localhost:" + port: "403", "x/.example.com": "403", "x#.example.com": "403",
		"x?.example.com": "403", "1.2.3.4\\.example.com": "403",
	} {
		conn, err := net.Dial("tcp", ln.Addr().String())
		check(t, err)
		_, err = fmt.Fprintf(conn, "CONNECT %s:%s HTTP/1.1\r\nHost: x\r\n\r\n", target, port)
		check(t, err)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if !strings.HasPrefix(line, "HTTP/1.1 "+want) && (want == "200" || err == nil) { // what is no request has no answer
			t.Errorf("%q: %q, want %s", target, line, want)
		}
		check(t, conn.Close())
		if status, _ := ask(t, gateway, "CONNECT "+target+":"+port, ""); status == 200 || len(reached()) > 0 {
			t.Errorf("%q, of the gateway: %d, reached %q", target, status, reached())
		}
	}
}

// TestOnlyTLS: what passes after CONNECT is TLS for the name of the host; of anything else the host gets nothing.
func TestOnlyTLS(t *testing.T) {
	upstream := httptest.NewTLSServer(http.NotFoundHandler())
	defer upstream.Close()
	upstream.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	_, port, err := net.SplitHostPort(upstream.Listener.Addr().String())
	check(t, err)
	hosts, err := ParseHosts([]string{"localhost:" + port})
	check(t, err)
	target := "localhost:" + port
	handshake := func(name string) func(net.Conn) error {
		return func(conn net.Conn) error {
			return tls.Client(conn, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		}
	}
	say := func(text string) func(net.Conn) error {
		return func(conn net.Conn) error {
			_, err := io.WriteString(conn, text)
			check(t, err)
			_, err = io.ReadFull(conn, make([]byte, 1))
			return err
		}
	}
	for name, tc := range map[string]struct {
		talk    func(net.Conn) error
		refused string
	}{
		"TLS":           {handshake("localhost"), ""},
		"in capitals":   {handshake("LOCALHOST"), ""},
		"closed unused": {net.Conn.Close, ""},
		"another name":  {handshake("example.com"), fmt.Sprintf("%q with TLS for \"example.com\"", target)},
		"no name":       {handshake(""), fmt.Sprintf("%q with TLS for \"\"", target)},
		"plain HTTP":    {say("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), fmt.Sprintf("%q without TLS", target)},
		"SSH":           {say("SSH-2.0-OpenSSH_10.0\r\n"), fmt.Sprintf("%q without TLS", target)},
		"broken TLS":    {say("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"), fmt.Sprintf("%q without TLS", target)},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		p := serveProxy(ln, hosts, slog.New(slog.DiscardHandler))
		conn, err := net.Dial("tcp", ln.Addr().String())
		check(t, err)
		_, err = fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", target)
		check(t, err)
		answer := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
		_, err = io.ReadFull(conn, answer)
		check(t, err)
		if err := tc.talk(conn); (err == nil) != (tc.refused == "") {
			t.Errorf("%s: %v", name, err)
		}
		_ = conn.Close()
		p.end()
		if got := strings.Join(p.refusedHosts(), ", "); got != tc.refused {
			t.Errorf("%s: refused %s, want %s", name, got, tc.refused)
		}
	}
}
