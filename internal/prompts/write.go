package prompts

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/docgauge/docgauge/internal/durable"
)

// Write adds p to the folder as a new file, for who asks for it, and returns the
// file's path below the folder. name is that path, its folder must be there; without
// an extension it gets .md, and if it is empty it is made from the id or the title.
// An id that is empty, or the path, is not written: the path is it then.
//
// The file comes whole or not at all, and never takes the place of another. It is
// not written if it, together with those that are there, breaks a rule; the error is
// an [Error] then. It is a [NameError] if another name would do, and any other error
// is of the file system.
func (f *Folder) Write(name string, p Prompt) (string, error) {
	name, err := fileName(name, p)
	if err != nil {
		return "", err
	}
	if p.ID == name {
		p.ID = ""
	}
	data := encode(p)
	root, err := f.root()
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := f.fits(root, name, data); err != nil {
		return "", err
	}
	if err := create(root, name, data); err != nil {
		err = fmt.Errorf("prompt %s: %w", name, plainError(err))
		if nameIsWrong(err) {
			err = NameError{err}
		}
		return "", err
	}
	return name, nil
}

// NameError says why a new prompt file cannot have the name that was asked for.
type NameError struct{ error }

func (e NameError) Unwrap() error { return e.error }

// nameIsWrong tells what creating a file says of its name from what it says of the
// file system. That a path leads out of the folder is no error of the system.
func nameIsWrong(err error) bool {
	number, ofSystem := errors.AsType[syscall.Errno](err)
	return !ofSystem || slices.Contains([]syscall.Errno{syscall.EEXIST, syscall.ENOENT, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP}, number)
}

// fits checks a file that is to be written against all rules.
func (f *Folder) fits(root *os.Root, name string, data []byte) error {
	if _, err := root.Lstat(name); err == nil {
		return NameError{fmt.Errorf("prompt %s: %w: choose another name", name, fs.ErrExist)}
	}
	files, err := gather(root, f.rules, nil)
	if err != nil {
		return f.refuse(err)
	}
	added := &file{path: name}
	added.prompt, added.findings = parseFile(name, data, f.rules)
	var wrong Error
	for _, finding := range judge(append(files, added), f.rules).Findings {
		if finding.Path == name {
			wrong = append(wrong, finding)
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}

// fileName checks the name of a new file, or makes one.
func fileName(name string, p Prompt) (string, error) {
	if name == "" {
		return slug(p), nil
	}
	if path.Ext(name) == "" {
		name += ".md"
	}
	hidden := strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
	switch problem := checkLine(name); {
	case problem != "":
		return "", NameError{fmt.Errorf("prompt file %s: %s", quote(name), problem)}
	case hidden, !fs.ValidPath(name), strings.Contains(name, `\`):
		return "", NameError{fmt.Errorf("prompt file %s: want a path below the folder, with slashes, of names that do not begin with a dot", quote(name))}
	case !isPrompt(name):
		return "", NameError{fmt.Errorf("prompt file %s: want a name that ends in .md or .txt", quote(name))}
	}
	return name, nil
}

// unslug is what no file name made here has.
var unslug = regexp.MustCompile(`[^a-z0-9]+`)

// slug makes a file name of the id or the title.
func slug(p Prompt) string {
	const most = 80
	for _, s := range []string{p.ID, p.Title} {
		s = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(s), ".md"), ".txt")
		s = strings.Trim(unslug.ReplaceAllString(s, "-"), "-")
		if len(s) > most {
			s = strings.Trim(s[:most], "-")
		}
		if s != "" {
			return s + ".md"
		}
	}
	return "prompt-" + digest(p)[:8] + ".md"
}

// create writes a new file, durable when it returns. It is written under a name
// that no scan sees and then linked, which fails if the name is taken.
func create(root *os.Root, name string, data []byte) (err error) {
	dir, base := path.Split(name)
	temporary := dir + "." + base[:min(len(base), 40)] + "." + rand.Text() + ".tmp"
	if err := writeSync(root, temporary, data); err != nil {
		return errors.Join(err, ignoreGone(root.Remove(temporary)))
	}
	err = root.Link(temporary, name)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = take(root, temporary, name)
	}
	return errors.Join(err, ignoreGone(root.Remove(temporary)), durable.SyncDirIn(root, path.Clean("./"+dir)))
}

// take is for file systems without links: it makes the name its own, empty, and
// puts the file there.
func take(root *os.Root, temporary, name string) error {
	own, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err := own.Close(); err != nil {
		return err
	}
	return root.Rename(temporary, name)
}

func writeSync(root *os.Root, name string, data []byte) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// plainError leaves out the names of an error of the file system, but keeps what it is.
func plainError(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return le.Err
	}
	return err
}
