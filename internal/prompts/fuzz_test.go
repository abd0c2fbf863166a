package prompts

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// FuzzFile: whatever a file holds, it reads without a panic; findings lie in the
// file and can be printed; a prompt without findings keeps every rule, and reads
// the same when it is written anew.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"body", "---\nid: a\n---\nbody", "---\nfollow_ups:\n  - |\n    x\n     y\n  - >-\n    z\n---\nbody",
		"---\nid: &a b\ntitle: *a\n<<: {x: y}\n? [c]\n: !!str d\n---\nbody", "---\ndepends_on: [a, b/c.md]\nexpires: 2026-01-01\n---\nb",
		"---\n\"\\u2028\": 1\n...\n--- \n%YAML 1.1\n", "---\ntemplate: true\nschedule: '@daily'\n---\n[[ .firing ]] [[ top_pages \"week\" 5 ]]",
		"\ufeff---\r\ntitle: \"x\\ty\"\r---\rz", "---\n# c\n\nproject: p\n---\n---\n", "---\nid:\n- a\n-\n---",
	} {
		f.Add([]byte(seed))
	}
	for _, tc := range broken {
		if len(tc.text) < 1000 {
			f.Add([]byte(tc.text))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		p, findings := parseFile("f.md", data, Rules{Projects: []string{"p", "q"}})
		if d := time.Since(start); d > 10*time.Second {
			t.Fatalf("took %v", d)
		}
		lines := 1 + strings.Count(newlines.Replace(string(data)), "\n")
		for _, finding := range findings {
			if finding.Line < 0 || finding.Line > lines+1 || finding.Text == "" || !utf8.ValidString(finding.Text) || strings.ContainsFunc(finding.Text, func(r rune) bool { return r == '\n' || r == '\t' || forbidden(r) != "" }) {
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
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > MaxBytes {
		return // quotes make it larger
	}
	again, findings := parseFile("f.md", data, Rules{})
	if diff := cmp.Diff(p, again, samePrompt); diff != "" || len(findings) > 0 {
		t.Fatalf("%s\n%v\n%s", data, findings, diff)
	}
}

// FuzzTemplate: whatever a template says, it ends soon, and what it gives keeps the
// rules of a prompt.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		"[[ .id ]]", `[[ range $i, $p := top_pages "week" 100 "ai" ]][[ $p.path ]][[ else ]][[ break ]][[ end ]]`,
		`[[ with site_visitors "28d" ]][[ .line ]][[ end ]]`, `[[ define "x" ]][[ template "x" ]][[ end ]]`, `[[ if and (have "day") (lt 1 2) ]]a[[ else if or .x $ ]]b[[ end ]]`,
		`[[- $d := addDays -1 .date -]][[ format "Jan 2" $d ]][[/* c */]]`, `[[ (top_pages "week" 3) | len ]] [[ "\x00" ]] [[ 'x' ]] [[ 1e9 ]] [[ nil ]]`, `[[ range 99999999999 ]][[ end ]]`,
		`[[ .date.instant ]][[ .String ]]`, `[[ try (date "x") ]][[ range (top_pages "week" 1) ]][[ end ]]`,
	} {
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, text string, recurs bool) {
		if len(text) > MaxBytes {
			return
		}
		p := Prompt{ID: "id", Path: "f.md", Project: "p", Template: true, Body: text, FollowUps: []string{text}}
		if recurs {
			p.Schedule = recurring(t)
		}
		start := time.Now()
		for _, n := range []Numbers{sampleNumbers{sampleEnd}, numbers(), nil} {
			out, err := Render(context.Background(), p, sampleTime, n)
			if err != nil {
				if !utf8.ValidString(err.Error()) || !strings.HasPrefix(err.Error(), "f.md:") {
					t.Fatalf("%q", err)
				}
				continue
			}
			if _, problem := checkText(out.Text); problem != "" || len(out.Text) > MaxBytes || out.Text == "" {
				t.Fatalf("%q: %s", out.Text, problem)
			}
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Fatalf("took %v", d)
		}
	})
}
