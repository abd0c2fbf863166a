package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/jobs/journal"
)

const (
	// liveEvery is how often the live table is drawn anew where nothing happens: ages
	// grow, and the terminal may have another size.
	liveEvery = time.Second
	// liveRest is the least time between two looks at the journal.
	liveRest = 100 * time.Millisecond
)

// live shows on a terminal how a run goes. It reads the journal and never writes
// it: a run goes on as well without it.
type live struct {
	run    *queueRunner
	app    *Program
	screen *screen
	since  time.Time
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu sync.Mutex
	// planned are the prompts as of the last pass.
	planned  []jobs.Planned
	settling int
}

// showLive begins to show a run, where standard error is a terminal; nil where not.
func (a *Program) showLive(ctx context.Context, r *queueRunner) *live {
	if !drawsOn(a.Err) {
		return nil
	}
	l := &live{run: r, app: a, since: a.now(), screen: &screen{out: a.Err, size: func() (int, int) { return sizeOf(a.Err) }}}
	a.logTo.set(l.screen)
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	l.done.Go(func() { l.paint(own, ctx.Done()) })
	return l
}

// end takes the table away.
func (l *live) end() {
	if l == nil {
		return
	}
	l.stop()
	l.done.Wait()
	l.app.logTo.set(l.app.Err)
	_ = l.screen.clear()
}

// passed takes in how the prompts stand after a pass.
func (l *live) passed(planned []jobs.Planned) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.planned = planned
	l.settling, _ = l.run.look.settling()
	l.mu.Unlock()
	l.run.noteChange()
}

// paint draws the table until ctx ends. stopping is closed when the run is asked
// to end.
func (l *live) paint(ctx context.Context, stopping <-chan struct{}) {
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	now := l.read(ctx, standingNow{})
	for {
		width, height := l.screen.size()
		_ = l.screen.draw(now.frame(l.app.now(), width, height)) // a terminal that is gone is no reason to stop
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-l.run.changed:
			now = l.read(ctx, now)
			rest(ctx, liveRest)
		case <-stopping:
			now.stopping, stopping = true, nil
		}
	}
}

// read returns how things stand in the journal now, or what was where that cannot
// be read.
func (l *live) read(ctx context.Context, was standingNow) standingNow {
	all, err := l.run.app.State.Jobs(ctx)
	if err != nil {
		return was
	}
	queue, err := l.run.app.State.Queue(ctx)
	if err != nil {
		return was
	}
	at := l.app.now()
	l.mu.Lock()
	now := standingNow{planned: renewed(l.planned, all), queue: queue, since: l.since, settling: l.settling, stopping: was.stopping}
	l.mu.Unlock()
	perDay, active := jobs.Usage(all, at)
	now.caps = capText("at work", active, int(l.run.app.Config.MaxActiveJobs)) + " · " + capText("begun in 24 h", perDay, int(l.run.app.Config.MaxJobsPerDay))
	now.budgets = l.budgets(ctx, at)
	return now
}

// renewed returns the prompts as of the last pass with what has become of their
// jobs since; before the first pass, the jobs that go on.
func renewed(planned []jobs.Planned, all []journal.Job) []jobs.Planned {
	newest := map[string]journal.Job{}
	for _, j := range all {
		if other, ok := newest[j.Prompt]; !ok || j.Newer(other) {
			newest[j.Prompt] = j
		}
	}
	var out []jobs.Planned
	for _, p := range planned {
		j, ok := newest[p.ID]
		delete(newest, p.ID)
		if ok && (p.Job == nil || p.Job.Seq != j.Seq || p.Job.Version != j.Version) {
			p.Job, p.State, p.Reason, p.Why, p.Until = &j, j.State, j.Reason, jobs.WhyNext, j.Blocked
		}
		out = append(out, p)
	}
	for _, j := range all {
		if left, ok := newest[j.Prompt]; ok && left.Seq == j.Seq && !j.State.Ended() {
			out = append(out, jobs.Planned{ID: j.Prompt, Path: j.Path, Project: j.Project, Title: j.Title, State: j.State, Reason: j.Reason, Job: &j})
		}
	}
	return out
}

// shownBudgets is how many projects' budgets are shown.
const shownBudgets = 4

// budgets says how many agent POSTs each project has left, and when more.
func (l *live) budgets(ctx context.Context, now time.Time) string {
	var of []string
	for _, project := range l.run.app.Config.Projects[:min(len(l.run.app.Config.Projects), shownBudgets)] {
		left, err := coverage.Remaining(ctx, l.run.app.State, coverage.AgentBudget(project), int(l.run.app.Config.AgentBudget), time.Duration(l.run.app.Config.Timeout), now)
		if err != nil {
			continue
		}
		text := leftText(left)
		if len(l.run.app.Config.Projects) > 1 {
			text = project + " " + text
		}
		of = append(of, text)
	}
	if more := len(l.run.app.Config.Projects) - shownBudgets; more > 0 {
		of = append(of, fmt.Sprintf("%d more", more))
	}
	return "agent budget: " + strings.Join(of, ", ")
}

func leftText(c coverage.Capacity) string {
	switch {
	case c.Limit == 0 && c.Next.IsZero():
		return "unlimited"
	case c.Limit == 0:
		return "closed until " + c.Next.UTC().Format("15:04:05 UTC")
	case c.Next.IsZero():
		return fmt.Sprintf("%d of %d left", c.Available, c.Limit)
	}
	return fmt.Sprintf("0 of %d left until %s", c.Limit, c.Next.UTC().Format("15:04:05 UTC"))
}
