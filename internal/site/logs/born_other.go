//go:build !linux

package logs

import "os"

// born is 0: nobody asks here.
func born(*os.File) int64 { return 0 }
