package runner

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// reaper is this program, started once more, that runs a command. It
	// becomes the parent of processes that the command leaves behind, in any session, and
	// kills them when the command ends, when it is asked to end, and when we die.
	reaper = "reaper"
	// bridge is this program in a jail, that runs a command which reaches the proxy.
	bridge = "bridge"
	self   = "/proc/self/exe"
	// reapTime is the time for which it tries: a process of another user cannot be killed.
	reapTime = time.Second
)

// supervise lets a command that was not started yet run below a reaper, which lets it write no file larger than
// most, so that it cannot fill the disk between two looks by one call. Where /proc is not
// mounted it runs by itself, and processes that leave its session outlive it.
func supervise(cmd *exec.Cmd, lock *os.File, most int64) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if _, err := os.Stat(self); err != nil {
		return
	}
	// The lock of the directory of jobs, which may be nil, ends with the reaper: no other process of ours takes the
	// directory while something of the command is left.
	cmd.Path, cmd.Args = self, append([]string{"docgauge", helperCommand, reaper, strconv.FormatInt(most, 10),
		strconv.Itoa(len(cmd.ExtraFiles)), cmd.Path}, cmd.Args...)
	cmd.ExtraFiles = append([]*os.File{lock}, cmd.ExtraFiles...)
	cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
}

func help(args []string) int {
	switch {
	case len(args) > 4 && args[0] == reaper:
		return reap(args[1], args[2], args[3], args[4:])
	case len(args) > 1 && args[0] == bridge:
		return runBridge(args[1:])
	}
	fmt.Fprintln(os.Stderr, "docgauge starts this command itself, for agent jobs")
	return 2
}

// reap runs a program with a number of files besides the first three, ends the processes that it leaves, and returns
// its exit code.
func reap(most, files, program string, args []string) int {
	runtime.LockOSThread() // the program would die with the thread that started it
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "cannot adopt processes that the command leaves behind:", err)
	}
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit)
	if size, bad := strconv.ParseUint(most, 10, 64); err == nil && bad == nil && size < limit.Max {
		err = unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: size})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot limit the size of the command's files:", err)
		return 126
	}
	// Where memory ends, the command ends, not docgauge or another service.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	// A core dump would contain the agent's variables. A limit of 1 byte prevents core dumps, even where the kernel pipes
	// them to a program, which a limit of 0 does not.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	if err := closeInherited(); err != nil {
		fmt.Fprintln(os.Stderr, "files of the process that started docgauge would reach the command:", err)
		return 126
	}
	pass := []uintptr{0, 1, 2}
	extra, _ := strconv.Atoi(files) // supervise wrote it
	if extra > 0 && os.Geteuid() == 0 {
		if err := closeDevices(); err != nil {
			fmt.Fprintln(os.Stderr, "cannot protect /dev from a jail of root; run docgauge as an ordinary user:", err)
			return 126
		}
	}
	for i := range extra {
		pass = append(pass, uintptr(4+i)) // 3 is the lock
	}
	child, err := syscall.ForkExec(program, args, &syscall.ProcAttr{
		Env: os.Environ(), Files: pass, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 127
	}
	go func() {
		<-stop
		_ = syscall.Kill(child, syscall.SIGKILL) // the rest follows
	}()
	var status syscall.WaitStatus
	for pid := 0; pid != child; {
		if pid, err = syscall.Wait4(-1, &status, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return 127
		}
	}
	killChildren()
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// closeDevices keeps the files of devices from being changed by what this thread starts, which bubblewrap takes from
// the machine: root could take the permissions of /dev/null from all others. They can still be written to.
func closeDevices() error {
	err := unix.Unshare(unix.CLONE_NEWNS)
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		path := "/dev/" + name
		err = errors.Join(err, unix.Mount(path, path, "", unix.MS_BIND, ""),
			unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
	}
	return err
}

// closeInherited keeps files that are open in this process, also those that the process which started it left open,
// from the programs that it starts.
func closeInherited() error {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	open, err := os.ReadDir("/proc/self/fd") // before Linux 5.11
	for _, entry := range open {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return err
}

// killChildren kills all children, and theirs, which become children by that.
func killChildren() {
	for deadline := time.Now().Add(reapTime); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, pid := range children() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		for pid := 1; pid > 0; {
			var err error
			if pid, err = syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == syscall.ECHILD {
				return
			}
		}
	}
}

// children returns the processes whose parent this one is.
func children() (pids []int) {
	for pid, parent := range parents() {
		if parent == os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// parents returns the parent of each process.
func parents() map[int]int {
	of := map[int]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, _ := os.ReadFile(name) // of one that just ended nothing
		// "12 (a name) S 11 …": a name can have anything in it, the last ) ends it.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) > 1 {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			parent, parentErr := strconv.Atoi(string(fields[1]))
			if err == nil && parentErr == nil {
				of[pid] = parent
			}
		}
	}
	return of
}

// freeBytes returns what is free on the disk of dir.
func freeBytes(dir string) int64 {
	var disk unix.Statfs_t
	if unix.Statfs(dir, &disk) != nil {
		return 0
	}
	return int64(disk.Bfree) * disk.Bsize //nolint:gosec // less than 1 << 63
}

// deletedFiles returns the size, in bytes, of the deleted files on the disk of dir that the process pid and its
// descendants still use: as open files, mapped or as their program. Every thread is searched, because each can have open
// files of its own and the first may have ended. hidden reports that there may be more, which /proc does not show: files
// in transit through a socket, and open files of a process whose program its user cannot read.
func deletedFiles(pid int, dir string) (n int64, hidden bool) {
	var disk unix.Stat_t
	if unix.Stat(dir, &disk) != nil {
		return 0, false
	}
	sizes := map[uint64]int64{} // by inode
	count := func(path string) (mode uint32) {
		var file unix.Stat_t
		if unix.Stat(path, &file) == nil && file.Nlink == 0 && file.Dev == disk.Dev {
			sizes[file.Ino] = max(file.Blocks*512, leastFile)
		}
		return file.Mode & unix.S_IFMT
	}
	of := parents()
	for p := range of {
		above := p
		for above > 1 && above != pid {
			above = of[above]
		}
		if above != pid {
			continue
		}
		threads, _ := filepath.Glob("/proc/" + strconv.Itoa(p) + "/task/*")
		var maps []byte // the same in all threads
		for _, of := range threads {
			count(of + "/exe")
			open, err := os.ReadDir(of + "/fd")
			if errors.Is(err, fs.ErrPermission) { // as of threads that have ended
				stat, _ := os.ReadFile(of + "/stat")
				state := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:])
				hidden = hidden || len(state) > 0 && state[0] != 'Z' && state[0] != 'X'
			}
			for _, entry := range open {
				if count(of+"/fd/"+entry.Name()) == unix.S_IFSOCK && !hidden {
					info, _ := os.ReadFile(of + "/fdinfo/" + entry.Name())
					_, waiting, known := bytes.Cut(info, []byte("scm_fds: ")) // Linux 5.6
					hidden = known && !bytes.HasPrefix(waiting, []byte("0"))
				}
			}
			if len(maps) == 0 {
				maps, _ = os.ReadFile(of + "/maps")
			}
		}
		for line := range strings.Lines(string(maps)) {
			// "7f0000000000-7f0000001000 rw-s 00002000 fd:01 1234   /a name (deleted)"; its size is not known
			var from, to, offset, ino uint64
			var mode string
			var major, minor uint32
			_, err := fmt.Sscanf(line, "%x-%x %s %x %x:%x %d", &from, &to, &mode, &offset, &major, &minor, &ino)
			if err == nil && strings.HasSuffix(line, " (deleted)\n") && unix.Mkdev(major, minor) == disk.Dev {
				sizes[ino] = max(sizes[ino], int64(offset+to-from)) //nolint:gosec // less than 1 << 63
			}
		}
	}
	for _, size := range sizes {
		n += size
	}
	return n, hidden
}
