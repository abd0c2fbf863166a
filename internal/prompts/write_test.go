package prompts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/schedule"
)

func entries(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	must(t, err)
	return all
}

func TestWrite(t *testing.T) {
	f, dir := folder(t, Rules{Projects: []string{"prj_a", "prj_b"}},
		map[string]string{"sub/a.md": "---\nproject: prj_a\nid: a\n---\nbody"})
	p := Prompt{
		ID: "weekly-report", Project: "prj_b", Title: `A "title"`, Schedule: recurring(t), Template: true,
		Resubmit:  true,
		NotBefore: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
		Expires:   time.Date(2026, 3, 1, 9, 30, 0, 0, time.FixedZone("", 3600)),
		FollowUps: []string{"Add a changelog.\n\n\nBriefly.", "Done?"}, ConcurrencyKey: "docs",
		Body: "\nSay what changed in the week before [[ .date ]].\n",
	}
	path, err := f.Write("", p)
	if err != nil || path != "weekly-report.md" {
		t.Fatalf("%s, %v", path, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, path))
	must(t, err)
	want := `---
id: "weekly-report"
project: "prj_b"
title: "A \"title\""
not_before: "2026-02-01"
expires: "2026-03-01T08:30:00Z"
schedule: "0 9 * * mon"
follow_ups:
  - |-
    Add a changelog.


    Briefly.
  - "Done?"
concurrency_key: "docs"
on_unknown: resubmit
template: true
---
Say what changed in the week before [[ .date ]].
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(filepath.Join(dir, path))
	if err != nil || info.Mode().Perm()&0o022 != 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	path, err = f.Write("sub/b", Prompt{ID: "sub/b.md", Project: "prj_a", DependsOn: []string{"a"}, Body: "body"})
	if err != nil || path != "sub/b.md" {
		t.Errorf("%s, %v", path, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, path)); err != nil || strings.Contains(string(text), "id:") {
		t.Errorf("an id that is the path: %s, %v", text, err)
	}
	if diff := cmp.Diff([]string{"sub/a.md", "sub/b.md", "weekly-report.md"}, entries(t, dir)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
	if s := lint(t, f); len(s.Prompts) != 3 {
		t.Errorf("%s %v", saw(s), s.Findings)
	}
}

func TestWriteRefuses(t *testing.T) {
	f, dir := folder(t, Rules{Projects: []string{"prj_a"}},
		map[string]string{"a.md": "body", "sub/.keep": "", "wrong.md": ""})
	link(t, dir, "out", "..")
	link(t, dir, "dangling.md", "nowhere.md")
	fine := Prompt{Body: "body"}
	form := ": want a path below the folder, with slashes, of names that do not begin with a dot"
	for _, tc := range []struct {
		name string
		p    Prompt
		want string
	}{
		{"a.md", fine, "prompt a.md: file already exists: choose another name"},
		{"dangling.md", fine, "prompt dangling.md: file already exists: choose another name"},
		{"../b.md", fine, `prompt file "../b.md"` + form},
		{"sub/../../b.md", fine, `prompt file "sub/../../b.md"` + form},
		{"/b.md", fine, `prompt file "/b.md"` + form},
		{"sub//b.md", fine, `prompt file "sub//b.md"` + form},
		{".b.md", fine, `prompt file ".b.md"` + form},
		{"sub/.b.md", fine, `prompt file "sub/.b.md"` + form},
		{`sub\b.md`, fine, `prompt file "sub\\b.md"` + form},
		{"b.yaml", fine, `prompt file "b.yaml": want a name that ends in .md or .txt`},
		{"b\n.md", fine, `prompt file "b\n.md": U+000A cannot be printed: remove it`},
		{"out/b.md", fine, "prompt out/b.md: path escapes from parent"},
		{"nix/b.md", fine, "prompt nix/b.md: no such file or directory"},
		{"b.md", Prompt{ID: "a.md", Body: "body"}, "b.md:2: id: a.md is also the id of a.md: give each its own"},
		{"b.md", Prompt{DependsOn: []string{"nix"}, Body: "body"},
			"b.md:3: depends_on: no prompt has the id nix: write the id of one, or its path if it has none"},
		{"b.md", Prompt{}, "b.md:1: the prompt is empty: write what the agent is to do below the front matter"},
		{"b.md", Prompt{ID: "a b", Title: "x\ny", Body: "body"}, `b.md:2: id: "a b": want 1 to 200 letters, ` +
			"digits, dots, underscores, dashes or slashes, a letter or digit first\n" +
			"b.md:3: title: U+000A cannot be printed: remove it"},
		{"b.md", Prompt{Template: true, Body: "[[ .nix ]]"},
			"b.md:4: template: .nix is unknown: want one of .id, .project, .title, .date, .firing"},
		{"b.md", Prompt{Body: strings.Repeat("x", MaxBytes)}, "b.md: larger than 64 KiB: shorten it, or split it"},
	} {
		before := entries(t, dir)
		_, err := f.Write(tc.name, tc.p)
		if err == nil || err.Error() != tc.want {
			t.Errorf("%q:\n%v, want\n%s", tc.name, err, tc.want)
		}
		if _, wrong := errors.AsType[Error](err); !wrong {
			t.Errorf("%q: %v is not an Error", tc.name, err)
		}
		if diff := cmp.Diff(before, entries(t, dir)); diff != "" {
			t.Errorf("%q wrote: %s", tc.name, diff)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
		t.Errorf("written outside: %v, %v", entries, err)
	}
}

func TestSlug(t *testing.T) {
	for _, tc := range []struct {
		p    Prompt
		want string
	}{
		{Prompt{ID: "weekly/Report.md"}, "weekly-report.md"},
		{Prompt{Title: "../../etc/passwd"}, "etc-passwd.md"},
		{Prompt{Title: "Fix: the  Übersicht!"}, "fix-the-bersicht.md"},
		{Prompt{Title: strings.Repeat("ab ", 60)}, strings.Repeat("ab-", 26) + "ab.md"},
		{Prompt{Title: "日本"}, "prompt-" + digest(Prompt{Title: "日本"})[:8] + ".md"},
		{Prompt{Body: "x"}, "prompt-" + digest(Prompt{Body: "x"})[:8] + ".md"},
	} {
		if got := slug(tc.p); got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.p, got, tc.want)
		}
	}
}

// TestWriteRace: exactly one of many writers of the same name succeeds, and the file is whole.
func TestWriteRace(t *testing.T) {
	for _, how := range []func(*os.Root, string, []byte) error{create, createWithoutLinks} {
		f, dir := folder(t, Rules{}, nil)
		root, err := f.root()
		must(t, err)
		defer root.Close()
		var writers sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			writers.Go(func() {
				errs[i] = how(root, "a.md", []byte(strings.Repeat(fmt.Sprint(i), 5000)))
			})
		}
		writers.Wait()
		written := slices.Index(errs, nil)
		for i, err := range errs {
			if i != written && !errors.Is(err, fs.ErrExist) {
				t.Errorf("%d: %v", i, err)
			}
		}
		text, err := os.ReadFile(filepath.Join(dir, "a.md"))
		if err != nil || written < 0 || string(text) != strings.Repeat(fmt.Sprint(written), 5000) {
			t.Errorf("%.20q by %d: %v", text, written, err)
		}
		if diff := cmp.Diff([]string{"a.md"}, entries(t, dir)); diff != "" {
			t.Errorf("left behind: %s", diff)
		}
	}
}

// createWithoutLinks is create on a file system without links.
func createWithoutLinks(root *os.Root, name string, data []byte) error {
	temporary := fmt.Sprintf(".%s.%p.tmp", name, &data[0])
	err := writeNew(root, temporary, data)
	if err == nil {
		err = renameNew(root, temporary, name)
	}
	if gone := root.Remove(temporary); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// samePrompt compares prompts, apart from the lines of their files.
var samePrompt = cmp.Options{
	cmpopts.IgnoreUnexported(Prompt{}),
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b schedule.Cron) bool { return a.String() == b.String() }),
}

// TestWriteRead: every prompt reads back unchanged.
func TestWriteRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyPrompt(t)
		data, err := encode(want)
		must(t, err)
		got, findings := parseFile(want.Path, data, Rules{})
		if len(findings) > 0 {
			t.Fatalf("%s\n%v", data, findings)
		}
		want.Digest = digest(want)
		if want.ID == "" {
			want.ID = want.Path
		}
		if diff := cmp.Diff(want, got, samePrompt); diff != "" {
			t.Fatalf("%s\n%s", data, diff)
		}
	})
}

// anyPrompt draws a prompt that keeps every rule.
func anyPrompt(t *rapid.T) Prompt {
	p := Prompt{
		Path:           "a/b.md",
		ID:             rapid.StringMatching(`|[a-zA-Z0-9][a-zA-Z0-9._/-]{0,199}`).Draw(t, "id"),
		Project:        rapid.StringMatching(`|[A-Za-z0-9_-]{1,128}`).Draw(t, "project"),
		Title:          rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[ -~äöü☃]{1,40}`)).Draw(t, "title"),
		ConcurrencyKey: rapid.StringMatching(`|[a-z0-9][a-z0-9.]{0,9}`).Draw(t, "key"),
		Resubmit:       rapid.Bool().Draw(t, "resubmit"),
		Body:           anyText(t, "body"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "follow_ups") {
		p.FollowUps = append(p.FollowUps, anyText(t, "follow_up"))
	}
	from := rapid.Int64Range(0, 4e9).Draw(t, "not_before")
	to := rapid.Int64Range(from+1, 5e9).Draw(t, "expires")
	if rapid.Bool().Draw(t, "bounds") {
		p.NotBefore, p.Expires = time.Unix(from, 0).UTC(), time.Unix(to/86400*86400+86400, 0).UTC()
	}
	if rapid.Bool().Draw(t, "recurs") {
		crons := rapid.SampledFrom([]string{"@weekly", "17 * * * *", "*/5 1-3 * jan mon,fri"})
		p.Schedule, _ = schedule.ParseCron(crons.Draw(t, "schedule"))
	} else {
		ids := rapid.StringMatching(`[a-z]{1,3}(/[ "':#ä]x)?`)
		p.DependsOn = rapid.SliceOfNDistinct(ids, 0, 4, rapid.ID).Draw(t, "depends_on")
		for _, id := range p.DependsOn {
			if rapid.Bool().Draw(t, "merged") {
				p.Merged = append(p.Merged, id)
			}
		}
	}
	p.Pages = rapid.SliceOfNDistinct(rapid.StringMatching(`/[a-z "':#ä]{0,9}`), 0, 3, rapid.ID).Draw(t, "pages")
	return p
}

// anyText draws text that is not empty, with parts that have a meaning in YAML.
func anyText(t *rapid.T, label string) string {
	words := rapid.OneOf(
		rapid.SampledFrom([]string{"---", "...", "\n", "\n\n", "  ", "\t", "- ", "# ", ": ", "'", `"`, `\`, "[[", "{{",
			"&a",
			"*a", "!!str", "|", ">", "%TAG", "<<", "\u2028", "\u00A0", "\uFEFF", "😀", "true", "~", "@"}),
		rapid.StringMatching(`[ -~äé]{1,12}`),
	)
	text, _ := trimBlank(strings.Join(rapid.SliceOfN(words, 0, 12).Draw(t, label), ""))
	if text == "" || strings.HasPrefix(text, bom) {
		return "x"
	}
	return text
}
