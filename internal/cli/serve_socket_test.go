package cli

import (
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// TestServeOnSystemdSocket: the socket that systemd opened is the one that is
// served on, whatever DOCGAUGE_LISTEN_ADDRESS says.
func TestServeOnSystemdSocket(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	socket, err := l.(*net.TCPListener).File()
	check(t, err)
	p := placeFor(t, &testbed.Service{URL: "http://127.0.0.1:1"}, []string{sandbox.DefaultProject},
		"DOCGAUGE_LISTEN_ADDRESS=256.0.0.1:9817", "DOCGAUGE_SCHEDULE="+never)
	// The id must be that of the process which has the socket.
	cmd := exec.Command("sh", "-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec docgauge serve --systemd-socket")
	cmd.Dir, cmd.Env, cmd.ExtraFiles = p.dir, p.env, []*os.File{socket}
	dieWithUs(cmd)
	check(t, cmd.Start())
	url := "http://" + l.Addr().String()
	_, _ = socket.Close(), l.Close()
	status, body, err := testbed.Fetch(t.Context(), url+"/readyz") // waits in the socket
	if err != nil || status != 200 || body != "ready\n" {
		t.Errorf("status %d, %q, %v", status, body, err)
	}
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
