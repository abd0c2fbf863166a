package engines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 3 * time.Minute  // until an engine answers; some need seconds, and the machine may be busy
	stopDefault  = time.Minute      // from SIGTERM to SIGKILL
	probeTimeout = 10 * time.Second // one probe: another program on the port may keep silent
	pollInterval = 20 * time.Millisecond
	tailBytes    = 4 << 10 // of a log, in messages
)

// direct lets engines reach each other without a proxy that our environment
// may name: it could not reach loopback.
var direct = []string{"no_proxy=127.0.0.1,localhost", "NO_PROXY=127.0.0.1,localhost"}

// process is one child that can be started again after it ended. Until it is
// started, the fields below mu are zero.
type process struct {
	name  string // in messages
	argv  []string
	env   []string // added to ours
	dir   string   // working directory; output goes to <name>.out in it
	log   string   // file that explains a failure, besides the output
	ports []int    // all it listens on
	ready func(context.Context) bool

	stopTimeout time.Duration // from SIGTERM to SIGKILL; 0 is the default
	// user is the user that it runs as; nil means ours.
	user *syscall.Credential

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended and was waited for
}

// Command is any program kept as an engine is: a child in its own process group
// that does not outlive this process.
type Command struct{ process }

// StartCommand runs argv in dir, which is made if it is absent, and waits until ready returns true; a nil ready does
// not wait. Output goes to <name>.out in dir. The entries of env override our environment.
func StartCommand(dir, name string, argv, env []string, ready func(context.Context) bool) (*Command, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	c := &Command{process{name: name, argv: argv, env: env, dir: dir, ready: ready}}
	return c, c.Restart()
}

// Ended is closed when the program has ended.
func (c *Command) Ended() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// Output returns the path of the file with the program's output.
func (p *process) Output() string { return filepath.Join(p.dir, p.name+".out") }

// Restart starts the engine again after Kill or Stop, with the same directory
// and ports, and waits until it answers. An engine that ends instead, or does
// not answer in time, is an error with the end of its log, and is gone.
func (p *process) Restart() error {
	if err := p.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	go func() { // no probe outlasts the process
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		probe, done := context.WithTimeout(ctx, probeTimeout)
		isReady := p.ready == nil || p.ready(probe)
		done()
		if isReady {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		switch {
		case ended(p.done) && taken(p.ports) != 0:
			return fmt.Errorf("%s: %w: %d", p.name, errPortTaken, taken(p.ports))
		case ended(p.done):
			return fmt.Errorf("%s in %s ended before it answered:\n%s", p.name, p.dir, p.Tail())
		case ctx.Err() != nil:
			return errors.Join(fmt.Errorf("%s in %s does not answer:\n%s", p.name, p.dir, p.Tail()), p.Kill())
		}
	}
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && !ended(p.done) {
		return fmt.Errorf("%s in %s is already running: stop it first", p.name, p.dir)
	}
	out, err := os.OpenFile(p.Output(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Dir, cmd.Env = p.dir, slices.Concat(os.Environ(), direct, p.env)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes()
	cmd.SysProcAttr.Credential = p.user
	started := make(chan error)
	spawner() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.cmd, p.done = cmd, make(chan struct{})
	go func(done chan struct{}) {
		_ = cmd.Wait() // the status says nothing: after Kill it is the same as after a crash
		close(done)
	}(p.done)
	return nil
}

// Kill ends the engine with SIGKILL, as a power cut would. It returns when the
// process is gone, and does nothing if it is gone already.
func (p *process) Kill() error { return p.end(syscall.SIGKILL) }

// Stop ends the engine with SIGTERM, and after a minute with SIGKILL. It
// returns when the process is gone, and does nothing if it is gone already.
func (p *process) Stop() error { return p.end(syscall.SIGTERM) }

func (p *process) end(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || ended(p.done) {
		return nil
	}
	for _, s := range []syscall.Signal{signal, syscall.SIGKILL} {
		// The signal goes to the whole group, so that no grandchild stays behind.
		if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("send %v to %s: %w", s, p.name, err)
		}
		select {
		case <-p.done:
			return nil
		case <-time.After(cmp.Or(p.stopTimeout, stopDefault)):
		}
	}
	return fmt.Errorf("%s is still there after SIGKILL", p.name)
}

// Tail returns the ends of the engine's error log and output, for messages.
func (p *process) Tail() string {
	var all []string
	for _, path := range []string{p.log, p.Output()} {
		text, err := os.ReadFile(path)
		end := strings.TrimSpace(string(text[max(0, len(text)-tailBytes):]))
		if err == nil && end != "" {
			all = append(all, "--- "+filepath.Base(path)+"\n"+end)
		}
	}
	return strings.Join(all, "\n")
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// spawner returns the way to the one thread that starts all children. Linux
// sends the parent-death signal when the thread that forked ends, not when the
// process does, so that thread must never end.
var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

const (
	// portAttempts bounds how often an engine is started with other ports.
	portAttempts = 5
	// firstPort and lastPort bound the ports of engines. They are below those
	// that the system hands out on its own: between our choice and the engine's
	// listen, or between a kill and a restart, it would give them to others.
	firstPort, lastPort = 10_000, 32_767
	// portTries bounds how many ports are tried to find a free one.
	portTries = 1000
)

// errPortTaken says that another program took a port between our choice and
// the engine's listen.
var errPortTaken = errors.New("port is taken")

// FreePort returns a port for one test, see [Port].
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := Port()
	Need(t, err)
	return port
}

// Port returns a free port on loopback. Neither the system nor another process
// that uses this package hands it out while this process runs.
func Port() (int, error) {
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if reserve(port) && taken([]int{port}) == 0 {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port: %d ports from %d to %d are taken", portTries, firstPort, lastPort)
}

// reserved are UDP sockets on the ports of this process. Engines use TCP only,
// and a second process cannot bind them.
var reserved struct {
	sync.Mutex
	sockets []net.PacketConn
}

func reserve(port int) bool {
	socket, err := net.ListenPacket("udp4", loopback(port))
	if err != nil {
		return false
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.sockets = append(reserved.sockets, socket)
	return true
}

// taken returns the first port that cannot be listened on, or 0.
func taken(ports []int) int {
	for _, port := range ports {
		l, err := net.Listen("tcp4", loopback(port))
		if err != nil {
			return port
		}
		l.Close()
	}
	return 0
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
