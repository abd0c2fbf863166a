// Command release builds the downloads of a release: for each system an archive and
// a software bill of materials (SBOM), for Linux packages (deb, rpm) and a container
// image, the Helm chart, a Homebrew formula, a Nix expression, and the checksums of
// all of them. Everything has the program of the archive: nothing is compiled twice.
//
// The same commit, built with the same Go, gives the same bytes in any directory
// on any machine: times are the commit's, names are sorted, and nothing comes
// from the machine. It publishes nothing; `make release` runs it. Its argument push
// sends an image or a chart that it made to a registry.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is one version in the making.
type release struct {
	root, out       string // directories: of the module, and for the result
	version, commit string
	at              time.Time // of every file
	targets         []target
	log             io.Writer

	work  string            // temporary directory
	built map[target]string // binaries
	sums  []string          // lines of SHA256SUMS
}

// target is a system and a machine, in Go's words.
type target struct{ system, machine string }

func (t target) String() string { return t.system + "/" + t.machine }

var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == "push" {
		exit(pushCommand(ctx, os.Args[2:]))
	}
	r := release{root: ".", targets: targets, log: os.Stderr}
	flag.StringVar(&r.out, "out", "dist", "directory for the result")
	flag.StringVar(&r.version, "version", "", "version that `docgauge version` prints")
	flag.StringVar(&r.commit, "commit", "", "revision that is built")
	epoch := flag.String("epoch", os.Getenv("SOURCE_DATE_EPOCH"), "time of every file, in seconds since 1970")
	flag.Parse()
	err := r.setTime(*epoch)
	if err == nil {
		err = r.run(ctx)
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (r *release) setTime(epoch string) error {
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("-epoch %q: want the commit's time in seconds, as `git log -1 --format=%%ct` prints it", epoch)
	}
	r.at = time.Unix(seconds, 0).UTC()
	return nil
}

var goodVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+_-]*$`)

// run writes everything to r.out, the checksums last.
func (r *release) run(ctx context.Context) (err error) {
	if !goodVersion.MatchString(r.version) {
		return fmt.Errorf("-version %q: want letters, digits, dots, plus and minus signs", r.version)
	}
	if r.work, err = os.MkdirTemp("", "docgauge-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	r.built, r.sums = map[target]string{}, nil
	var parts []part
	for _, t := range r.targets {
		p, err := r.make(ctx, t)
		if err == nil && t.system == "linux" {
			err = r.packages(ctx, p)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		parts = append(parts, p)
	}
	if err := errors.Join(r.image(ctx, parts), r.chart(), r.recipes()); err != nil {
		return err
	}
	// In the format of sha256sum, in the order of the names.
	slices.SortFunc(r.sums, func(a, b string) int { return cmp.Compare(a[2*sha256.Size:], b[2*sha256.Size:]) })
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(strings.Join(r.sums, "")), 0o644)
}

// write adds a file to the result.
func (r *release) write(name string, data []byte) error {
	r.sums = append(r.sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(data), name))
	fmt.Fprintf(r.log, "%s: %d bytes\n", name, len(data))
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}

// part is what a release has for one target.
type part struct {
	target
	files []file // of its archive
	sbom  []byte
}

// data is the content of a file of the archive.
func (p part) data(name string) []byte {
	i := slices.IndexFunc(p.files, func(f file) bool { return f.name == name })
	if i < 0 {
		panic("the archive lacks " + name)
	}
	return p.files[i].data
}

// make writes the archive and the SBOM of one target.
func (r *release) make(ctx context.Context, t target) (part, error) {
	binary, err := r.binary(ctx, t)
	if err != nil {
		return part{}, err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return part{}, err
	}
	p := part{target: t}
	if p.files, err = r.contents(ctx, binary, info); err != nil {
		return part{}, err
	}
	if p.sbom, err = r.sbom(binary, info, t); err != nil {
		return part{}, err
	}
	name, packed, err := t.pack(r.name(t), r.at, p.files)
	if err != nil {
		return part{}, err
	}
	return p, errors.Join(r.write(name, packed), r.write(r.name(t)+".cdx.json", p.sbom))
}

// plain is the version without the v of a tag: 1.2.3.
func (r *release) plain() string {
	if rest, ok := strings.CutPrefix(r.version, "v"); ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		return rest
	}
	return r.version
}

// name is the common beginning of a target's file names: docgauge_1.2.3_linux_amd64.
func (r *release) name(t target) string {
	return fmt.Sprintf("docgauge_%s_%s_%s", r.plain(), t.system, t.machine)
}

// binary builds docgauge for a target, once, and returns the file.
func (r *release) binary(ctx context.Context, t target) (string, error) {
	if file, ok := r.built[t]; ok {
		return file, nil
	}
	file := filepath.Join(r.work, t.system+"-"+t.machine, "docgauge")
	if t.system == "windows" {
		file += ".exe"
	}
	// A release is of a commit, so it names no branch: HEAD, as exporters have it.
	const build = "github.com/prometheus/common/version"
	flags := fmt.Sprintf("-s -w -X %[1]s.Version=%[2]s -X %[1]s.Revision=%[3]s -X %[1]s.Branch=HEAD", build, r.version, r.commit)
	// Settings of this machine that would change the result are overridden.
	env := []string{"GOOS=" + t.system, "GOARCH=" + t.machine, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off",
		"GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off"}
	if _, err := r.output(ctx, env, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", file, "./cmd/docgauge"); err != nil {
		return "", err
	}
	r.built[t] = file
	return file, checkTarget(file, t)
}

// checkTarget returns an error unless a file is a static Go program for the target.
func checkTarget(file string, t target) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return err
	}
	got := map[string]string{}
	for _, s := range info.Settings {
		got[s.Key] = s.Value
	}
	if got["GOOS"] != t.system || got["GOARCH"] != t.machine || got["CGO_ENABLED"] != "0" {
		return fmt.Errorf("%s is for %s/%s with CGO_ENABLED=%s, want %s without cgo", file, got["GOOS"], got["GOARCH"], got["CGO_ENABLED"], t)
	}
	return nil
}

// docgauge runs this machine's docgauge.
func (r *release) docgauge(ctx context.Context, args ...string) ([]byte, error) {
	file, err := r.binary(ctx, target{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	return r.output(ctx, nil, file, args...)
}

// output runs a program in the module and returns its standard output.
func (r *release) output(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var said strings.Builder
	cmd.Dir, cmd.Env, cmd.Stderr = r.root, append(os.Environ(), env...), &said
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err), errors.New(said.String()))
	}
	return out, nil
}
