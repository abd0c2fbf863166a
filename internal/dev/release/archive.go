package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// writeArchive writes files below one folder, sorted, all of one time and of
// user and group 0.
func writeArchive(to, folder string, at time.Time, files []file) (err error) {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	packed := gzip.NewWriter(f)
	if err := writeTar(packed, folder, at, files); err != nil {
		return err
	}
	return packed.Close()
}

func writeTar(w io.Writer, folder string, at time.Time, files []file) error {
	out := tar.NewWriter(w)
	files = slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
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
			return err
		}
		if _, err := io.Copy(out, bytes.NewReader(f.data)); err != nil {
			return err
		}
	}
	return out.Close()
}

// writeSums writes SHA256SUMS, in the format of sha256sum.
func (r *release) writeSums(names []string) error {
	var b bytes.Buffer
	for _, name := range slices.Sorted(slices.Values(names)) {
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), b.Bytes(), 0o644)
}
