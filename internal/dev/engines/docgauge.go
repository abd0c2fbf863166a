package engines

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// binaryVariable names the docgauge to test. The Makefile sets it. Its prefix
// is not DOCGAUGE_, because docgauge refuses variables it does not know.
const binaryVariable = "TEST_DOCGAUGE_BINARY"

// Docgauge returns the path of the docgauge program for a test, see
// [DocgaugeBinary].
func Docgauge(t testing.TB) string {
	t.Helper()
	path, err := DocgaugeBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// DocgaugeBinary returns the absolute path of the docgauge program that tests
// and benchmarks run: the file named by TEST_DOCGAUGE_BINARY or, where that is
// unset, bin/docgauge-test, which is brought up to date first. The program is
// static and has the compiler flags of `CGO_ENABLED=0 go test`, so that both
// share all compiled packages.
var DocgaugeBinary = sync.OnceValues(func() (string, error) {
	path := os.Getenv(binaryVariable)
	if path == "" {
		path = filepath.Join(root(), "bin", "docgauge-test")
		if err := buildDocgauge(path); err != nil {
			return "", fmt.Errorf("build docgauge: %w", err)
		}
		watchSources()
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s: %w: build it, or unset the variable", binaryVariable, err)
	}
	return path, nil
})

// Sandbox starts the sandbox of a docgauge, by default on a free port, until the test ends,
// and returns the settings that it prints.
func Sandbox(t testing.TB, program string, args ...string) map[string]string {
	t.Helper()
	if len(args) == 0 {
		args = []string{"sandbox", "--listen=127.0.0.1:0"}
	}
	sandbox, settings, err := StartSandbox(t.TempDir(), append([]string{program}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sandbox.Kill() })
	return settings
}

var printed = regexp.MustCompile(`(?m)^(?:export )?(DOCGAUGE_[A-Z_]+)=(\S+)$`)

// sandboxSettings is the number of settings that the sandbox prints.
const sandboxSettings = 5

// StartSandbox starts the sandbox of a docgauge in dir, and returns the settings that it prints.
func StartSandbox(dir string, argv ...string) (sandbox *Command, settings map[string]string, err error) {
	sandbox, err = StartCommand(dir, "sandbox", argv, nil, func(context.Context) bool {
		text, _ := os.ReadFile(filepath.Join(dir, "sandbox.out"))
		settings = map[string]string{}
		for _, m := range printed.FindAllStringSubmatch(string(text), -1) {
			settings[m[1]] = strings.Trim(m[2], `'"`)
		}
		return len(settings) == sandboxSettings
	})
	return sandbox, settings, err
}

// buildDocgauge holds a lock, because several packages are tested at once. The
// go command does not touch a program that is up to date.
func buildDocgauge(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	build := exec.Command("go", "build", "-o", path, "./cmd/docgauge")
	build.Dir, build.Env = root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// watchSources looks at every source file. The go command keeps a test's result
// until a file changes that the test process itself looked at.
func watchSources() {
	_ = filepath.WalkDir(root(), func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			_, _ = os.Stat(path) // looking is all that counts
		}
		return nil
	})
}
