package faults

import (
	"net"
	"net/url"
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
	limit    Limit
	failed   bool
}

// Limit says where a proxy fails: after so many bytes up or down, -1 for never.
type Limit struct {
	Up, Down int64
	// Stall makes connections stand still; otherwise they are closed.
	Stall bool
	// Once: connections after the failure work.
	Once bool
}

// Never lets all bytes through.
var Never = Limit{Up: -1, Down: -1}

// NewProxy starts a proxy to the server of a DSN, for one test.
func NewProxy(t *testing.T, dsn string, l Limit) *proxy {
	t.Helper()
	at, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: at.Host, limit: l}
	p.wait.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.hangUp()
		p.wait.Wait()
	})
	return p
}

// DSN is dsn by way of the proxy.
func (p *proxy) DSN(dsn string) string {
	return strings.Replace(dsn, p.target, p.listener.Addr().String(), 1)
}

// Passed is the number of bytes that have passed.
func (p *proxy) Passed() (up, down int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.up, p.down
}

// Heal lets everything pass from now on.
func (p *proxy) Heal() {
	p.hangUp()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.failed = Never, false
}

// StandStill lets nothing down any more.
func (p *proxy) StandStill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit.Down = p.down + 1
}

// Fail closes all connections, and with forever also refuses new ones.
func (p *proxy) Fail(forever bool) {
	p.mu.Lock()
	p.failed = forever
	p.mu.Unlock()
	p.hangUp()
}

// hangUp closes all connections.
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
		dead := p.failed && !p.limit.Stall && !p.limit.Once
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
		if fails {
			p.mu.Lock()
			stalls := p.limit.Stall
			p.mu.Unlock()
			if stalls {
				return
			}
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
	if p.failed && p.limit.Stall && !p.limit.Once {
		return 0, true
	}
	most := p.limit.Up
	if count == &p.down {
		most = p.limit.Down
	}
	if most < 0 || p.failed || *count+n < most {
		*count += n
		return n, false
	}
	pass, p.failed = most-*count, true
	*count = most
	return pass, true
}
