package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	// topPages of each of the two weeks are compared: a page that left the list counts, too.
	topPages = 20
	// namedPages is the maximum number of pages in the lines of an event; its JSON has all.
	namedPages = 10
	// chance is how many standard errors of counted readers a change must exceed: a page whose
	// readers went from 10 to 15 has not changed. The alert rules have the same test.
	chance = 3
	// keptDays is how long the state keeps which weeks were reported, also for projects that are not configured now.
	keptDays = 35
)

// readers reports the newest complete week of each project if its readers changed by more than
// DOCGAUGE_NOTIFY_CHANGE against the week before: once, whichever reading of the week shows it. Each
// pair of readings is compared once.
func (w *Watcher) readers(ctx context.Context, e *evaluation) error {
	for condition := range e.reported {
		event, subject, _ := strings.Cut(condition, "/")
		_, week, _ := strings.Cut(subject, "/")
		to, err := analytics.ParseDate(week)
		if event == readersChanged && err == nil && to >= analytics.DateOf(e.now)-keptDays {
			e.live[condition] = true
		}
	}
	threshold := w.app.Config.NotifyChange
	if threshold.Percent == 0 {
		return nil
	}
	ledger, err := coverage.Read(ctx, w.app.State, e.now)
	if err != nil {
		return err
	}
	var errs []error
	for _, project := range w.app.Config.Projects {
		newest := ledger.NewestWeek(project, e.now)
		if newest == nil || e.knows(conditionOf(readersChanged, project, newest.To.String())) {
			continue
		}
		week, before := weekOf(ledger, *newest)
		if before == nil {
			continue
		}
		compared := conditionOf(readersCompared, project, newest.To.String(), fmt.Sprint(newest.Number),
			fmt.Sprint(before.Number), threshold.String())
		if !e.isNew(compared) {
			continue
		}
		r, err := w.compare(ctx, *before, *newest, view.ReadersChange{
			Week: week, Threshold: threshold.Percent, Points: threshold.Points,
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("readers of %s: %w", project, err))
			continue
		}
		e.remember(state.Reported{Condition: compared, At: e.now})
		if !r.Site && !r.AIShare && len(r.Pages) == 0 {
			continue
		}
		told := conditionOf(readersChanged, project, newest.To.String())
		if err := e.report(told, 0, view.Event{Event: readersChanged, Project: project, Readers: &r}); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// compare fills in what changed between two weeks. Nothing did if the former had no readers.
func (w *Watcher) compare(
	ctx context.Context, before, week state.Entry, r view.ReadersChange,
) (view.ReadersChange, error) {
	if before.Totals.Total == 0 {
		return r, nil
	}
	r.Site = hasMoved(before.Totals.Total, week.Totals.Total, r.Threshold)
	r.AIShare = shareHasMoved(before.Totals, week.Totals, w.app.Config.NotifyChange)
	// A provisional reading that drifted may lack pages; the settled one is compared again.
	isWhole := func(e state.Entry) bool { return !e.TotalsOnly() && !e.LacksRows() && (e.Verified || e.Settled) }
	if !isWhole(before) || !isWhole(week) {
		return r, nil
	}
	earlier, later, err := w.rows(ctx, before, week)
	if err != nil {
		return r, err
	}
	there, err := analytics.FindMovers(analytics.ByPath(earlier), analytics.ByPath(later), analytics.Everyone, topPages)
	if err != nil {
		return r, err
	}
	back, err := analytics.FindMovers(analytics.ByPath(later), analytics.ByPath(earlier), analytics.Everyone, topPages)
	if err != nil {
		return r, err
	}
	top := map[string]view.DigestPage{}
	for _, p := range digestPages(there.Top) {
		top[p.Path] = p
	}
	for _, p := range digestPages(back.Top) {
		top[p.Path] = view.DigestPage{Path: p.Path, Totals: p.Before, Before: p.Totals}
	}
	size := func(p view.DigestPage) int64 {
		return max(p.Totals.Total-p.Before.Total, p.Before.Total-p.Totals.Total)
	}
	r.Pages = slices.SortedFunc(maps.Values(top), func(a, b view.DigestPage) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a.Path, b.Path))
	})
	r.Pages = slices.DeleteFunc(r.Pages, func(p view.DigestPage) bool {
		return !hasMoved(p.Before.Total, p.Totals.Total, r.Threshold)
	})
	return r, nil
}

// hasMoved reports whether readers changed by more than a percentage, and by more than chance.
func hasMoved(before, after int64, percent float64) bool {
	from, by := float64(before), float64(after-before)
	return math.Abs(by)*100 > percent*from && by*by > chance*chance*float64(before+after)
}

// shareHasMoved is hasMoved for the share of AI among the readers, in points or as a percentage of the former
// share: 20% to 27% is 7 points, or 35%.
func shareHasMoved(before, after analytics.Totals, by config.Change) bool {
	if before.Total == 0 || after.Total == 0 {
		return false
	}
	was, is := float64(before.AI)/float64(before.Total), float64(after.AI)/float64(after.Total)
	moved, variance := is-was, was/float64(before.Total)+is/float64(after.Total)
	return math.Abs(moved)*100 > cmp.Or(by.Points, by.Percent*was) && moved*moved > chance*chance*variance
}

// movedText names what changed by more than the threshold.
func movedText(r *view.ReadersChange) string {
	var all []string
	if r.Site {
		all = append(all, "readers")
	}
	if r.AIShare {
		all = append(all, "AI share")
	}
	if n := len(r.Pages); n > 0 {
		all = append(all, format.Plural(n, "page"))
	}
	return fmt.Sprintf("changed by more than %s: %s", config.Change{Percent: r.Threshold, Points: r.Points},
		strings.Join(all, ", "))
}

// readersLines are the numbers below the text of a change.
func readersLines(r *view.ReadersChange) []string {
	lines := audienceLines(r.Week)
	for i, p := range r.Pages {
		if i == namedPages {
			lines = append(lines, "and "+format.Plural(len(r.Pages)-i, "more page"))
			break
		}
		path, by, to := format.Cut(p.Path, view.MaxName), view.Signed(p.Totals.Total-p.Before.Total), p.Totals.Total
		switch {
		case p.Before.Total == 0:
			lines = append(lines, fmt.Sprintf("Appeared: %s (%s)", path, format.Commas(to)))
		case to == 0:
			lines = append(lines, fmt.Sprintf("Vanished: %s (%s the week before)", path, format.Commas(p.Before.Total)))
		default:
			title := "Rising"
			if to < p.Before.Total {
				title = "Falling"
			}
			lines = append(lines, fmt.Sprintf("%s: %s %s, %s (%s)", title, path, by, view.Growth(p.Before.Total, to),
				format.Commas(to)))
		}
	}
	if !r.Settled {
		lines = append(lines, notSettled)
	}
	return lines
}
