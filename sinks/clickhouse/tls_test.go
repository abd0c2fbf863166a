package clickhouse

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// certificate writes a certificate that nobody signed, and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	der2, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: der2}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestNativeTLS has a server whose certificate nobody signed.
func TestNativeTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	port := engines.FreePort(t)
	server := engines.RunClickHouse(t, engines.WithConfig(fmt.Sprintf("<tcp_port_secure>%d</tcp_port_secure><openSSL><server><certificateFile>%s</certificateFile><privateKeyFile>%s</privateKeyFile><verificationMode>none</verificationMode></server></openSSL>", port, cert, key)))
	dsn := fmt.Sprintf("clickhouse://default@127.0.0.1:%d/%s?secure=true", port, database(t, server))
	refused(t, dsn, "certificate is not trusted", "SSL_CERT_FILE")
	w := windowOf(0, 1, twoBlocks)
	s := open(t, dsn+"&skip_verify=true")
	if err := s.Replace(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if got := newReader(t, dsn+"&skip_verify=true").shown(w.rev.Key); got != 1 {
		t.Errorf("readers see revision %d", got)
	}
	refused(t, fmt.Sprintf("clickhouse://127.0.0.1:%d/x?dial_timeout=1s", port), "it may want TLS")
}

// TestHTTPS has the engine behind a proxy whose certificate nobody signed.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	e := modern(t)
	plain := e.DSN(database(t, e))
	target, err := url.Parse(plain)
	if err != nil {
		t.Fatal(err)
	}
	name := target.Path
	target.Path = ""
	front := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(target))
	defer front.Close()
	dsn := "https://" + front.Listener.Addr().String() + name
	refused(t, dsn, "certificate is not trusted", "SSL_CERT_FILE")
	w := windowOf(0, 1, 100)
	if err := open(t, dsn+"?skip_verify=true").Replace(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if got := newReader(t, plain).shown(w.rev.Key); got != 1 {
		t.Errorf("readers see revision %d", got)
	}
	refused(t, "http://"+front.Listener.Addr().String()+name, "not ClickHouse")
}
