package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatch: what hangs ends at a second signal, or stopLimit after the first.
func TestWatch(t *testing.T) {
	for repeated, want := range map[bool]time.Duration{true: time.Second, false: stopLimit} {
		synctest.Test(t, func(t *testing.T) {
			signals, ended := make(chan os.Signal, 2), make(chan time.Time)
			go watch(signals, func(string) { ended <- time.Now() })
			first := time.Now()
			signals <- os.Interrupt
			if repeated {
				time.Sleep(time.Second)
				signals <- os.Interrupt
			}
			if took := (<-ended).Sub(first); took != want {
				t.Errorf("second signal %v: ended after %v, want %v", repeated, took, want)
			}
		})
	}
}

// TestEnd: a process that is ended early says so, and its exit code is that of a failure.
func TestEnd(t *testing.T) {
	if os.Getenv("TEST_END") != "" {
		end("a test")
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestEnd$")
	cmd.Env = append(os.Environ(), "TEST_END=1")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "ended before it was done: a test\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
