// Command release adds to what goreleaser has built what goreleaser cannot make without
// Docker or the internet: a software bill of materials (SBOM) for each program, the
// container image, the Homebrew formula and the Nix expression, and the checksums of all
// files. `make release` runs it.
//
// The same commit, built with the same Go, gives the same bytes in any directory on any
// machine: times are the commit's, names are sorted, and nothing comes from the machine.
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/docgauge/docgauge/internal/dev/must"
)

// release is one version in the making.
type release struct {
	prepared, out   string // directories: of prepare.sh, and for the result
	version, tag    string // 1.2.3 and v1.2.3
	commit          string
	modified        time.Time // of every file
	built           []program
	formula, recipe string // templates of Homebrew and Nix
}

// program is docgauge for one system, as artifacts.json of goreleaser names it.
type program struct {
	Name, Path, Type string
	System           string `json:"goos"`
	Machine          string `json:"goarch"`
}

func main() {
	err := must.Try(func() {
		switch {
		case len(os.Args) == 4 && os.Args[1] == "import":
			for _, board := range must.Get(filepath.Glob(filepath.Join(os.Args[2], "*.json"))) {
				form := importable(must.Get(os.ReadFile(board)))
				must.Do(os.WriteFile(filepath.Join(os.Args[3], filepath.Base(board)), form, 0o644))
			}
		case len(os.Args) == 4 && os.Args[1] == "finish":
			finish(os.Args[2], os.Args[3])
		default:
			must.Do(errors.New("usage: release import FROM TO | release finish PREPARED OUT"))
		}
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// finish moves what goreleaser has built below the directory prepared to out, and adds the rest.
func finish(prepared, out string) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		must.Do(fmt.Errorf("SOURCE_DATE_EPOCH: %w", err))
	}
	r := release{
		prepared: prepared, out: out, modified: time.Unix(seconds, 0).UTC(),
		version: os.Getenv("RELEASE_VERSION"), tag: os.Getenv("VERSION"), commit: os.Getenv("COMMIT"),
		formula: "deploy/packages/docgauge.rb.tmpl", recipe: "deploy/packages/docgauge.nix.tmpl",
	}
	text := must.Get(os.ReadFile(filepath.Join(prepared, "dist/artifacts.json")))
	must.Do(json.Unmarshal(text, &r.built))
	must.Do(os.MkdirAll(out, 0o755))
	var programs []program
	for _, p := range r.built {
		switch p.Type {
		case "Binary":
			programs = append(programs, p)
		case "Archive", "Linux Package":
			must.Do(os.Rename(p.Path, filepath.Join(out, p.Name)))
		}
	}
	// goreleaser lists them in the order in which they were done.
	slices.SortFunc(programs, func(a, b program) int { return cmp.Compare(r.name(a), r.name(b)) })
	r.built = programs
	r.complete()
}

// complete adds to the archives and packages in out everything else.
func (r *release) complete() {
	for _, p := range r.built {
		r.write(r.name(p)+".cdx.json", r.sbom(p))
	}
	r.writeImage()
	r.writeRecipes()
	r.writeSums()
}

// name is the common beginning of the file names of a program: docgauge_1.2.3_linux_amd64.
func (r *release) name(p program) string {
	return fmt.Sprintf("docgauge_%s_%s_%s", r.version, p.System, p.Machine)
}

// write adds a file to the result.
func (r *release) write(name string, data []byte) {
	must.Do(os.WriteFile(filepath.Join(r.out, name), data, 0o644))
}

// writeRecipes writes the Homebrew formula and the Nix expression, with the checksums of the archives. The checksum
// of a system that was not built is zero.
func (r *release) writeRecipes() {
	values := map[string]string{"Version": r.version, "Tag": r.tag}
	for _, system := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"} {
		values[system] = strings.Repeat("0", 2*sha256.Size)
		archive, err := os.ReadFile(filepath.Join(r.out, fmt.Sprintf("docgauge_%s_%s.tar.gz", r.version, system)))
		if err == nil {
			values[system] = fmt.Sprintf("%x", sha256.Sum256(archive))
		}
	}
	for _, path := range []string{r.formula, r.recipe} {
		recipe := must.Get(template.New(filepath.Base(path)).Option("missingkey=error").ParseFiles(path))
		var text bytes.Buffer
		must.Do(recipe.Execute(&text, values))
		r.write(strings.TrimSuffix(filepath.Base(path), ".tmpl"), text.Bytes())
	}
}

// writeSums writes SHA256SUMS of all files, in the format of sha256sum.
func (r *release) writeSums() {
	entries := must.Get(os.ReadDir(r.out)) // sorted
	var sums strings.Builder
	for _, e := range entries {
		data := must.Get(os.ReadFile(filepath.Join(r.out, e.Name())))
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	r.write("SHA256SUMS", []byte(sums.String()))
}
