package prompts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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
	if s, err := f.Scan(&s); err != nil || len(s.Changing) != 1 {
		t.Errorf("a folder that comes back: %+v, %v", s, err)
	}
}

// saw is the result of a scan, in short.
func saw(s Scanned) string {
	return fmt.Sprintf("prompts %v, invalid %v, changing %v", paths(s.Prompts), paths(s.Invalid), s.Changing)
}

func expect(t *testing.T, step string, s Scanned, want string) {
	t.Helper()
	if got := saw(s); got != want {
		t.Errorf("%s: %s, want %s\n%s", step, got, want, strings.Join(texts(s.Findings), "\n"))
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// TestChanging: a file counts once two scans saw it unchanged; an invalid one too.
func TestChanging(t *testing.T) {
	f, dir := folder(t, Rules{}, map[string]string{"a.md": "half of", "b.md": "body"})
	a := filepath.Join(dir, "a.md")
	s := scan(t, f, nil)
	expect(t, "first", s, "prompts [], invalid [], changing [a.md b.md]")

	put(t, dir, map[string]string{"a.md": "half of a prompt"})
	s = scan(t, f, &s)
	expect(t, "written on", s, "prompts [b.md], invalid [], changing [a.md]")
	s = scan(t, f, &s)
	expect(t, "unchanged", s, "prompts [a.md b.md], invalid [], changing []")
	if s.Prompts[0].Body != "half of a prompt" {
		t.Errorf("%q", s.Prompts[0].Body)
	}

	put(t, dir, map[string]string{"a.md": ""})
	s = scan(t, f, &s)
	expect(t, "made empty", s, "prompts [b.md], invalid [], changing [a.md]")
	if len(s.Findings) > 0 {
		t.Errorf("findings of a file that is changing: %v", s.Findings)
	}
	s = scan(t, f, &s)
	expect(t, "still empty", s, "prompts [b.md], invalid [a.md], changing []")

	remove(t, a)
	s = scan(t, f, &s)
	expect(t, "removed", s, "prompts [b.md], invalid [], changing []")
}

// TestChangingAlike: a file can have changed although some of its properties are the same.
func TestChangingAlike(t *testing.T) {
	past := time.Now().Add(-time.Hour)
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, path string)
		counts bool
	}{
		{"nothing", func(*testing.T, string) {}, true},
		{"read and made executable", func(t *testing.T, path string) {
			if err := os.Chmod(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"same size and time, other content", func(t *testing.T, path string) {
			put(t, filepath.Dir(path), map[string]string{"a.md": "ydob"})
			chtimes(t, path, past)
		}, false},
		{"same content, written again", func(t *testing.T, path string) { chtimes(t, path, past.Add(time.Nanosecond)) }, false},
		{"same content and time, another file", func(t *testing.T, path string) {
			put(t, filepath.Dir(path), map[string]string{"new": "body"})
			chtimes(t, filepath.Join(filepath.Dir(path), "new"), past)
			if err := os.Rename(filepath.Join(filepath.Dir(path), "new"), path); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		f, dir := folder(t, Rules{}, map[string]string{"a.md": "body"})
		path := filepath.Join(dir, "a.md")
		chtimes(t, path, past)
		s := scan(t, f, nil)
		tc.change(t, path)
		want := "prompts [], invalid [], changing [a.md]"
		if tc.counts {
			want = "prompts [a.md], invalid [], changing []"
		}
		expect(t, tc.name, scan(t, f, &s), want)
	}
}

func chtimes(t *testing.T, path string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// TestChangingDependency: a prompt may depend on a file that is changing.
func TestChangingDependency(t *testing.T) {
	f, dir := folder(t, Rules{}, map[string]string{"a.md": on("b"), "b.md": "---\nid: b\n---\nbody"})
	s := scan(t, f, nil)
	s = scan(t, f, &s)
	put(t, dir, map[string]string{"b.md": "---\nid: b\n---\nanother body", "c.md": "---\nid: a.md\n---\nnot yet a double"})
	s = scan(t, f, &s)
	expect(t, "changed", s, "prompts [a.md], invalid [], changing [b.md c.md]")
	s = scan(t, f, &s)
	expect(t, "unchanged", s, "prompts [b.md], invalid [a.md c.md], changing []")

	remove(t, filepath.Join(dir, "c.md"))
	put(t, dir, map[string]string{"b.md": "---\nid: b\ndepends_on: [a.md]\n---\nbody"})
	s = scan(t, f, &s)
	expect(t, "not yet a cycle", s, "prompts [a.md], invalid [], changing [b.md]")
	s = scan(t, f, &s)
	expect(t, "a cycle", s, "prompts [], invalid [a.md b.md], changing []")
}

// TestScanOnce: a single pass takes files that were not written lately, and waits once
// for the rest.
func TestScanOnce(t *testing.T) {
	f, dir := folder(t, Rules{}, map[string]string{"old.md": "body"})
	old, fresh := filepath.Join(dir, "old.md"), filepath.Join(dir, "fresh.md")
	synctest.Test(t, func(t *testing.T) {
		pass := func(step, want string, took time.Duration) {
			t.Helper()
			start := time.Now()
			s, err := f.ScanOnce(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			expect(t, step, s, want)
			if d := time.Since(start); d != took {
				t.Errorf("%s: took %v, want %v", step, d, took)
			}
		}
		chtimes(t, old, time.Now().Add(-calm-time.Second))
		pass("written long ago", "prompts [old.md], invalid [], changing []", 0)

		put(t, dir, map[string]string{"fresh.md": "body"})
		chtimes(t, fresh, time.Now().Add(-calm+time.Second))
		pass("written lately", "prompts [fresh.md old.md], invalid [], changing []", Pause)
		chtimes(t, fresh, time.Now().Add(time.Hour))
		pass("written in the future", "prompts [fresh.md old.md], invalid [], changing []", Pause)

		go func() {
			time.Sleep(Pause / 2)
			put(t, dir, map[string]string{"fresh.md": "another body"})
		}()
		pass("written meanwhile", "prompts [old.md], invalid [], changing [fresh.md]", Pause)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.ScanOnce(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// TestParsedOnce: a file that did not change is not parsed again.
func TestParsedOnce(t *testing.T) {
	f, _ := folder(t, Rules{}, map[string]string{"a.md": "body"})
	s := scan(t, f, nil)
	s.seen["a.md"].prompt.Title = "kept"
	if s = scan(t, f, &s); s.Prompts[0].Title != "kept" {
		t.Error("parsed twice")
	}
}

// TestOrder: lists are in the order of paths, whatever the order of the folder.
func TestOrder(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{"z.md", "a/z.md", "a.md", "a-b.md", "a/a.txt", "B.MD", "m/n/o.Txt"} {
		files[name] = "body"
	}
	f, _ := folder(t, Rules{}, files)
	want := []string{"B.MD", "a-b.md", "a.md", "a/a.txt", "a/z.md", "m/n/o.Txt", "z.md"}
	if diff := cmp.Diff(want, paths(lint(t, f).Prompts)); diff != "" {
		t.Error(diff)
	}
}

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
	expect(t, "mounted", s, "prompts [a.md b.md weekly/c.md], invalid [], changing []")

	configMap(t, dir, "..2026_01_02", map[string]string{"a.md": "two", "d.md": "two", "weekly/c.md": "one"}, func() {
		s = scan(t, f, &s)
		expect(t, "swapped, links not tidied", s, "prompts [], invalid [], changing [a.md b.md weekly/c.md]")
	})
	s = scan(t, f, &s)
	expect(t, "swapped", s, "prompts [a.md weekly/c.md], invalid [], changing [d.md]")
	s = scan(t, f, &s)
	expect(t, "unchanged", s, "prompts [a.md d.md weekly/c.md], invalid [], changing []")
	if s.Prompts[0].Body != "two" || len(s.Findings) > 0 {
		t.Errorf("%q, %v", s.Prompts[0].Body, s.Findings)
	}
}

// TestLinks: entries that are not simply files or folders.
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
		strings.Repeat("l", maxNameBytes-2) + ".md": "body",
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

// TestHalfWritten: a file that is written slowly does not count before it is whole, if
// the writer is not slower than the scans.
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
