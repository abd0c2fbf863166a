package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// licences gathers the licences of everything that is linked into a target's
// binary: they ask to be passed on with it.
func (b *builder) licences(ctx context.Context, t target) ([]file, error) {
	const each = `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{"\t"}}{{.Dir}}{{end}}{{end}}`
	list, err := b.goCommand(ctx, t, "list", "-deps", "-f", each, "./cmd/docgauge")
	if err != nil {
		return nil, err
	}
	goroot, err := b.goCommand(ctx, t, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	lines := []string{"The Go programming language\t" + string(goroot)}
	lines = append(lines, slices.Compact(slices.Sorted(strings.Lines(string(list))))...)
	for _, line := range lines {
		name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok { // a package of ours or of the standard library
			continue
		}
		if err := writeLicence(&text, name, dir); err != nil {
			return nil, err
		}
	}
	return []file{{name: "THIRD_PARTY_LICENSES", data: text.Bytes()}}, nil
}

// writeLicence adds every licence file at the top of a module.
func writeLicence(text *bytes.Buffer, name, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("licence of %s: %w", name, err)
	}
	found := false
	for _, e := range entries {
		if e.IsDir() || !licenceName.MatchString(e.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("licence of %s: %w", name, err)
		}
		fmt.Fprintf(text, "==== %s: %s\n\n%s\n", name, e.Name(), bytes.TrimSpace(data))
		found = true
	}
	if !found {
		return fmt.Errorf("%s has no licence file in %s: nobody may pass it on", name, dir)
	}
	return nil
}
