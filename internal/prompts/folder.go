package prompts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// variable names the folder in errors: it is where people set it.
const variable = "DOCGAUGE_PROMPTS_DIR"

// Folder is a folder of prompt files. It is opened anew for each scan, so that a
// folder that is replaced as a whole is seen.
type Folder struct {
	dir   string
	rules Rules
}

// Open returns the folder dir, which must be there, readable, and not writable by
// anybody: who writes there spends the agents' budget. A file system that is
// mounted read-only is fine whatever the modes say; Kubernetes mounts ConfigMaps
// with mode 0777.
func Open(dir string, rules Rules) (*Folder, error) {
	f := &Folder{dir: dir, rules: rules}
	root, err := f.root()
	if err != nil {
		return nil, err
	}
	return f, root.Close()
}

// root opens the folder and checks it.
func (f *Folder) root() (*os.Root, error) {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, f.refuse(err)
	}
	handle, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(f.refuse(err), root.Close())
	}
	defer handle.Close()
	info, err := handle.Stat()
	if err == nil && openToAll(handle, info) {
		err = errWritable
	}
	if err == nil {
		_, err = handle.ReadDir(1)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(f.refuse(err), root.Close())
	}
	return root, nil
}

// errWritable: anybody may write a folder or a file.
var errWritable = errors.New("anybody may write it, and so spend the agents' budget: take that away with chmod o-w")

// refuse says why the folder cannot be used, and what to do.
func (f *Folder) refuse(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	remedy := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		remedy = ": make the folder or mount it; without a queue, unset the variable"
	case errors.Is(err, fs.ErrPermission):
		remedy = ": let this user read it and look into it (chmod u+rx)"
	}
	return fmt.Errorf("%s: %s: %w%s", variable, f.dir, err, remedy)
}
