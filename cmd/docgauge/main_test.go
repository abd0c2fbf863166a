package main

import (
	"os"
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
