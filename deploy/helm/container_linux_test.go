package helm

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// container is one process in a root file system of its own, with mounts of its
// own, in the network of the test.
type container struct {
	Root     string
	ReadOnly bool
	Mounts   []mount
	UID, GID int
	Groups   []int
	Argv     []string
	Env      []string
}

// mount is a directory of this machine at a path in the container.
type mount struct {
	Source, Target string
	ReadOnly       bool
}

const containerVariable = "HELM_TEST_CONTAINER"

// TestMain lets this binary become a container.
func TestMain(m *testing.M) {
	if text := os.Getenv(containerVariable); text != "" {
		fmt.Fprintln(os.Stderr, "container:", become(text))
		os.Exit(125)
	}
	os.Exit(m.Run())
}

// command is a process that becomes the container and dies with the test.
func (c container) command(t *testing.T) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount and to become another user")
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = []string{containerVariable + "=" + string(text)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// become does what a runtime does between clone and exec. It returns only where
// something fails.
func become(text string) error {
	var c container
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := bind(c.Root, c.Root, c.ReadOnly); err != nil {
		return err
	}
	for _, m := range c.Mounts {
		if err := bind(m.Source, c.Root+m.Target, m.ReadOnly); err != nil {
			return err
		}
	}
	if err := unix.Chroot(c.Root); err != nil {
		return fmt.Errorf("chroot %s: %w", c.Root, err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if err := c.drop(); err != nil {
		return err
	}
	return unix.Exec(c.Argv[0], c.Argv, c.Env)
}

func bind(source, target string, readOnly bool) error {
	err := unix.Mount(source, target, "", unix.MS_BIND, "")
	if err == nil && readOnly {
		err = unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	if err != nil {
		return fmt.Errorf("mount %s at %s: %w", source, target, err)
	}
	return nil
}

// drop becomes the user. The wish to die with the parent ends with that, so it
// is said again.
func (c container) drop() error {
	for _, step := range []func() error{
		func() error { return syscall.Setgroups(c.Groups) },
		func() error { return syscall.Setgid(c.GID) },
		func() error { return syscall.Setuid(c.UID) },
		func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) },
		func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("user %d: %w", c.UID, err)
		}
	}
	return nil
}
