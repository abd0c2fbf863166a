package agent

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked says that another process works on the same data directory.
var ErrLocked = errors.New("another sandbox works on it; want a data directory for each")

// lockPatience is how long a lock is waited for: a process that was killed while
// it started a program leaves its locks to that child until the program runs.
const lockPatience = 3 * time.Second

// Lock locks file until it is closed, or returns ErrLocked.
func Lock(file *os.File) error {
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if !time.Now().Before(deadline) {
			return ErrLocked
		}
	}
}
