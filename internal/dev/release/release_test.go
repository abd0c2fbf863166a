package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"go.yaml.in/yaml/v3"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestMain runs the tests at the top of the repository, where a release is made.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

var commitTime = time.Unix(1_790_000_000, 0).UTC()

// prepared runs prepare.sh with the program of the tests and returns its directory.
func prepared(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "release")
	cmd := exec.Command("sh", "deploy/packages/prepare.sh")
	cmd.Env = append(os.Environ(), "OUT="+out, "DOCGAUGE="+engines.Docgauge(t),
		"RELEASE_VERSION=1.2.3-rc.1", "VERSION=v1.2.3-rc.1", fmt.Sprintf("SOURCE_DATE_EPOCH=%d", commitTime.Unix()))
	run(t, cmd)
	return out
}

// run runs a program to its end, which must be exit code 0, and returns its output.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPrepared: every file that .goreleaser.yaml names is in the repository or prepared,
// each once, and each file that is prepared is in a package. goreleaser only warns.
func TestPrepared(t *testing.T) {
	out := prepared(t)
	var config struct {
		Archives []struct{ Files []struct{ Src, Dst string } }
		NFPMs    []struct {
			Scripts  map[string]string
			Contents []struct{ Src, Dst, Type, Packager string }
		} `yaml:"nfpms"`
	}
	if err := yaml.Unmarshal([]byte(read(t, ".goreleaser.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	packed := map[string]bool{}
	use := func(pattern string) {
		pattern = strings.Replace(pattern, "bin/release", out, 1)
		found, err := filepath.Glob(strings.Replace(pattern, "**", "*", 1))
		if err != nil || len(found) == 0 {
			t.Errorf("%s matches nothing: %v", pattern, err)
		}
		for _, path := range found {
			packed[path] = true
		}
	}
	for _, a := range config.Archives {
		for _, f := range a.Files {
			use(f.Src)
		}
	}
	places := map[string]bool{}
	for _, p := range config.NFPMs {
		for _, script := range p.Scripts {
			use(script)
		}
		for _, c := range p.Contents {
			if c.Type != "dir" {
				use(c.Src)
			}
			place := c.Packager + c.Dst
			if !strings.HasSuffix(c.Dst, "/") && (places[place] || places[c.Dst]) {
				t.Errorf("two files are installed as %s", c.Dst)
			}
			places[place] = true
		}
	}
	err := filepath.WalkDir(out, func(path string, d os.DirEntry, err error) error {
		if !d.IsDir() && !packed[path] && !strings.HasPrefix(path, out+"/chart/") && path != out+"/modules" {
			t.Errorf("no package or archive has %s", path)
		}
		return err
	})
	if err != nil || len(packed) < 100 {
		t.Errorf("%d files, %v", len(packed), err)
	}
	for name, want := range map[string]string{
		"THIRD_PARTY_LICENSES":                     "==== github.com/spf13/cobra v1",
		"man/docgauge-jobs-resolve.1":              "docgauge",
		"systemd/docgauge.service":                 "ExecStart=/usr/bin/docgauge",
		"systemd/docgauge-site.service":            "ExecStart=/usr/bin/docgauge site serve",
		"chart/Chart.yaml":                         "\nversion: 1.2.3-rc.1\nappVersion: \"1.2.3-rc.1\"\n",
		"chart/files/rules/alerts.yaml":            "alert: DocgaugeDown",
		"import/docgauge-readers.json":             "__inputs",
		"completions/docgauge.bash":                "bash completion",
		"chart/files/dashboards/../../.helmignore": ".git/",
	} {
		if !strings.Contains(read(t, filepath.Join(out, name)), want) {
			t.Errorf("%s lacks %q", name, want)
		}
	}
	if strings.Contains(read(t, out+"/THIRD_PARTY_LICENSES"), "pgregory.net/rapid") {
		t.Error("the licences have a module that only tests use")
	}
}

// made is the rest of a release of this test as the program, once for each machine.
func made(t *testing.T) (r release) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "THIRD_PARTY_LICENSES"), []byte("licences"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = release{
		prepared: out, out: t.TempDir(), version: "1.2.3+new", tag: "v1.2.3+new", commit: "c0ffee", modified: commitTime,
		formula: "deploy/packages/docgauge.rb.tmpl", recipe: "deploy/packages/docgauge.nix.tmpl",
	}
	for _, machine := range []string{"amd64", "arm64"} {
		r.built = append(r.built, program{Path: self, System: "linux", Machine: machine})
	}
	archive := filepath.Join(r.out, "docgauge_1.2.3+new_linux_amd64.tar.gz")
	if err := os.WriteFile(archive, []byte("archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.complete()
	return r
}

// TestComplete: the image matches the Dockerfile and has its SBOM, recipes and
// sums are right, and a second run makes the same bytes.
func TestComplete(t *testing.T) {
	r := made(t)
	if again := made(t); read(t, r.out+"/SHA256SUMS") != read(t, again.out+"/SHA256SUMS") {
		t.Errorf("other sums:\n%s%s", read(t, r.out+"/SHA256SUMS"), read(t, again.out+"/SHA256SUMS"))
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("archive")))
	for _, recipe := range []string{"docgauge.rb", "docgauge.nix"} {
		text := read(t, filepath.Join(r.out, recipe))
		if !strings.Contains(text, sum) || strings.Contains(text, "{{") ||
			!strings.Contains(text, "/download/v1.2.3+new/docgauge_") {
			t.Errorf("%s is not filled in:\n%s", recipe, text)
		}
	}
	cmd := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = r.out
	if said := run(t, cmd); strings.Count(said, ": OK\n") != 6 {
		t.Errorf("want 6 files:\n%s", said)
	}
	bom := read(t, r.out+"/docgauge_1.2.3+new_linux_arm64.cdx.json")
	checkSBOM(t, []byte(bom))

	dir := t.TempDir()
	image, err := os.Open(filepath.Join(r.out, "docgauge_1.2.3+new_image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	extract(t, image, dir)
	all, err := layout.ImageIndexFromPath(dir)
	if err == nil {
		err = validate.Index(all)
	}
	if err != nil {
		t.Fatal(err)
	}
	top, err := all.IndexManifest()
	if err != nil || len(top.Manifests) != 3 ||
		top.Manifests[2].Annotations["org.opencontainers.image.ref.name"] != "1.2.3_new" {
		t.Fatalf("%+v, %v: want two SBOMs and an index with a tag", top, err)
	}
	index := taggedIndex(t, all)
	platforms, err := index.IndexManifest()
	if err != nil || len(platforms.Manifests) != 2 {
		t.Fatal(platforms, err)
	}
	for i, desc := range platforms.Manifests {
		sbom, err := all.Image(top.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := sbom.Manifest(); err != nil || m.Config.MediaType != sbomType || m.Subject.Digest != desc.Digest {
			t.Errorf("%v: its SBOM is %+v, %v", desc.Platform, m, err)
		}
		checkConfig(t, imageFor(t, index, desc.Platform.Architecture))
	}
	checkFiles(t, imageFor(t, index, "amd64"))
}

// taggedIndex returns the index of images of a layout.
func taggedIndex(t *testing.T, all v1.ImageIndex) v1.ImageIndex {
	t.Helper()
	found, err := partial.FindIndexes(all, func(d v1.Descriptor) bool { return len(d.Annotations) > 0 })
	if err != nil || len(found) != 1 {
		t.Fatalf("%d indexes, %v", len(found), err)
	}
	return found[0]
}

// imageFor returns the image for a machine.
func imageFor(t *testing.T, all v1.ImageIndex, architecture string) v1.Image {
	t.Helper()
	images, err := partial.FindImages(all, func(d v1.Descriptor) bool {
		return d.Platform != nil && d.Platform.Architecture == architecture
	})
	if err != nil || len(images) != 1 {
		t.Fatalf("%d images for %s, %v", len(images), architecture, err)
	}
	return images[0]
}

// checkConfig: the image and the Dockerfile have the same configuration.
func checkConfig(t *testing.T, image v1.Image) {
	t.Helper()
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(read(t, "deploy/docker/Dockerfile"), "\\\n", " ")
	_, final, _ := strings.Cut(text, "\nFROM gcr.io")
	instruction := func(name string) string {
		found := regexp.MustCompile(`(?m)^`+name+` +(.*)$`).FindAllStringSubmatch(final, -1)
		if len(found) != 1 {
			t.Fatalf("%d %s", len(found), name)
		}
		return strings.Join(strings.Fields(found[0][1]), " ")
	}
	list := func(argv []string) string { return `["` + strings.Join(argv, `", "`) + `"]` }
	c, h := file.Config, file.Config.Healthcheck
	health := fmt.Sprintf("--interval=%.0fs --timeout=%.0fs --start-period=%.0fs --retries=%d CMD %s",
		h.Interval.Seconds(), h.Timeout.Seconds(), h.StartPeriod.Seconds(), h.Retries, list(h.Test[1:]))
	for name, got := range map[string]string{
		"USER": c.User, "WORKDIR": c.WorkingDir, "ENTRYPOINT": list(c.Entrypoint), "CMD": list(c.Cmd),
		"STOPSIGNAL": c.StopSignal, "ENV": strings.Join(c.Env[2:], " "), // without what distroless sets
		"VOLUME": list(slices.Collect(maps.Keys(c.Volumes))), "HEALTHCHECK": health,
	} {
		if want := instruction(name); got != want {
			t.Errorf("%s is %s, and the Dockerfile's %s", name, got, want)
		}
	}
	for _, label := range regexp.MustCompile(`(\S+)="([^"]*)"`).FindAllStringSubmatch(instruction("LABEL"), -1) {
		want := strings.NewReplacer("$VERSION", "v1.2.3+new", "$COMMIT", "c0ffee").Replace(label[2])
		if c.Labels[label[1]] != want {
			t.Errorf("label %s is %q, and the Dockerfile's %q", label[1], c.Labels[label[1]], want)
		}
	}
}

// checkFiles: the image has what the program needs, with the right owners.
func checkFiles(t *testing.T, image v1.Image) {
	t.Helper()
	dir, layers := t.TempDir(), mutate.Extract(image)
	defer layers.Close()
	owners := extract(t, layers, dir)
	if n := strings.Count(read(t, dir+"/etc/ssl/certs/ca-certificates.crt"), "BEGIN CERTIFICATE"); n < 100 {
		t.Errorf("%d roots", n)
	}
	for name, want := range map[string]string{
		"docgauge": "-rwxr-xr-x 0", "var/lib/docgauge": "drwx------ 65532", "tmp": "dtrwxrwxrwx 0",
		"usr/share/zoneinfo/Asia/Kolkata":             "-rw-r--r-- 0",
		"usr/share/doc/docgauge/THIRD_PARTY_LICENSES": "-rw-r--r-- 0",
	} {
		if owners[name] != want {
			t.Errorf("%s is %s, want %s", name, owners[name], want)
		}
	}
}

// extract unpacks a tar archive and returns mode and owner of each file.
func extract(t *testing.T, from io.Reader, to string) map[string]string {
	t.Helper()
	owners := map[string]string{}
	for archive := tar.NewReader(from); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return owners
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(to, h.Name)
		owners[h.Name] = fmt.Sprintf("%v %d", h.FileInfo().Mode(), h.Uid)
		if err = os.MkdirAll(filepath.Dir(at), 0o755); h.Typeflag == tar.TypeDir {
			err = errors.Join(err, os.MkdirAll(at, 0o755))
		} else {
			data, failure := io.ReadAll(archive)
			err = errors.Join(err, failure, os.WriteFile(at, data, 0o600))
		}
		if os.Geteuid() == 0 {
			err = errors.Join(err, os.Chown(at, h.Uid, h.Gid))
		}
		if err = errors.Join(err, os.Chmod(at, h.FileInfo().Mode())); err != nil {
			t.Fatal(err)
		}
	}
}

func checkSBOM(t *testing.T, text []byte) {
	t.Helper()
	var bom cdx.BOM
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	self := bom.Metadata.Component
	if bom.BOMFormat != "CycloneDX" || bom.Metadata.Timestamp != commitTime.Format(time.RFC3339) ||
		self.Version != "v1.2.3+new" {
		t.Errorf("the SBOM is %s of %s for %s", bom.BOMFormat, bom.Metadata.Timestamp, self.Version)
	}
	var names []string
	for _, c := range *bom.Components {
		names = append(names, c.Name)
		if c.Name != "std" && (c.Hashes == nil || len((*c.Hashes)[0].Value) != 64) {
			t.Errorf("%s has the hashes %v", c.Name, c.Hashes)
		}
	}
	for _, want := range []string{"std", "github.com/google/go-containerregistry",
		"github.com/CycloneDX/cyclonedx-go"} {
		if !slices.Contains(names, want) {
			t.Errorf("the SBOM lacks %s", want)
		}
	}
}

// TestPackageScripts runs the maintainer scripts as dpkg and rpm call them.
func TestPackageScripts(t *testing.T) {
	const stopped = "stop docgauge@*.service; disable docgauge@.service; " +
		"disable --now docgauge.service docgauge-export.timer docgauge-export.service docgauge-site.service"
	const upgraded = "daemon-reload; try-restart docgauge-site.service docgauge.service docgauge@*.service"
	for _, tc := range []struct{ script, args, systemctl, said string }{
		{"postinstall", "configure", "daemon-reload",
			"docgauge init --env-file /etc/docgauge/docgauge.env --api-key-file "},
		{"postinstall", "configure 1.2.2-1", upgraded, ""},
		{"postinstall", "1", "daemon-reload", "docgauge init --env-file /etc/docgauge/docgauge.env --api-key-file "},
		{"postinstall", "2", upgraded, ""},
		{"postinstall", "abort-upgrade 1.2.3-1", "", ""},
		{"preremove", "remove", stopped, ""},
		{"preremove", "0", stopped, ""},
		{"preremove", "upgrade 1.2.4-1", "", ""},
		{"preremove", "1", "", ""},
		{"postremove", "remove", "daemon-reload", ""},
		{"postremove", "purge", "daemon-reload", "/var/lib/docgauge is left"},
		{"postremove", "0", "daemon-reload", "/var/lib/docgauge is left"},
		{"postremove", "upgrade 1.2.4-1", "", ""},
	} {
		t.Run(tc.script+" "+tc.args, func(t *testing.T) {
			root, bin := t.TempDir(), t.TempDir()
			for _, dir := range []string{"etc/docgauge", "run/systemd/system", "var/lib/docgauge"} {
				if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			settings := filepath.Join(root, "etc/docgauge/docgauge.env")
			for path, text := range map[string]string{
				settings: "", filepath.Join(root, "etc/docgauge/site.env"): "",
				filepath.Join(root, "etc/group"): fmt.Sprintf("docgauge:!:%d:\n", os.Getgid()),
				bin + "/systemctl":               "#!/bin/sh\necho \"$*\" >>" + root + "/log\n",
				bin + "/systemd-sysusers":        "#!/bin/sh\n",
				bin + "/systemd-tmpfiles":        "#!/bin/sh\n", bin + "/chown": "#!/bin/sh\n",
			} {
				if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("sh", append([]string{"deploy/packages/" + tc.script + ".sh"},
				strings.Fields(tc.args)...)...)
			cmd.Env = []string{"DPKG_ROOT=" + root, "PATH=" + bin + ":/usr/bin:/bin"}
			said := run(t, cmd)
			if (said != "") != (tc.said != "") || !strings.Contains(said, tc.said) {
				t.Errorf("it says %q, want %q", said, tc.said)
			}
			log, _ := os.ReadFile(root + "/log")
			if got := strings.ReplaceAll(strings.TrimSpace(string(log)), "\n", "; "); got != tc.systemctl {
				t.Errorf("systemctl %q, want %q", got, tc.systemctl)
			}
			info, err := os.Stat(settings)
			if first := tc.said != "" && tc.script == "postinstall"; err != nil || (info.Mode() == 0o640) != first {
				t.Errorf("the settings are %v, %v", info.Mode(), err)
			}
		})
	}
}

// TestWindowsCompiles: so do the packages that have files for each system, and those below them.
func TestWindowsCompiles(t *testing.T) {
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("compiles for another system")
	}
	files, err := exec.Command("git", "ls-files", "internal/*_windows.go").Output()
	args := []string{"build"}
	for _, file := range strings.Fields(string(files)) {
		args = append(args, "./"+filepath.Dir(file))
	}
	if err != nil || len(args) == 1 {
		t.Fatal(args, err)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS=windows", "CGO_ENABLED=0")
	run(t, cmd)
}

// TestWorkflows: actions are named by commit and version, and a workflow may only read
// unless a job says otherwise.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(".github/workflows/*.yml")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	pinned := regexp.MustCompile(`^(\./\S+|[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$`)
	for _, file := range files {
		text := read(t, file)
		uses := regexp.MustCompile(`(?m)uses: *(.*)$`).FindAllStringSubmatch(text, -1)
		for _, u := range uses {
			if !pinned.MatchString(u[1]) {
				t.Errorf("%s uses %s: want a commit, and its version in a comment", file, u[1])
			}
		}
		if !strings.Contains(text, "\npermissions:\n  contents: read\n") || len(uses) < 3 {
			t.Errorf("%s: %d actions, or more rights than reading for all jobs", file, len(uses))
		}
	}
}
