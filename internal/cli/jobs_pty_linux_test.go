package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"golang.org/x/sys/unix"
)

// pty is a terminal of some size with a process on it, and what it shows.
type pty struct {
	t       *testing.T
	control *os.File
	cmd     *exec.Cmd
	read    chan struct{} // closed when the process has closed the terminal

	mu  sync.Mutex
	raw strings.Builder // all that was written
	vt  vt
}

// onTerminal starts the real binary on a terminal of the size. Its standard output
// goes to out, or to the terminal where that is nil.
func (p place) onTerminal(t *testing.T, width, height int, out io.Writer, args ...string) *pty {
	t.Helper()
	control, name := openTerminal(t)
	side, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer side.Close()
	s := &pty{t: t, control: control, read: make(chan struct{})}
	s.resize(width, height)
	s.cmd = exec.Command("docgauge", args...)
	s.cmd.Dir, s.cmd.Env = p.dir, append(p.env, "TERM=xterm")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = side, out, side
	if out == nil {
		s.cmd.Stdout = side
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
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

func openTerminal(t *testing.T) (control *os.File, name string) {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("NOT TESTED: no terminals on this machine: %v", err)
	}
	number, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	return control, fmt.Sprintf("/dev/pts/%d", number)
}

func (s *pty) resize(width, height int) {
	size := unix.Winsize{Row: uint16(height), Col: uint16(width)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vt.old, s.vt.over = s.vt.width > width, true
	s.vt.width, s.vt.height = width, height
	s.vt.at()
	if err := unix.IoctlSetWinsize(int(s.control.Fd()), unix.TIOCSWINSZ, &size); err != nil {
		s.t.Error(err)
	}
}

// watch takes in what is written, until nobody has the terminal open any more.
func (s *pty) watch() {
	defer close(s.read)
	buf := make([]byte, 64<<10)
	for {
		n, err := s.control.Read(buf)
		s.mu.Lock()
		s.raw.Write(buf[:n])
		s.vt.write(buf[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// shows returns the lines of the terminal, without those that are empty at the end.
func (s *pty) shows() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vt.text()
}

// fits reports whether something was drawn for the size of the terminal since it
// became narrower.
func (s *pty) fits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.vt.old
}

// await waits until a line of the terminal has all of the words.
func (s *pty) await(words ...string) {
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

func hasAll(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}

// ends waits for the end of the process and returns its exit code.
func (s *pty) ends() int {
	s.t.Helper()
	err := s.cmd.Wait()
	<-s.read
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.vt.odd) > 0 {
		s.t.Errorf("the terminal was told more than to draw: %q", s.vt.odd)
	}
	if s.vt.hidden || s.vt.noWrap {
		s.t.Errorf("the terminal was left with the cursor hidden (%v) or lines not wrapped (%v)", s.vt.hidden, s.vt.noWrap)
	}
	return s.cmd.ProcessState.ExitCode()
}

// vt is as much of a terminal as a table in its place needs. Whatever else it is
// told to do is odd.
type vt struct {
	width, height  int
	lines          [][]rune // from the first on, those that have scrolled away too
	row, col       int
	top            int // first line that is on the screen
	hidden, noWrap bool
	// old: the terminal has become narrower, and what was drawn for its former width
	// may still come. It ends with the first whole frame in which no line is over.
	old, over bool
	odd       []string
	rest      []byte // of a character or sequence that has not come whole
}

func (v *vt) write(p []byte) {
	p = append(v.rest, p...)
	for len(p) > 0 && utf8.FullRune(p) {
		n := v.sequence(p)
		if p[0] != '\x1b' {
			var r rune
			r, n = utf8.DecodeRune(p)
			v.put(r)
		}
		if n == 0 {
			break // it has not come whole
		}
		p = p[n:]
	}
	v.rest = append([]byte(nil), p...)
}

// sequence obeys a control sequence and returns its length, 0 if it is not whole.
func (v *vt) sequence(p []byte) int {
	for i := 2; p[0] == '\x1b' && i < len(p); i++ {
		if p[i] >= '@' && p[i] <= '~' {
			v.obey(string(p[:i+1]))
			return i + 1
		}
	}
	return 0
}

func (v *vt) obey(sequence string) {
	var n int
	switch sequence {
	case hideCursor:
		v.hidden, v.over = true, false
	case showCursor:
		v.hidden, v.old = false, v.old && v.over
	case noWrap, wrap:
		v.noWrap = sequence == noWrap
	case eraseRight:
		v.lines[v.row] = v.lines[v.row][:min(v.col, len(v.lines[v.row]))]
	case eraseBelow:
		v.at()
		v.lines[v.row] = v.lines[v.row][:min(v.col, len(v.lines[v.row]))]
		v.lines = v.lines[:v.row+1]
	default:
		if got, err := fmt.Sscanf(sequence, "\x1b[%dA", &n); got != 1 || err != nil || sequence != fmt.Sprintf("\x1b[%dA", n) {
			v.odd = append(v.odd, sequence)
			return
		}
		v.row = max(v.row-n, v.top)
	}
}

// at makes sure that there is a line where the cursor is, and that it is on the
// screen.
func (v *vt) at() {
	v.top = max(v.top, v.row-v.height+1)
	for len(v.lines) <= v.row {
		v.lines = append(v.lines, nil)
	}
}

func (v *vt) put(r rune) {
	switch {
	case r == '\r':
		v.col = 0
		return
	case r == '\n':
		v.row++
		v.at()
		return
	case r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError:
		v.odd = append(v.odd, fmt.Sprintf("%U", r))
		return
	}
	v.at()
	if v.col >= v.width && v.noWrap {
		if v.over = true; !v.old {
			v.odd = append(v.odd, fmt.Sprintf("%c beyond the last column", r))
		}
		return
	}
	if v.col >= v.width {
		v.row, v.col = v.row+1, 0
		v.at()
	}
	line := v.lines[v.row]
	for len(line) <= v.col {
		line = append(line, ' ')
	}
	line[v.col] = r
	v.lines[v.row], v.col = line, v.col+1
}

func (v *vt) text() []string {
	var out []string
	for _, line := range v.lines[v.top:] {
		out = append(out, strings.TrimRight(string(line), " "))
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}
