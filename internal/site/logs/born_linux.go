package logs

import (
	"os"

	"golang.org/x/sys/unix"
)

// born returns when an open file was made, in nanoseconds; 0 if the file system does not say.
func born(file *os.File) int64 {
	var s unix.Statx_t
	if err := unix.Statx(int(file.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &s); err != nil ||
		s.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return s.Btime.Sec*1e9 + int64(s.Btime.Nsec)
}
