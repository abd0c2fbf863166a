// Package faults injects faults into tests of sinks: connections that break or stand still
// at a byte, programs that answer as no server does, small disks and full ones. It also
// measures the heap.
package faults

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// Listen serves connections, each kept open until the test ends.
func Listen(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var all []net.Conn
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all = append(all, c)
			serve(c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
		for _, c := range all {
			_ = c.Close()
		}
	})
	return l.Addr().String()
}

// Mount makes dir a separate small file system for one test, with a size like 1m. It skips the
// test where nothing can be mounted.
func Mount(t *testing.T, dir, size string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: needs a tmpfs, which only Linux has")
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "mode=0700,size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: needs root to mount a tmpfs: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
}

// FillDisk writes a file until the disk has no room.
func FillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(bytes.Repeat([]byte{1}, 16<<10))
	}
}

// heapDuring returns the most heap in use while f runs.
func heapDuring(f func()) (most uint64) {
	runtime.GC() // what other tests have left
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
		select {
		case <-done:
			return most
		case <-tick.C:
		}
	}
}
