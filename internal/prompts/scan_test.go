package prompts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// saw is what a scan found, in short.
func saw(s Scanned) string {
	return fmt.Sprintf("prompts %v, invalid %v, settling %v", paths(s.Prompts), paths(s.Invalid), s.Settling)
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

// TestSettle: a file counts once two scans saw it unchanged; a wrong one too.
func TestSettle(t *testing.T) {
	f, dir := folder(t, Rules{}, map[string]string{"a.md": "half of", "b.md": "body"})
	a := filepath.Join(dir, "a.md")
	s := scan(t, f, nil)
	expect(t, "first", s, "prompts [], invalid [], settling [a.md b.md]")

	put(t, dir, map[string]string{"a.md": "half of a prompt"})
	s = scan(t, f, &s)
	expect(t, "written on", s, "prompts [b.md], invalid [], settling [a.md]")
	s = scan(t, f, &s)
	expect(t, "unchanged", s, "prompts [a.md b.md], invalid [], settling []")
	if s.Prompts[0].Body != "half of a prompt" {
		t.Errorf("%q", s.Prompts[0].Body)
	}

	put(t, dir, map[string]string{"a.md": ""})
	s = scan(t, f, &s)
	expect(t, "made empty", s, "prompts [b.md], invalid [], settling [a.md]")
	if len(s.Findings) > 0 {
		t.Errorf("findings of a file that settles: %v", s.Findings)
	}
	s = scan(t, f, &s)
	expect(t, "still empty", s, "prompts [b.md], invalid [a.md], settling []")

	remove(t, a)
	s = scan(t, f, &s)
	expect(t, "removed", s, "prompts [b.md], invalid [], settling []")
}

// TestSettleAlike: what looks unchanged by some signs is not.
func TestSettleAlike(t *testing.T) {
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
		want := "prompts [], invalid [], settling [a.md]"
		if tc.counts {
			want = "prompts [a.md], invalid [], settling []"
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

// TestSettleDependency: who depends on a file that settles is not wrong for it.
func TestSettleDependency(t *testing.T) {
	f, dir := folder(t, Rules{}, map[string]string{"a.md": on("b"), "b.md": "---\nid: b\n---\nbody"})
	s := scan(t, f, nil)
	s = scan(t, f, &s)
	put(t, dir, map[string]string{"b.md": "---\nid: b\n---\nanother body", "c.md": "---\nid: a.md\n---\nnot yet a double"})
	s = scan(t, f, &s)
	expect(t, "changed", s, "prompts [a.md], invalid [], settling [b.md c.md]")
	s = scan(t, f, &s)
	expect(t, "settled", s, "prompts [b.md], invalid [a.md c.md], settling []")

	remove(t, filepath.Join(dir, "c.md"))
	put(t, dir, map[string]string{"b.md": "---\nid: b\ndepends_on: [a.md]\n---\nbody"})
	s = scan(t, f, &s)
	expect(t, "not yet a cycle", s, "prompts [a.md], invalid [], settling [b.md]")
	s = scan(t, f, &s)
	expect(t, "a cycle", s, "prompts [], invalid [a.md b.md], settling []")
}

// TestScanSettled: a single pass takes what was not written lately, and waits once
// for the rest.
func TestScanSettled(t *testing.T) {
	f, dir := folder(t, Rules{}, map[string]string{"old.md": "body"})
	old, fresh := filepath.Join(dir, "old.md"), filepath.Join(dir, "fresh.md")
	synctest.Test(t, func(t *testing.T) {
		pass := func(step, want string, took time.Duration) {
			t.Helper()
			start := time.Now()
			s, err := f.ScanSettled(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			expect(t, step, s, want)
			if d := time.Since(start); d != took {
				t.Errorf("%s: took %v, want %v", step, d, took)
			}
		}
		chtimes(t, old, time.Now().Add(-calm-time.Second))
		pass("written long ago", "prompts [old.md], invalid [], settling []", 0)

		put(t, dir, map[string]string{"fresh.md": "body"})
		chtimes(t, fresh, time.Now().Add(-calm+time.Second))
		pass("written lately", "prompts [fresh.md old.md], invalid [], settling []", Pause)
		chtimes(t, fresh, time.Now().Add(time.Hour))
		pass("written in the future", "prompts [fresh.md old.md], invalid [], settling []", Pause)

		go func() {
			time.Sleep(Pause / 2)
			put(t, dir, map[string]string{"fresh.md": "another body"})
		}()
		pass("written meanwhile", "prompts [old.md], invalid [], settling [fresh.md]", Pause)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.ScanSettled(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// TestParsedOnce: what did not change is not parsed again.
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
