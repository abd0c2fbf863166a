package clickhouse

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/engines"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestDiskFull has a server whose disk runs full in the middle of a window.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: needs a tmpfs, which only Linux has")
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: needs root to mount a tmpfs: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	server, err := engines.StartClickHouse(dir)
	engines.Need(t, err)
	t.Cleanup(func() { _ = server.Kill() })
	must(t, server, "CREATE DATABASE docs")
	s, r := open(t, server.DSN("docs")), newReader(t, server.DSN("docs"))
	shows(t, s, r, seal(t, 1, 100))
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 22<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	large := sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", 0), 2), sinktest.Pages(400_000))
	if err := s.Replace(t.Context(), large); err == nil || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("Replace = %v, want that the server's disk is full", err)
	}
	if got := r.shown(large.Revision().Key); got != 1 {
		t.Errorf("readers see revision %d, want the former one", got)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	shows(t, s, r, seal(t, 3, 100))
}

// TestTLS encrypts the native protocol and HTTP with a certificate that an
// authority of the test's own has signed.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certify(t, dir)
	tcp, https := freePort(t), freePort(t)
	server := engines.RunClickHouse(t, engines.WithConfig(fmt.Sprintf(`<tcp_port_secure>%d</tcp_port_secure><https_port>%d</https_port>
<openSSL><server><certificateFile>%[3]s/cert.pem</certificateFile><privateKeyFile>%[3]s/key.pem</privateKeyFile>
<verificationMode>none</verificationMode><loadDefaultCAFile>false</loadDefaultCAFile></server></openSSL>`, tcp, https, dir)))
	must(t, server, "CREATE DATABASE docs")
	dsn := fmt.Sprintf("clickhouse://127.0.0.1:%d/docs?secure=true", tcp)
	refused(t, dsn, "certificate is not trusted", "SSL_CERT_FILE")
	refused(t, fmt.Sprintf("clickhouse://127.0.0.1:%d/docs", tcp), "TLS")
	s := open(t, dsn+"&skip_verify=true")
	if err := s.Replace(t.Context(), seal(t, 1, 100)); err != nil {
		t.Fatal(err)
	}
	if got := newReader(t, server.DSN("docs")).shown(sinktest.Key("prj_a", 0)); got != 1 {
		t.Errorf("readers see revision %d, want 1", got)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// certify writes a certificate for 127.0.0.1 that signs itself, and its key.
func certify(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
