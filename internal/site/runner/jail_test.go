package runner

import (
	"errors"
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	hosts, err := ParseHosts([]string{"api.example.com", "*.Example.org", "models.local:8443"})
	check(t, err)
	for target, want := range map[[2]string]bool{
		{"api.example.com", "443"}: true, {"api.example.com", "80"}: false, {"x.api.example.com", "443"}: false,
		{"example.com", "443"}: false, {"a.example.org", "443"}: true, {"a.b.example.org", "443"}: true,
		{"example.org", "443"}: false, {"notexample.org", "443"}: false, {"models.local", "8443"}: true,
		{"models.local", "443"}: false, {"", "443"}: false,
	} {
		if _, got := allows(hosts, target[0], target[1]); got != want {
			t.Errorf("%v: %t", target, got)
		}
	}
	for _, bad := range []string{"", "*", "*.", "10.0.0.1", "127.1", "[::1]", "::1", "https://x", "x/y", "a.*.b", "x:",
		"0x7f000001", "2130706433", "x:y", "-x", "a b"} {
		if _, err := ParseHosts([]string{bad}); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	// A name below one that is allowed may belong to others: it must not lead inside.
	_, err = hostPattern{name: "example.org", below: true}.dial(t.Context(), "127.0.0.1:1")
	if !errors.Is(err, errInside) {
		t.Errorf("inside: %v", err)
	}
	if _, err = (hostPattern{name: "localhost"}).dial(t.Context(), "127.0.0.1:1"); errors.Is(err, errInside) ||
		err == nil || strings.Contains(err.Error(), "inside") {
		t.Errorf("named: %v", err)
	}
}
