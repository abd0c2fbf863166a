package prompts

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// eachCase checks the cases of a file in testdata, separated by blank lines: comments,
// an input in quotes, and its findings. It returns the file with the findings of check.
func eachCase(t testing.TB, name string, check func(input string) []Finding) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	must(t, err)
	var out []string
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		for line := range strings.SplitSeq(block, "\n") {
			if input, err := strconv.Unquote(line); err == nil {
				out = append(append(append(out, line), texts(check(input))...), "")
				break
			}
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// TestRules: the findings for each broken rule of one file, and none for odd files
// that break none.
func TestRules(t *testing.T) {
	check := func(text string) []Finding {
		_, findings := parseFile("f.md", []byte(text), Rules{Projects: []string{"prj_a"}})
		return findings
	}
	golden(t, "rules.txt", eachCase(t, "rules.txt", check))
	deep := func(n int, close string) string {
		return "---\nid: " + strings.Repeat("[", n) + close + "\n---\nbody\n"
	}
	for text, want := range map[string]string{
		strings.Repeat("a", MaxBytes+1):     "f.md: larger than 64 KiB",
		deep(200, strings.Repeat("]", 200)): "f.md:2: id: want text, got a list",
		deep(20000, ""):                     "f.md:2: front matter: not YAML, exceeded max depth",
	} {
		if findings := check(text); len(findings) != 1 || !strings.HasPrefix(findings[0].String(), want) {
			t.Errorf("%.20q: %v, want %s", text, findings, want)
		}
	}
}

// TestTemplateRules: the findings for mistakes in templates, most of them before there
// are numbers, and none for templates without one.
func TestTemplateRules(t *testing.T) {
	check := func(text string) []Finding {
		_, findings := parseFile("f.md", []byte("---\ntemplate: true\n---\n"+text), Rules{})
		return findings
	}
	golden(t, "templates.txt", eachCase(t, "templates.txt", check))
	deep := check("[[ " + strings.Repeat("(", 20000) + "1" + strings.Repeat(")", 20000) + " ]]")
	if len(deep) != 1 || !strings.Contains(deep[0].Text, "max expression depth") {
		t.Error(deep)
	}
}

// TestEverythingWrong: all findings of a folder are reported at once, in order, and its
// valid prompts count.
func TestEverythingWrong(t *testing.T) {
	const of = "---\nproject: prj_a\n"
	f, dir := folder(t, Rules{Projects: []string{"prj_a", "prj_b"}}, map[string]string{
		"right.md": of + "---\nbody\n",
		"right/too.txt": "---\nproject: prj_b\ndepends_on: [right.md]\nnot_before: 2026-01-01\n" +
			"expires: 2026-01-02T00:00:01+01:00\n---\nbody\n",
		"keys.md": "---\nprojct: prj_a\nid: keys\nid: again\ntitle: 5\nlabelling: [a]\n" +
			"on_unknown: ask\ntemplate: on\nschedule: daily\n---\n",
		"lists.md":       "---\nproject: prj_c\ndepends_on: keys\nfollow_ups:\n  - ''\n  - {a: b}\n---\nbody\n",
		"times.md":       of + "not_before: 2026-02-29\nexpires: 1st of May\n---\nbody\n",
		"never.md":       of + "not_before: 2026-02-02\nexpires: 2026-02-01\nschedule: '0 9 30 2 *'\n---\nbody\n",
		"yaml.md":        of + "title: a: b\n---\n\x01body\n",
		"yaml/more.md":   "---\nproject: &p prj_a\nid: *p\ntitle: !!str x\n<<: {a: b}\n---\n[[ body ]]\n",
		"template.md":    of + "template: true\nfollow_ups: ['[[ nix ]]']\n---\n\n[[ .nix ]]\n[[ range 5 ]][[ end ]]\n",
		"double.md":      of + "id: same\n---\nbody\n",
		"double-too.md":  of + "id: same\n---\nbody\n",
		"cycle/a.md":     of + "id: a\ndepends_on: [b]\n---\nbody\n",
		"cycle/b.md":     of + "id: b\ndepends_on:\n  - right.md\n  - a\n---\nbody\n",
		"cycle/after.md": of + "depends_on: [b, nix]\n---\nbody\n",
		"recurs.md":      of + "schedule: '@daily'\ndepends_on: [right.md]\n---\nbody\n",
		"project.md":     "body\n",
		"late.md":        "\n---\nproject: prj_a\n---\nbody\n",
		"open.md":        of + "body\n",
		"empty.md":       "",
		"binary.md":      "\x7fELF\x00\xff",
		"large.md":       strings.Repeat("body\n", 20_000),
	})
	link(t, dir, "escape.md", "/etc/hostname")
	link(t, dir, "gone.md", "nowhere")
	s := lint(t, f)
	golden(t, "wrong.golden", strings.Join(texts(s.Findings), "\n")+"\n"+saw(s)+"\n")
}

// TestDigest: the digest depends on the content that is sent, not on when it is sent or
// where its file is. Journals hold digests, so they must never change.
func TestDigest(t *testing.T) {
	read := func(path, text string) string {
		p, findings := parseFile(path, []byte(text), Rules{Projects: []string{"prj_a", "prj_b"}})
		if len(findings) > 0 {
			t.Fatal(findings)
		}
		return p.Digest
	}
	const text = "---\nproject: prj_a\ntitle: x\nfollow_ups: [ab, c]\n---\nbody"
	base := read("a.md", text)
	if want := "6966da8671585868d2124b4c870c895285e8cf87159afcd1bdba89ffa1ddd3d8"; base != want {
		t.Errorf("the digest is another: %s, want %s", base, want)
	}
	for _, same := range []string{
		"---\n# comment\nfollow_ups:\n- ab\n- |\n  c\ntitle: 'x'\nid: other\nproject: prj_a\n---\n\n\nbody  \n\n",
		"\ufeff---\r\nproject: prj_a\r\ntitle: x\r\nfollow_ups: [ab, c]\r\nnot_before: 2026-01-01\r\n" +
			"schedule: '@daily'\r\nconcurrency_key: k\r\non_unknown: resubmit\r\n---\r\nbody\r\n",
	} {
		if got := read("b/c.txt", same); got != base {
			t.Errorf("%q differs", same)
		}
	}
	for _, change := range [][2]string{
		{"prj_a", "prj_b"}, {"title: x", "title: y"}, {"title: x\n", ""}, {"[ab, c]", "[a, bc]"}, {"[ab, c]",
			"[c, ab]"},
		{"[ab, c]", "[ab]"}, {"body", "body 2"}, {"title", "template: true\ntitle"},
	} {
		if other := strings.Replace(text, change[0], change[1], 1); read("a.md", other) == base {
			t.Errorf("%q is the same", other)
		}
	}
}

// TestHasID: also where the id is the path.
func TestHasID(t *testing.T) {
	for text, want := range map[string]bool{
		"body": false, "---\ntitle: x\n---\nbody": false, "---\nid: b\n---\nbody": true,
		"---\nid: a.md\n---\nbody": true,
	} {
		p, findings := parseFile("a.md", []byte(text), Rules{Projects: []string{"prj_a"}})
		if p.HasID() != want || len(findings) > 0 {
			t.Errorf("%q: %v, %v", text, p.HasID(), findings)
		}
	}
}

// FuzzFile: whatever a file holds, it reads without a panic; findings are in the
// file and can be printed; a prompt without findings keeps every rule, and reads
// the same when it is written anew.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"body", "---\nid: a\n---\nbody", "---\nfollow_ups:\n  - |\n    x\n     y\n  - >-\n    z\n---\nbody",
		"---\ndepends_on: [a, {prompt: b, when: merged}]\npages: [/, /a]\n---\nb",
		"---\nid: &a b\ntitle: *a\n<<: {x: y}\n? [c]\n: !!str d\n---\nbody",
		"---\ndepends_on: [a, b/c.md]\nexpires: 2026-01-01\n---\nb",
		"---\n\"\\u2028\": 1\n...\n--- \n%YAML 1.1\n",
		"---\ntemplate: true\nschedule: '@daily'\n---\n[[ .firing ]] [[ top_pages \"week\" 5 ]]",
		"\ufeff---\r\ntitle: \"x\\ty\"\r---\rz", "---\n# c\n\nproject: p\n---\n---\n", "---\nid:\n- a\n-\n---",
	} {
		f.Add([]byte(seed))
	}
	eachCase(f, "rules.txt", func(text string) []Finding {
		f.Add([]byte(text))
		return nil
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		p, findings := parseFile("f.md", data, Rules{Projects: []string{"p", "q"}})
		if d := time.Since(start); d > 10*time.Second {
			t.Fatalf("took %v", d)
		}
		lines := 1 + strings.Count(newlines.Replace(string(data)), "\n")
		for _, finding := range findings {
			if finding.Line < 0 || finding.Line > lines+1 || finding.Text == "" || !utf8.ValidString(finding.Text) ||
				strings.ContainsFunc(finding.Text,
					func(r rune) bool { return r == '\n' || r == '\t' || forbidden(r) != "" }) {
				t.Fatalf("%d lines, %q", lines, finding)
			}
		}
		if len(findings) == 0 {
			keeps(t, p)
		}
	})
}

// keeps checks a prompt that is said to keep every rule.
func keeps(t *testing.T, p Prompt) {
	t.Helper()
	if p.Body == "" || p.ID == "" || p.Digest != digest(p) || p.Project == "" {
		t.Fatalf("%+v", p)
	}
	for _, text := range append([]string{p.Body, p.ID, p.Title, p.ConcurrencyKey}, p.FollowUps...) {
		if _, problem := checkText(text); problem != "" || len(text) > MaxBytes {
			t.Fatalf("%q: %s", text, problem)
		}
	}
	data, err := encode(p)
	must(t, err)
	if len(data) > MaxBytes {
		return // quotes make it larger
	}
	again, findings := parseFile("f.md", data, Rules{})
	if diff := cmp.Diff(p, again, samePrompt); diff != "" || len(findings) > 0 {
		t.Fatalf("%s\n%v\n%s", data, findings, diff)
	}
}
