package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// childVariable tells the test binary to be a server that systemd starts.
const childVariable = "SERVER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		child()
	}
	os.Exit(m.Run())
}

// child serves on the socket it inherited until its standard input ends.
func child() {
	s, err := Listen(Options{SystemdSocket: true, Handlers: map[string]http.Handler{"/metrics": says("activated")}})
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	fmt.Println(s.URL())
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := s.Serve(ctx); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// activate starts this binary as systemd would, with count sockets announced.
func activate(t *testing.T, count string, sockets ...*os.File) (*exec.Cmd, io.WriteCloser, io.Reader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	// The shell becomes the server: its process id is the one to announce.
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(ctx, "sh", "-c", `LISTEN_PID=$$ exec "$0"`, self)
	cmd.Env = append(os.Environ(), childVariable+"=1", "LISTEN_FDS="+count)
	cmd.ExtraFiles = sockets
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	if err := cmd.Start(); err != nil {
		t.Skip("no shell to start a child with: ", err)
	}
	return cmd, in, out
}

func socket(t *testing.T, network, address string) (net.Listener, *os.File) {
	t.Helper()
	l, err := net.Listen(network, address)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	file, err := l.(interface{ File() (*os.File, error) }).File()
	must(t, err)
	t.Cleanup(func() { file.Close() })
	return l, file
}

func TestSystemdSocket(t *testing.T) {
	l, file := socket(t, "tcp", "127.0.0.1:0")
	second, other := socket(t, "tcp", "127.0.0.1:0")
	cmd, in, out := activate(t, "2", file, other)
	line := make([]byte, 100)
	n, err := out.Read(line)
	want := "http://" + l.Addr().String()
	if got := strings.TrimSpace(string(line[:n])); got != want {
		t.Fatalf("the child says %q, %v, want %q", got, err, want)
	}
	client := &http.Client{Timeout: patience}
	for _, address := range []net.Listener{l, second} {
		resp, err := client.Get("http://" + address.Addr().String() + "/metrics")
		must(t, err)
		if body, _ := io.ReadAll(resp.Body); string(body) != "activated" {
			t.Errorf("got %q", body)
		}
		resp.Body.Close()
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the child ends with %v", err)
	}
	// systemd still holds the socket: the next connection waits for the next start.
	conn, err := net.DialTimeout("tcp", l.Addr().String(), patience)
	if err != nil {
		t.Errorf("the socket is gone with the child: %v", err)
	} else {
		conn.Close()
	}
}

func TestBadSystemdSocket(t *testing.T) {
	_, tcp := socket(t, "tcp", "127.0.0.1:0")
	t.Chdir(t.TempDir()) // the name of a socket must be short
	_, unix := socket(t, "unix", "s")
	for name, tc := range map[string]struct {
		count   string
		sockets []*os.File
		want    string
	}{
		"none":  {"", nil, "handed over no socket"},
		"other": {"2", []*os.File{tcp, unix}, "want a TCP port"},
		"unix":  {"1", []*os.File{unix}, "want a TCP port"},
		"words": {"many", nil, "ListenStream="},
		"many":  {"17", nil, "ListenStream="},
		"fewer": {"1", nil, "systemd socket activation: "},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, in, out := activate(t, tc.count, tc.sockets...)
			defer in.Close()
			said, _ := io.ReadAll(out)
			_ = cmd.Wait()
			if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(said), tc.want) {
				t.Errorf("%s with %q, want 2 and %q", cmd.ProcessState, said, tc.want)
			}
		})
	}
}

func TestSocketOfAnotherProcess(t *testing.T) {
	t.Setenv("LISTEN_PID", fmt.Sprint(syscall.Getppid()))
	t.Setenv("LISTEN_FDS", "1")
	if _, err := Listen(Options{SystemdSocket: true}); !isConfig(err, "handed over no socket") {
		t.Errorf("%v: took a socket announced to another process", err)
	}
}
