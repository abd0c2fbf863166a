package engines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startTimeout = 3 * time.Minute  // until an engine answers; some need seconds, and the machine may be busy
	stopDefault  = time.Minute      // from SIGTERM to SIGKILL
	probeTimeout = 10 * time.Second // one question whether it answers: a stranger on its port may keep silent
	pollInterval = 20 * time.Millisecond
	tailBytes    = 4 << 10 // of a log, in messages
)

// direct lets engines ask each other without a proxy that our environment may
// name: it could not reach loopback.
var direct = []string{"no_proxy=127.0.0.1,localhost", "NO_PROXY=127.0.0.1,localhost"}

// process is one child that can be started again after it ended. The zero
// value of the fields below mu is a child that was never started.
type process struct {
	name  string // in messages
	argv  []string
	env   []string // added to ours
	dir   string   // working directory; output goes to <name>.out in it
	log   string   // the file that tells why it failed, if not its output
	ports []int    // all it listens on
	ready func(context.Context) bool

	stopTimeout time.Duration // from SIGTERM to SIGKILL; 0 is the default

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended and was waited for
}

// Restart starts the engine again after Kill or Stop, with the same directory
// and the same ports, and waits until it answers.
func (p *process) Restart() error {
	if err := p.start(); err != nil {
		return err
	}
	return p.await()
}

// Kill ends the engine with SIGKILL, as a power cut would. It returns when the
// process is gone; to kill one that is gone does nothing.
func (p *process) Kill() error { return p.end(syscall.SIGKILL) }

// Stop ends the engine with SIGTERM, and after a minute with SIGKILL. It
// returns when the process is gone; to stop one that is gone does nothing.
func (p *process) Stop() error { return p.end(syscall.SIGTERM) }

// Tail returns the end of the engine's error log, for messages.
func (p *process) Tail() string {
	var all []string
	for _, path := range []string{p.log, p.output()} {
		if text := tail(path); text != "" {
			all = append(all, "--- "+filepath.Base(path)+"\n"+text)
		}
	}
	return strings.Join(all, "\n")
}

func (p *process) output() string { return filepath.Join(p.dir, p.name+".out") }

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && !ended(p.done) {
		return fmt.Errorf("%s in %s is already running: stop it first", p.name, p.dir)
	}
	out, err := os.OpenFile(p.output(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Dir, cmd.Env = p.dir, slices.Concat(os.Environ(), direct, p.env)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes()
	if err := spawn(cmd); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.cmd, p.done = cmd, make(chan struct{})
	go func(done chan struct{}) {
		_ = cmd.Wait() // how it ended is of no use: Kill and an own exit look alike
		close(done)
	}(p.done)
	return nil
}

// await returns when the engine answers. An engine that ended instead, or does
// not answer in time, is an error with the end of its log, and is gone.
func (p *process) await() error {
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
	for !p.probe(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		switch {
		case ended(p.done):
			return p.failure("ended before it answered")
		case ctx.Err() != nil:
			return errors.Join(p.failure("does not answer"), p.Kill())
		}
	}
	return nil
}

func (p *process) probe(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return p.ready(ctx)
}

func (p *process) failure(what string) error {
	if port := taken(p.ports); port != 0 && ended(p.done) {
		return fmt.Errorf("%s: %w: %d", p.name, errPortTaken, port)
	}
	return fmt.Errorf("%s in %s %s:\n%s", p.name, p.dir, what, p.Tail())
}

func (p *process) end(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || ended(p.done) {
		return nil
	}
	if err := p.signal(signal); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(cmp.Or(p.stopTimeout, stopDefault)):
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// signal reaches the whole process group, so that no grandchild stays behind.
func (p *process) signal(signal syscall.Signal) error {
	err := syscall.Kill(-p.cmd.Process.Pid, signal)
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %v to %s: %w", signal, p.name, err)
	}
	return nil
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// spawns carries children to the thread that starts them all. Linux sends the
// parent-death signal when the thread that forked ends, not the process, so
// that thread must be one that never ends.
var spawns = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func spawn(cmd *exec.Cmd) error {
	result := make(chan error)
	spawns() <- func() { result <- cmd.Start() }
	return <-result
}

// tail returns the end of a file, or nothing where there is none.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text[max(0, len(text)-tailBytes):]))
}
