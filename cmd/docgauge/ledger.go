package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/budget"
	"github.com/docgauge/docgauge/internal/pipeline"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
)

// analyticsBudget is the name of the budget all analytics requests share.
const analyticsBudget = "analytics"

// ledger is the state's entries, arranged for planning.
type ledger struct {
	entries map[analytics.Key]state.Entry
	// windows holds the revisions by project and granularity, oldest first; lines
	// those of them that have rows.
	windows, lines map[line][]analytics.Revision
}

type line struct {
	project     string
	granularity analytics.Granularity
}

func readLedger(ctx context.Context, db *state.DB) (ledger, error) {
	entries, err := db.Entries(ctx)
	if err != nil {
		return ledger{}, err
	}
	l := ledger{map[analytics.Key]state.Entry{}, map[line][]analytics.Revision{}, map[line][]analytics.Revision{}}
	for _, e := range entries {
		l.entries[e.Key] = e
		at := line{e.Project, e.Granularity}
		l.windows[at] = append(l.windows[at], e.Revision)
		if !e.TotalsOnly() {
			l.lines[at] = append(l.lines[at], e.Revision)
		}
	}
	return l, nil
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

func (l ledger) owed() map[analytics.Key]pipeline.Owed {
	out := map[analytics.Key]pipeline.Owed{}
	for k, e := range l.entries {
		o := pipeline.Owed{Revision: e.Revision}
		for sink, at := range e.Sinks {
			if !at.IsZero() {
				o.Has = append(o.Has, sink)
			}
		}
		out[k] = o
	}
	return out
}

// rows returns how many rows the window had when it was last read.
func (l ledger) rows(k analytics.Key) (int64, bool) {
	e, ok := l.entries[k]
	return e.Rows, ok && !e.TotalsOnly()
}

// neighbours returns the up to n nearest windows of k's project and granularity
// that have rows.
func (l ledger) neighbours(k analytics.Key, n int) []analytics.Revision {
	at := l.lines[line{k.Project, k.Granularity}]
	i, _ := slices.BinarySearchFunc(at, k.From, func(r analytics.Revision, d analytics.Date) int { return cmp.Compare(r.From, d) })
	return at[max(0, min(i-n/2-1, len(at)-n)):min(len(at), max(i+n/2, n))]
}

// expected returns the requests an item will probably cost, and whether the
// ledger has anything to go by.
func (l ledger) expected(item schedule.Item) (requests int, known bool) {
	if item.TotalsOnly || item.Reason == schedule.ReasonOpen {
		return 1, true
	}
	if rows, ok := l.rows(item.Key); ok {
		return schedule.Requests(rows), true
	}
	near := l.neighbours(item.Key, 1)
	if len(near) == 0 {
		return 1, false
	}
	return schedule.Requests(near[0].Rows), true
}

// predict returns how many pages a window surely has, for reading ahead: those
// of its own last reading; and where requests are not scarce, three quarters of
// the smallest of three neighbours.
func (l ledger) predict(scarce bool) func(analytics.Key) int {
	return func(k analytics.Key) int {
		if rows, ok := l.rows(k); ok {
			return schedule.Requests(rows)
		}
		near := l.neighbours(k, 3)
		if scarce || len(near) == 0 {
			return 0
		}
		least := slices.MinFunc(near, func(a, b analytics.Revision) int { return cmp.Compare(a.Rows, b.Rows) })
		return schedule.Requests(least.Rows * 3 / 4)
	}
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

// items returns the windows to read: those due, or those asked for.
func (s *selection) items(in schedule.Input) ([]schedule.Item, error) {
	if s.from == "" && s.to == "" {
		return schedule.Due(in), nil
	}
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
