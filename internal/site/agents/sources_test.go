package agents

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
)

// TestSourceOf: utm_source comes before the referrer if the table has it; hosts count with all that is below them, and
// nothing that a client makes up becomes a name.
func TestSourceOf(t *testing.T) {
	own := map[string]bool{"docs.example.com": true, "docs.github.com": true}
	host := []byte("WWW.Wiki.example.org:8080")
	long := strings.Repeat("a", 10<<10)
	for _, c := range []struct{ referrer, target, want string }{
		{"", "/", "none"},
		{"https://chatgpt.com/", "/", "chatgpt"},
		{"https://chat.openai.com/c/1?x=y#z", "/", "chatgpt"},
		{"HTTPS://ChatGPT.COM", "/", "chatgpt"},
		{"https://claude.ai/chat/1", "/", "claude"},
		{"https://www.perplexity.ai/search?q=x", "/", "perplexity"},
		{"https://gemini.google.com/app", "/", "gemini"},
		{"https://bard.google.com/", "/", "gemini"},
		{"https://copilot.microsoft.com/", "/", "copilot"},
		{"https://www.bing.com/chat?q=x", "/", "copilot"},
		{"https://www.bing.com/chatter", "/", "bing"},
		{"https://www.bing.com/", "/", "bing"},
		{"https://github.com/copilot/c/1", "/", "copilot"},
		{"https://github.com/a/b/issues/1", "/", "github"},
		{"https://gist.github.com/x", "/", "github"},
		{"https://x.com/i/grok?conversation=1", "/", "grok"},
		{"https://t.co/abc", "/", "x"},
		{"https://duck.ai/", "/", "duck.ai"},
		{"https://www.google.com/", "/", "google"},
		{"https://www.google.co.uk/search", "/", "google"},
		{"https://www.google.com.br", "/", "google"},
		{"https://google.de", "/", "google"},
		{"https://mail.google.com/mail/u/0/", "/", "other"},
		{"https://google.example.com/", "/", "other"},
		{"https://google.evil", "/", "other"},
		{"https://news.ycombinator.com/item?id=1", "/", "hackernews"},
		{"https://out.reddit.com/", "/", "reddit"},
		{"https://pkg.go.dev/x", "/", "pkg.go.dev"},
		{"https://go.dev/", "/", "other"},

		// The site's own pages, also where the table has a host above them.
		{"https://docs.example.com/a", "/", "site"},
		{"http://www.docs.example.com:8080/a", "/", "site"},
		{"https://docs.github.com/en", "/", "site"},
		{"https://wiki.example.org/a", "/", "site"},
		{"https://www.wiki.example.org/a", "/", "site"},
		{"https://wiki.example.or/a", "/", "other"},
		{"https://a.wiki.example.org/a", "/", "other"},
		{"https://example.com/", "/", "other"},

		// utm_source.
		{"", "/a?utm_source=chatgpt.com", "chatgpt"},
		{"https://www.google.com/", "/a?b=c&utm_source=ChatGPT.com&d=e", "chatgpt"},
		{"", "/a?utm_source=Twitter", "x"},
		{"", "/a?utm_source=www.reddit.com", "reddit"},
		{"", "/a?utm_source=%48N", "hackernews"},
		{"", "/a?utm_source=copilot#x", "copilot"},
		{"https://claude.ai/", "/a?utm_source=newsletter", "claude"},
		{"https://docs.example.com/", "/a?utm_source=newsletter", "site"},
		{"", "/a?utm_source=newsletter", "none"},
		{"", "/a?utm_source=", "none"},
		{"", "/a?utm_source=%zz", "none"},
		{"", "/a?xutm_source=reddit", "none"},
		{"", "/a?x=1&xutm_source=reddit&utm_source=kagi", "kagi"},
		{"", "/a?utm_source=" + long, "none"},
		{"", "/utm_source=reddit", "none"},
		{"", "/a?utm_source=site", "none"},
		{"", "/a?utm_source=other", "none"},

		// Apps, and what is no URL of a page.
		{"android-app://com.openai.chatgpt/", "/", "chatgpt"},
		{"android-app://com.google.android.googlequicksearchbox/https/www.google.com", "/", "google"},
		{"android-app://com.google.android.gm/", "/", "other"},
		{"android-app://org.example.app", "/", "other"},
		{"chatgpt.com", "/", "chatgpt"},
		{"www.google.com/search?q=x", "/", "google"},
		{"//claude.ai/", "/", "other"},
		{"about:blank", "/", "other"},
		{"null", "/", "other"},
		{"https://", "/", "other"},
		{"https:///", "/", "other"},
		{"://", "/", "other"},
		{"%", "/", "other"},

		// Ports, users, dots, hosts that only look like others.
		{"https://chatgpt.com:443/", "/", "chatgpt"},
		{"https://chatgpt.com./", "/", "chatgpt"},
		{"https://user:secret@chatgpt.com/", "/", "chatgpt"},
		{"https://chatgpt.com@evil.example/", "/", "other"},
		{"https://chatgpt.com:x@evil.example/", "/", "other"},
		{`https://chatgpt.com\@evil.example/`, "/", "chatgpt"},
		{"https://evil.example/https://chatgpt.com/", "/", "other"},
		{"https://evil.example?https://chatgpt.com", "/", "other"},
		{"https://evil.example#@chatgpt.com", "/", "other"},
		{"https://notchatgpt.com/", "/", "other"},
		{"https://chatgpt.com.evil.example/", "/", "other"},
		{"https://com/", "/", "other"},
		{"https://[2001:db8::1]:8080/", "/", "other"},
		{"https://192.0.2.1/", "/", "other"},
		{"https://chаtgpt.com/", "/", "other"}, // a Cyrillic letter
		{"https://xn--chtgpt-3fg.com/", "/", "other"},
		{"https://例え.jp/", "/", "other"},
		{"https://chatgpt.com\x00.evil/", "/", "other"},
		{"\xff\xfe", "/", "other"},
		{long, "/", "other"},
		{"https://" + long + ".chatgpt.com/", "/", "other"},
		{"https://chatgpt.com/" + long, "/", "chatgpt"},
		{"https://" + long + "@chatgpt.com/", "/", "other"},
		{strings.Repeat(".", 10<<10), "/", "other"},
	} {
		if got := SourceOf([]byte(c.referrer), []byte(c.target), own, host); got.Name != c.want {
			t.Errorf("%.80q, %.80q: %s, want %s", c.referrer, c.target, got.Name, c.want)
		}
	}
	from := ReferrerOf([]byte("https://www.google.co.uk/search"), own)
	if n := testing.AllocsPerRun(10, func() { from.SourceOf([]byte("/a?utm_source=Newsletter"), host) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSources holds the form of the data file: names that metrics can have, no host and no value twice, and a source for
// each assistant's agents.
func TestSources(t *testing.T) {
	seen := map[string]string{}
	for line := range strings.Lines(sourceLines) {
		cells := strings.Split(strings.TrimSpace(line), "\t")
		if line[0] == '#' {
			continue
		}
		if !regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`).MatchString(cells[0]) {
			t.Errorf("name %q", cells[0])
		}
		for _, text := range append(strings.Fields(cells[2]+" "+strings.ReplaceAll(cells[3], "-", "- ")), cells[0]) {
			if other := seen[text]; other != "" && other != cells[0] && text != "-" {
				t.Errorf("%s: %s has %s too", cells[0], other, text)
			}
			seen[text] = cells[0]
			if text != strings.ToLower(text) {
				t.Errorf("%s: %s is not in lower case", cells[0], text)
			}
		}
	}
	all := Sources()
	for i, s := range all {
		if s.Index != i {
			t.Errorf("%s: index %d, want %d", s.Name, s.Index, i)
		}
		if i < 3 {
			continue
		}
		if got := SourceOf(nil, []byte("/?utm_source="+s.Name), nil, nil); got != s {
			t.Errorf("%s is %s", s.Name, got.Name)
		}
	}
	for _, a := range Builtin().Agents() {
		if a.Visits != "" && !slices.ContainsFunc(all, func(s *Source) bool { return s.Name == a.Visits }) {
			t.Errorf("%s: the source %s is not in sources.txt", a.Token, a.Visits)
		}
		if got := analytics.SourceOfAgent(a.Token); got != a.Visits {
			t.Errorf("%s: the pipeline has the source %q, want %q", a.Token, got, a.Visits)
		}
	}
	for token, want := range map[string]string{"GPTBot": "chatgpt", "ChatGPT-User": "chatgpt", "Claude-User": "claude",
		"PerplexityBot": "perplexity", "Googlebot": "google", "Gemini-Deep-Research": "gemini", "curl": ""} {
		if a := Builtin().Match(token + "/1.0"); a.Visits != want {
			t.Errorf("%s: %q, want %q", token, a.Visits, want)
		}
	}
}

func FuzzSourceOf(f *testing.F) {
	f.Add([]byte("https://u:p@www.google.co.uk:443/a?b#c"), []byte("/?utm_source=%41&b"))
	all := Sources()
	f.Fuzz(func(t *testing.T, referrer, target []byte) {
		before := bytes.Clone(referrer)
		got := SourceOf(referrer, target, map[string]bool{"b.c": true}, target)
		if !slices.Contains(all, got) || !bytes.Equal(before, referrer) {
			t.Errorf("%v", got)
		}
	})
}
