package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
)

var (
	semantic     = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+([-+].*)?$`)
	chartVersion = regexp.MustCompile(`(?m)^version: .*$`)
	appVersion   = regexp.MustCompile(`(?m)^appVersion: .*$`)
)

// chart writes the Helm chart as helm package does, but always the same bytes. It has
// the version of the release, which is also that of its image.
func (r *release) chart() error {
	version := r.plain()
	if !semantic.MatchString(version) {
		version = "0.0.0-" + version // helm takes no other
	}
	var files []file
	if err := addLinked(&files, filepath.Join(r.root, "deploy/helm/docgauge"), ""); err != nil {
		return err
	}
	for i := range files {
		if files[i].name == "Chart.yaml" {
			text := chartVersion.ReplaceAll(files[i].data, []byte("version: "+version))
			files[i].data = appVersion.ReplaceAll(text, fmt.Appendf(nil, "appVersion: %q", tagOf(r.plain())))
		}
	}
	packed, err := compressed("docgauge", r.at, files)
	if err != nil {
		return err
	}
	return r.write(fmt.Sprintf("docgauge-%s.tgz", version), packed)
}

// addLinked adds the files of a directory, with what symbolic links stand for: an
// installed chart has no repository around it.
func addLinked(files *[]file, dir, below string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at, name := filepath.Join(dir, e.Name()), path.Join(below, e.Name())
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if info.IsDir() {
			if err := addLinked(files, at, name); err != nil {
				return err
			}
			continue
		}
		data, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		*files = append(*files, file{name: name, mode: 0o644, data: data})
	}
	return nil
}
