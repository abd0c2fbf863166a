package prompts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func on(ids ...string) string {
	return "---\ndepends_on: [" + strings.Join(ids, ", ") + "]\n---\nbody\n"
}

// TestDepends: rules between files. A broken one makes its prompt invalid and those
// that depend on it, no other.
func TestDepends(t *testing.T) {
	for _, tc := range []struct {
		name     string
		files    map[string]string
		valid    []string
		findings []string
	}{
		{
			"a chain, by id and by path",
			map[string]string{"a.md": on("sub/b.md"), "sub/b.md": on("c"), "c.md": "---\nid: c\n---\nbody"},
			[]string{"a.md", "c.md", "sub/b.md"}, nil,
		},
		{
			"an id twice, and one that is a path",
			map[string]string{"a.md": "---\ntitle: x\nid: c.md\n---\nbody", "b.md": "---\nid: c.md\n---\nbody",
				"c.md": "body", "d.md": "body"},
			[]string{"d.md"},
			[]string{
				"a.md:3: id: c.md is also the id of b.md, c.md: give each its own",
				"b.md:2: id: c.md is also the id of a.md, c.md: give each its own",
				"c.md: id: c.md is also the id of a.md, b.md: give each its own",
			},
		},
		{
			"nothing of that id, and itself",
			map[string]string{"a.md": on("nix", "b.md"), "b.md": on("c.md", "b.md"), "c.md": on("known"),
				"d.md": "body"},
			[]string{"c.md", "d.md"},
			[]string{
				"a.md:2: depends_on: no prompt has the id nix: write the id of one, or its path if it has none",
				"b.md:2: depends_on: b.md is the prompt itself: remove it",
			},
		},
		{
			"a cycle, and what hangs on it",
			map[string]string{
				"e.md": on("f.md", "d.md"), "f.md": on("ok.md", "g.md"), "g.md": on("e.md"),
				"a.md": on("b.md"), "b.md": on("g.md"), "d.md": "body", "ok.md": "body",
			},
			[]string{"d.md", "ok.md"},
			[]string{
				"a.md:2: depends_on: b.md is invalid: fix b.md first",
				"b.md:2: depends_on: g.md is invalid: fix g.md first",
				"e.md:2: depends_on: a cycle, e.md → f.md → g.md → e.md: remove one of these",
				"f.md:2: depends_on: g.md is invalid: fix g.md first",
				"g.md:2: depends_on: e.md is invalid: fix e.md first",
			},
		},
		{
			"two cycles with a prompt in common, and one apart",
			map[string]string{"a.md": on("b.md", "c.md"), "b.md": on("a.md"), "c.md": on("a.md"), "x.md": on("y.md"),
				"y.md": on("x.md")},
			nil,
			[]string{
				"a.md:2: depends_on: a cycle, a.md → b.md → a.md: remove one of these",
				"b.md:2: depends_on: a.md is invalid: fix a.md first",
				"c.md:2: depends_on: a.md is invalid: fix a.md first",
				"x.md:2: depends_on: a cycle, x.md → y.md → x.md: remove one of these",
				"y.md:2: depends_on: x.md is invalid: fix x.md first",
			},
		},
		{
			"a cycle inside another",
			map[string]string{"0.md": on("a.md"), "a.md": on("b.md"), "b.md": on("a.md", "0.md")},
			nil,
			[]string{
				"0.md:2: depends_on: a.md is invalid: fix a.md first",
				"a.md:2: depends_on: a cycle, a.md → b.md → a.md: remove one of these",
				"b.md:2: depends_on: a.md is invalid: fix a.md first",
			},
		},
		{
			"on one that recurs, and on one that is wrong",
			map[string]string{"a.md": on("r"), "r.md": "---\nid: r\nschedule: '@daily'\n---\nbody", "b.md": on("c.md"),
				"c.md": ""},
			[]string{"r.md"},
			[]string{
				"a.md:2: depends_on: r has a schedule and so never ends: remove it",
				"b.md:2: depends_on: c.md is invalid: fix c.md first",
				"c.md:1: the prompt is empty: write what the agent is to do below the front matter",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, _ := folder(t, Rules{Known: func(ids []string) []string { return []string{"known"} }}, tc.files)
			s := lint(t, f)
			if diff := cmp.Diff(tc.valid, paths(s.Prompts)); diff != "" {
				t.Errorf("valid: %s", diff)
			}
			if diff := cmp.Diff(tc.findings, texts(s.Findings)); diff != "" {
				t.Error(diff)
			}
			if len(s.Prompts)+len(s.Invalid) != len(tc.files) {
				t.Errorf("%d valid and %d invalid of %d", len(s.Prompts), len(s.Invalid), len(tc.files))
			}
			for _, p := range s.Invalid {
				if first, ok := s.Finding(p.Path); !ok || first.Path != p.Path {
					t.Errorf("%s is invalid for no reason", p.Path)
				}
			}
		})
	}
}

// TestDependsBig: a long cycle and a dense graph are checked soon and reported briefly.
func TestDependsBig(t *testing.T) {
	const n = 1000
	var ring, dense []*file
	for i := range n {
		name := fmt.Sprintf("%05d.md", i)
		next := []string{fmt.Sprintf("%05d.md", (i+1)%n)}
		ring = append(ring, parsed(name, on(next...)))
		for j := 1; j < maxDependsOn; j++ {
			next = append(next, fmt.Sprintf("%05d.md", (i*7+j*31)%n))
		}
		dense = append(dense, parsed(name, on(next...)))
	}
	for _, files := range [][]*file{ring, dense} {
		s := classify(files, Rules{})
		size := 0
		for _, f := range s.Findings {
			size += len(f.Text)
		}
		if len(s.Prompts) != 0 || len(s.Invalid) != n || size > 400*n {
			t.Errorf("%d valid, %d invalid, %d bytes of findings", len(s.Prompts), len(s.Invalid), size)
		}
	}
}

func parsed(path, text string) *file {
	f := &file{path: path}
	f.prompt, f.findings = parseFile(path, []byte(text), Rules{})
	return f
}
