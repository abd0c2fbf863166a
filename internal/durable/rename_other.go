//go:build !linux

package durable

import "errors"

// RenameNew returns errors.ErrUnsupported: see that of Linux.
func RenameNew(_, _ string) error { return errors.ErrUnsupported }
