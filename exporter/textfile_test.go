package exporter_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

// The file has what /metrics has of ours, mode 0644, and nothing is left beside it.
func TestTextfile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "docgauge.prom")
	must(t, os.WriteFile(path, []byte("old"), 0o600))
	must(t, exporter.WriteTextfile(path, rich()))
	text, err := os.ReadFile(path)
	must(t, err)
	_, scraped := scrape(t, publish(rich()), acceptText, "")
	if diff := cmp.Diff(own(scraped), string(text)); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode() != 0o644 {
		t.Errorf("mode %v", info.Mode())
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("left %v", files)
	}
}

func TestTextfileErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	for _, err := range []error{os.WriteFile(file, nil, 0o644), os.Mkdir(filepath.Join(dir, "directory.prom"), 0o755)} {
		must(t, err)
	}
	for path, want := range map[string]struct {
		is   error
		says string
	}{
		filepath.Join(dir, "docgauge.txt"):      {nil, "must end in .prom"},
		filepath.Join(dir, "gone", "a.prom"):    {fs.ErrNotExist, "its directory must exist"},
		filepath.Join(file, "a.prom"):           {syscall.ENOTDIR, "it must lie in a directory"},
		filepath.Join(dir, "directory.prom"):    {nil, "it is a directory"},
		"/proc/docgauge-cannot-write-here.prom": {nil, ""},
		"/dev/full/docgauge.prom":               {syscall.ENOTDIR, "it must lie in a directory"},
	} {
		err := exporter.WriteTextfile(path, rich())
		if err == nil {
			t.Errorf("%s was written", path)
			continue
		}
		if !strings.HasPrefix(err.Error(), "textfile "+path+": ") || !strings.Contains(err.Error(), want.says) ||
			want.is != nil && !errors.Is(err, want.is) {
			t.Error(err)
		}
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("left %v", files)
	}
}

// A directory that another user owns is rejected. Root may write anywhere.
func TestTextfilePermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("SKIPPED: root may write anywhere")
	}
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o500))
	err := exporter.WriteTextfile(filepath.Join(dir, "docgauge.prom"), rich())
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "must be writable") {
		t.Error(err)
	}
}

// node_exporter shows what the file says, and has nothing to complain of.
func TestTextfileNodeExporter(t *testing.T) {
	server := engines.RunNodeExporter(t)
	s := oddPages()
	must(t, exporter.WriteTextfile(filepath.Join(server.Dir, "docgauge.prom"), s))
	text, err := server.Metrics(t.Context())
	must(t, err)
	got := parse(t, text)
	if failed, ok := got["node_textfile_scrape_error"]; !ok || failed != 0 {
		t.Errorf("node_textfile_scrape_error %v, %v", failed, ok)
	}
	for name, value := range metrics(t, s) {
		if strings.HasPrefix(name, "docgauge_") && got[name] != value {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
}

func TestTryTextfile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.prom")
	must(t, os.WriteFile(path, []byte("before"), 0o600))
	if err := exporter.TryTextfile(path); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if text, _ := os.ReadFile(path); err != nil || len(left) != 1 || string(text) != "before" {
		t.Errorf("left %v, %q, %v", left, text, err)
	}
	for name, want := range map[string]string{"no/x.prom": "must exist", "x.txt": "must end in .prom"} {
		if err := exporter.TryTextfile(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
