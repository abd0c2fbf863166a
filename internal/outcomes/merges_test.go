package outcomes_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/outcomes"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

type store struct {
	jobs      []journal.Job
	pulls     []journal.PullRequest
	redirects []journal.Redirect
}

func (s store) Jobs(context.Context) ([]journal.Job, error)                 { return s.jobs, nil }
func (s store) PullRequests(context.Context) ([]journal.PullRequest, error) { return s.pulls, nil }
func (s store) Redirects(context.Context) ([]journal.Redirect, error)       { return s.redirects, nil }

var now = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// TestList: which pages a merge touched, and why it has none.
func TestList(t *testing.T) {
	const isMerged = journal.PullMerged
	for name, tc := range map[string]struct {
		named   []string // by the prompt
		pull    journal.PullRequest
		pages   []string
		problem string // a part of it; "-": it is not listed
	}{
		"mapped": {nil, journal.PullRequest{State: isMerged, Changed: []string{"docs/a.mdx"}, Pages: []string{"/a"},
			Mapped: true}, []string{"/a"}, ""},
		"not mapped": {nil, journal.PullRequest{State: isMerged, Changed: []string{"b.mdx"}, Pages: []string{"/b"}},
			[]string{"/b"}, ""},
		"named": {[]string{"docs/c", "/b/"}, journal.PullRequest{State: isMerged, Changed: []string{"a.mdx"},
			Pages: []string{"/a"}, Mapped: true}, []string{"/b", "/docs/c"}, ""},
		"named and nothing else": {[]string{"/"}, journal.PullRequest{State: isMerged}, []string{"/"}, ""},
		"no page": {nil, journal.PullRequest{State: isMerged, Changed: []string{"logo.svg"}, Mapped: true}, nil,
			"no page among 1 changed file"},
		"no files": {nil, journal.PullRequest{State: isMerged}, nil, "files that it changed are not known"},
		"unknown": {nil, journal.PullRequest{State: journal.PullUnknown, Problem: "no token",
			Changed: []string{"a.mdx"}}, nil, "not known whether it was merged: no token"},
		"open":   {nil, journal.PullRequest{State: journal.PullOpen}, nil, "-"},
		"closed": {nil, journal.PullRequest{State: journal.PullClosed, Changed: []string{"a.mdx"}}, nil, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			job := journal.Job{PRLink: "https://x/pull/1", Pages: tc.named}
			tc.pull.Link, tc.pull.Project, tc.pull.Merged = job.PRLink, "prj_a", now
			list, err := outcomes.Merges(t.Context(), store{jobs: []journal.Job{job}, pulls: []journal.PullRequest{tc.pull}},
				outcomes.Selection{})
			if err != nil || (tc.problem == "-") != (len(list) == 0) {
				t.Fatal(list, err)
			}
			for _, m := range list {
				if !slices.Equal(m.Pages, tc.pages) || (tc.problem == "") != (m.Problem == "") ||
					!strings.Contains(m.Problem, tc.problem) {
					t.Errorf("%+v, want pages %v, problem %q", m, tc.pages, tc.problem)
				}
			}
		})
	}
}

// TestSelection: several jobs share a pull request, and its cost; one without a row is unknown; the newest
// merge is first; others than those selected are left out, and an archive may have no windows.
func TestSelection(t *testing.T) {
	merged := func(link, project string, days int) journal.PullRequest {
		return journal.PullRequest{Link: link, Project: project, State: journal.PullMerged,
			Merged: now.AddDate(0, 0, -days), Changed: []string{"a.mdx"},
			Pages: []string{"/a"}}
	}
	s := store{
		jobs: []journal.Job{
			{PRLink: "one", State: journal.Completed, JobID: "j1", Cost: new(1.0), CostUnit: "USD"},
			{PRLink: "one", State: journal.Completed, JobID: "j2", Estimate: 0.5, Pages: []string{"/named"}},
			{PRLink: "two"}, {PRLink: "three"}, {PRLink: "new", Project: "prj_a", Cost: new(9.0)}, {},
		},
		pulls: []journal.PullRequest{merged("one", "prj_a", 9), merged("two", "prj_a", 1), merged("three", "prj_b", 5)},
	}
	for want, selection := range map[string]outcomes.Selection{
		"two three one new": {},
		"two one new":       {Projects: []string{"prj_a"}},
		"two three new":     {Since: now.AddDate(0, 0, -6)},
		"three one new":     {Until: now.AddDate(0, 0, -2)},
	} {
		all, err := outcomes.Estimate(t.Context(), s, sinktest.NewMemory(), selection)
		var links []string
		for _, o := range all.Merges {
			links = append(links, o.Link)
			if o.Link == "one" && !slices.Equal(o.Pages, []string{"/named"}) {
				t.Error(o.Pages)
			}
			if o.Link == "one" && o.Cost.Text() != "1.5 USD (1 of 2 jobs estimated)" {
				t.Error(o.Cost.Text())
			}
			if o.Link == "new" && !strings.Contains(o.Problem, "not read yet") {
				t.Error(o.Problem)
			}
		}
		// Work that was not merged is not in the cost.
		wanted := map[string]string{"two three one new": "at least 1.5 USD (1 of 3 jobs unknown)",
			"two one new": "at least 1.5 USD (1 of 3 jobs unknown)", "three one new": "1.5 USD (1 of 2 jobs estimated)"}
		for _, s := range all.Summaries {
			if s.Project == "prj_a" && s.Cost.Text() != wanted[want] {
				t.Errorf("%s: %+v", want, s)
			}
		}
		if got := strings.Join(links, " "); err != nil || got != want {
			t.Errorf("%q, want %q: %v", got, want, err)
		}
	}
}
