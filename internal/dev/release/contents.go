package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// shipped are the files and folders of the repository that go along, where they
// are there. Folders come without Go code and test data.
var shipped = []string{
	"LICENSE", "README.md", "CHANGELOG.md", "docs",
	"dashboards/json", "deploy/prometheus", "deploy/systemd",
}

// file is a file of an archive: its name with slashes, and what is in it.
type file struct {
	name       string
	executable bool
	data       []byte
}

// contents gathers what a target's archive has.
func (b *builder) contents(ctx context.Context, t target, binary string) ([]file, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	files := []file{{"docgauge", true, program}}
	for _, gather := range []func() ([]file, error){
		func() ([]file, error) { return fromTree(b.root) },
		func() ([]file, error) { return b.completions(ctx) },
		func() ([]file, error) { return b.manual(ctx) },
		func() ([]file, error) { return b.licences(ctx, t) },
	} {
		more, err := gather()
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}

// fromTree reads what is shipped as it stands in the repository.
func fromTree(root string) (out []file, err error) {
	for _, name := range shipped {
		err := filepath.WalkDir(filepath.Join(root, name), func(p string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || d.Name() == "tests"):
				return fs.SkipDir
			case d.IsDir(), filepath.Ext(p) == ".go", strings.HasPrefix(d.Name(), "."):
				return nil
			}
			f, err := read(root, p)
			out = append(out, f)
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return out, nil
}

func read(root, p string) (file, error) {
	name, err := filepath.Rel(root, p)
	if err != nil {
		return file{}, err
	}
	info, err := os.Stat(p)
	if err != nil {
		return file{}, err
	}
	data, err := os.ReadFile(p)
	return file{filepath.ToSlash(name), info.Mode()&0o100 != 0, data}, err
}

// completions lets this machine's docgauge print its completion scripts.
func (b *builder) completions(ctx context.Context) (out []file, err error) {
	for _, c := range []struct{ shell, name string }{{"bash", "docgauge.bash"}, {"zsh", "_docgauge"}, {"fish", "docgauge.fish"}} {
		script, err := b.host(ctx, "completion", c.shell)
		if err != nil {
			return nil, err
		}
		out = append(out, file{name: path.Join("completions", c.name), data: script})
	}
	return out, nil
}

// manual lets this machine's docgauge write its manual pages.
func (b *builder) manual(ctx context.Context) (out []file, err error) {
	dir := filepath.Join(b.dir, "man")
	if _, err := b.host(ctx, "man", "--dir", dir); err != nil {
		return nil, err
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		data, err := os.ReadFile(filepath.Join(dir, page.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, file{name: path.Join("man", "man1", page.Name()), data: data})
	}
	return out, nil
}
