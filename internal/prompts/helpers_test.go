package prompts

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
)

var (
	sampleEnd  = analytics.NewDate(2026, time.January, 5)
	sampleTime = sampleEnd.Time().Add(9 * time.Hour)
)

// put writes files below dir.
func put(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		full := filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		must(t, os.WriteFile(full, []byte(text), 0o644))
	}
}

// folder returns a folder with files.
func folder(t testing.TB, rules Rules, files map[string]string) (*Folder, string) {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, files)
	f, err := Open(dir, rules)
	must(t, err)
	return f, dir
}

// lint scans a folder whose files all count.
func lint(t testing.TB, f *Folder) Scanned {
	t.Helper()
	s, err := f.Lint()
	must(t, err)
	return s
}

// scan scans once more.
func scan(t testing.TB, f *Folder, previous *Scanned) Scanned {
	t.Helper()
	s, err := f.Scan(previous)
	must(t, err)
	return s
}

func paths(prompts []Prompt) []string {
	var all []string
	for _, p := range prompts {
		all = append(all, p.Path)
	}
	return all
}

// texts are findings as people see them.
func texts(findings []Finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, f.String())
	}
	return all
}

var update = flag.Bool("update", false, "write the golden files")

// golden compares text with a file of testdata, or with -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-update writes it): %s", path, diff)
	}
}
