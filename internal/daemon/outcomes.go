package daemon

import (
	"context"
	"reflect"
	"time"

	"github.com/docgauge/docgauge/internal/pulls"
	"github.com/docgauge/docgauge/internal/view"
)

// outcomesTimeout limits reading the archive for outcomes.
const outcomesTimeout = 15 * time.Minute

// outcomesLoop estimates the outcomes of merges after each run and when there are other merges, until
// ctx ends. They stay in memory, so that no page or scrape reads the archive.
func (d *daemon) outcomesLoop(ctx context.Context) {
	d.outcomesDue.Send() // earlier processes may have exported
	first := true
	var known []view.Merge
	work := func(ctx context.Context) error {
		select {
		case <-d.exported:
			first = true
		default:
		}
		s := pulls.Selection{Projects: d.app.Config.Projects, Since: d.app.Now().Add(-pulls.Recent)}
		list, err := pulls.Merges(ctx, d.app.State, s)
		if err != nil || !first && reflect.DeepEqual(list, known) {
			return err
		}
		first, known = false, list
		all, err := pulls.Outcomes(ctx, d.app.State, d.app.Archive(), s)
		if all.Merges != nil {
			d.outcomes.change(func(o *view.Outcomes) { *o = all })
			d.changed.Send()
		}
		return err
	}
	d.whenever(ctx, d.outcomesDue, outcomesTimeout, "outcomes of merges not estimated from all windows", work)
}
