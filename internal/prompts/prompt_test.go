package prompts

import "testing"

// TestDigest: what is sent is in the digest, when it is sent and where it is written
// is not. Journals hold digests, so they stay as they are.
func TestDigest(t *testing.T) {
	read := func(path, text string) string {
		p, findings := parseFile(path, []byte(text), Rules{Projects: []string{"prj_a", "prj_b"}})
		if len(findings) > 0 {
			t.Fatal(findings)
		}
		return p.Digest
	}
	base := read("a.md", "---\nproject: prj_a\ntitle: x\nfollow_ups: [ab, c]\n---\nbody")
	if want := "6966da8671585868d2124b4c870c895285e8cf87159afcd1bdba89ffa1ddd3d8"; base != want {
		t.Errorf("the digest is another: %s, want %s", base, want)
	}
	for _, same := range []string{
		"---\n# comment\nfollow_ups:\n- ab\n- |\n  c\ntitle: 'x'\nid: other\nproject: prj_a\n---\n\n\nbody  \n\n",
		"\ufeff---\r\nproject: prj_a\r\ntitle: x\r\nfollow_ups: [ab, c]\r\nnot_before: 2026-01-01\r\nschedule: '@daily'\r\nconcurrency_key: k\r\non_unknown: resubmit\r\n---\r\nbody\r\n",
	} {
		if got := read("b/c.txt", same); got != base {
			t.Errorf("%q differs", same)
		}
	}
	for _, other := range []string{
		"---\nproject: prj_b\ntitle: x\nfollow_ups: [ab, c]\n---\nbody",
		"---\nproject: prj_a\ntitle: y\nfollow_ups: [ab, c]\n---\nbody",
		"---\nproject: prj_a\nfollow_ups: [ab, c]\n---\nbody",
		"---\nproject: prj_a\ntitle: x\nfollow_ups: [a, bc]\n---\nbody",
		"---\nproject: prj_a\ntitle: x\nfollow_ups: [c, ab]\n---\nbody",
		"---\nproject: prj_a\ntitle: x\nfollow_ups: [ab]\n---\nbody",
		"---\nproject: prj_a\ntitle: x\nfollow_ups: [ab, c]\n---\nbody 2",
		"---\nproject: prj_a\ntitle: x\nfollow_ups: [ab, c]\ntemplate: true\n---\nbody",
	} {
		if read("a.md", other) == base {
			t.Errorf("%q is the same", other)
		}
	}
}

// TestHasID: also where the id is the path.
func TestHasID(t *testing.T) {
	for text, want := range map[string]bool{"body": false, "---\ntitle: x\n---\nbody": false, "---\nid: b\n---\nbody": true, "---\nid: a.md\n---\nbody": true} {
		p, findings := parseFile("a.md", []byte(text), Rules{Projects: []string{"prj_a"}})
		if p.HasID() != want || len(findings) > 0 {
			t.Errorf("%q: %v, %v", text, p.HasID(), findings)
		}
	}
}
