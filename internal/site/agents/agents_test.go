package agents

import (
	"strings"
	"testing"
)

func TestMatchSmoke(t *testing.T) {
	for ua, want := range map[string]string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36": "",
		"Claude-User (claude-code/2.1.86; +https://support.anthropic.com/)":                                               "claude-code",
		"Claude-User/1.0 axios/1.7": "Claude-User",
		"":                          "unknown",
		"Mozilla/5.0 (Linux; Android 10; CUBOT_X20) Chrome/120 Mobile": "",
		"FooBot/1.0": "unknown",
	} {
		got := ""
		if a := Builtin().Match(ua); a != nil {
			got = a.Token
		}
		if got != want {
			t.Errorf("%q: %q, want %q", ua, got, want)
		}
	}
	if s := Builtin().Agents(); len(s) < 100 || !strings.HasPrefix(s[0].Source, "http") {
		t.Error(len(s))
	}
}
