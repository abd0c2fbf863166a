// Command release builds what a release offers for download: an archive, and a
// bill of materials, for each system, and the checksums of all of them.
//
// The same commit, built with the same Go, gives the same bytes in any directory
// on any machine: times are the commit's, names are sorted, and nothing is taken
// from the machine. It publishes nothing; `make release` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
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
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := release{root: ".", targets: targets, log: os.Stderr}
	flag.StringVar(&r.out, "out", "dist", "directory for the result")
	flag.StringVar(&r.version, "version", "", "what `docgauge version` says")
	flag.StringVar(&r.commit, "commit", "", "the revision built")
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

// run makes everything in r.out, the checksums last.
func (r *release) run(ctx context.Context) error {
	if !goodVersion.MatchString(r.version) {
		return fmt.Errorf("-version %q: want letters, digits, dots, plus and minus signs", r.version)
	}
	work, err := os.MkdirTemp("", "docgauge-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	b := &builder{release: r, dir: work, built: map[target]string{}}
	var made []string
	for _, t := range r.targets {
		names, err := b.make(ctx, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		made = append(made, names...)
	}
	return r.writeSums(made)
}

// name is how the files of a target begin: docgauge_1.2.3_linux_amd64.
func (r *release) name(t target) string {
	return fmt.Sprintf("docgauge_%s_%s_%s", trimV(r.version), t.system, t.machine)
}

// trimV takes the v off a version, as archives are named without it.
func trimV(version string) string {
	if rest, ok := strings.CutPrefix(version, "v"); ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		return rest
	}
	return version
}

// make writes archive and bill of materials of one target and returns their names.
func (b *builder) make(ctx context.Context, t target) ([]string, error) {
	binary, err := b.binary(ctx, t)
	if err != nil {
		return nil, err
	}
	files, err := b.contents(ctx, t, binary)
	if err != nil {
		return nil, err
	}
	name := b.name(t)
	bill, err := billOfMaterials(binary, t, b.release)
	if err != nil {
		return nil, err
	}
	archive := name + ".tar.gz"
	fmt.Fprintf(b.log, "%s: %d files\n", archive, len(files))
	return []string{archive, name + ".cdx.json"}, errors.Join(
		writeArchive(filepath.Join(b.out, archive), name, b.at, files),
		os.WriteFile(filepath.Join(b.out, name+".cdx.json"), bill, 0o644))
}
