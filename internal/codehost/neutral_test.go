package codehost_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/codehost"
)

// TestNeutral: text that mentions people, refers to issues, closes them or commands a host does none of it any more,
// and reads the same.
func TestNeutral(t *testing.T) {
	active := regexp.MustCompile(`(?i)@\w|[#!]\d|&(commat|num|excl|#\d+);|<[a-z/!?]|!\[|(?m:^\s*/)|` +
		`\b(clos(e[sd]?|ing)|fix(e[sd]|ing)?|resolv(e[sd]?|ing)|implement(s|ed|ing)?|reopen(s|ed)?):?\s+` +
		`(issues? +)?(\S*#\d|\S+://|GH-\d|[A-Z]+-\d)|\[(skip|ci|no|actions)[ -](ci|skip|actions)\]|\*\*\*NO_CI|skip-checks:|` +
		"[\u202e\u2066]")
	shown := strings.NewReplacer("\u202e", "", "\u2066", "")
	for _, text := range []string{
		"Thanks @octocat and @docs-team/writers", "fixes #1", "Closes: #12, #13", "resolves docs/site#4", "fix  GH-7",
		"closed https://github.com/o/r/issues/1", "Implements PROJ-12", "reopens\n#3", "closing issue #9", "see !5 and (#6)",
		"<img src=x>", "<!-- hidden -->", "<!1", "![x](https://tracker.example/a.png)", "/close\n  /assign @me",
		"@@a ##1 !!2", "&commat;octocat and &#64;octocat", "see &num;12 and &excl;3",
		"Mend [skip ci]", "[CI skip] x", "[no ci]", "[actions skip]", "***NO_CI***", "x\n\nskip-checks: true", "a\u202eb\u2066c",
	} {
		if !active.MatchString(text) {
			t.Errorf("%q: does nothing before", text)
		}
		got := codehost.Neutral(text)
		if found := active.FindString(got); found != "" || strings.ReplaceAll(got, "\u200b", "") != shown.Replace(text) {
			t.Errorf("%q: %+q has %q", text, got, found)
		}
	}
	for _, text := range []string{"## What I did\n\n- fixed the guide & more!\n\n1 < 2, a/b, R&D, &amp; &lt;", "Fix the typos"} {
		if got := codehost.Neutral(text); got != text {
			t.Errorf("%q became %+q", text, got)
		}
	}
}
