package prompts

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func link(t *testing.T, dir, name, to string) {
	t.Helper()
	if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// configMap writes a version of a ConfigMap as the kubelet does: a folder with a
// time in its name, and ..data renamed over the former link to it. Then it makes
// and removes the links that users see.
func configMap(t *testing.T, dir, version string, files map[string]string, between func()) {
	t.Helper()
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	for name, text := range files {
		put(t, dir, map[string]string{version + "/" + name: text})
	}
	link(t, dir, "..data_tmp", version)
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	between()
	visible := map[string]bool{}
	for name := range files {
		top, _, _ := strings.Cut(name, "/")
		visible[top] = true
		if _, err := os.Lstat(filepath.Join(dir, top)); err != nil {
			link(t, dir, top, "..data/"+top)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..") && !visible[e.Name()] {
			remove(t, filepath.Join(dir, e.Name()))
		}
	}
	if old != "" {
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConfigMap(t *testing.T) {
	dir := t.TempDir()
	configMap(t, dir, "..2026_01_01", map[string]string{"a.md": "one", "b.md": "one", "weekly/c.md": "one", "notes.yaml": "x"}, func() {})
	f, err := Open(dir, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	s := scan(t, f, nil)
	s = scan(t, f, &s)
	expect(t, "mounted", s, "prompts [a.md b.md weekly/c.md], invalid [], settling []")

	configMap(t, dir, "..2026_01_02", map[string]string{"a.md": "two", "d.md": "two", "weekly/c.md": "one"}, func() {
		s = scan(t, f, &s)
		expect(t, "swapped, links not tidied", s, "prompts [], invalid [], settling [a.md b.md weekly/c.md]")
	})
	s = scan(t, f, &s)
	expect(t, "swapped", s, "prompts [a.md weekly/c.md], invalid [], settling [d.md]")
	s = scan(t, f, &s)
	expect(t, "settled", s, "prompts [a.md d.md weekly/c.md], invalid [], settling []")
	if s.Prompts[0].Body != "two" || len(s.Findings) > 0 {
		t.Errorf("%q, %v", s.Prompts[0].Body, s.Findings)
	}
}

// TestLinks: what is not simply a file or a folder.
func TestLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	outside := t.TempDir()
	put(t, outside, map[string]string{"secret.md": "a secret", "sub/b.md": "body"})
	f, dir := folder(t, Rules{}, map[string]string{
		"a.md": "body", ".hidden.md": "body", ".git/x.md": "body", ".data/x.md": "body", ".data/y.md": "body", "README": "no prompt", "real/r.md": "body",
		"deep/" + strings.Repeat("d/", maxDepth-1) + "in.md": "body",
		"deep/" + strings.Repeat("d/", maxDepth) + "out.md":  "body",
		"bad\nname.md": "body", "bad\x7ffolder/x.md": "body", "bad\x7ffolder/y.md": "body",
		strings.Repeat("l", MaxNameBytes-2) + ".md": "body",
	})
	link(t, dir, "absolute.md", filepath.Join(dir, "a.md"))
	link(t, dir, "escape.md", "../"+filepath.Base(outside)+"/secret.md")
	link(t, dir, "escape", outside+"/sub")
	link(t, dir, "gone.md", "nowhere.md")
	link(t, dir, "gone", "nowhere")
	link(t, dir, "self.md", "self.md")
	link(t, dir, "real/up", "..")
	link(t, dir, "folder.md", "real")
	link(t, dir, "readme", "README")
	link(t, dir, "device.md", "/dev/null")
	if err := os.Link(filepath.Join(dir, "a.md"), filepath.Join(dir, "hard.md")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	link(t, dir, "pipelink.md", "pipe.md")
	link(t, dir, "pipelink", "pipe.md")
	link(t, dir, "alink.md", "a.md")
	link(t, dir, "cross", "real/up/real")
	link(t, dir, "data", ".data")
	link(t, dir, "data-again", ".data")
	link(t, dir, "only-link.md", ".hidden.md")
	link(t, dir, "one-link.md", ".data/y.md")
	link(t, dir, "two-link.md", ".data/y.md")
	s := lint(t, f)
	golden(t, "links.golden", strings.Join(texts(s.Findings), "\n")+"\n"+saw(s)+"\n")
}

// TestDisappear: files that go while the folder is read are no error.
func TestDisappear(t *testing.T) {
	files := map[string]string{}
	for i := range 100 {
		files[fmt.Sprintf("%d/%03d.md", i%7, i)] = "body"
	}
	f, dir := folder(t, Rules{}, files)
	var rounds atomic.Int32
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for name := range files {
				os.Remove(filepath.Join(dir, name))
			}
			os.RemoveAll(filepath.Join(dir, "3"))
			put(t, dir, files)
			rounds.Add(1)
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	var s Scanned
	for scans := 0; (scans < 10 || rounds.Load() < 10) && !t.Failed(); scans++ {
		s = scan(t, f, &s)
		for _, f := range s.Findings {
			if !strings.Contains(f.Text, "the prompt is empty") {
				t.Error(f)
			}
		}
	}
	close(stop)
	<-done
	s = scan(t, f, nil)
	if s = scan(t, f, &s); len(s.Prompts) != len(files) {
		t.Errorf("%d prompts at the end", len(s.Prompts))
	}
}

// TestHalfWritten: a writer that takes its time never has half a file sent. What
// counts is whole, if the writer is not slower than the scans.
func TestHalfWritten(t *testing.T) {
	f, dir := folder(t, Rules{}, nil)
	path := filepath.Join(dir, "a.md")
	var s Scanned
	for i := 1; i <= 20; i++ {
		handle, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(handle, "line %d\n", i)
		if s = scan(t, f, &s); len(s.Prompts)+len(s.Findings) != 0 {
			t.Fatalf("line %d: %s", i, saw(s))
		}
		if err := handle.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s = scan(t, f, &s)
	if len(s.Prompts) != 1 || strings.Count(s.Prompts[0].Body, "\n") != 19 {
		t.Error(cmp.Diff(nil, s.Prompts))
	}
}
