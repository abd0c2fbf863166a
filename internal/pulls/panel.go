package pulls

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// maxDonors is how many of the most visited untouched pages a comparison is made of,
	// maxPlacebos how many untouched pages take the place of the touched one.
	maxDonors, maxPlacebos = 50, 200
	// sampled is the distance of the days that tell which pages can be compared: all
	// weekdays have their turn.
	sampled = 8
)

var audiences = []analytics.Audience{analytics.Human, analytics.AI}

// panel has the daily visitors of the pages that are compared.
type panel struct {
	// first is the date of index 0, usable says which days have a window.
	first  analytics.Date
	usable []bool
	// pages are the visitors by path and audience; a page without a row had none.
	pages map[string]map[analytics.Audience][]float64
}

// load reads the day windows around the merges of one project, each once, after a few of
// them have told which pages to keep. What cannot be read counts as missing, and is in the
// error.
func load(ctx context.Context, from sinks.Sink, merges []view.Merge) (*panel, error) {
	within := analytics.Window{From: merges[0].Date() - Span, To: merges[len(merges)-1].Date() + Span + 1}
	p := &panel{first: within.From, usable: make([]bool, within.Days()),
		pages: map[string]map[analytics.Audience][]float64{}}
	windows, err := settled(ctx, from, merges[0].Project, within)
	errs := []error{err}
	c := candidates{visitors: map[analytics.Audience]map[string]int64{analytics.Human: {}, analytics.AI: {}}}
	next := within.From
	for d := within.From; d < within.To-Span-1 && ctx.Err() == nil; d++ {
		if rev, ok := windows[d]; ok && d >= next {
			errs = append(errs, c.read(ctx, from, rev))
			next = d + sampled
		}
	}
	for _, path := range c.choose() {
		p.add(path)
	}
	for _, m := range merges {
		for _, path := range m.Pages {
			p.add(path)
		}
	}
	for d, rev := range windows {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		errs = append(errs, p.read(ctx, from, d, rev))
	}
	return p, errors.Join(errs...)
}

// settled finds the day windows that numbers may be taken from.
func settled(
	ctx context.Context, from sinks.Sink, project string, within analytics.Window,
) (map[analytics.Date]analytics.Revision, error) {
	windows := map[analytics.Date]analytics.Revision{}
	var errs []error
	scope := sinks.Scope{Projects: []string{project}, Granularities: []analytics.Granularity{analytics.Day},
		Within: within}
	for rev, err := range sinks.ListIn(ctx, from, scope) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if good(rev) {
			windows[rev.From] = rev
		}
	}
	return windows, errors.Join(errs...)
}

func good(rev analytics.Revision) bool { return rev.Settled && rev.Verified && !rev.TotalsOnly() }

func (p *panel) add(path string) {
	if p.pages[path] != nil {
		return
	}
	p.pages[path] = map[analytics.Audience][]float64{}
	for _, a := range audiences {
		p.pages[path][a] = make([]float64, len(p.usable))
	}
}

// read takes the visitors of a day. An export may have replaced the window meanwhile.
func (p *panel) read(ctx context.Context, from sinks.Sink, d analytics.Date, rev analytics.Revision) (err error) {
	rows, done, err := query.Rows(ctx, from, &rev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	for row, err := range rows {
		if err != nil {
			return err
		}
		for a, visitors := range p.pages[row.Path] {
			visitors[d-p.first] = float64(row.Totals().Of(a))
		}
	}
	p.usable[d-p.first] = good(rev)
	return nil
}

// candidates are the pages that may be compared, by what the sampled days say.
type candidates struct {
	days     int
	visitors map[analytics.Audience]map[string]int64
}

func (c *candidates) read(ctx context.Context, from sinks.Sink, rev analytics.Revision) (err error) {
	rows, done, err := query.Rows(ctx, from, &rev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	c.days++
	for row, err := range rows {
		if err != nil {
			return err
		}
		for _, a := range audiences {
			// A page with fewer on a weekend may still have enough.
			if n := row.Totals().Of(a); n >= LeastVisitors/4 {
				c.visitors[a][row.Path] += n
			}
		}
	}
	return nil
}

// choose returns the most visited pages of each audience, for donors, and pages evenly spread
// over the ranks of those that seem to have enough visitors, for placebos.
func (c *candidates) choose() (chosen []string) {
	for _, visitors := range c.visitors {
		var paths []string
		for path, n := range visitors {
			if n >= int64(c.days)*LeastVisitors*3/4 {
				paths = append(paths, path)
			}
		}
		slices.SortFunc(paths, func(x, y string) int {
			return cmp.Or(cmp.Compare(visitors[y], visitors[x]),
				cmp.Compare(x, y))
		})
		chosen = append(chosen, paths[:min(maxDonors, len(paths))]...)
		chosen = append(chosen, spread(paths, 2*maxPlacebos)...)
	}
	return chosen
}

// spread returns n elements evenly spread, or all if there are no more.
func spread[T any](all []T, n int) []T {
	if len(all) <= n {
		return all
	}
	out := make([]T, n)
	for i := range out {
		out[i] = all[i*len(all)/n]
	}
	return out
}
