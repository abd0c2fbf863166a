package events

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/view"
)

// slackText is the text of the Slack message of a note whose lines are given.
func slackText(t testing.TB, inDoubt int, lines ...string) string {
	t.Helper()
	body, err := json.Marshal(view.Event{Text: lines[0], Lines: lines[1:]})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(Encode(config.NotifySlack,
		journal.Event{ID: 3, Kind: "digest", At: start, Body: body, InDoubt: inDoubt}), &got); err != nil {
		t.Fatal(err)
	}
	if got["mrkdwn"] != false {
		t.Errorf("markup is on: %v", got)
	}
	return got["text"].(string)
}

func TestSlack(t *testing.T) {
	got := slackText(t, 0, "a & b: <!channel>\n<https://evil.example|docs>", "https://code.example.com/pr/1?a=b&c=d")
	want := "a &amp; b: &lt;!channel&gt; &lt;https://evil.example|docs&gt;\nhttps://code.example.com/pr/1?a=b&amp;c=d"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := slackText(t, 1, "x"); !strings.Contains(got, "possibly repeated") ||
		!strings.Contains(got, delivery(journal.Event{ID: 3, At: start})) {
		t.Errorf("in doubt: %q", got)
	}
	if got := string(Encode(config.NotifySlack, journal.Event{Kind: "paused",
		Body: []byte("[]")})); !strings.Contains(got, "docgauge: paused") {
		t.Errorf("a body without a text: %s", got)
	}
}

// FuzzSlack: text from people, paths and services never becomes Slack markup, and stays
// readable.
func FuzzSlack(f *testing.F) {
	for _, seed := range []string{"<!here>", "&lt;", "a\x00b\n<@U1>", "\xff<", strings.Repeat("<&>", 600),
		"\u2028<https://x|y>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := slackText(t, 0, "first", s)
		first, line, two := strings.Cut(got, "\n")
		if !utf8.ValidString(got) || first != "first" || !two || strings.ContainsAny(line, "<>\n\r\x00") {
			t.Fatalf("%q", got)
		}
		plain := strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "").Replace(line)
		if strings.Contains(plain, "&") {
			t.Errorf("%q has an ampersand outside an entity", line)
		}
		back := strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(line)
		if simple := !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f }); simple &&
			len(s) <= maxLine && back != s {
			t.Errorf("%q became %q", s, back)
		}
	})
}
