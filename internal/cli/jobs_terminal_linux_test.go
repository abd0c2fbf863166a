package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// TestJobsStatusLine watches a run on a terminal: each change is a log line, the counts
// stay on the last line, and nothing of it is left at the end.
func TestJobsStatusLine(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Agent: sandbox.Agent{After: 10 * time.Millisecond}})
	all := map[string]string{"slow.md": "Slow. [sandbox:slow=1h]", "fails.md": "Fails. [sandbox:fail]",
		"wrong.md": "---\ntilte: x\n---\nText"}
	for i := range 20 {
		all[fmt.Sprintf("waits/%02d.md", i)] = "---\ndepends_on: [slow.md]\n---\nText"
	}
	p := queuePlace(t, s, all, "DOCGAUGE_MAX_JOBS_PER_DAY=5")
	var out strings.Builder
	terminal := p.onTerminal(t, 120, &out, "jobs", "run", "--wait")
	terminal.await("agent job sent", "slow.md")
	terminal.await("agent job ended", "fails.md", "state=failed")
	terminal.awaitLast("20 pending, 1 active, 1 invalid, 1 failed", "1 of 3 at work", "2 of 5 in 24 h")
	terminal.resize(40)
	check(t, terminal.cmd.Process.Signal(os.Interrupt))
	terminal.ends(exitFailed)
	if text := out.String(); !strings.Contains(text, "2 jobs created") || strings.Contains(text, "\x1b") {
		t.Errorf("standard output: %s", text)
	}
}

// TestJobsInterrupt: Ctrl-C ends the run once a pending request is answered, and
// restores the terminal.
func TestJobsInterrupt(t *testing.T) {
	t.Parallel()
	s := &oddService{read: goodJob, answers: map[string]oddAnswer{"a": {status: http.StatusCreated, body: goodJob}},
		held: make(chan struct{})}
	p := oddPlace(t, s, "a", "b")
	terminal := p.onTerminal(t, 100, nil, "jobs", "run", "--wait")
	terminal.awaitLast("1 submitting")
	testbed.Await(t, "the service has the prompt", func() bool { return len(s.created()) == 1 })
	terminal.press("\x03")
	terminal.awaitLast("stopping once the pending")
	close(s.held)
	terminal.ends(exitFailed)
	list := string(p.run(t, "jobs", "list"))
	if !strings.Contains(list, "a.md") || !strings.Contains(list, "active") ||
		strings.Contains(list, "b.md") || len(s.created()) != 1 {
		t.Errorf("want a.md sent and followed, and b.md not begun:\n%s", list)
	}
}

// terminal is a terminal with a process on it. It knows lines, and how one is emptied;
// any other output is unexpected.
type terminal struct {
	t       *testing.T
	control *os.File
	cmd     *exec.Cmd
	read    chan struct{} // closed when the process has closed the terminal

	mu    sync.Mutex
	lines []string // the last line has the cursor
	start bool     // the cursor is at the beginning of its line
	odd   []string
	// widest is the widest line that was there at any time, all is everything that was
	// written.
	widest string
	all    strings.Builder
	part   string // of a character or sequence that has not come whole
}

// onTerminal starts the real binary on a terminal. Its standard output goes to out, or
// to the terminal if that is nil.
func (p place) onTerminal(t *testing.T, width int, out io.Writer, args ...string) *terminal {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("NOT TESTED: no terminals on this machine: %v", err)
	}
	number, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	check(t, errors.Join(err, unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0)))
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	check(t, err)
	defer side.Close()
	s := &terminal{t: t, control: control, read: make(chan struct{}), lines: []string{""}}
	s.resize(width)
	s.cmd = p.command(args...)
	s.cmd.Env = append(s.cmd.Env, "TERM=xterm")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = side, out, side
	if out == nil {
		s.cmd.Stdout = side
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	check(t, s.cmd.Start())
	go s.watch()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = control.Close()
		if t.Failed() {
			t.Logf("on the terminal:\n%s", strings.Join(s.shows(), "\n"))
		}
	})
	return s
}

func (s *terminal) resize(width int) {
	size := unix.Winsize{Row: 24, Col: uint16(width)}
	if err := unix.IoctlSetWinsize(int(s.control.Fd()), unix.TIOCSWINSZ, &size); err != nil {
		s.t.Error(err)
	}
}

func (s *terminal) press(keys string) {
	s.t.Helper()
	if _, err := s.control.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// watch reads the output until the terminal is closed.
func (s *terminal) watch() {
	defer close(s.read)
	buf := make([]byte, 64<<10)
	for {
		n, err := s.control.Read(buf)
		s.mu.Lock()
		s.write(s.part + string(buf[:n]))
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *terminal) write(text string) {
	const empty = "\x1b[K"
	s.all.WriteString(text)
	for text != "" {
		last := &s.lines[len(s.lines)-1]
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case text[0] == '\x1b' && len(text) < len(empty) || !utf8.FullRuneInString(text):
			s.part = text
			return
		case strings.HasPrefix(text, empty):
			n = len(empty)
			if *last = ""; !s.start {
				s.odd = append(s.odd, "a line emptied in its middle")
			}
		case r == '\r':
			s.start = true
		case r == '\n':
			s.lines = append(s.lines, "")
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError:
			s.odd = append(s.odd, fmt.Sprintf("%U", r))
		default:
			if s.start {
				*last = "" // the next text is at least as long
			}
			*last += string(r)
			s.start = false
			if columnsOf(*last) > columnsOf(s.widest) {
				s.widest = *last
			}
		}
		text = text[n:]
	}
	s.part = ""
}

// shows returns the lines of the terminal, the last of which has the cursor.
func (s *terminal) shows() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.lines...)
}

// await waits until a line of the terminal has all of the words.
func (s *terminal) await(words ...string) {
	s.t.Helper()
	testbed.Await(s.t, "the terminal shows "+strings.Join(words, " "), func() bool {
		for _, line := range s.shows() {
			if hasAll(line, words) {
				return true
			}
		}
		return false
	})
}

// awaitLast waits until the last line has all of the words.
func (s *terminal) awaitLast(words ...string) {
	s.t.Helper()
	testbed.Await(s.t, "the last line shows "+strings.Join(words, " "), func() bool {
		lines := s.shows()
		return hasAll(lines[len(lines)-1], words)
	})
}

func hasAll(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}

// ends waits for the end of the process, with one of these exit codes.
func (s *terminal) ends(codes ...int) {
	s.t.Helper()
	err := s.cmd.Wait()
	<-s.read
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		s.t.Fatal(err)
	}
	if len(s.odd) > 0 {
		s.t.Errorf("the terminal was told more than to write lines: %q", s.odd)
	}
	if last := s.lines[len(s.lines)-1]; last != "" {
		s.t.Errorf("left on the terminal: %q", last)
	}
	if code := s.cmd.ProcessState.ExitCode(); !slices.Contains(codes, code) {
		s.t.Errorf("%s: exit code %d", s.cmd.Args, code)
	}
}
