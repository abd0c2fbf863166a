package runner

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// Processes that leave the session, the process group, the environment and their parent end
// with the command too.
func TestNothingLeavesTheCommand(t *testing.T) {
	for name, starts := range map[string]string{
		"setsid":      "setsid sleep 1000 3> $FIFO &",
		"daemon":      "(setsid sh -c 'trap \"\" TERM HUP; env -i sleep 1000 3> '$FIFO' & exit' &);",
		"two daemons": "setsid sh -c 'setsid sleep 1000 3> '$FIFO' & setsid sleep 1000 3> '$FIFO' &';",
	} {
		t.Run(name, func(t *testing.T) { testNothingIsLeft(t, starts) })
	}
}

// TestInheritedFiles: what the process that started docgauge left open reaches neither git nor the command.
func TestInheritedFiles(t *testing.T) {
	git, err := exec.LookPath("git")
	check(t, err)
	programs, seen, repo := t.TempDir(), filepath.Join(t.TempDir(), "seen"), engines.GitRepository(t)
	write(t, filepath.Join(programs, "git"), "#!/bin/sh\nls -l /proc/self/fd >>"+seen+"\nexec "+git+" \"$@\"\n")
	check(t, os.Chmod(filepath.Join(programs, "git"), 0o755))
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	leave := func(name string) {
		dir := filepath.Join(t.TempDir(), name)
		check(t, os.Mkdir(dir, 0o700))
		f, err := os.Open(dir)
		check(t, err)
		t.Cleanup(func() { _ = f.Close() })
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFD, 0)
		check(t, err)
	}
	leave("left-before")
	r := openRepo(t, RepoOptions{Path: repo, Command: "cat " + seen + "; ls -l /proc/self/fd"})
	edited := func() string {
		result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"})
		check(t, err)
		return result.Output
	}
	if out := edited(); strings.Contains(out, "left-before") {
		t.Errorf("git or the command has it: %s", out)
	}
	check(t, os.WriteFile(seen, nil, 0o600))
	r.options.Command = "ls -l /proc/self/fd"
	leave("left-later")
	if out := edited(); !strings.Contains(out, "0 -> ") || strings.Contains(out, "left-later") {
		t.Errorf("the command has it: %s", out)
	}
}

// init turns the test binary, under one of three names, into a command that keeps a deleted file in use: open in a
// thread with its own file table, mapped after the first thread has ended, or in transit through a socket.
func init() { //nolint:gochecknoinits // the first thread is here, and no test runs in it
	how := os.Args[0]
	if how != holdsOpen && how != holdsMapped && how != holdsSent {
		return
	}
	go func() {
		runtime.LockOSThread()
		var err, mapErr error
		if how == holdsOpen {
			err = unix.Unshare(unix.CLONE_FILES) // from here on the runtime must open nothing
		}
		fd, openErr := unix.Open(os.Args[1], unix.O_RDONLY, 0)
		if how == holdsSent {
			pair, pairErr := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			err = errors.Join(pairErr, unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(fd), nil, 0), unix.Close(fd))
		}
		if how == holdsMapped {
			_, mapErr = unix.Mmap(fd, 0, deletedSize, unix.PROT_READ, unix.MAP_SHARED)
			mapErr = errors.Join(mapErr, unix.Close(fd))
			for stat := []byte(nil); !bytes.Contains(stat, []byte(") Z ")); stat, _ = os.ReadFile("/proc/self/stat") {
				runtime.Gosched()
			}
		}
		fmt.Println("holds", errors.Join(err, openErr, mapErr, unix.Unlink(os.Args[1])))
		_, _ = unix.Read(0, make([]byte, 1)) // until the test ends
	}()
	if how == holdsMapped {
		_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // of this thread alone
	}
	select {}
}

const holdsOpen, holdsMapped, holdsSent = "docgauge-holds-open", "docgauge-holds-mapped", "docgauge-holds-sent"

const deletedSize = 1 << 20

// TestDeletedFiles: deleted files count, in whichever way a process holds them. Where that is hidden, what the disk has
// lost counts.
func TestDeletedFiles(t *testing.T) {
	self, err := os.Executable()
	check(t, err)
	sleep, err := exec.LookPath("sleep")
	check(t, err)
	program, err := os.ReadFile(sleep)
	check(t, err)
	start := func(cmd *exec.Cmd) int {
		in, inErr := cmd.StdinPipe()
		out, err := cmd.StdoutPipe()
		check(t, errors.Join(inErr, err, cmd.Start()))
		t.Cleanup(func() { _, _, _ = in.Close(), cmd.Process.Kill(), cmd.Wait() })
		if cmd.Path == self {
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "holds <nil>\n" {
				t.Fatal(line, err)
			}
		}
		return cmd.Process.Pid
	}
	for name, hold := range map[string]func(path string) (pid int){
		"open in a thread with files of its own": func(path string) int {
			return start(&exec.Cmd{Path: self, Args: []string{holdsOpen, path}})
		},
		"mapped, the first thread has ended": func(path string) int {
			return start(&exec.Cmd{Path: self, Args: []string{holdsMapped, path}})
		},
		"a program that runs": func(path string) int {
			check(t, errors.Join(os.WriteFile(path, append(program, make([]byte, deletedSize)...), 0o600),
				os.Chmod(path, 0o700)))
			pid := start(&exec.Cmd{Path: path, Args: []string{"sleep", "1000"}})
			check(t, os.Remove(path))
			return pid
		},
		"hidden in a socket": func(path string) int {
			return start(&exec.Cmd{Path: self, Args: []string{holdsSent, path}})
		},
		// The kernel hides the open files of a process whose program its user cannot read, except from root.
		"open in a process with an unreadable program": func(path string) int {
			own := filepath.Join(t.TempDir(), "own")
			held, err := os.Open(path)
			check(t, err)
			defer held.Close()
			check(t, errors.Join(os.WriteFile(own, program, 0o600), os.Chmod(own, 0o111), os.Remove(path)))
			return start(&exec.Cmd{Path: own, Args: []string{"sleep", "1000"}, ExtraFiles: []*os.File{held}})
		},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x")
		write(t, path, strings.Repeat("x", deletedSize))
		pid := hold(path)
		n, isHidden := deletedFiles(pid, dir)
		if wants := strings.HasPrefix(name, "hidden"); isHidden && !wants || !isHidden && n < deletedSize || n > 10*deletedSize {
			t.Errorf("%s: %d bytes, hidden %t", name, n, isHidden)
		}
		if err := (&workplace{dir: dir}).exceeds(1<<30, pid, 1<<62); errors.Is(err, errDisk) != isHidden {
			t.Errorf("%s, of a disk that is full: %v", name, err)
		}
	}
}

// TestWhoHasTheLock: every git and every reaper keeps the lock of the directory of jobs open, except git below a
// reaper, which ends with it. So after a kill no process can take the directory until they have ended. The command
// does not get the lock, because it may start processes that cannot be ended.
func TestWhoHasTheLock(t *testing.T) {
	git, err := exec.LookPath("git")
	check(t, err)
	programs, seen, repo := t.TempDir(), filepath.Join(t.TempDir(), "seen"), engines.GitRepository(t)
	write(t, filepath.Join(programs, "git"), "#!/bin/sh\n"+
		"[ \"$GIT_WORK_TREE\" ] || echo \"$(readlink /proc/$$/fd/3) $*\" >>"+seen+"\nexec "+git+
		" \"$@\"\n")
	check(t, os.Chmod(filepath.Join(programs, "git"), 0o755))
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	r := openRepo(t, RepoOptions{Path: filepath.Join(t.TempDir(), "copy.git"), URL: "file://" + repo,
		Command: "readlink /proc/$PPID/fd/3 >above.md; readlink /proc/$$/fd/3 >own.md; true"})
	c := edit(t, r, Task{Job: "job_1", Prompt: "x"})
	text, err := os.ReadFile(seen)
	check(t, err)
	lock := filepath.Join(r.dir, lockName)
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, lock+" ") {
			t.Errorf("git without the lock: %s", line)
		}
	}
	for name, want := range map[string]string{"above.md": lock, "own.md": ""} {
		if got := engines.Git(t, r.git.Dir, "show", c.Head+":"+name); got != want {
			t.Errorf("%s %q, want %q", name, got, want)
		}
	}
}
