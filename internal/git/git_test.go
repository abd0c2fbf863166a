package git

import (
	"context"
	"errors"
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

// TestCommandOf: what grows with the history of a repository has time for a large one.
func TestCommandOf(t *testing.T) {
	for _, tc := range []struct {
		args, command string
		long          bool
	}{
		{"log --first-parent", "log", true}, {"--no-literal-pathspecs -c core.quotePath=false log -M50%", "log", true},
		{"-c x=log cat-file -e", "cat-file", false}, {"rev-parse log", "rev-parse", false},
		{"fetch --quiet", "fetch", true}, {"push", "push", true},
	} {
		command, timeout := commandOf(strings.Fields(tc.args))
		if command != tc.command || (timeout == longTimeout) != tc.long || timeout < Timeout {
			t.Errorf("%s: %s, %s", tc.args, command, timeout)
		}
	}
}

// TestAgain: a remote that stands still is asked again; after a long timeout once.
func TestAgain(t *testing.T) {
	for _, tc := range []struct {
		err     error
		message string
		n       int
		want    bool
	}{
		{errors.New("exit status 128"), "fatal: unable to access 'https://git.example/': Operation too slow. Less than 1 " +
			"bytes/sec transferred the last 120 seconds", 3, true},
		{context.DeadlineExceeded, "", 1, true},
		{context.DeadlineExceeded, "", 2, false},
		{errors.New("exit status 128"), "fatal: not a git repository", 1, false},
	} {
		if _, again := Again(Error{tc.err, tc.message, "fetch"}, tc.n); again != tc.want {
			t.Errorf("%v %s, %d: %t", tc.err, tc.message, tc.n, again)
		}
	}
}
