package engines

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// installer is the command that installs every engine.
const installer = "make engines"

// Missing says that an engine is not installed.
type Missing struct {
	Engine  string // the engine, "clickhouse-server"
	Install string // the command that installs it
}

func (m Missing) Error() string {
	return fmt.Sprintf("%s is not installed: run %s", m.Engine, m.Install)
}

// Need ends the test unless err is nil: an engine that is [Missing] skips it,
// or fails it where the environment has CI=true; any other error fails it.
func Need(t testing.TB, err error) {
	t.Helper()
	var missing Missing
	switch {
	case err == nil:
	case errors.As(err, &missing) && os.Getenv("CI") != "true":
		t.Skip(missing.Error())
	default:
		t.Fatal(err)
	}
}

// program finds an executable in .tools/bin at the top of the repository, in
// PATH, or in /usr/sbin, which the PATH of ordinary users often lacks.
func program(name string) (string, error) {
	for _, path := range []string{filepath.Join(Tools(), "bin", name), name, "/usr/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return filepath.Abs(found)
		}
	}
	return "", Missing{Engine: name, Install: installer}
}

// Has reports whether the program of an engine is here.
func Has(name string) bool {
	_, err := program(name)
	return err == nil
}

// Tools returns the directory .tools at the top of the repository, whether it
// exists or not.
func Tools() string { return filepath.Join(root(), ".tools") }

// root returns the top of the repository: the directory of the go.mod at or
// above the working directory, or the working directory where there is none.
func root() string {
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if _, none := os.Stat(filepath.Join(dir, "go.mod")); none == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return "."
}
