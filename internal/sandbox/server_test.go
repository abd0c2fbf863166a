package sandbox

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestListenStaysOnThisMachine(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0"} {
		ln, err := Listen(address, false)
		if err == nil {
			ln.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "--allow-remote") || !strings.Contains(err.Error(), address) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := Listen("127.0.0.1", false); err == nil || !strings.Contains(err.Error(), "host:port") {
		t.Errorf("no port: %v", err)
	}
	for address, remote := range map[string]bool{"127.0.0.1:0": false, "localhost:0": false, "0.0.0.0:0": true} {
		ln, err := Listen(address, remote)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		ln.Close()
	}
}

// pipes is a listener whose connections stay inside the process, and so inside
// a synctest bubble.
type pipes struct {
	net.Listener // only for its address
	conns        chan net.Conn
	closed       chan struct{}
	closeOnce    sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.closeOnce.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

// serving runs s in a bubble and returns what a request to it and Serve come to.
func serving(t *testing.T, s *Sandbox, ctx context.Context) (status chan int, served chan error) {
	ln := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	status, served = make(chan int, 1), make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	go func() {
		transport := &http.Transport{DialContext: ln.dial}
		defer transport.CloseIdleConnections()
		r, _ := http.NewRequest(http.MethodGet, "http://sandbox"+path, nil)
		r.Header.Set("Authorization", "Bearer "+DefaultAPIKey)
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Error(err)
			status <- 0
			return
		}
		resp.Body.Close()
		status <- resp.StatusCode
	}()
	synctest.Wait()
	return status, served
}

func TestLatencyIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		begin := time.Now()
		status, served := serving(t, newTest(t, Config{Pages: 10, Faults: Faults{Latency: 10 * time.Second}}), ctx)
		if got := <-status; got != http.StatusOK || time.Since(begin) != 10*time.Second {
			t.Errorf("status %d after %s", got, time.Since(begin))
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// A request in flight when the server stops is answered, its latency cut short.
func TestServeStopsGracefully(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		begin := time.Now()
		status, served := serving(t, newTest(t, Config{Pages: 10, Faults: Faults{Latency: time.Hour}}), ctx)
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if got := <-status; got != http.StatusOK || time.Since(begin) > stopTimeout {
			t.Errorf("status %d after %s", got, time.Since(begin))
		}
	})
}

func TestServeReportsALostListener(t *testing.T) {
	ln, err := Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := newTest(t, Config{}).Serve(t.Context(), ln); err == nil {
		t.Error("no error")
	}
}
