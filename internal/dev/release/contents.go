package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/dashboards"
)

// shipped are the files and directories of the repository that an archive
// includes, as far as they exist, without Go code and test data.
var shipped = []string{
	"LICENSE", "README.md", "CHANGELOG.md", "docs",
	"dashboards/json", "deploy/prometheus", "deploy/systemd", "mixin",
}

// file is a file of an archive; its name has slashes.
type file struct {
	name       string
	executable bool
	data       []byte
}

// contents returns the files of an archive.
func (r *release) contents(ctx context.Context, binary string, info *debug.BuildInfo) ([]file, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	licences, err := r.licences(ctx, info)
	if err != nil {
		return nil, err
	}
	files := []file{{"docgauge", true, program}, {"THIRD_PARTY_LICENSES", false, licences}}
	for shell, name := range map[string]string{"bash": "docgauge.bash", "zsh": "_docgauge", "fish": "docgauge.fish"} {
		script, err := r.docgauge(ctx, "completion", shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{path.Join("completions", name), false, script})
	}
	manual := filepath.Join(r.work, "man")
	if _, err := r.docgauge(ctx, "man", "--dir", manual); err != nil {
		return nil, err
	}
	if err := addTree(&files, manual, ".", "man/man1"); err != nil {
		return nil, err
	}
	for _, name := range shipped {
		if err := addTree(&files, r.root, name, ""); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	importable, err := dashboards.Importable()
	for name, data := range importable {
		files = append(files, file{path.Join("dashboards/import", name), false, data})
	}
	return files, err
}

// addTree adds a file or directory of root, below a directory of the archive.
func addTree(files *[]file, root, name, below string) error {
	return filepath.WalkDir(filepath.Join(root, name), func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "tests"):
			return fs.SkipDir
		case d.IsDir(), filepath.Ext(p) == ".go", strings.HasPrefix(d.Name(), "."):
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(p)
		*files = append(*files, file{path.Join(below, filepath.ToSlash(rel)), info.Mode()&0o100 != 0, data})
		return err
	})
}

var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// licences returns the licences of everything that is linked into a binary:
// most of them require to be passed on with it.
func (r *release) licences(ctx context.Context, info *debug.BuildInfo) ([]byte, error) {
	goroot, err := r.output(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	args := []string{"list", "-m", "-f", "{{.Path}} {{.Version}}\t{{.Dir}}"}
	for _, dep := range info.Deps {
		args = append(args, dep.Path)
	}
	modules, err := r.output(ctx, []string{"GOFLAGS=", "GOWORK=off"}, "go", args...)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for line := range strings.Lines("The Go programming language\t" + string(goroot) + string(modules)) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if err := writeLicence(&text, name, dir); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

// writeLicence adds every licence file at the top of a module.
func writeLicence(text *bytes.Buffer, name, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("licence of %s: %w", name, err)
	}
	found := false
	for _, e := range entries {
		if e.IsDir() || !licenceName.MatchString(e.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("licence of %s: %w", name, err)
		}
		fmt.Fprintf(text, "==== %s: %s\n\n%s\n", name, e.Name(), bytes.TrimSpace(data))
		found = true
	}
	if !found {
		return fmt.Errorf("%s has no licence file in %s: nobody may distribute it", name, dir)
	}
	return nil
}

// pack returns a compressed tar archive of files below one folder, sorted, all
// with one time and with user and group 0.
func pack(folder string, at time.Time, files []file) ([]byte, error) {
	var b bytes.Buffer
	packed := gzip.NewWriter(&b)
	out := tar.NewWriter(packed)
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	for _, f := range files {
		mode := int64(0o644)
		if f.executable {
			mode = 0o755
		}
		err := out.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Format: tar.FormatPAX,
			Name: path.Join(folder, f.name), Size: int64(len(f.data)), Mode: mode, ModTime: at,
		})
		if err != nil {
			return nil, err
		}
		if _, err := out.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := errors.Join(out.Close(), packed.Close())
	return b.Bytes(), err
}
