package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"id", "project", "title", "schedule", "depends_on", "depends_in"}
	for word, want := range map[string]string{
		"project": "project", "projekt": "project", "prject": "project", "porject": "project", "projects": "project",
		"shedule": "schedule", "scheduled_at": "", "depends": "depends_on", // three edits; the first of two as near
		"di": "", "ids": "id", // two edits of two letters are another word
		"": "", "zzz": "", strings.Repeat("x", 1<<20): "",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("%.20q: %q, want %q", word, got, want)
		}
	}
}

// TestLongWords are not looked at: comparing them takes time.
func TestLongWords(t *testing.T) {
	long := strings.Repeat("x", longest+1)
	if got := Nearest(long, []string{long}); got != "" {
		t.Errorf("%q", got)
	}
	if got := Nearest(long[1:], []string{long}); got != long {
		t.Errorf("%q", got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%s to %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
