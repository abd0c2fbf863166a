package pulls_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/pulls"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

type store struct {
	jobs  []journal.Job
	pulls []journal.PullRequest
}

func (s store) Jobs(context.Context) ([]journal.Job, error)                 { return s.jobs, nil }
func (s store) PullRequests(context.Context) ([]journal.PullRequest, error) { return s.pulls, nil }

var now = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// TestList: which pages a merge touched, and why it has none.
func TestList(t *testing.T) {
	for name, tc := range map[string]struct {
		job     journal.Job
		pull    journal.PullRequest
		pages   []string
		problem string // a part of it; "-": it is not listed
	}{
		"mapped":                 {journal.Job{}, journal.PullRequest{State: journal.PullMerged, Changed: []string{"docs/a.mdx"}, Pages: []string{"/a"}, Mapped: true}, []string{"/a"}, ""},
		"not mapped":             {journal.Job{}, journal.PullRequest{State: journal.PullMerged, Changed: []string{"b/index.mdx"}}, []string{"/b"}, ""},
		"named":                  {journal.Job{Pages: []string{"docs/c"}}, journal.PullRequest{State: journal.PullMerged, Changed: []string{"a.mdx"}, Pages: []string{"/a"}, Mapped: true}, []string{"/docs/c"}, ""},
		"named and nothing else": {journal.Job{Pages: []string{"/c"}}, journal.PullRequest{State: journal.PullMerged}, []string{"/c"}, ""},
		"no page":                {journal.Job{}, journal.PullRequest{State: journal.PullMerged, Changed: []string{"logo.svg"}, Mapped: true}, nil, "no page among 1 changed file"},
		"no files":               {journal.Job{}, journal.PullRequest{State: journal.PullMerged}, nil, "files that it changed are not known"},
		"unknown":                {journal.Job{}, journal.PullRequest{State: journal.PullUnknown, Problem: "no token", Changed: []string{"a.mdx"}}, nil, "not known whether it was merged: no token"},
		"open":                   {journal.Job{}, journal.PullRequest{State: journal.PullOpen}, nil, "-"},
		"closed":                 {journal.Job{}, journal.PullRequest{State: journal.PullClosed, Changed: []string{"a.mdx"}}, nil, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.job.PRLink, tc.pull.Link, tc.pull.Project, tc.pull.Merged = "https://x/pull/1", "https://x/pull/1", "prj_a", now
			list, err := pulls.Merges(t.Context(), store{[]journal.Job{tc.job}, []journal.PullRequest{tc.pull}}, pulls.Selection{})
			switch {
			case err != nil || tc.problem == "-" && len(list) > 0:
				t.Fatal(list, err)
			case tc.problem == "-":
			case len(list) != 1 || !slices.Equal(list[0].Pages, tc.pages) || (tc.problem == "") != (list[0].Problem == "") || !strings.Contains(list[0].Problem, tc.problem):
				t.Errorf("%+v, want pages %v, problem %q", list, tc.pages, tc.problem)
			}
		})
	}
}

// TestSelection: several jobs share a pull request; one without a row is unknown; the newest
// merge is first; what is not selected is not there, and an archive without windows is no error.
func TestSelection(t *testing.T) {
	merged := func(link, project string, days int) journal.PullRequest {
		return journal.PullRequest{Link: link, Project: project, State: journal.PullMerged, Merged: now.AddDate(0, 0, -days), Changed: []string{"a.mdx"}}
	}
	s := store{
		[]journal.Job{{PRLink: "one"}, {PRLink: "one", Pages: []string{"/named"}}, {PRLink: "two"}, {PRLink: "three"}, {PRLink: "new", Project: "prj_a"}, {}},
		[]journal.PullRequest{merged("one", "prj_a", 9), merged("two", "prj_a", 1), merged("three", "prj_b", 5)},
	}
	for want, selection := range map[string]pulls.Selection{
		"two three one new": {},
		"two one new":       {Projects: []string{"prj_a"}},
		"two three new":     {Since: now.AddDate(0, 0, -6)},
	} {
		all, err := pulls.Outcomes(t.Context(), s, sinktest.NewMemory(), selection)
		var links []string
		for _, o := range all {
			links = append(links, o.Link)
			if o.Link == "one" && !slices.Equal(o.Pages, []string{"/named"}) {
				t.Error(o.Pages)
			}
			if o.Link == "new" && !strings.Contains(o.Problem, "not read yet") {
				t.Error(o.Problem)
			}
		}
		if got := strings.Join(links, " "); err != nil || got != want {
			t.Errorf("%q, want %q: %v", got, want, err)
		}
	}
}
