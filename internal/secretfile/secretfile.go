// Package secretfile reads secrets from files: keys, tokens, passwords, DSNs.
//
// A secret's file is a regular file of at most 64 KiB, or a link to one (Kubernetes
// mounts links). Anything else is refused at once: a device may never end, and a
// pipe may wait forever for a writer. No error quotes the content.
//
// That others can read the file is no error: users cannot always choose the modes of
// mounted secrets.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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

// File is what is in a file, and who can read it.
type File struct {
	Text string
	// Mode is the mode of the file, without those of the directories above.
	Mode fs.FileMode
	// Own reports whether the file belongs to the user of this process.
	Own bool
}

// Open reports whether everybody on the machine can read the file.
func (f File) Open() bool { return f.Mode&0o004 != 0 }

// ReadFile reads a file as it is.
func ReadFile(path string) (File, error) {
	f, info, err := open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	// The size that Stat gives is no help: that of a file in /proc is 0.
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	switch {
	case err != nil:
		return File{}, short(err)
	case len(text) > maxBytes:
		return File{}, fmt.Errorf("%s: larger than 64 KiB: %s; name the file that contains only the secret", path, rule)
	}
	mode, mine := rights(info)
	return File{string(text), mode, mine}, nil
}

// Check returns the error of Read, for a file that a library reads.
func Check(path string) error {
	_, err := Read(path)
	return err
}

// open checks the kind of file before opening it, because opening a device can have
// effects and a socket cannot be opened, and again afterwards, because another file
// may have taken the place meanwhile. In that case the open does not wait for a
// pipe's writer.
func open(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, short(err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, notRegular(path, info.Mode())
	}
	return openNow(path)
}

func openNow(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, short(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path, info.Mode())
	}
	if err != nil {
		return nil, nil, errors.Join(short(err), f.Close())
	}
	return f, info, nil
}

func notRegular(path string, mode fs.FileMode) error {
	return fmt.Errorf("%s: is a %s: %s; write the secret to one and name that file", path, durable.Kind(mode), rule)
}

// short returns an error of the file system without the name of the system call.
func short(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", pe.Path, pe.Err)
	}
	return err
}
