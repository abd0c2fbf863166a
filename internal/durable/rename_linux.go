package durable

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// RenameNew renames a file to a path that must not exist: otherwise the error is fs.ErrExist, and both files stay. It
// is one step, not durable until SyncDir. The error is errors.ErrUnsupported where the file system has no such step.
func RenameNew(file, path string) error {
	err := unix.Renameat2(unix.AT_FDCWD, file, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) {
		err = fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: file, New: path, Err: err}
	}
	return nil
}
