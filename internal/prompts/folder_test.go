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

	"pgregory.net/rapid"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"file": "", "prompts/a.md": "body"})
	for name, want := range map[string]string{
		"nix":  "no such file or directory: make the folder or mount it; without a queue, unset the variable",
		"file": "not a directory",
	} {
		path := filepath.Join(dir, name)
		_, err := Open(path, Rules{})
		want = "DOCGAUGE_PROMPTS_DIR: " + path + ": " + want
		if err == nil || err.Error() != want || errors.Is(err, fs.ErrNotExist) != (name == "nix") {
			t.Errorf("%v, want %s", err, want)
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
	must(t, os.RemoveAll(dir))
	if _, err := f.Scan(&s); !errors.Is(err, fs.ErrNotExist) ||
		!strings.HasPrefix(err.Error(), "DOCGAUGE_PROMPTS_DIR: "+dir+": ") {
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

// scans returns a function that scans once more, and compares.
func scans(t *testing.T, f *Folder) func(step, want string) Scanned {
	var last Scanned
	return func(step, want string) Scanned {
		t.Helper()
		last = scan(t, f, &last)
		expect(t, step, last, want)
		return last
	}
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	must(t, os.Remove(path))
}

func chtimes(t *testing.T, path string, at time.Time) {
	t.Helper()
	must(t, os.Chtimes(path, at, at))
}

func link(t *testing.T, dir, name, to string) {
	t.Helper()
	must(t, os.Symlink(to, filepath.Join(dir, name)))
}

// TestChanging: a file counts once two scans saw it unchanged; an invalid one too.
func TestChanging(t *testing.T) {
	f, dir := folder(t, Rules{}, map[string]string{"a.md": "half of", "b.md": "body"})
	next := scans(t, f)
	next("first", "prompts [], invalid [], changing [a.md b.md]")
	put(t, dir, map[string]string{"a.md": "half of a prompt"})
	next("written on", "prompts [b.md], invalid [], changing [a.md]")
	if s := next("unchanged", "prompts [a.md b.md], invalid [], changing []"); s.Prompts[0].Body != "half of a prompt" {
		t.Errorf("%q", s.Prompts[0].Body)
	}
	put(t, dir, map[string]string{"a.md": ""})
	if s := next("made empty", "prompts [b.md], invalid [], changing [a.md]"); len(s.Findings) > 0 {
		t.Errorf("findings of a file that is changing: %v", s.Findings)
	}
	next("still empty", "prompts [b.md], invalid [a.md], changing []")
	remove(t, filepath.Join(dir, "a.md"))
	next("removed", "prompts [b.md], invalid [], changing []")
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
		{"read and made executable", func(t *testing.T, path string) { must(t, os.Chmod(path, 0o755)) }, true},
		{"same size and time, other content", func(t *testing.T, path string) {
			put(t, filepath.Dir(path), map[string]string{"a.md": "ydob"})
			chtimes(t, path, past)
		}, false},
		{"same content, written again", func(t *testing.T, path string) { chtimes(t, path, past.Add(time.Nanosecond)) },
			false},
		{"same content and time, another file", func(t *testing.T, path string) {
			put(t, filepath.Dir(path), map[string]string{"new": "body"})
			chtimes(t, filepath.Join(filepath.Dir(path), "new"), past)
			must(t, os.Rename(filepath.Join(filepath.Dir(path), "new"), path))
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

// TestChangingDependency: a prompt may depend on a file that is changing.
func TestChangingDependency(t *testing.T) {
	f, dir := folder(t, Rules{}, map[string]string{"a.md": on("b"), "b.md": "---\nid: b\n---\nbody"})
	next := scans(t, f)
	next("first", "prompts [], invalid [], changing [a.md b.md]")
	next("unchanged", "prompts [a.md b.md], invalid [], changing []")
	put(t, dir, map[string]string{"b.md": "---\nid: b\n---\nanother body",
		"c.md": "---\nid: a.md\n---\nnot yet a double"})
	next("changed", "prompts [a.md], invalid [], changing [b.md c.md]")
	next("unchanged", "prompts [b.md], invalid [a.md c.md], changing []")

	remove(t, filepath.Join(dir, "c.md"))
	put(t, dir, map[string]string{"b.md": "---\nid: b\ndepends_on: [a.md]\n---\nbody"})
	next("not yet a cycle", "prompts [a.md], invalid [], changing [b.md]")
	next("a cycle", "prompts [], invalid [a.md b.md], changing []")
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
			must(t, err)
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
	must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
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
	must(t, err)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..") && !visible[e.Name()] {
			remove(t, filepath.Join(dir, e.Name()))
		}
	}
	if old != "" {
		must(t, os.RemoveAll(filepath.Join(dir, old)))
	}
}

func TestConfigMap(t *testing.T) {
	dir := t.TempDir()
	first := map[string]string{"a.md": "one", "b.md": "one", "weekly/c.md": "one", "notes.yaml": "x"}
	configMap(t, dir, "..2026_01_01", first, func() {})
	f, err := Open(dir, Rules{})
	must(t, err)
	next := scans(t, f)
	next("mounted", "prompts [], invalid [], changing [a.md b.md weekly/c.md]")
	next("unchanged", "prompts [a.md b.md weekly/c.md], invalid [], changing []")

	configMap(t, dir, "..2026_01_02", map[string]string{"a.md": "two", "d.md": "two", "weekly/c.md": "one"}, func() {
		next("swapped, links not tidied", "prompts [], invalid [], changing [a.md b.md weekly/c.md]")
	})
	next("swapped", "prompts [a.md weekly/c.md], invalid [], changing [d.md]")
	s := next("unchanged", "prompts [a.md d.md weekly/c.md], invalid [], changing []")
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
		"a.md": "body", ".hidden.md": "body", ".git/x.md": "body", ".data/x.md": "body", ".data/y.md": "body",
		"README": "no prompt", "real/r.md": "body",
		"deep/" + strings.Repeat("d/", maxDepth-1) + "in.md": "body",
		"deep/" + strings.Repeat("d/", maxDepth) + "out.md":  "body",
		"bad\nname.md": "body", "bad\x7ffolder/x.md": "body", "bad\x7ffolder/y.md": "body",
		strings.Repeat("l", maxNameBytes-2) + ".md": "body",
	})
	for name, to := range map[string]string{
		"absolute.md": filepath.Join(dir, "a.md"), "escape.md": "../" + filepath.Base(outside) + "/secret.md",
		"escape": outside + "/sub", "gone.md": "nowhere.md", "gone": "nowhere", "self.md": "self.md", "real/up": "..",
		"folder.md": "real", "readme": "README", "device.md": "/dev/null", "pipelink.md": "pipe.md",
		"pipelink": "pipe.md", "alink.md": "a.md", "cross": "real/up/real", "data": ".data", "data-again": ".data",
		"only-link.md": ".hidden.md", "one-link.md": ".data/y.md", "two-link.md": ".data/y.md",
	} {
		link(t, dir, name, to)
	}
	must(t, os.Link(filepath.Join(dir, "a.md"), filepath.Join(dir, "hard.md")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe.md"), 0o600))
	s := lint(t, f)
	golden(t, "links.golden", strings.Join(texts(s.Findings), "\n")+"\n"+saw(s)+"\n")
}

// TestDisappear: a scan survives files that disappear.
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
