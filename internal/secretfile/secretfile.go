// Package secretfile reads secrets from files: keys, tokens, passwords, DSNs.
//
// A secret's file is a regular file of at most 64 KiB, or a link to one (what
// Kubernetes mounts are links). Anything else is an error, at once: a device may
// never end, and a pipe may wait for ever for somebody who writes to it. No error
// has anything of the content.
//
// It does not judge who else can read the file: the modes of mounted secrets are
// not the user's to choose.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// MaxBytes is the most a secret's file has.
const MaxBytes = 64 << 10

const rule = "a secret is read from a regular file of at most 64 KiB"

// Read returns the secret in a file, without the space and the lines around it. The
// error names the file; the caller names the setting.
func Read(path string) (string, error) {
	f, err := open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	// The size is not asked for: that of a file in /proc is 0.
	text, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	switch {
	case err != nil:
		return "", short(err)
	case len(text) > MaxBytes:
		return "", fmt.Errorf("%s: larger than 64 KiB: %s; name the file that holds the secret alone", path, rule)
	}
	return strings.TrimSpace(string(text)), nil
}

// Check reports whether Read would read a file, for one that a library reads.
func Check(path string) error {
	_, err := Read(path)
	return err
}

// open looks before it opens, as a device can act on being opened and a socket
// cannot be; and after, as another file may have taken the place meanwhile. For that
// case the open itself does not wait for a pipe's writer.
func open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, short(err)
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(path, info.Mode())
	}
	return openNow(path)
}

func openNow(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, short(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path, info.Mode())
	}
	if err != nil {
		return nil, errors.Join(short(err), f.Close())
	}
	return f, nil
}

func notRegular(path string, mode fs.FileMode) error {
	kind := "is a device"
	switch {
	case mode.IsDir():
		kind = "is a folder"
	case mode&fs.ModeNamedPipe != 0:
		kind = "is a pipe"
	case mode&fs.ModeSocket != 0:
		kind = "is a socket"
	}
	return fmt.Errorf("%s: %s: %s; write the secret to one, and name that", path, kind, rule)
}

// short says an error of the file system without the name of the system call.
func short(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", pe.Path, pe.Err)
	}
	return err
}
