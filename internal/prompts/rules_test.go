package prompts

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares text with a file of testdata, or with -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-update writes it): %s", path, diff)
	}
}

// front is a file with front matter.
func front(lines string) string { return "---\n" + lines + "\n---\nbody\n" }

// broken are files with something wrong, or odd, each.
var broken = []struct{ name, text string }{
	{"empty file", ""},
	{"blank", " \n\t\n"},
	{"empty front only", "---\nid: a\n---\n\n"},
	{"empty front", front("")},
	{"comment front", front("# nothing")},
	{"too large", strings.Repeat("a", MaxBytes+1)},
	{"not UTF-8", "a\nb\xff\n"},
	{"UTF-16", "\xff\xfea\x00"},
	{"NUL", "a\n\x00b\n"},
	{"control characters, three", "a\x1b\x1b\n\x7f"},
	{"control character of Latin-1", "\u0085"},
	{"order of text", "ok\n\n\u202Eab"},
	{"invisible", "x\U000E0041"},
	{"lines end in CR", "---\rid: 1\r---\rx"},
	{"lines end in CRLF", "---\r\nid: 1\r\n---\r\nx"},
	{"byte order mark", bom + "---\nid: 1\n---\nx"},
	{"front matter does not end", "---\nid: a\nbody"},
	{"front matter after a blank line", "\n---\nid: a\n---\nbody"},
	{"front matter indented", "  ---\nid: a\n---\nbody"},
	{"tab indent", front("id:\n\tx")},
	{"colon in a value", front("id: a\ntitle: a: b")},
	{"list does not end", front("id: [a")},
	{"quotes do not end", front("id: a\ntitle: \"x")},
	{"control character in front matter", "---\nid: \x07\n---\nx\n"},
	{"list", front("- a")},
	{"scalar", front("hello")},
	{"null", front("~")},
	{"second document after dots", front("id: a\n...\nid: b")},
	{"second document after dashes", front("id: a\n--- b")},
	{"directive", front("%YAML 1.2")},
	{"alias", front("id: &a x\ntitle: *a")},
	{"unknown alias", front("id: *a")},
	{"merge", front("<<: {id: a}")},
	{"invisible", front("id: !!str a")},
	{"unknown tag", front("id: !foo a")},
	{"anchor in list", front("depends_on:\n  - &x y")},
	{"alias as a key", front("id: &a x\n*a : y")},
	{"complex key", front("? [a]\n: b")},
	{"unknown key, near", front("projct: a")},
	{"unknown key, spelled otherwise", front("Not-Before: 2026-01-01")},
	{"unknown key, far", front("labels: a")},
	{"int key", front("1: a")},
	{"key given twice", front("id: a\nid: b")},
	{"unknown key that cannot be printed", front("\"\\x07\\n\": a")},
	{"no value", front("id:\ntitle: ~")},
	{"num id", front("id: 5")},
	{"date id", front("id: 2026-01-01")},
	{"bool title", front("title: true")},
	{"list id", front("id: [a]")},
	{"map id", front("id: {a: b}")},
	{"id form", front("id: -a")},
	{"id form2", front("id: 'a b'")},
	{"id long", front("id: " + strings.Repeat("a", 201))},
	{"id ok long", front("id: " + strings.Repeat("a", 200))},
	{"id uni", front("id: ä")},
	{"project form", front("project: a/b")},
	{"project conf", front("project: prj_b")},
	{"title empty", front("title: ''")},
	{"title nl", front("title: \"a\\nb\"")},
	{"title long", front("title: " + strings.Repeat("ä", 101))},
	{"not_before is no date", front("not_before: tomorrow")},
	{"not_before is no day", front("not_before: 2026-02-30")},
	{"not_before is a number", front("not_before: 5")},
	{"not_before is a list", front("not_before: [2026-01-01]")},
	{"not_before is not RFC 3339", front("not_before: 2026-01-01 10:00")},
	{"expires long ago", front("expires: 1969-12-31T00:00:00Z")},
	{"expires, the zero time", front("expires: 0001-01-01")},
	{"expires before not_before", front("expires: 2026-01-01\nnot_before: 2026-01-01")},
	{"schedule of three fields", front("schedule: '* * *'")},
	{"schedule is a number", front("schedule: 5")},
	{"schedule of two lines", front("schedule: \"a\\nb\"")},
	{"schedule is empty", front("schedule: ''")},
	{"schedule and depends_on", front("schedule: '@daily'\ndepends_on: [x]")},
	{"depends_on is text", front("depends_on: x")},
	{"depends_on is empty", front("depends_on: []")},
	{"depends_on, all elements wrong", front("depends_on: [x, 5, '', [y], \"a\\tb\", x]")},
	{"depends_on too long", front("depends_on: [" + strings.Repeat("x, ", 101) + "]")},
	{"follow_ups is text", front("follow_ups: x")},
	{"follow_ups, all elements wrong", front("follow_ups:\n  - ok\n  - 5\n  - '  '\n  - \"a\\x07\"\n  - [x]\n  -")},
	{"follow_ups too long", front("follow_ups: [" + strings.Repeat("x, ", 21) + "]")},
	{"concurrency_key", front("concurrency_key: 'a b'")},
	{"on_unknown", front("on_unknown: retry")},
	{"on_unknown is a boolean", front("on_unknown: true")},
	{"template is yes", front("template: yes")},
	{"template is text", front("template: 'true'")},
	{"front matter in one line", front("{id: a, title: b}")},
	{"nested lists", front("id: " + strings.Repeat("[", 200) + strings.Repeat("]", 200))},
	{"nested lists, very deep", front("id: " + strings.Repeat("[", 20000))},
	{"line separator in front matter", front("title: a\u2028b")},
}

// TestRules: what each broken rule of one file is told as, and that the odd ones
// that break none are taken.
func TestRules(t *testing.T) {
	var out strings.Builder
	for _, tc := range broken {
		_, findings := parseFile("f.md", []byte(tc.text), Rules{Projects: []string{"prj_a"}})
		fmt.Fprintf(&out, "# %s\n", tc.name)
		for _, f := range findings {
			fmt.Fprintln(&out, f)
		}
	}
	golden(t, "rules.golden", out.String())
}
