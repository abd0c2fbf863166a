package analytics

import (
	"strings"
	"testing"
)

func TestParseServiceURL(t *testing.T) {
	strict := URLRules{Example: "https://api.example.com", CredentialsIn: "use the key"}
	lax := URLRules{Example: "http://gw:9091", Query: true, PlainHTTP: true}
	for _, tc := range []struct {
		rules URLRules
		raw   string
		want  string // in the error; empty: none
	}{
		{strict, "https://api.example.com/a%2Fb/", ""},
		{strict, "http://LOCALHOST:1", ""},
		{strict, "http://127.0.0.1:8787/x", ""},
		{strict, "http://[::1]:1/", ""},
		{strict, "http://api.example.com", "in the clear to api.example.com"},
		{strict, "http://localhost.example.com", "in the clear"},
		{strict, "http://0.0.0.0", "in the clear"},
		{strict, "https://bob:hunter22@api.example.com", "use the key"},
		{strict, "https://api.example.com/?", "query"},
		{strict, "https://api.example.com/?hunter22", "query"},
		{strict, "https://api.example.com/#", "fragment"},
		{strict, "https://:80", "scheme and host, like https://api.example.com"},
		{strict, "", "scheme and host"},
		{lax, "http://bob:hunter22@gw?x=y", ""},
		{lax, "http://gw#x", "fragment"},
		{lax, "ftp://bob:hunter22@gw", "want https:// or http://"},
		{lax, "http://bob:hunter22%@gw", "% as %25"},
		{lax, "http://bob:hunter22", "scheme and host"},
		{lax, "http://gw\x00hunter22", "scheme and host"},
	} {
		u, err := ParseServiceURL(tc.raw, tc.rules)
		switch {
		case tc.want == "" && (err != nil || u.String() != tc.raw):
			t.Errorf("%q: %v, %v", tc.raw, u, err)
		case tc.want == "":
		case err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter22"):
			t.Errorf("%q: %v; want %q and no secret", tc.raw, err, tc.want)
		}
	}
}
