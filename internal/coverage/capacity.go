package coverage

import (
	"context"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/budget"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
)

// AnalyticsBudget is the name of the budget that all analytics requests share.
const AnalyticsBudget = "analytics"

// AgentBudget is the name of the budget of a project's prompts and follow-ups.
func AgentBudget(project string) string { return "agent:" + project }

// Capacity describes the requests that a budget allows from now on.
type Capacity struct {
	view.Budget
	usage state.Usage
	now   time.Time
}

// Remaining reads the remaining capacity of the named budget; limit is in requests an hour.
func Remaining(ctx context.Context, db *state.DB, name string, limit int, now time.Time) (Capacity, error) {
	u, err := db.Usage(ctx, name, now)
	if err != nil {
		return Capacity{}, err
	}
	c := Capacity{view.Budget{Name: name, Limit: limit, Available: max(0, limit-u.Taken)}, u, now}
	if c.Next = u.Free(limit, now); !c.Next.IsZero() {
		c.Available = 0
	}
	return c, nil
}

// Opens returns when n requests can be sent at once.
func (c Capacity) Opens(n int) time.Time {
	at := c.Next
	slots := c.usage.Slots(c.Limit)
	if lacking := n - (c.Limit - len(slots)); c.Limit > 0 && lacking > 0 && len(slots) > 0 {
		if frees := slots[min(lacking, len(slots))-1]; frees.After(at) {
			at = frees
		}
	}
	return at
}

// Finish returns when the last of n requests can be sent.
func (c Capacity) Finish(n int) time.Time {
	return budget.Finish(n, c.Limit, c.now, c.usage.Slots(c.Limit), c.usage.Cooldown)
}

// String describes the budget for people.
func (c Capacity) String() string {
	until := format.Clock(c.Next, c.now)
	left := c.Limit - c.usage.Taken
	switch {
	case c.Next.IsZero() && c.Limit == 0:
		return "unlimited"
	case c.Next.IsZero():
		return fmt.Sprintf("%d of %d requests available now", c.Available, c.Limit)
	case c.Limit == 0:
		return "paused by the service until " + until
	case left > 0:
		return fmt.Sprintf("paused by the service until %s (%d of %d left)", until, left, c.Limit)
	}
	return fmt.Sprintf("used up (%d of %d); next request possible at %s", c.Limit, c.Limit, until)
}
