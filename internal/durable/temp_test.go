package durable_test

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/docgauge/docgauge/internal/durable"
)

// TestMain lets the test's own binary be a process that holds a directory until it
// is killed.
func TestMain(m *testing.M) {
	parent := os.Getenv("HOLD_TEMP_IN")
	if parent == "" {
		os.Exit(m.Run())
	}
	temp, err := durable.NewTemp(parent, "pages")
	if err == nil {
		err = os.WriteFile(filepath.Join(temp.Path, "window.parquet"), make([]byte, 1<<16), 0o600)
	}
	if err != nil {
		os.Stdout.WriteString("error: " + err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString(temp.Path + "\n")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
	_ = temp.Remove()
}

// holder is another process with a temporary directory below parent.
func holder(t *testing.T, parent string) (path string, kill func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "HOLD_TEMP_IN="+parent)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	lines := bufio.NewScanner(out)
	if !lines.Scan() || filepath.Dir(lines.Text()) != parent {
		t.Fatalf("the process said %q", lines.Text())
	}
	return lines.Text(), kill
}

// TestTempOfAKilledProcess is removed by the next one that makes its like, and by a sweep. Directories of processes
// that live stay.
func TestTempOfAKilledProcess(t *testing.T) {
	for about, next := range map[string]func(parent string) error{
		"another is made": func(parent string) error {
			temp, err := durable.NewTemp(parent, "pages")
			return errors.Join(err, temp.Remove())
		},
		"sweep": func(parent string) error { return durable.SweepTemp(parent, "load", "pages") },
	} {
		t.Run(about, func(t *testing.T) {
			parent := t.TempDir()
			dead, kill := holder(t, parent)
			living, _ := holder(t, parent)
			mine, err := durable.NewTemp(parent, "pages")
			if err != nil {
				t.Fatal(err)
			}
			if err := next(parent); err != nil {
				t.Fatal(err)
			}
			alone(t, parent, sorted(dead, living, mine.Path)...)
			kill()
			if err := next(parent); err != nil {
				t.Fatal(err)
			}
			alone(t, parent, sorted(living, mine.Path)...)
			alone(t, living, ".owner", "window.parquet")
			if err := mine.Remove(); err != nil {
				t.Fatal(err)
			}
			alone(t, parent, sorted(living)...)
		})
	}
}

// TestNoTemp: a machine without a directory for temporary files gets the remedy.
func TestNoTemp(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if _, err := durable.NewTemp("", "pages"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("%v", err)
	}
}

// TestSweepLeavesOthers: links, files, directories of other programs, and other kinds.
func TestSweepLeavesOthers(t *testing.T) {
	parent, away := t.TempDir(), t.TempDir()
	other, err := durable.NewTemp(parent, "pages")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Remove()
	for _, err := range []error{
		os.Symlink(away, filepath.Join(parent, "load-link")),
		os.WriteFile(filepath.Join(parent, "load-file"), nil, 0o600),
		os.WriteFile(filepath.Join(away, "kept"), nil, 0o600),
		os.Mkdir(filepath.Join(parent, "load-begun"), 0o700), // died before it was locked
		os.MkdirAll(filepath.Join(parent, "load-foreign", "something"), 0o700),
		os.Mkdir(filepath.Join(parent, "loader"), 0o700),
		durable.SweepTemp(parent, "load"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	alone(t, parent, append([]string{"load-file", "load-foreign", "load-link", "loader"}, sorted(other.Path)...)...)
	alone(t, away, "kept")
}

// TestSweepWhileOthersMake: a new directory belongs to its maker, however many sweep.
func TestSweepWhileOthersMake(t *testing.T) {
	parent := t.TempDir()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 100 {
				temp, err := durable.NewTemp(parent, "pages")
				if err != nil {
					t.Error(err)
					return
				}
				file := filepath.Join(temp.Path, "file")
				if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Remove(file), temp.Remove()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	alone(t, parent)
}
