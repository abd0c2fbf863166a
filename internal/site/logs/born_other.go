//go:build !linux

package logs

// born is 0: nobody asks here.
func born(string) int64 { return 0 }
