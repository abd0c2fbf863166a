package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

var fresh = flag.Bool("fresh", false, "compile everything for the second build again, which takes minutes")

// here is the only target that is built, this machine's, to be quick.
var here = target{runtime.GOOS, runtime.GOARCH}

var commitTime = time.Unix(1_790_000_000, 0).UTC()

// released makes a release from a directory and returns its files by name.
func released(t *testing.T, root string) map[string][]byte {
	t.Helper()
	out := t.TempDir()
	r := release{root: root, out: out, version: "v1.2.3-rc.1", commit: "c0ffee", at: commitTime, targets: []target{here}, log: t.Output()}
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(out, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// copyTree copies a repository without what git ignores, with other times and
// permissions.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(from, p)
		if err := errors.Join(err, relErr); err != nil {
			return err
		}
		if d.IsDir() {
			if rel != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bin", "dist", "data", "state", "testdata"}, rel)) {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRelease builds the same release in two directories, and checks its content.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("builds docgauge: not with -short")
	}
	var first, second map[string][]byte
	one, other := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "a", "longer", "way")
	copyTree(t, "../../..", one)
	copyTree(t, one, other)
	t.Run("here", func(t *testing.T) { first = released(t, one) })
	t.Run("elsewhere", func(t *testing.T) {
		t.Setenv("GOFLAGS", "-tags=other")
		t.Setenv("TZ", "Asia/Kolkata")
		if *fresh {
			t.Setenv("GOCACHE", t.TempDir())
		}
		second = released(t, other)
	})
	if len(first) != 3 || len(second) != 3 {
		t.Fatalf("%d and %d files, want an archive, an SBOM and the sums", len(first), len(second))
	}
	for name := range first {
		if !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s differs between two builds: %s", name, difference(t, first[name], second[name]))
		}
	}
	name := "docgauge_1.2.3-rc.1_" + here.system + "_" + here.machine
	t.Run("sums", func(t *testing.T) { checkSums(t, first, name) })
	t.Run("sbom", func(t *testing.T) { checkSBOM(t, first[name+".cdx.json"]) })
	t.Run("archive", func(t *testing.T) { checkArchive(t, first[name+".tar.gz"], name) })
}

// difference names the first file in which two archives differ.
func difference(t *testing.T, a, b []byte) string {
	t.Helper()
	if !bytes.HasPrefix(a, []byte{0x1f, 0x8b}) {
		return "no archive"
	}
	one, other := unpack(t, a), unpack(t, b)
	for i, f := range one {
		if i >= len(other) || f.Name != other[i].Name || !bytes.Equal(f.data, other[i].data) {
			return f.Name
		}
	}
	return "the headers"
}

func checkSums(t *testing.T, files map[string][]byte, name string) {
	want := ""
	for _, n := range []string{name + ".cdx.json", name + ".tar.gz"} {
		want += fmt.Sprintf("%x  %s\n", sha256.Sum256(files[n]), n)
	}
	if got := string(files["SHA256SUMS"]); got != want {
		t.Errorf("SHA256SUMS\n%swant\n%s", got, want)
	}
}

func checkSBOM(t *testing.T, text []byte) {
	var bom cdx.BOM
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	if bom.BOMFormat != "CycloneDX" || bom.Metadata.Timestamp != commitTime.Format(time.RFC3339) || bom.Metadata.Component.Version != "v1.2.3-rc.1" {
		t.Errorf("the SBOM is %s of %s for %s", bom.BOMFormat, bom.Metadata.Timestamp, bom.Metadata.Component.Version)
	}
	var refs []string
	for _, c := range *bom.Components {
		refs = append(refs, c.Name)
		if c.Name != "std" && (c.Hashes == nil || len((*c.Hashes)[0].Value) != 64) {
			t.Errorf("%s has the hashes %v", c.Name, c.Hashes)
		}
	}
	for _, want := range []string{"std", "github.com/spf13/cobra", "modernc.org/sqlite"} {
		if !slices.Contains(refs, want) {
			t.Errorf("the SBOM lacks %s", want)
		}
	}
	if slices.Contains(refs, "pgregory.net/rapid") {
		t.Error("the SBOM has a module that only tests use")
	}
}

type unpacked struct {
	tar.Header
	data []byte
}

func unpack(t *testing.T, archive []byte) (out []unpacked) {
	t.Helper()
	packed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	if packed.Name != "" || !packed.ModTime.IsZero() {
		t.Errorf("the gzip header has name %q and time %v", packed.Name, packed.ModTime)
	}
	for r := tar.NewReader(packed); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, unpacked{*h, data})
	}
}

func checkArchive(t *testing.T, archive []byte, name string) {
	var names []string
	var program []byte
	for _, f := range unpack(t, archive) {
		short := strings.TrimPrefix(f.Name, name+"/")
		names = append(names, short)
		want := int64(0o644)
		if short == "docgauge" {
			want, program = 0o755, f.data
		}
		if f.Mode != want && !strings.HasPrefix(short, "deploy/") {
			t.Errorf("%s has mode %o, want %o", f.Name, f.Mode, want)
		}
		if !f.ModTime.Equal(commitTime) || f.Uid != 0 || f.Gid != 0 || f.Uname != "" || short == f.Name {
			t.Errorf("%s: %v, %d:%d %q", f.Name, f.ModTime, f.Uid, f.Gid, f.Uname)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("the names are not sorted: %q", names)
	}
	for _, want := range []string{
		"LICENSE", "README.md", "CHANGELOG.md", "THIRD_PARTY_LICENSES", "docs/prometheus.md",
		"completions/docgauge.bash", "completions/_docgauge", "completions/docgauge.fish",
		"man/man1/docgauge.1", "man/man1/docgauge-jobs-resolve.1",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("the archive lacks %s", want)
		}
	}
	if i := slices.IndexFunc(names, func(n string) bool { return strings.HasSuffix(n, ".go") || strings.Contains(n, "testdata") }); i >= 0 {
		t.Errorf("the archive has %s", names[i])
	}
	checkProgram(t, program)
}

// checkProgram runs the binary, and checks that it is for its target only.
func checkProgram(t *testing.T, program []byte) {
	file := filepath.Join(t.TempDir(), "docgauge")
	if err := os.WriteFile(file, program, 0o700); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(file, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(said), "docgauge v1.2.3-rc.1 (revision c0ffee, go") || !strings.HasSuffix(string(said), ", branch HEAD)\n") {
		t.Errorf("docgauge version: %v, %s", err, said)
	}
	for _, other := range targets {
		if err := checkTarget(file, other); (err == nil) != (other == here) {
			t.Errorf("the binary of %s as one for %s: %v", here, other, err)
		}
	}
	if bytes.Contains(program, []byte(os.TempDir()+"/Test")) {
		t.Error("the binary has the path it was built in")
	}
}

func TestMistakes(t *testing.T) {
	var r release
	if err := r.setTime("yesterday"); err == nil || !strings.Contains(err.Error(), "git log") {
		t.Errorf("epoch: %v", err)
	}
	for _, version := range []string{"", "../v1", "-v1", "v1 2"} {
		r := release{version: version, out: t.TempDir()}
		if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "-version") {
			t.Errorf("version %q: %v", version, err)
		}
	}
	if err := writeLicence(new(bytes.Buffer), "example.com/m v1", t.TempDir()); err == nil || !strings.Contains(err.Error(), "example.com/m v1") {
		t.Errorf("a module without licence: %v", err)
	}
}

func TestNames(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "docgauge_1.2.3_linux_arm64", "5d75ca6-dirty": "docgauge_5d75ca6-dirty_linux_arm64", "v": "docgauge_v_linux_arm64",
	} {
		r := release{version: version}
		if got := r.name(target{"linux", "arm64"}); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}
