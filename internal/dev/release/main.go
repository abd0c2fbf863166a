// Command release builds the downloads of a release: for each system an archive
// and a software bill of materials (SBOM), and the checksums of all of them.
//
// The same commit, built with the same Go, gives the same bytes in any directory
// on any machine: times are the commit's, names are sorted, and nothing comes
// from the machine. It publishes nothing; `make release` runs it.
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
}

// target is a system and a machine, in Go's words.
type target struct{ system, machine string }

func (t target) String() string { return t.system + "/" + t.machine }

var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
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
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
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
	r.built = map[target]string{}
	var sums []string
	for _, t := range r.targets {
		made, err := r.make(ctx, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		for name, data := range made {
			if err := os.WriteFile(filepath.Join(r.out, name), data, 0o644); err != nil {
				return err
			}
			sums = append(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(data), name))
		}
	}
	// In the format of sha256sum, in the order of the names.
	slices.SortFunc(sums, func(a, b string) int { return cmp.Compare(a[2*sha256.Size:], b[2*sha256.Size:]) })
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(strings.Join(sums, "")), 0o644)
}

// make returns the archive and the SBOM of one target, by the names of their files.
func (r *release) make(ctx context.Context, t target) (map[string][]byte, error) {
	binary, err := r.binary(ctx, t)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	files, err := r.contents(ctx, binary, info)
	if err != nil {
		return nil, err
	}
	name := r.name(t)
	packed, err := pack(name, r.at, files)
	if err != nil {
		return nil, err
	}
	bom, err := r.sbom(binary, info, t)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(r.log, "%s.tar.gz: %d files\n", name, len(files))
	return map[string][]byte{name + ".tar.gz": packed, name + ".cdx.json": bom}, nil
}

// name is the common beginning of a target's file names, without the v of a
// version: docgauge_1.2.3_linux_amd64.
func (r *release) name(t target) string {
	version := r.version
	if rest, ok := strings.CutPrefix(version, "v"); ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		version = rest
	}
	return fmt.Sprintf("docgauge_%s_%s_%s", version, t.system, t.machine)
}

// binary builds docgauge for a target, once, and returns the file.
func (r *release) binary(ctx context.Context, t target) (string, error) {
	if file, ok := r.built[t]; ok {
		return file, nil
	}
	file := filepath.Join(r.work, t.system+"-"+t.machine, "docgauge")
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
