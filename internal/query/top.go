package query

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// TopOptions say which pages are asked for.
type TopOptions struct {
	Selection Selection
	// At is a day of the window; nil: the newest window that has pages. Of rolling
	// windows it is the last day.
	At *analytics.Date
	// With is, likewise, a day of the window that it is compared with; nil: the window
	// that ends where it begins.
	With    *analytics.Date
	Ranking Ranking
	// Changed ranks the pages that were read in both windows by how much their visitors
	// changed instead, up or down.
	Changed bool
}

// Ranking says which pages are listed, and in which order.
type Ranking struct {
	// By is the audience whose visitors are counted.
	By analytics.Audience
	// N is the length of each list.
	N int
	// Prefix keeps the pages whose paths begin with it.
	Prefix string
}

// Pages are the pages of one project in one window, and how they differ from those of the
// window before it.
type Pages struct {
	// Window is the reading with its site totals, Before that of the window that ends
	// where it begins; nil: the archive lacks that.
	Window analytics.Revision
	Before *analytics.Revision
	// Newer is a newer window of which only the totals are known; nil: there is none.
	Newer *analytics.Revision
	// First are the pages asked for, in order.
	First []analytics.Change
	// Movers have the pages that satisfy the prefix. Without Compared, only their Top and
	// Pages mean something: the rows of Before are not known.
	Movers   analytics.Movers
	Compared bool
}

// Top returns the most read pages of each project. What it could read comes with the
// error of what it could not. An UnknownProjectError concerns the question.
func Top(ctx context.Context, from sinks.Sink, o TopOptions) ([]Pages, error) {
	all, err := o.Selection.find(ctx, from)
	if err != nil {
		return nil, err
	}
	var out []Pages
	var errs []error
	for _, s := range all {
		p, err := o.choose(s)
		if err == nil {
			err = o.read(ctx, from, &p)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, p)
	}
	return out, errors.Join(errs...)
}

// choose finds the window, and the one before it.
func (o TopOptions) choose(s series) (p Pages, err error) {
	asked := func(w analytics.Window, _ reading) bool { return o.At == nil || o.has(w, *o.At) }
	last, ok := s.newest(asked)
	if !ok {
		return p, o.contains(s, *o.At)
	}
	// A damaged window may have pages.
	w, ok := s.newest(func(w analytics.Window, r reading) bool { return asked(w, r) && (r.err != nil || !r.rev.TotalsOnly()) })
	if !ok {
		return p, fmt.Errorf("%s: only its totals were read, so its pages are not known; `docgauge history --window %s` shows the totals", s.windows[last].rev.Key, o.Selection.Granularity)
	}
	if err := s.windows[w].err; err != nil {
		return p, err
	}
	p.Window = s.windows[w].rev
	if newer := s.windows[last].rev; w != last {
		p.Newer = &newer
	}
	former, ok := s.endingAt(w.From)
	if o.With != nil {
		if former, ok = s.newest(func(w analytics.Window, _ reading) bool { return o.has(w, *o.With) }); !ok {
			return p, o.contains(s, *o.With)
		}
		if former == w {
			return p, fmt.Errorf("%s is compared with itself: name days of two windows", p.Window.Key)
		}
	}
	if w := former; ok {
		if err := s.windows[w].err; err != nil {
			return p, err
		}
		before := s.windows[w].rev
		p.Before = &before
	}
	return p, nil
}

// has reports whether a day names a window.
func (o TopOptions) has(w analytics.Window, day analytics.Date) bool {
	if o.Selection.Granularity.RollingDays() > 0 {
		return w.To == day+1
	}
	return w.From <= day && day < w.To
}

// contains is the error of a day that no window contains.
func (o TopOptions) contains(s series, day analytics.Date) error {
	first, last := s.span()
	return fmt.Errorf("no %s window of %s in the archive contains %s; they reach from %s to %s (exclusive)", o.Selection.Granularity, s.project, day, first, last)
}

// span returns the dates that the windows cover, with gaps or without.
func (s series) span() (first, last analytics.Date) {
	some := false
	for w := range s.windows {
		if !some {
			first, last, some = w.From, w.To, true
		}
		first, last = min(first, w.From), max(last, w.To)
	}
	return first, last
}

// read compares the rows of the two windows.
func (o TopOptions) read(ctx context.Context, from sinks.Sink, p *Pages) (err error) {
	earlier := p.Before
	if earlier != nil && earlier.TotalsOnly() {
		earlier = nil
	}
	p.Compared = earlier != nil
	p.Movers, err = Compare(ctx, from, earlier, &p.Window, o.Ranking)
	switch {
	case !o.Changed:
		p.First = p.Movers.Top
	case p.Compared:
		p.First = p.Movers.Changed(o.Ranking.By, o.Ranking.N)
	}
	return err
}

// Compare reads the rows of two windows side by side; earlier may be nil: then only the
// Top and Pages of the movers mean something. An export may have replaced a window since it
// was listed: its revision becomes the one that is read.
func Compare(ctx context.Context, from sinks.Sink, earlier, later *analytics.Revision, r Ranking) (_ analytics.Movers, err error) {
	now, done, err := Rows(ctx, from, later)
	if err != nil {
		return analytics.Movers{}, err
	}
	defer func() { err = errors.Join(err, done()) }()
	before := analytics.ByPath(nil)
	if earlier != nil {
		rows, done, err := Rows(ctx, from, earlier)
		if err != nil {
			return analytics.Movers{}, err
		}
		defer func() { err = errors.Join(err, done()) }()
		before = rows
	}
	return analytics.FindMovers(r.only(before), r.only(now), r.By, r.N)
}

// only keeps the rows below the prefix.
func (r Ranking) only(rows iter.Seq2[analytics.Row, error]) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		for row, err := range rows {
			if (err != nil || strings.HasPrefix(row.Path, r.Prefix)) && !yield(row, err) {
				return
			}
		}
	}
}
