package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/docgauge/docgauge/internal/dev/engines"
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
		if d.Type() == fs.ModeSymlink {
			target, err := os.Readlink(p)
			return errors.Join(err, os.Symlink(target, filepath.Join(to, rel)))
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
	name := "docgauge_1.2.3-rc.1_" + here.system + "_" + here.machine
	want := []string{
		"SHA256SUMS", name + ".cdx.json", name + ".tar.gz", "docgauge-1.2.3-rc.1.tgz", "docgauge.nix", "docgauge.rb",
	}
	deb, rpm := name+".deb", name+".rpm"
	if here.system == "linux" {
		want = append(want, deb, rpm, "docgauge_1.2.3-rc.1_image.tar")
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(first)); !slices.Equal(got, want) {
		t.Errorf("released %q, want %q", got, want)
	}
	for name := range first {
		if !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s differs between two builds: %s", name, difference(t, first[name], second[name]))
		}
	}
	t.Run("sums", func(t *testing.T) { checkSums(t, first) })
	t.Run("sbom", func(t *testing.T) { checkSBOM(t, first[name+".cdx.json"]) })
	t.Run("archive", func(t *testing.T) { checkArchive(t, first[name+".tar.gz"], name) })
	t.Run("chart", func(t *testing.T) { checkChart(t, first["docgauge-1.2.3-rc.1.tgz"]) })
	t.Run("recipes", func(t *testing.T) { checkRecipes(t, first, name+".tar.gz") })
	if here.system != "linux" {
		return
	}
	t.Run("image", func(t *testing.T) { checkImage(t, first["docgauge_1.2.3-rc.1_image.tar"], first[name+".cdx.json"]) })
	t.Run("deb", func(t *testing.T) { checkDeb(t, one, first[deb], first[name+".tar.gz"]) })
	t.Run("rpm", func(t *testing.T) { checkRPM(t, first[rpm]) })
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

func checkSums(t *testing.T, files map[string][]byte) {
	want := ""
	for _, n := range slices.Sorted(maps.Keys(files)) {
		if n != "SHA256SUMS" {
			want += fmt.Sprintf("%x  %s\n", sha256.Sum256(files[n]), n)
		}
	}
	if got := string(files["SHA256SUMS"]); got != want {
		t.Errorf("SHA256SUMS\n%swant\n%s", got, want)
	}
}

// checkRecipes: the sum of the archive that was built is in both recipes.
func checkRecipes(t *testing.T, files map[string][]byte, archive string) {
	sum := fmt.Sprintf("%x", sha256.Sum256(files[archive]))
	for _, recipe := range []string{"docgauge.rb", "docgauge.nix"} {
		text := string(files[recipe])
		if !strings.Contains(text, sum) || !strings.Contains(text, `version = "1.2.3-rc.1"`) && !strings.Contains(text, `version "1.2.3-rc.1"`) {
			t.Errorf("%s has another version or sum than %s:\n%s", recipe, sum, text)
		}
		if strings.Contains(text, "{{") || !strings.Contains(text, "/releases/download/v1.2.3-rc.1/docgauge_") {
			t.Errorf("%s is not filled in:\n%s", recipe, text)
		}
		file := filepath.Join(t.TempDir(), recipe)
		if err := os.WriteFile(file, files[recipe], 0o600); err != nil {
			t.Fatal(err)
		}
		// Neither is part of what `make engines` installs.
		for program, args := range map[string][]string{"ruby": {"-c", file}, "nix-instantiate": {"--parse", file}} {
			if (program == "ruby") == (recipe == "docgauge.rb") && engines.Has(program) {
				run(t, exec.Command(program, args...))
			}
		}
	}
}

// run runs a program to its end, which must be exit code 0, and returns what it says.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
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
		"mixin/mixin.libsonnet", "dashboards/json/docgauge-readers.json", "dashboards/import/docgauge-readers.json",
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

// TestPackageVersions: dpkg and rpm order them as the releases are.
func TestPackageVersions(t *testing.T) {
	for plain, want := range map[string]string{
		"1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3~rc.1", "1.2.3-4-g5d75ca6-dirty": "1.2.3~4.g5d75ca6.dirty",
		"5d75ca6-dirty": "0~5d75ca6.dirty", "dev": "0~dev", "c0ffee_x": "0~c0ffee.x",
	} {
		if got := packageVersion(plain); got != want {
			t.Errorf("%s: %s, want %s", plain, got, want)
		}
	}
}

// TestZip: archives for Windows are zip files, and the same at each build.
func TestZip(t *testing.T) {
	files := []file{{name: "docs/a.md", mode: 0o644, data: []byte("text")}, {name: "docgauge.exe", mode: 0o755, data: []byte("program")}}
	name, first, err := target{"windows", "amd64"}.pack("docgauge_1", commitTime, files)
	if err != nil || name != "docgauge_1.zip" {
		t.Fatal(name, err)
	}
	slices.Reverse(files)
	if _, second, err := (target{"windows", "amd64"}).pack("docgauge_1", commitTime, files); err != nil || !bytes.Equal(first, second) {
		t.Errorf("another zip: %v", err)
	}
	archive, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(archive, "docgauge_1/docs/a.md")
	if err != nil || string(text) != "text" || !archive.File[0].Modified.Equal(commitTime) || archive.File[0].Name != "docgauge_1/docgauge.exe" {
		t.Errorf("%q, %v, %+v", text, err, archive.File[0])
	}
}

// TestWindowsCompiles: so do the packages that have files for each system, and those below them.
func TestWindowsCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for another system")
	}
	cmd := exec.Command("go", "build", "./internal/durable", "./internal/secretfile", "./internal/sandbox/agent")
	cmd.Dir, cmd.Env = "../../..", append(os.Environ(), "GOOS=windows", "CGO_ENABLED=0")
	run(t, cmd)
}

// TestWorkflows: actions are named by commit and version, and a workflow may only read
// unless a job says otherwise.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob("../../../.github/workflows/*.yml")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	pinned := regexp.MustCompile(`^(\./\S+|[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		uses := regexp.MustCompile(`(?m)uses: *(.*)$`).FindAllStringSubmatch(string(text), -1)
		for _, u := range uses {
			if !pinned.MatchString(u[1]) {
				t.Errorf("%s uses %s: want a commit, and its version in a comment", file, u[1])
			}
		}
		if !strings.Contains(string(text), "\npermissions:\n  contents: read\n") || len(uses) < 3 {
			t.Errorf("%s: %d actions, or more rights than reading for all jobs", file, len(uses))
		}
	}
}
