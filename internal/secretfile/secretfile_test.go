package secretfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path, text string) string {
	t.Helper()
	check(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// refused fails unless Read refuses a path with these words, on one line, without the content.
func refused(t *testing.T, path string, words ...string) {
	t.Helper()
	_, err := Read(path)
	if err == nil {
		t.Errorf("%s: accepted", path)
		return
	}
	for _, word := range append(words, path) {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v: want %q in it", err, word)
		}
	}
	if strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "hunter") {
		t.Errorf("%q: want one line without the content", err)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	// Kubernetes mounts a Secret like this: key -> ..data/key, ..data -> ..2026.
	mounted := filepath.Join(dir, "..2026")
	check(t, os.Mkdir(mounted, 0o700))
	put(t, filepath.Join(mounted, "key"), "hunter2\n")
	for link, to := range map[string]string{"..data": "..2026", "key": "..data/key"} {
		check(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	full := strings.Repeat("x", maxBytes)
	for path, want := range map[string]string{
		put(t, filepath.Join(dir, "plain"), " \n hunter2\r\n"):     "hunter2",
		put(t, filepath.Join(dir, "empty"), ""):                    "",
		put(t, filepath.Join(dir, "full"), full):                   full,
		put(t, filepath.Join(dir, "lines"), "two\nlines\n"):        "two\nlines",
		put(t, filepath.Join(dir, "just"), full[:maxBytes-1]+"\n"): full[:maxBytes-1],
		filepath.Join(dir, "key"):                                  "hunter2",
	} {
		if got, err := Read(path); err != nil || got != want {
			t.Errorf("%s: %d bytes, %v, want %d", path, len(got), err, len(want))
		}
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	large := put(t, filepath.Join(dir, "large"), "hunter2"+strings.Repeat("x", maxBytes-6))
	refused(t, large, "larger than 64 KiB", "regular file")
	refused(t, put(t, filepath.Join(dir, "spaces"), "hunter2"+strings.Repeat("\n", maxBytes-6)), "larger than 64 KiB")
	refused(t, dir, "is a directory", "regular file", "64 KiB")
	link := filepath.Join(dir, "link")
	check(t, os.Symlink(dir, link))
	refused(t, link, "is a directory")
	refused(t, filepath.Join(dir, "none"), "no such file")
	if _, err := Read(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
