package docsapi

import (
	"strings"
	"testing"
)

func TestNewRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ base, key, says string }{
		"nothing":         {"", "mint_secret", "want a URL"},
		"no host":         {"https://", "mint_secret", "want a URL"},
		"port alone":      {"https://:80", "mint_secret", "want a URL"},
		"no scheme":       {"api.example.com", "mint_secret", "want a URL"},
		"not a URL":       {"https://bob:hunter22@a b", "mint_secret", "want a URL"},
		"other scheme":    {"ftp://api.example.com", "mint_secret", "want https"},
		"http":            {"http://api.example.com", "mint_secret", "use https"},
		"http, lookalike": {"http://localhost.example.com", "mint_secret", "use https"},
		"http, wildcard":  {"http://0.0.0.0", "mint_secret", "use https"},
		"user":            {"https://bob:hunter22@example.com", "mint_secret", "must not hold user"},
		"query":           {"https://example.com/?hunter22", "mint_secret", "query"},
		"empty query":     {"https://example.com/?", "mint_secret", "query"},
		"fragment":        {"https://example.com/#", "mint_secret", "fragment"},
		"no key":          {"https://example.com", "", "DOCGAUGE_API_KEY"},
		"no prefix":       {"https://example.com", "_hunter22", "DOCGAUGE_API_KEY"},
		"no secret":       {"https://example.com", "mint_", "DOCGAUGE_API_KEY"},
		"no underscore":   {"https://example.com", "hunter22", "DOCGAUGE_API_KEY"},
		"newline":         {"https://example.com", "mint_hunter22\n", "DOCGAUGE_API_KEY"},
		"space":           {"https://example.com", "mint_hunter22 x", "DOCGAUGE_API_KEY"},
		"not ASCII":       {"https://example.com", "mint_hunter22é", "DOCGAUGE_API_KEY"},
		"both":            {"http://api.example.com", "", "use https"},
	} {
		_, err := New(Config{BaseURL: tc.base, APIKey: StaticKey(tc.key)})
		if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %v; want %q and no secret", name, err, tc.says)
		}
	}
	if _, err := New(Config{BaseURL: "ftp://x"}); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two problems: %v", err)
	}
}

func TestNewAccepts(t *testing.T) {
	for base, want := range map[string]string{
		"https://api.example.com":          "https://api.example.com",
		"https://api.example.com:8443/":    "https://api.example.com:8443",
		"https://api.example.com/a%2Fb/c/": "https://api.example.com/a%2Fb/c",
		"http://localhost:8787":            "http://localhost:8787",
		"http://127.0.0.2":                 "http://127.0.0.2",
		"http://[::1]:1/":                  "http://[::1]:1",
		"HTTPS://api.example.com":          "https://api.example.com",
	} {
		c, err := New(Config{BaseURL: base, APIKey: StaticKey("mint_secret")})
		if err != nil || c.base != want {
			t.Errorf("%s: %v, %v; want base %s", base, c, err, want)
		}
	}
}
