package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// shipped are the files and directories of the repository that an archive
// includes, as far as they exist, without Go code and test data.
var shipped = []string{
	"LICENSE", "README.md", "CHANGELOG.md", "docs",
	"dashboards/json", "deploy/prometheus", "deploy/systemd", "mixin",
}

// file is a file of an archive, or a directory if its name ends in a slash.
type file struct {
	name  string // with slashes
	mode  int64
	owner int // user and group
	data  []byte
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
	files := []file{{name: filepath.Base(binary), mode: 0o755, data: program}, {name: "THIRD_PARTY_LICENSES", mode: 0o644, data: licences}}
	for shell, name := range map[string]string{"bash": "docgauge.bash", "zsh": "_docgauge", "fish": "docgauge.fish"} {
		script, err := r.docgauge(ctx, "completion", shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: path.Join("completions", name), mode: 0o644, data: script})
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
	for _, f := range files {
		name, ok := strings.CutPrefix(f.name, "dashboards/json/")
		if !ok {
			continue
		}
		data, err := importable(f.data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		files = append(files, file{name: path.Join("dashboards/import", name), mode: 0o644, data: data})
	}
	return files, nil
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
		mode := int64(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		data, err := os.ReadFile(p)
		*files = append(*files, file{name: path.Join(below, filepath.ToSlash(rel)), mode: mode, data: data})
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

// pack returns an archive of files below one folder: for Windows a zip, else a
// compressed tar.
func (t target) pack(folder string, at time.Time, files []file) (name string, packed []byte, err error) {
	if t.system == "windows" {
		packed, err = zipped(folder, at, files)
		return folder + ".zip", packed, err
	}
	packed, err = compressed(folder, at, files)
	return folder + ".tar.gz", packed, err
}

// compressed returns a compressed tar archive of files below a folder.
func compressed(folder string, at time.Time, files []file) ([]byte, error) {
	var b bytes.Buffer
	packed := gzip.NewWriter(&b)
	err := errors.Join(writeTar(packed, folder, at, files), packed.Close())
	return b.Bytes(), err
}

// writeTar writes files below a folder, sorted, all with one time.
func writeTar(w io.Writer, folder string, at time.Time, files []file) error {
	out := tar.NewWriter(w)
	for _, f := range sorted(files) {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Format: tar.FormatPAX, Name: path.Join(folder, f.name),
			Size: int64(len(f.data)), Mode: f.mode, Uid: f.owner, Gid: f.owner, ModTime: at,
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := out.Write(f.data); err != nil {
			return err
		}
	}
	return out.Close()
}

// zipped is [compressed] for Windows.
func zipped(folder string, at time.Time, files []file) ([]byte, error) {
	var b bytes.Buffer
	out := zip.NewWriter(&b)
	for _, f := range sorted(files) {
		h := &zip.FileHeader{Name: path.Join(folder, f.name), Method: zip.Deflate, Modified: at}
		h.SetMode(fs.FileMode(f.mode))
		w, err := out.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := out.Close()
	return b.Bytes(), err
}

func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
}
