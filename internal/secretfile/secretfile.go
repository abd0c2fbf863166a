// Package secretfile reads secrets from files: keys, tokens, passwords, DSNs.
//
// A secret's file is a regular file of at most 64 KiB, or a link to one (Kubernetes
// mounts links). Anything else is refused at once: a device may never end, and a
// pipe may wait forever for a writer. No error quotes the content.
//
// A file that others can read is not an error: users cannot always choose the modes of mounted
// secrets.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/docgauge/docgauge/internal/durable"
)

// maxBytes is the largest size of a secret's file.
const maxBytes = 64 << 10

const rule = "a secret is read from a regular file of at most 64 KiB"

// Read returns the secret in a file, without surrounding white space. The error
// names the file; the caller names the setting.
func Read(path string) (string, error) {
	f, err := ReadFile(path)
	return strings.TrimSpace(f.Text), err
}

// File is the content of a file, and its access rights.
type File struct {
	Text string
	// Mode is the mode of the file, without the modes of the directories above.
	Mode fs.FileMode
	// Own reports whether the file belongs to the user of this process.
	Own bool
}

// WorldReadable reports whether every user of the machine can read the file.
func (f File) WorldReadable() bool { return f.Mode&0o004 != 0 }

// ReadFile reads a whole file.
func ReadFile(path string) (file File, err error) {
	defer func() { // the name of the system call says nothing to people
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = fmt.Errorf("%s: %w", pe.Path, pe.Err)
		}
	}()
	// Before opening it: opening a device can have effects, and a socket cannot be opened.
	info, err := os.Stat(path)
	if err != nil {
		return File{}, err
	}
	if err := checkKind(path, info); err != nil {
		return File{}, err
	}
	return readNow(path)
}

// readNow checks the kind again, because another file may have taken the place. It does not wait for
// a pipe's writer.
func readNow(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	if err := checkKind(path, info); err != nil {
		return File{}, err
	}
	// Not by the size of Stat, which is 0 for a file in /proc.
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && len(text) > maxBytes {
		err = fmt.Errorf("%s: larger than 64 KiB: %s; name the file that contains only the secret", path, rule)
	}
	if err != nil {
		return File{}, err
	}
	mode := info.Mode().Perm()
	if runtime.GOOS == "windows" {
		mode = 0o600 // its modes do not say who can read a file
	}
	return File{string(text), mode, durable.IsMine(info)}, nil
}

func checkKind(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s: is a %s: %s; write the secret to one and name that file",
		path, durable.Kind(info.Mode()), rule)
}
