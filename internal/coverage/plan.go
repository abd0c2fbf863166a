package coverage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
)

// Selection narrows what is planned. The zero value selects what is configured.
type Selection struct {
	// From and To, both or neither, select exactly the windows inside [From,To).
	From, To string
	// Windows and Projects are comma-separated.
	Windows, Projects string
}

// List splits a comma-separated list; spaces do not count.
func List(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// SelectProjects splits a comma-separated list of projects, and refuses one that is not known.
// place says what has those that are.
func SelectProjects(list string, known []string, place string) ([]string, error) {
	ids := List(list)
	for _, id := range ids {
		if !slices.Contains(known, id) {
			return nil, mistake("--project %.140q is not in %s; %s", id, place, format.DidYouMean(id, known))
		}
	}
	return ids, nil
}

// SelectionError is a mistake in a selection.
type SelectionError struct{ error }

// Unwrap returns the mistake.
func (e SelectionError) Unwrap() error { return e.error }

func mistake(format string, args ...any) error {
	return SelectionError{fmt.Errorf(format, args...)}
}

// Check finds every mistake in the selection, before anything is opened.
func (s Selection) Check(c config.Config, now time.Time) error {
	in, err := s.input(c, Ledger{}, now)
	if err == nil {
		_, _, err = s.items(in)
	}
	return err
}

// Plan is what is due, what is not due yet, and what the budget allows.
type Plan struct {
	Due, Waiting []schedule.Item
	// Input is what the plan depends on.
	Input  schedule.Input
	Ledger Ledger
	Budget Capacity
}

// Plan plans against the present ledger. Rotate counts the runs: it decides which
// project's turn is first.
func (s Selection) Plan(ctx context.Context, db *state.DB, c config.Config, now time.Time, rotate int) (p Plan, err error) {
	if p.Ledger, err = Read(ctx, db); err != nil {
		return p, err
	}
	if err = p.Ledger.countPagesInSpool(c.StateDir, now, time.Duration(c.Settle)); err != nil {
		return p, err
	}
	if p.Input, err = s.input(c, p.Ledger, now); err != nil {
		return p, err
	}
	p.Input.Rotate = rotate
	if p.Due, p.Waiting, err = s.items(p.Input); err != nil {
		return p, err
	}
	p.Budget, err = Remaining(ctx, db, AnalyticsBudget, int(c.Budget), time.Duration(c.Timeout), now)
	return p, err
}

// input arranges what the plan depends on.
func (s Selection) input(c config.Config, l Ledger, now time.Time) (schedule.Input, error) {
	in := schedule.Input{
		Now: now, Projects: c.Projects, Specs: c.Windows, Open: c.OpenWindows, Since: c.Since.Date,
		Settle: time.Duration(c.Settle), Known: l.Known, Sizes: l.Sizes,
		Aside: func(k analytics.Key) (analytics.Aside, bool) {
			a, ok := l.Asides[k]
			return a, ok
		},
		// Totals that took more than their one request: pages were read, and given up.
		GaveUp: func(k analytics.Key) bool {
			e, ok := l.Entries[k]
			return ok && e.TotalsOnly() && e.Requests > 1
		},
		Policy: schedule.Policy{
			Limit: int(c.Budget), Settle: time.Duration(c.Settle),
			Moved: func(k schedule.MovementKey) (schedule.Movement, bool) {
				m, ok := l.Movements[k]
				return m, ok
			},
		},
	}
	for k, e := range l.Entries {
		if !e.Settled {
			in.Provisional = append(in.Provisional, k)
		}
	}
	if s.Projects != "" {
		var err error
		if in.Projects, err = SelectProjects(s.Projects, c.Projects, "DOCGAUGE_PROJECTS"); err != nil {
			return in, err
		}
	}
	if s.Windows == "" {
		return in, nil
	}
	in.Specs = nil
	for _, name := range List(s.Windows) {
		i := slices.IndexFunc(c.Windows, func(spec analytics.Spec) bool {
			return spec.String() == name || string(spec.Granularity) == name
		})
		if i < 0 {
			return in, mistake("--windows %.40q is not in DOCGAUGE_WINDOWS; %s", name, format.DidYouMean(name, specs(c)))
		}
		in.Specs = append(in.Specs, c.Windows[i])
	}
	in.Open = slices.DeleteFunc(slices.Clone(in.Open), func(g analytics.Granularity) bool {
		return !slices.ContainsFunc(in.Specs, func(spec analytics.Spec) bool { return spec.Granularity == g })
	})
	return in, nil
}

// specs are the granularities of DOCGAUGE_WINDOWS.
func specs(c config.Config) (names []string) {
	for _, spec := range c.Windows {
		names = append(names, string(spec.Granularity))
	}
	return names
}

// items returns the windows to read, those due or those selected by their dates, and
// those that wait for their time.
func (s Selection) items(in schedule.Input) (items, waiting []schedule.Item, err error) {
	if s.From == "" && s.To == "" {
		items, waiting = schedule.Plan(in)
		return items, waiting, nil
	}
	within, err := ParseDates(s.From, s.To)
	if err != nil {
		return nil, nil, SelectionError{err}
	}
	items, err = schedule.Asked(in, within.From, within.To)
	if err != nil {
		return nil, nil, mistake("--from, --to: %w", err)
	}
	return items, nil, nil
}

// ParseDates reads the flags --from and --to: both or neither.
func ParseDates(from, to string) (w analytics.Window, err error) {
	if (from == "") != (to == "") {
		return w, errors.New("--from and --to go together: they select the windows inside [from,to)")
	}
	if from == "" {
		return w, nil
	}
	if w.From, err = analytics.ParseDate(from); err != nil {
		return w, fmt.Errorf("--from: %w", err)
	}
	if w.To, err = analytics.ParseDate(to); err != nil {
		return w, fmt.Errorf("--to: %w", err)
	}
	if w.From >= w.To {
		return w, fmt.Errorf("--from, --to: %s is empty; --to is the first day after the windows", w)
	}
	return w, nil
}
