package git

import (
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	for _, parts := range [][]string{
		{"abcdef"}, {"abc", "def"}, {"a", "bcdefg"},
		{"abcdefgh", "i"}, {"", "ab"}, {"abcd"},
	} {
		w := &Tail{Max: 4}
		for _, p := range parts {
			if n, err := w.Write([]byte(p)); n != len(p) || err != nil {
				t.Fatalf("Write %q: %d %v", p, n, err)
			}
		}
		all := strings.Join(parts, "")
		want := all
		if len(all) > 4 {
			want = "…" + all[len(all)-4:]
		}
		if got := w.String(); got != want {
			t.Errorf("%q: %q, want %q", parts, got, want)
		}
	}
}
