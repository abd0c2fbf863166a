package outcomes

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// jobJournal has the jobs and their pull requests, and the redirects of sites. state.DB is one.
type jobJournal interface {
	Jobs(ctx context.Context) ([]journal.Job, error)
	PullRequests(ctx context.Context) ([]journal.PullRequest, error)
	Redirects(ctx context.Context) ([]journal.Redirect, error)
}

// Selection selects merges.
type Selection struct {
	// Projects; none: all.
	Projects []string
	// Since leaves out earlier merges; zero: none. Until leaves out later ones in [Estimate]; zero:
	// none.
	Since, Until time.Time
}

// Recent is the maximum age of the merges that serve shows, and that the digest is about.
const Recent = 90 * 24 * time.Hour

// Merges returns the merges, newest first, then the pull requests whose state is not known.
func Merges(ctx context.Context, from jobJournal, s Selection) ([]view.Merge, error) {
	pulls, err := from.PullRequests(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := from.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]journal.PullRequest{}
	for _, p := range pulls {
		known[p.Link] = p
	}
	// Of jobs that share a pull request the first stands for all, with the pages that any names, and the
	// cost of all.
	first := map[string]int{}
	var shared []journal.Job
	costs := map[string]view.Cost{}
	for _, j := range jobs {
		if j.PRLink != "" {
			costs[j.PRLink] = costs[j.PRLink].Plus(view.CostOf(view.NewJob(j, nil, time.Time{})))
		}
		if i, again := first[j.PRLink]; again {
			shared[i].Pages = slices.Concat(shared[i].Pages, j.Pages)
		} else if j.PRLink != "" {
			first[j.PRLink] = len(shared)
			shared = append(shared, j)
		}
	}
	merges := []view.Merge{}
	for _, j := range shared {
		p, ok := known[j.PRLink]
		if !ok {
			p = journal.PullRequest{Link: j.PRLink, State: journal.PullUnknown, Problem: journal.NotRead}
		}
		m := view.Merge{Project: cmp.Or(p.Project, j.Project), Link: j.PRLink, At: p.Merged,
			Title: cmp.Or(j.Title, j.Prompt), Pages: []string{}, Cost: costs[j.PRLink]}
		wanted := p.State == journal.PullUnknown || p.State == journal.PullMerged && !p.Merged.Before(s.Since)
		if !wanted || len(s.Projects) > 0 && !slices.Contains(s.Projects, m.Project) {
			continue
		}
		switch {
		case p.State != journal.PullMerged:
			m.At, m.Problem = time.Time{}, "it is not known whether it was merged: "+cmp.Or(p.Problem,
				"its host did not say")
		case len(j.Pages) > 0:
			for _, page := range j.Pages {
				m.Pages = append(m.Pages, "/"+strings.Trim(page, "/"))
			}
			slices.Sort(m.Pages)
			m.Pages = slices.Compact(m.Pages)
		case len(p.Changed) == 0:
			m.Problem = "the files that it changed are not known"
		default:
			if m.Pages = p.Pages; len(m.Pages) == 0 {
				m.Problem = "no page among " + format.Plural(len(p.Changed), "changed file") +
					"; pages: in the front matter of a prompt names pages"
			}
		}
		merges = append(merges, m)
	}
	slices.SortStableFunc(merges, func(a, b view.Merge) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Link, b.Link))
	})
	return merges, nil
}

// Estimate returns the outcomes of the merges that Merges returns, from an archive, with a summary
// of each project. They come with an error that concerns windows that could not be read; Merges is
// nil if there are none because of the error.
func Estimate(ctx context.Context, from jobJournal, archive sinks.Sink, s Selection) (out view.Outcomes, err error) {
	// Earlier and later merges may have touched the pages in the days that count.
	wide := s
	if !wide.Since.IsZero() {
		wide.Since = wide.Since.AddDate(0, 0, -2*span-1)
	}
	merges, err := Merges(ctx, from, wide)
	if err != nil {
		return out, err
	}
	touching := slices.DeleteFunc(slices.Clone(merges), func(m view.Merge) bool {
		return len(m.Pages) == 0 || m.At.IsZero()
	})
	rules, err := from.Redirects(ctx)
	if err != nil {
		return out, err
	}
	within := func(at, since time.Time) bool {
		return !at.Before(since) && (s.Until.IsZero() || at.Before(s.Until))
	}
	rules = slices.DeleteFunc(rules, func(r journal.Redirect) bool {
		return r.Since.Before(wide.Since) || len(s.Projects) > 0 && !slices.Contains(s.Projects, r.Project)
	})
	redirects, unread := asked(ctx, archive, rules)
	estimated, err := estimate(ctx, archive, append(touching, redirectMerges(redirects, touching)...))
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	err = errors.Join(err, unread)
	out.Redirects = slices.DeleteFunc(redirects, func(r view.Redirect) bool { return !within(r.Since, s.Since) })
	addEffects(out.Redirects, estimated)
	byLink := map[string]view.Outcome{}
	for _, o := range estimated {
		byLink[o.Link] = o
	}
	out.Since, out.Merges = s.Since, []view.Outcome{}
	for _, m := range merges {
		o, ok := byLink[m.Link]
		if !ok {
			o = view.Outcome{Merge: m, Effects: []view.Effect{}}
		}
		if m.At.IsZero() || within(m.At, s.Since) {
			out.Merges = append(out.Merges, o)
		}
	}
	out.Summaries = summarize(out.Merges)
	return out, err
}
