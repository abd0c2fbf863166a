package postgres

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// proxy stands between a sink and a server. It counts what goes up, to the
// server, and down, and fails at a byte of its choice.
type proxy struct {
	listener net.Listener
	target   string
	wait     sync.WaitGroup

	mu       sync.Mutex
	conns    []net.Conn
	up, down int64
	limit    limit
	failed   bool
}

// limit says where a proxy fails: after so many bytes up or down, -1 for never.
type limit struct {
	up, down int64
	// stall lets it stand still; otherwise it hangs up.
	stall bool
	// once: connections after the failure work.
	once bool
}

var never = limit{up: -1, down: -1}

func newProxy(t *testing.T, dsn string, l limit) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: address(dsn), limit: l}
	p.wait.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.hangUp()
		p.wait.Wait()
	})
	return p
}

// address is the host and port of a DSN.
func address(dsn string) string {
	_, rest, _ := strings.Cut(dsn, "@")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// dsn is dsn by way of the proxy.
func (p *proxy) dsn(dsn string) string {
	return strings.Replace(dsn, p.target, p.listener.Addr().String(), 1)
}

// passed is how many bytes have passed.
func (p *proxy) passed() (up, down int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.up, p.down
}

// heal lets everything pass from now on.
func (p *proxy) heal() {
	p.hangUp()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.failed = never, false
}

func (p *proxy) stalls() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit.stall
}

func (p *proxy) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		dead := p.failed && !p.limit.stall && !p.limit.once
		p.mu.Unlock()
		server, err := net.Dial("tcp4", p.target)
		if err != nil || dead {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.wait.Go(func() { p.copy(server, client, &p.up) })
		p.wait.Go(func() { p.copy(client, server, &p.down) })
	}
}

// copy passes bytes on until one side ends or the proxy fails.
func (p *proxy) copy(to, from net.Conn, count *int64) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		pass, fails := p.allow(int64(n), count)
		if pass > 0 {
			if _, err := to.Write(buffer[:pass]); err != nil {
				break
			}
		}
		if fails && p.stalls() {
			return
		}
		if fails {
			p.hangUp()
		}
		if err != nil || fails {
			break
		}
	}
	_, _ = to.Close(), from.Close()
}

// allow says how many of n bytes pass, and whether the proxy fails after them.
func (p *proxy) allow(n int64, count *int64) (pass int64, fails bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed && p.limit.stall && !p.limit.once {
		return 0, true
	}
	most := p.limit.up
	if count == &p.down {
		most = p.limit.down
	}
	if most < 0 || p.failed || *count+n < most {
		*count += n
		return n, false
	}
	pass, p.failed = most-*count, true
	*count = most
	return pass, true
}
