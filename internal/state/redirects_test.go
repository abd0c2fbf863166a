package state_test

import (
	"fmt"
	"testing"

	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/state"
)

// TestRedirects: the redirects of each file are kept, and a rule that has moved to another file is kept once.
func TestRedirects(t *testing.T) {
	dir := t.TempDir()
	of := func(paths ...string) (all []journal.Redirect) {
		for _, path := range paths {
			all = append(all, journal.Redirect{Path: path, Target: "/"})
		}
		return all
	}
	for _, step := range []struct {
		project, file string
		rules         []journal.Redirect
		want          string
	}{
		{"a", "x", of("/1", "/2"), "[a x /1 a x /2]"},
		{"a", "y", of("/3"), "[a x /1 a x /2 a y /3]"},
		{"b", "x", of("/1"), "[a x /1 a x /2 a y /3 b x /1]"},
		{"a", "y", of("/2"), "[a x /1 b x /1 a y /2]"},
		{"a", "x", nil, "[b x /1 a y /2]"},
	} {
		check(t, state.SetRedirects(dir, step.project, step.file, step.rules))
		got := []string{}
		for _, r := range must(state.Redirects(dir))(t) {
			got = append(got, fmt.Sprint(r.Project, " ", r.File, " ", r.Path))
		}
		if fmt.Sprint(got) != step.want {
			t.Errorf("%s of %s: %v, want %s", step.file, step.project, got, step.want)
		}
	}
}
