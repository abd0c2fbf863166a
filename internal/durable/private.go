package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// PrivateDir makes a directory that only its owner can enter, or takes the rights of others to one that is
// there. It refuses a directory that is shared by all users, such as /tmp. A link is followed.
func PrivateDir(dir string) error {
	const mode = 0o700
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSticky != 0:
		return errors.New("is shared by all users")
	case info.Mode().Perm()&^mode == 0:
		return nil
	}
	if err := os.Chmod(dir, mode); err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err
		}
		return fmt.Errorf("is open to other users and its mode cannot be set to 0700: %w", err)
	}
	return nil
}
