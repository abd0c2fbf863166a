//go:build !linux

package durable

import "errors"

// RenameNew returns errors.ErrUnsupported: only Linux has it.
func RenameNew(_, _ string) error { return errors.ErrUnsupported }
