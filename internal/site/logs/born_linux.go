package logs

import "golang.org/x/sys/unix"

// born returns when a file was made, in nanoseconds; 0 if the file system does not say.
func born(path string) int64 {
	var s unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BTIME, &s); err != nil || s.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return s.Btime.Sec*1e9 + int64(s.Btime.Nsec)
}
