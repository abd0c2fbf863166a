package outcomes

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"math"
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
	// sampled is the distance of the days that show which pages can be compared: all
	// weekdays have their turn.
	sampled = 8
)

var audiences = []analytics.Audience{analytics.Human, analytics.AI}

// panel has the daily visitors of the pages that are compared.
type panel struct {
	// first is the date of index 0, usable says which days have a window.
	first  analytics.Date
	usable []bool
	// humans has the mode by which people were counted on each day.
	humans []analytics.Humans
	// newest is the last day with a window that may be used; it may be after the days of usable.
	newest analytics.Date
	// provisional are the days whose windows will be read again.
	provisional []analytics.Date
	// pages are the visitors by path and audience; a page without a row had none.
	pages map[string]map[analytics.Audience][]float64
}

// load reads the day windows around the merges of one project, each once, after a few of
// them have shown which pages to keep. Unreadable windows count as missing, and are in the
// error.
func load(ctx context.Context, from sinks.Sink, merges []view.Merge) (*panel, error) {
	within := analytics.Window{From: merges[0].Date() - 2*span, To: merges[len(merges)-1].Date() + span + 1}
	p := &panel{first: within.From, usable: make([]bool, within.Days()),
		humans: make([]analytics.Humans, within.Days()), pages: map[string]map[analytics.Audience][]float64{}}
	var errs []error
	windows := map[analytics.Date]analytics.Revision{}
	scope := sinks.Scope{Projects: []string{merges[0].Project}, Granularities: []analytics.Granularity{analytics.Day},
		Within: analytics.Window{From: within.From, To: within.To + span}}
	for rev, err := range sinks.ListIn(ctx, sinks.VisitorsOf(from), scope) {
		if err != nil {
			errs = append(errs, err)
		} else if isUsable(rev) {
			p.newest = max(p.newest, rev.From)
			if rev.To <= within.To {
				windows[rev.From] = rev
			}
		} else if !rev.Settled && !rev.TotalsOnly() {
			p.provisional = append(p.provisional, rev.From)
		}
	}
	visitors := map[analytics.Audience]*sample{analytics.Human: newSample(), analytics.AI: newSample()}
	days := int64(0)
	next := within.From + span
	for d := next; d < within.To-span-1 && ctx.Err() == nil; d++ {
		rev, ok := windows[d]
		if !ok || d < next {
			continue
		}
		days++
		next = d + sampled
		errs = append(errs, query.EachRow(ctx, from, &rev, func(row analytics.Row) bool {
			for _, a := range audiences {
				visitors[a].add(row.Path, row.Totals.Of(a))
			}
			return true
		}))
	}
	// The most visited pages of each audience become donors, and pages evenly spread over the
	// ranks of those that seem to have enough visitors become placebos.
	for _, a := range audiences {
		counts := visitors[a].visitors
		ranks := slices.DeleteFunc(slices.Collect(maps.Keys(counts)), func(path string) bool {
			return counts[path] < days*leastVisitors*3/4
		})
		slices.SortFunc(ranks, func(x, y string) int { return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y)) })
		p.add(ranks[:min(maxDonors, len(ranks))]...)
		p.add(spread(ranks, 2*maxPlacebos)...)
	}
	for _, m := range merges {
		p.add(m.Pages...)
	}
	for d, rev := range windows {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		// An export may have replaced the window since it was listed.
		err := query.EachRow(ctx, from, &rev, func(row analytics.Row) bool {
			for a, visitors := range p.pages[row.Path] {
				visitors[d-p.first] = float64(row.Totals.Of(a))
			}
			return true
		})
		p.usable[d-p.first], p.humans[d-p.first] = err == nil && isUsable(rev), rev.Humans
		errs = append(errs, err)
	}
	return p, errors.Join(errs...)
}

// sample has the visitors of pages, of at most about maxSampled of them: all with many visitors on a
// day, and of the others those whose hash is below a limit, which falls as pages come.
type sample struct {
	visitors map[string]int64
	popular  map[string]bool
	limit    uint64
}

const (
	maxSampled = 50_000
	// popularFrom is the least number of visitors on a day that puts a page into every sample.
	popularFrom = 50
)

func newSample() *sample { return &sample{map[string]int64{}, map[string]bool{}, math.MaxUint64} }

func (s *sample) add(path string, n int64) {
	switch {
	case n >= popularFrom:
		s.popular[path] = true
	case n == 0 || hash(path) > s.limit && !s.popular[path]:
		return
	}
	s.visitors[path] += n
	for len(s.visitors)-len(s.popular) > maxSampled {
		s.limit /= 2
		maps.DeleteFunc(s.visitors, func(path string, _ int64) bool { return hash(path) > s.limit && !s.popular[path] })
	}
}

func hash(path string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(path))
	return h.Sum64()
}

// isUsable reports whether numbers may be taken from a day window.
func isUsable(rev analytics.Revision) bool { return rev.Settled && rev.Verified && !rev.TotalsOnly() }

func (p *panel) add(paths ...string) {
	for _, path := range paths {
		if p.pages[path] == nil {
			p.pages[path] = map[analytics.Audience][]float64{}
			for _, a := range audiences {
				p.pages[path][a] = make([]float64, len(p.usable))
			}
		}
	}
}

// spread returns n elements evenly spread, or all if there are not more.
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
