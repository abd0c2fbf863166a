package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/report"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// mostCells bounds the windows that a report shows of one line: ten years of days.
const mostCells = 4000

// shelf is an archive as a report reads it.
type shelf struct {
	sinks.Sink
	now      time.Time
	from, to *analytics.Date
	pages    int

	lines map[schedule.Series]map[analytics.Window]analytics.Revision
	// first and last are the dates of all windows, asked for or not.
	first, last analytics.Date
	windows     int
}

// read finds the windows that were asked for.
func (s *shelf) read(ctx context.Context) error {
	s.lines = map[schedule.Series]map[analytics.Window]analytics.Revision{}
	var errs []error
	for rev, err := range sinks.List(ctx, s.Sink) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.add(rev)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w\nno report was written: mend the archive first, `docgauge export --from D --to D` reads a window again", err)
	}
	switch {
	case s.windows == 0:
		return fmt.Errorf("the archive %s has no window: run `docgauge export` first, or name another with --archive or DOCGAUGE_PARQUET_URL", s.Location())
	case len(s.lines) == 0:
		return fmt.Errorf("no window of the archive %s lies inside the dates asked for; it has windows from %s to %s", s.Location(), s.first, s.last)
	}
	return nil
}

func (s *shelf) add(rev analytics.Revision) {
	if s.windows++; s.windows == 1 {
		s.first, s.last = rev.From, rev.To
	}
	s.first, s.last = min(s.first, rev.From), max(s.last, rev.To)
	if s.from != nil && rev.From < *s.from || s.to != nil && rev.To > *s.to {
		return
	}
	at := schedule.Series{Project: rev.Project, Granularity: rev.Granularity}
	if s.lines[at] == nil {
		s.lines[at] = map[analytics.Window]analytics.Revision{}
	}
	s.lines[at][rev.Window] = rev
}

// choose returns the projects to show: those asked for, else all, in configured order.
func (s *shelf) choose(asked string, configured []string) ([]string, error) {
	found := map[string]bool{}
	for at := range s.lines {
		found[at.Project] = true
	}
	names := slices.Sorted(maps.Keys(found))
	if asked != "" {
		for p := range strings.SplitSeq(asked, ",") {
			if !found[p] {
				return nil, usageError{fmt.Errorf("--project %.140q has no window in the archive %s in these dates; there are %s", p, s.Location(), strings.Join(names, ","))}
			}
		}
		names = strings.Split(asked, ",")
		slices.Sort(names)
		names = slices.Compact(names)
	}
	rank := func(p string) int {
		if i := slices.Index(configured, p); i >= 0 {
			return i
		}
		return len(configured)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return names, nil
}

func (s *shelf) project(ctx context.Context, name string) (report.Project, error) {
	p := report.Project{ID: name}
	var found []analytics.Granularity
	for at := range s.lines {
		if at.Project == name {
			found = append(found, at.Granularity)
		}
	}
	slices.SortFunc(found, byLength)
	for _, g := range found {
		l, err := s.line(ctx, schedule.Series{Project: name, Granularity: g})
		if err != nil {
			return p, err
		}
		p.Lines = append(p.Lines, l)
	}
	return p, nil
}

// byLength puts day, week and month first, then what rolls.
func byLength(a, b analytics.Granularity) int {
	calendar := []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month}
	rank := func(g analytics.Granularity) int {
		if i := slices.Index(calendar, g); i >= 0 {
			return i
		}
		return len(calendar) + g.RollingDays()
	}
	return cmp.Compare(rank(a), rank(b))
}

func (s *shelf) line(ctx context.Context, at schedule.Series) (report.Line, error) {
	l := report.Line{Granularity: at.Granularity}
	known := s.lines[at]
	for _, w := range s.tiles(at.Granularity, known) {
		cell := report.Cell{Window: w}
		if rev, ok := known[w]; ok {
			cell.Revision = &rev
		}
		l.Cells = append(l.Cells, cell)
	}
	if l.Older = len(l.Cells) - mostCells; l.Older > 0 {
		l.Cells = l.Cells[l.Older:]
	}
	l.Older = max(0, l.Older)
	var err error
	l.Pages, err = s.compare(ctx, l)
	return l, err
}

// tiles are the windows there should be, from the oldest that is known to the
// newest that is over, and those that are known, oldest first.
func (s *shelf) tiles(g analytics.Granularity, known map[analytics.Window]analytics.Revision) []analytics.Window {
	all := maps.Clone(known)
	first := slices.MinFunc(slices.Collect(maps.Keys(known)), byFrom).From
	end := analytics.DateOf(s.now)
	if s.to != nil {
		end = min(end, *s.to)
	}
	n := 0
	for w := range schedule.Within(g, first, end) {
		if _, ok := all[w]; !ok {
			all[w] = analytics.Revision{}
		}
		if n++; n > 2*mostCells {
			break
		}
	}
	return slices.SortedFunc(maps.Keys(all), byFrom)
}

func byFrom(a, b analytics.Window) int {
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
}

// compare reads the pages of the newest window and of the one before it; nil where
// only totals were read.
func (s *shelf) compare(ctx context.Context, l report.Line) (_ *report.Pages, err error) {
	var newest, before *analytics.Revision
	for _, c := range slices.Backward(l.Cells) {
		switch {
		case c.Revision == nil:
		case newest == nil:
			newest = c.Revision
		case before == nil && c.To == newest.From:
			before = c.Revision
		}
	}
	if newest == nil || newest.TotalsOnly() {
		return nil, nil
	}
	if before != nil && before.TotalsOnly() {
		before = nil
	}
	now, done, err := s.open(ctx, newest)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	then := func(func(analytics.Row, error) bool) {}
	if before == nil {
		m, err := analytics.FindMovers(then, now, analytics.Everyone, s.pages)
		return &report.Pages{Movers: m}, err
	}
	rows, finish, err := s.open(ctx, before)
	if err != nil {
		return nil, err
	}
	m, err := analytics.FindMovers(rows, now, analytics.Everyone, s.pages)
	return &report.Pages{Before: before, Movers: m}, errors.Join(err, finish())
}

// open reads the rows of a window; they end with ctx. An export may have replaced
// it meanwhile: totals and pages must be of the same reading, so rev becomes that.
func (s *shelf) open(ctx context.Context, rev *analytics.Revision) (iter.Seq2[analytics.Row, error], func() error, error) {
	temp, err := durable.NewTemp("", "docgauge-report")
	if err != nil {
		return nil, nil, err
	}
	w, done, err := s.Window(ctx, *rev, temp.Path)
	if err != nil {
		return nil, nil, errors.Join(err, temp.Remove())
	}
	*rev = w.Revision()
	rows := func(yield func(analytics.Row, error) bool) {
		for row, err := range w.Rows() {
			if err = cmp.Or(err, ctx.Err()); err != nil {
				err = fmt.Errorf("%s in %s: %w", rev.Key, s.Location(), err)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
	return rows, func() error { return errors.Join(done(), temp.Remove()) }, nil
}

// concerns reports whether a job was at work, or wanted, in the dates of a report.
func concerns(r report.Report, j journal.Job) bool {
	begun, ended := analytics.DateOf(cmp.Or(j.Begun, j.Created, r.Made)), analytics.DateOf(cmp.Or(j.Ended, r.Made))
	return (r.To == nil || begun < *r.To) && (r.From == nil || ended >= *r.From)
}
