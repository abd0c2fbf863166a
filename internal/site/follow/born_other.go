//go:build !linux

package follow

// born is 0: nobody asks here.
func born(string) int64 { return 0 }
