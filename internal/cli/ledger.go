package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/budget"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
)

// analyticsBudget is the name of the budget all analytics requests share.
const analyticsBudget = "analytics"

// ledger is the state's entries, arranged for planning.
type ledger struct {
	entries map[analytics.Key]state.Entry
	// windows holds the revisions by series, oldest first.
	windows map[schedule.Series][]analytics.Revision
	asides  map[analytics.Key]analytics.Aside
	moved   map[schedule.MovementKey]schedule.Movement
	sizes   *schedule.Sizes
}

// readLedger reads what a plan depends on: the readings, and what was learned of
// the service.
func readLedger(ctx context.Context, db *state.DB) (ledger, error) {
	l := ledger{
		entries: map[analytics.Key]state.Entry{}, windows: map[schedule.Series][]analytics.Revision{},
		asides: map[analytics.Key]analytics.Aside{}, moved: map[schedule.MovementKey]schedule.Movement{},
	}
	entries, err := db.Entries(ctx)
	if err != nil {
		return l, err
	}
	for _, e := range entries {
		l.entries[e.Key] = e
		at := schedule.SeriesOf(e.Key)
		l.windows[at] = append(l.windows[at], e.Revision)
	}
	perPage, err := db.PageRows(ctx)
	if err != nil {
		return l, err
	}
	l.sizes = schedule.NewSizes(perPage)
	for k, e := range l.entries {
		l.sizes.Learn(k, e.Rows)
	}
	asides, err := db.Asides(ctx)
	if err != nil {
		return l, err
	}
	for _, a := range asides {
		l.asides[a.Key] = a
	}
	movements, err := db.Movements(ctx)
	for _, m := range movements {
		series := schedule.Series{Project: m.Project, Granularity: m.Granularity}
		l.moved[schedule.MovementKey{Series: series, Kind: schedule.MovementKind(m.Kind)}] = schedule.Movement{Times: m.Times, At: m.At}
	}
	return l, err
}

// countBegun lets the sizes know how many pages lie in the spool of windows whose
// reading goes on.
func (l ledger) countBegun(stateDir string, now time.Time, settle time.Duration) error {
	underWay, err := spool.ListUnderWay(stateDir)
	for _, u := range underWay {
		k, err := analytics.ParseKey(u.Key)
		if err != nil || u.Revision != l.entries[k].Number+1 {
			continue // it is of another revision, and begun anew
		}
		ripe := k.To.Time().Add(settle)
		if !now.Before(ripe) && u.Started.Before(ripe) {
			continue // as is one from before the window could settle
		}
		l.sizes.SetBegun(k, u.Pages)
	}
	return err
}

func (l ledger) aside(k analytics.Key) (analytics.Aside, bool) {
	a, ok := l.asides[k]
	return a, ok
}

// gaveUp reports whether the totals of a window cost more than the one request that
// they take: pages were read, and given up.
func (l ledger) gaveUp(k analytics.Key) bool {
	e, ok := l.entries[k]
	return ok && e.TotalsOnly() && e.Requests > 1
}

func (l ledger) movement(k schedule.MovementKey) (schedule.Movement, bool) {
	m, ok := l.moved[k]
	return m, ok
}

func (l ledger) known(k analytics.Key) (analytics.Revision, bool) {
	e, ok := l.entries[k]
	return e.Revision, ok
}

func (l ledger) provisional() []analytics.Key {
	var keys []analytics.Key
	for k, e := range l.entries {
		if !e.Settled {
			keys = append(keys, k)
		}
	}
	return keys
}

func (l ledger) owed() map[analytics.Key]export.Owed {
	out := map[analytics.Key]export.Owed{}
	for k, e := range l.entries {
		o := export.Owed{Revision: e.Revision}
		for sink, at := range e.Sinks {
			if !at.IsZero() {
				o.Has = append(o.Has, sink)
			}
		}
		out[k] = o
	}
	return out
}

// selection narrows what is planned: the flags of export and plan.
type selection struct {
	from, to, windows, project string
}

func (s *selection) flags(cmd *cobra.Command, dates bool) {
	if dates {
		cmd.Flags().StringVar(&s.from, "from", "", "with --to: read exactly the windows inside [from,to), again if need be (YYYY-MM-DD)")
		cmd.Flags().StringVar(&s.to, "to", "", "end of the windows to read, exclusive (YYYY-MM-DD)")
	}
	cmd.Flags().StringVar(&s.windows, "windows", "", "only these of DOCGAUGE_WINDOWS, comma-separated")
	cmd.Flags().StringVar(&s.project, "project", "", "only these of DOCGAUGE_PROJECTS, comma-separated")
}

// input builds what the plan depends on.
func (s *selection) input(c config, l ledger, now time.Time, rotate int) (schedule.Input, error) {
	in := schedule.Input{
		Now: now, Projects: c.Projects, Specs: c.Windows, Open: c.OpenWindows, Since: c.Since.date,
		Settle: time.Duration(c.Settle), Known: l.known, Provisional: l.provisional(), Rotate: rotate,
		Aside: l.aside, GaveUp: l.gaveUp, Sizes: l.sizes,
		Policy: schedule.Policy{Limit: int(c.Budget), Settle: time.Duration(c.Settle), Moved: l.movement},
	}
	if l.sizes != nil {
		if err := l.countBegun(c.StateDir, now, in.Settle); err != nil {
			return in, err
		}
	}
	if s.project != "" {
		in.Projects = strings.Split(s.project, ",")
		for _, p := range in.Projects {
			if !slices.Contains(c.Projects, p) {
				return in, usageError{fmt.Errorf("--project %.140q is not in DOCGAUGE_PROJECTS (%s)", p, strings.Join(c.Projects, ","))}
			}
		}
	}
	if s.windows != "" {
		return s.narrow(in)
	}
	return in, nil
}

func (s *selection) narrow(in schedule.Input) (schedule.Input, error) {
	var specs []analytics.Spec
	for name := range strings.SplitSeq(s.windows, ",") {
		i := slices.IndexFunc(in.Specs, func(spec analytics.Spec) bool {
			return spec.String() == name || string(spec.Granularity) == name
		})
		if i < 0 {
			return in, usageError{fmt.Errorf("--windows %.40q is not in DOCGAUGE_WINDOWS", name)}
		}
		specs = append(specs, in.Specs[i])
	}
	in.Open = slices.DeleteFunc(slices.Clone(in.Open), func(g analytics.Granularity) bool {
		return !slices.ContainsFunc(specs, func(spec analytics.Spec) bool { return spec.Granularity == g })
	})
	in.Specs = specs
	return in, nil
}

// items returns the windows to read, those due or those asked for, and those that
// wait for their time.
func (s *selection) items(in schedule.Input) (items, waiting []schedule.Item, err error) {
	if s.from == "" && s.to == "" {
		items, waiting = schedule.Plan(in)
		return items, waiting, nil
	}
	items, err = s.asked(in)
	return items, nil, err
}

func (s *selection) asked(in schedule.Input) ([]schedule.Item, error) {
	if s.from == "" || s.to == "" {
		return nil, usageError{errors.New("--from and --to go together: the windows inside [from,to) are read")}
	}
	from, err := analytics.ParseDate(s.from)
	if err != nil {
		return nil, usageError{fmt.Errorf("--from: %w", err)}
	}
	to, err := analytics.ParseDate(s.to)
	if err != nil {
		return nil, usageError{fmt.Errorf("--to: %w", err)}
	}
	items, err := schedule.Asked(in, from, to)
	if err != nil {
		return nil, usageError{fmt.Errorf("--from, --to: %w", err)}
	}
	return items, nil
}

// capacity is what the budget allows from now on.
type capacity struct {
	Limit     int       `json:"limit"`
	Available int       `json:"available"`
	Next      time.Time `json:"next_request_at,omitzero"`
	usage     state.Usage
	now       time.Time
}

func readCapacity(ctx context.Context, db *state.DB, c config, now time.Time) (capacity, error) {
	return capacityOf(ctx, db, analyticsBudget, int(c.Budget), time.Duration(c.Timeout), now)
}

func capacityOf(ctx context.Context, db *state.DB, name string, limit int, timeout time.Duration, now time.Time) (capacity, error) {
	u, err := db.Usage(ctx, name, now, budget.Span, timeout)
	if err != nil {
		return capacity{}, err
	}
	cap := capacity{Limit: limit, Available: max(0, limit-len(u.Slots)), usage: u, now: now}
	if cap.Next = u.Free(limit, now); !cap.Next.IsZero() {
		cap.Available = 0
	}
	return cap, nil
}

// opens returns when n requests can be sent at once.
func (c capacity) opens(n int) time.Time {
	at := c.Next
	if lacking := n - (c.Limit - len(c.usage.Slots)); c.Limit > 0 && lacking > 0 && len(c.usage.Slots) > 0 {
		if frees := c.usage.Slots[min(lacking, len(c.usage.Slots))-1]; frees.After(at) {
			at = frees
		}
	}
	return at
}

// finish returns when the last of n requests can be sent.
func (c capacity) finish(n int) time.Time {
	return budget.Finish(n, c.Limit, c.now, c.usage.Slots, c.usage.Cooldown)
}

func (c capacity) String() string {
	switch {
	case c.Limit == 0 && c.Next.IsZero():
		return "unlimited"
	case c.Limit == 0:
		return "closed by the service until " + clock(c.Next)
	case c.Next.IsZero():
		return fmt.Sprintf("%d of %d requests available now", c.Available, c.Limit)
	}
	return fmt.Sprintf("0 of %d requests available until %s", c.Limit, clock(c.Next))
}
