package daemon

import (
	"context"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/pulls"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	// shownMerges is how long ago a merge may be that pages show.
	shownMerges = 90 * 24 * time.Hour
	// outcomesTimeout bounds reading the archive for them.
	outcomesTimeout = 15 * time.Minute
)

// outcomes are those of the merges, as they were after the last export run: they are kept in
// memory, so that no view or scrape reads the archive.
type outcomes struct {
	all atomic.Pointer[[]view.Outcome]
	// windows says that there may be new day windows, stale that there may be new merges too.
	windows atomic.Bool
	stale   chan struct{}
}

func (o *outcomes) load() []view.Outcome {
	if all := o.all.Load(); all != nil {
		return *all
	}
	return nil
}

// exported says that a run has ended.
func (o *outcomes) exported() {
	o.windows.Store(true)
	requestOnce(o.stale)
}

// outcomesLoop estimates the outcomes after each run, and when a merge is new, until ctx ends.
func (d *Daemon) outcomesLoop(ctx context.Context) {
	o := &d.outcomes
	o.exported() // what earlier processes exported
	var known []view.Merge
	var problem recurring
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.stale:
		}
		within, cancel := context.WithTimeout(ctx, outcomesTimeout)
		err := d.estimate(within, &known)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if problem.isNew(err) {
			d.app.Log.Warn("outcomes of merges not estimated from all windows", "error", err)
		}
	}
}

// estimate renews the outcomes if there are new windows, or other merges than those known.
func (d *Daemon) estimate(ctx context.Context, known *[]view.Merge) error {
	s := pulls.Selection{Projects: d.app.Config.Projects, Since: d.app.Now().Add(-shownMerges)}
	list, err := pulls.Merges(ctx, d.app.State, s)
	if err != nil {
		return err
	}
	if windows := d.outcomes.windows.Swap(false); !windows && reflect.DeepEqual(list, *known) {
		return nil
	}
	*known = list
	all, err := pulls.Outcomes(ctx, d.app.State, d.app.Archive(), s)
	if all != nil {
		d.outcomes.all.Store(&all)
		requestOnce(d.changed)
	}
	return err
}
