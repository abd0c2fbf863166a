package prompts

import (
	"strings"
	"testing"
)

// TestEverythingWrong: a folder in which most is wrong is told in one go, in order,
// and what is right goes on.
func TestEverythingWrong(t *testing.T) {
	f, dir := folder(t, Rules{Projects: []string{"prj_a", "prj_b"}}, map[string]string{
		"right.md":       "---\nproject: prj_a\n---\nbody\n",
		"right/too.txt":  "---\nproject: prj_b\ndepends_on: [right.md]\nnot_before: 2026-01-01\nexpires: 2026-01-02T00:00:01+01:00\n---\nbody\n",
		"keys.md":        "---\nprojct: prj_a\nid: keys\nid: again\ntitle: 5\nlabels: [a]\non_unknown: ask\ntemplate: on\nschedule: daily\n---\n",
		"lists.md":       "---\nproject: prj_c\ndepends_on: keys\nfollow_ups:\n  - ''\n  - {a: b}\n---\nbody\n",
		"times.md":       "---\nproject: prj_a\nnot_before: 2026-02-29\nexpires: 1st of May\n---\nbody\n",
		"never.md":       "---\nproject: prj_a\nnot_before: 2026-02-02\nexpires: 2026-02-01\nschedule: '0 9 30 2 *'\n---\nbody\n",
		"yaml.md":        "---\nproject: prj_a\ntitle: a: b\n---\n\x01body\n",
		"yaml/more.md":   "---\nproject: &p prj_a\nid: *p\ntitle: !!str x\n<<: {a: b}\n---\n[[ body ]]\n",
		"template.md":    "---\nproject: prj_a\ntemplate: true\nfollow_ups: ['[[ nix ]]']\n---\n\n[[ .nix ]]\n[[ range 5 ]][[ end ]]\n",
		"double.md":      "---\nproject: prj_a\nid: same\n---\nbody\n",
		"double-too.md":  "---\nproject: prj_a\nid: same\n---\nbody\n",
		"cycle/a.md":     "---\nproject: prj_a\nid: a\ndepends_on: [b]\n---\nbody\n",
		"cycle/b.md":     "---\nproject: prj_a\nid: b\ndepends_on:\n  - right.md\n  - a\n---\nbody\n",
		"cycle/after.md": "---\nproject: prj_a\ndepends_on: [b, nix]\n---\nbody\n",
		"recurs.md":      "---\nproject: prj_a\nschedule: '@daily'\ndepends_on: [right.md]\n---\nbody\n",
		"project.md":     "body\n",
		"late.md":        "\n---\nproject: prj_a\n---\nbody\n",
		"open.md":        "---\nproject: prj_a\nbody\n",
		"empty.md":       "",
		"binary.md":      "\x7fELF\x00\xff",
		"large.md":       strings.Repeat("body\n", 20_000),
	})
	link(t, dir, "escape.md", "/etc/hostname")
	link(t, dir, "gone.md", "nowhere")
	s := lint(t, f)
	golden(t, "wrong.golden", strings.Join(texts(s.Findings), "\n")+"\n"+saw(s)+"\n")
}
