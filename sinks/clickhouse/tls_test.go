package clickhouse

import (
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestNativeTLS has a server with a self-signed certificate.
func TestNativeTLS(t *testing.T) {
	t.Parallel()
	cert, key := sinktest.Certificate(t)
	port := engines.FreePort(t)
	server := engines.RunClickHouse(t, engines.WithConfig(fmt.Sprintf("<tcp_port_secure>%d</tcp_port_secure>"+
		"<openSSL><server><certificateFile>%s</certificateFile><privateKeyFile>%s</privateKeyFile>"+
		"<verificationMode>none</verificationMode></server></openSSL>", port, cert, key)))
	dsn := fmt.Sprintf("clickhouse://default@127.0.0.1:%d/%s?secure=true", port, database(t, server))
	refused(t, dsn, "certificate is not trusted", "SSL_CERT_FILE")
	w := windowOf(0, 1, twoBlocks)
	s := open(t, dsn+"&skip_verify=true")
	replace(t, s, w)
	if got := newReader(t, dsn+"&skip_verify=true").shown(w.Rev.Key); got != 1 {
		t.Errorf("readers see revision %d", got)
	}
	refused(t, fmt.Sprintf("clickhouse://127.0.0.1:%d/x?dial_timeout=1s", port), "it may want TLS")
}

// TestHTTPS has the engine behind a proxy with a self-signed certificate.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	e := modern(t)
	plain := e.DSN(database(t, e))
	target, err := url.Parse(plain)
	check(t, err)
	name := target.Path
	target.Path = ""
	front := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(target))
	defer front.Close()
	dsn := "https://" + front.Listener.Addr().String() + name
	refused(t, dsn, "certificate is not trusted", "SSL_CERT_FILE")
	w := windowOf(0, 1, 100)
	check(t, open(t, dsn+"?skip_verify=true").Replace(t.Context(), w))
	if got := newReader(t, plain).shown(w.Rev.Key); got != 1 {
		t.Errorf("readers see revision %d", got)
	}
	refused(t, "http://"+front.Listener.Addr().String()+name, "not ClickHouse")
}
