package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
	"time"
)

// nfpm makes deb and rpm. It is run and not linked: its library would add forty modules
// to go.mod. Version 2.46 requires a module that the public proxy does not have.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0"

// maintainer of the packages.
const maintainer = "docgauge maintainers <maintainers@docgauge.invalid>"

// packageVersion makes a version one for dpkg and rpm: what follows the first minus
// sign comes before the release (1.2.3~rc.1), and a commit before all of them.
func packageVersion(plain string) string {
	if plain[0] < '0' || plain[0] > '9' || !strings.Contains(plain, ".") {
		plain = "0-" + plain
	}
	first, rest, found := strings.Cut(strings.ReplaceAll(plain, "_", "."), "-")
	if found {
		first += "~" + strings.ReplaceAll(rest, "-", ".")
	}
	return first
}

// packages writes the deb and the rpm of a target.
func (r *release) packages(ctx context.Context, p part) error {
	return errors.Join(r.packageOf(ctx, "deb", p), r.packageOf(ctx, "rpm", p))
}

// packageOf writes one package.
func (r *release) packageOf(ctx context.Context, kind string, p part) error {
	// Not the name that dpkg would choose: GitHub takes no tilde in the name of a file.
	name, dir := r.name(p.target)+"."+kind, filepath.Join(r.work, kind+"-"+p.machine)
	description, err := r.describe(kind, dir, packageVersion(r.plain()), p)
	if err != nil {
		return err
	}
	target := filepath.Join(dir, name)
	env := []string{"GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0", fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.at.Unix())}
	if _, err := r.output(ctx, env, "go", "run", nfpm, "package", "--config", description, "--packager", kind, "--target", target); err != nil {
		return err
	}
	data, err := os.ReadFile(target)
	if err != nil {
		return err
	}
	return r.write(name, data)
}

// content is a file of a package, in nfpm's words.
type content struct {
	Src  string   `json:"src,omitempty"`
	Dst  string   `json:"dst"`
	Type string   `json:"type,omitempty"`
	Info fileInfo `json:"file_info"`
}

type fileInfo struct {
	Mode  fs.FileMode `json:"mode"`
	Owner string      `json:"owner"`
	Group string      `json:"group"`
	MTime time.Time   `json:"mtime"`
}

// describe lays out the files of a package in a directory and writes nfpm's
// description of them, in JSON, which is YAML too.
func (r *release) describe(kind, dir, version string, p part) (string, error) {
	installed, err := r.installed(kind, p)
	if err != nil {
		return "", err
	}
	var contents []content
	for i, f := range sorted(installed) {
		c := content{Dst: "/" + f.name, Info: fileInfo{fs.FileMode(f.mode), "root", "root", r.at}}
		if kind == "rpm" && f.mode == 0o640 { // rpm sets it by name; for dpkg a script does
			c.Info.Group = "docgauge"
		}
		switch {
		case strings.HasSuffix(f.name, "/"):
			c.Type = "dir"
		case strings.HasPrefix(f.name, "etc/"):
			c.Type = "config|noreplace"
		}
		if c.Type != "dir" {
			c.Src = filepath.Join(dir, "files", fmt.Sprint(i))
			if err := errors.Join(os.MkdirAll(filepath.Dir(c.Src), 0o755), os.WriteFile(c.Src, f.data, 0o600)); err != nil {
				return "", err
			}
		}
		contents = append(contents, c)
	}
	scripts := map[string]string{}
	for _, name := range []string{"postinstall", "preremove", "postremove"} {
		scripts[name], err = filepath.Abs(filepath.Join(r.root, "deploy/packages", name+".sh"))
		if err != nil {
			return "", err
		}
	}
	// The user is made by systemd-sysusers, which exists without systemd too.
	depends := []string{"systemd | systemd-standalone-sysusers | systemd-sysusers"}
	if kind == "rpm" {
		depends = []string{"/usr/bin/systemd-sysusers"}
	}
	text, err := json.MarshalIndent(map[string]any{
		"name": "docgauge", "arch": p.machine, "platform": "linux", "version": version, "version_schema": "none", "release": "1",
		"section": "net", "priority": "optional", "maintainer": maintainer, "vendor": "docgauge",
		"homepage": "https://github.com/docgauge/docgauge", "license": "Apache-2.0", "mtime": r.at,
		"description": "exporter of documentation analytics\nReads the visitor counts of a documentation platform inside its request budget,\n" +
			"writes whole windows to Parquet, Delta Lake, ClickHouse and PostgreSQL, and serves\nthem to Prometheus.",
		"depends": depends, "contents": contents, "scripts": scripts,
		"rpm": map[string]any{"buildhost": "docgauge", "group": "Applications/Internet", "compression": "gzip"},
	}, "", "\t")
	description := filepath.Join(dir, "nfpm.yaml")
	return description, errors.Join(err, os.WriteFile(description, text, 0o600))
}

var manual = regexp.MustCompile(`^man/(man1/.*)`)

// installed are the files of a package, from those of the archive.
func (r *release) installed(kind string, p part) ([]file, error) {
	zsh := "usr/share/zsh/vendor-completions/_docgauge"
	if kind == "rpm" {
		zsh = "usr/share/zsh/site-functions/_docgauge"
	}
	places := map[string]string{
		"docgauge":                               "usr/bin/docgauge",
		"completions/docgauge.bash":              "usr/share/bash-completion/completions/docgauge",
		"completions/_docgauge":                  zsh,
		"completions/docgauge.fish":              "usr/share/fish/vendor_completions.d/docgauge.fish",
		"deploy/systemd/docgauge.service":        "usr/lib/systemd/system/docgauge.service",
		"deploy/systemd/docgauge-export.service": "usr/lib/systemd/system/docgauge-export.service",
		"deploy/systemd/docgauge-export.timer":   "usr/lib/systemd/system/docgauge-export.timer",
		"deploy/systemd/docgauge.sysusers":       "usr/lib/sysusers.d/docgauge.conf",
		"deploy/systemd/docgauge.tmpfiles":       "usr/lib/tmpfiles.d/docgauge.conf",
		"deploy/systemd/docgauge.env":            "etc/docgauge/docgauge.env",
	}
	files := []file{{name: "etc/docgauge/", mode: 0o755}}
	for _, f := range p.files {
		place, listed := places[f.name]
		page := manual.FindStringSubmatch(f.name)
		switch {
		case listed:
			f.name = place
		case page != nil:
			f.name = "usr/share/man/" + page[1] + ".gz"
		case strings.HasPrefix(f.name, "deploy/systemd/"):
			continue
		case strings.HasPrefix(f.name, "deploy/") || strings.HasPrefix(f.name, "dashboards/"):
			f.name = "usr/share/docgauge/" + strings.TrimPrefix(f.name, "deploy/")
		default:
			f.name = "usr/share/doc/docgauge/" + f.name
		}
		switch path.Ext(f.name) {
		case ".gz":
			if err := shrink(&f); err != nil {
				return nil, err
			}
		case ".service":
			f.data = bytes.ReplaceAll(f.data, []byte("/usr/local/bin/"), []byte("/usr/bin/"))
		case ".env": // the unit's user reads it; others may not
			f.mode = 0o640
		}
		files = append(files, f)
	}
	if kind == "deb" {
		return append(files, r.debian(p)...), nil
	}
	return files, nil
}

// debian are the files that Debian's policy asks for.
func (r *release) debian(p part) []file {
	changes := file{name: "usr/share/doc/docgauge/changelog.Debian.gz", mode: 0o644, data: fmt.Appendf(nil,
		"docgauge (%s-1) unstable; urgency=medium\n\n  * docgauge %s: see CHANGELOG.md in this directory.\n\n -- %s  %s\n",
		packageVersion(r.plain()), r.version, maintainer, r.at.Format(time.RFC1123Z))}
	_ = shrink(&changes) // to memory
	return []file{changes, {name: "usr/share/doc/docgauge/copyright", mode: 0o644, data: fmt.Appendf(nil,
		"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: docgauge\nSource: https://github.com/docgauge/docgauge\n\n"+
			"Files: *\nCopyright: the docgauge authors\nLicense: Apache-2.0\n On Debian systems, the licence is in /usr/share/common-licenses/Apache-2.0.\n"+
			"Comment: THIRD_PARTY_LICENSES in this directory has the licences of everything that is linked in.\n")}}
}

// shrink compresses a file's content.
func shrink(f *file) error {
	var b bytes.Buffer
	packed := gzip.NewWriter(&b)
	_, err := packed.Write(f.data)
	err = errors.Join(err, packed.Close())
	f.data = b.Bytes()
	return err
}

// recipes writes the Homebrew formula and the Nix expression, with the sums of the
// archives. Sums of targets that were not built are zeros.
func (r *release) recipes() error {
	sums := map[string]string{}
	for _, line := range r.sums {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	data := map[string]any{"Version": r.plain(), "Tag": r.version}
	for _, t := range targets {
		sum := sums[r.name(t)+".tar.gz"]
		if sum == "" {
			sum = strings.Repeat("0", 64)
		}
		data[t.system+"_"+t.machine] = sum
	}
	for from, to := range map[string]string{"docgauge.rb.tmpl": "docgauge.rb", "docgauge.nix.tmpl": "docgauge.nix"} {
		recipe, err := template.New(from).Option("missingkey=error").ParseFiles(filepath.Join(r.root, "deploy/packages", from))
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := recipe.Execute(&text, data); err != nil {
			return err
		}
		if err := r.write(to, text.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
