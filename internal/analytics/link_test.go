package analytics_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
)

func TestSafeLink(t *testing.T) {
	const host = "https://code.example/"
	for link, safe := range map[string]bool{
		"https://code.example/acme/docs/pull/7": true, "http://127.0.0.1:8787/pr/1": true,
		"http://localhost/pr/1": true, "http://[::1]:8/pr/1": true,
		"http://code.example/pull/7": false, "javascript:alert(1)": false, "data:text/html,x": false,
		"//code.example/x": false,
		"https:///x":       false, "ftp://code.example/x": false,
		"https://user:PW@code.example/acme/docs/pull/7": false,
		"https://github.com@evil.example/x":             false, "https://@code.example/x": false,
		"https://code.example/\x00": false, "": false,
		host + strings.Repeat("x", 300-len(host)): true, host + strings.Repeat("x", 301-len(host)): false,
	} {
		if got := analytics.SafeLink(link); (got == link && link != "") != safe || !safe && got != "" {
			t.Errorf("%.60q: %q, safe: %v", link, got, safe)
		}
	}
}

// TestPullLink: a pull request has one link, except for the case of its path, and one key.
// User info is removed, and text that is not a web address becomes empty.
func TestPullLink(t *testing.T) {
	const pull = "https://github.com/acme/docs/pull/7"
	for link, want := range map[string]string{
		pull: pull, pull + "/": pull, pull + "#discussion_r1": pull, pull + "?w=1": pull, pull + "/files?w=1#x": pull,
		pull + "?": pull,
		"HTTPS://GitHub.com:443/acme/docs/pull/7":            pull,
		"https://gitlab.com/a/b/c/-/merge_requests/12/diffs": "https://gitlab.com/a/b/c/-/merge_requests/12",
		"https://codeberg.org/a/b/pulls/3/files":             "https://codeberg.org/a/b/pulls/3",
		"https://code.example/review?id=7#x":                 "https://code.example/review?id=7#x",
		"http://127.0.0.1:8787/acme/docs/pull/7/":            "http://127.0.0.1:8787/acme/docs/pull/7",
		"https://user:PW@github.com/acme/docs/pull/7":        "https://redacted@github.com/acme/docs/pull/7",
		"https://github.com@evil.example/acme/docs/pull/7":   "https://redacted@evil.example/acme/docs/pull/7",
		"javascript:alert(1)":                                "not a web link: javascript:alert(1)",
		"data:text/html,x":                                   "not a web link: data:text/html,x",
		"https://user:P/W@github.com/acme/docs/pull/7":       "https://redacted@github.com/acme/docs/pull/7",
		"ftp://user:PW@host/x":                               "not a web link: ftp://redacted@host/x",
		"":                                                   "",
	} {
		got := analytics.PullLink(link)
		if got != want {
			t.Errorf("%s: %s, want %s", link, got, want)
		}
		if strings.HasSuffix(want,
			"github.com/acme/docs/pull/7") != (analytics.PullKey(got) == analytics.PullKey(pull)) {
			t.Errorf("%s: key %s", link, analytics.PullKey(got))
		}
		if strings.ContainsAny(link, "@") && analytics.SafeLink(got) != "" || strings.Contains(got, "PW") {
			t.Errorf("%s: %s", link, got)
		}
		if u, err := url.Parse(got); !strings.HasPrefix(want, "http") && err == nil && u.Scheme != "" {
			t.Errorf("%s: %s has the scheme %s", link, got, u.Scheme)
		}
	}
	for other, same := range map[string]bool{
		"https://www.github.com/ACME/Docs/pull/7": true, "https://github.com/acme/docs/pull/70": false,
		"https://github.com/acme/docs2/pull/7": false, "https://github.example/acme/docs/pull/7": false,
	} {
		if got := analytics.PullKey(other) == analytics.PullKey(pull); got != same {
			t.Errorf("%s: %v", other, got)
		}
	}
	if a, b := "https://code.example/review/A",
		"https://code.example/review/a"; analytics.PullKey(a) == analytics.PullKey(b) {
		t.Error("a path of another form is as it is")
	}
}
