package logs

import (
	"io/fs"
	"os"
)

const openFlags = os.O_RDONLY

// identify knows no file: one that was renamed is found by its head.
func identify(fs.FileInfo) (id inode, owner int) { return inode{}, 0 }
