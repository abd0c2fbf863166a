package prompts

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"file": "", "prompts/a.md": "body"})
	for _, tc := range []struct {
		name, path, want string
		is               error
	}{
		{"missing", "nix", "no such file or directory: make the folder or mount it; without a queue, unset the variable", fs.ErrNotExist},
		{"a file", "file", "not a directory", nil},
	} {
		path := filepath.Join(dir, tc.path)
		_, err := Open(path, Rules{})
		if want := "DOCGAUGE_PROMPTS_DIR: " + path + ": " + tc.want; err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", tc.name, err, want)
		}
		if tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%s: %v is not %v", tc.name, err, tc.is)
		}
	}
	if f, err := Open(filepath.Join(dir, "prompts"), Rules{}); err != nil || len(lint(t, f).Prompts) != 1 {
		t.Errorf("a good folder: %v", err)
	}
}

// TestScanGone: a folder that goes away is an error, not a folder without prompts.
func TestScanGone(t *testing.T) {
	f, dir := folder(t, Rules{}, map[string]string{"a.md": "body"})
	s := scan(t, f, nil)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Scan(&s); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "DOCGAUGE_PROMPTS_DIR: "+dir+": ") {
		t.Errorf("%v", err)
	}
	put(t, dir, map[string]string{"a.md": "body"})
	if s, err := f.Scan(&s); err != nil || len(s.Settling) != 1 {
		t.Errorf("a folder that comes back: %+v, %v", s, err)
	}
}
