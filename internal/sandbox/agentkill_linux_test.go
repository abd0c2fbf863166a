package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
)

// diesWithUs ends a child with the process of the tests, however that ends.
var diesWithUs = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

// goneFrom reports whether no process is left that was started with that HOME.
func goneFrom(home string) bool {
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range environments {
		text, _ := os.ReadFile(name) // of those that just ended nothing
		if bytes.Contains(text, []byte("HOME="+home+"\x00")) {
			return false
		}
	}
	return true
}
