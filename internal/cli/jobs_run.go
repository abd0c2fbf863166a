package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/events"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

func (a *Program) jobsRunCommand() *cobra.Command {
	var wait, asJSON bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "one pass: send what may be sent, and follow the jobs at work",
		Long: `run does one pass: it reads the jobs that are due, sends the follow-ups of those
that are completed, and sends the prompts that may be sent, within the caps
DOCGAUGE_MAX_JOBS_PER_DAY, DOCGAUGE_MAX_COST_PER_DAY, DOCGAUGE_MAX_ACTIVE_JOBS,
DOCGAUGE_MAX_OPEN_PULL_REQUESTS and DOCGAUGE_MAX_REVIEW_AGE. Before and after
it, the pull requests that are due are read. With --wait it makes further passes
until every job has ended and nothing more happens by itself; then it exits 1 if
a job failed, was rejected or lost, or is in doubt. Each change is logged, and a
line at the bottom of a terminal shows the number of prompts in each state, how
far the caps are used, and when more may be sent. Ctrl-C ends it once a pending
request is answered, or after 25 seconds, and then that job is unknown; the next
run continues from there.

One process runs the queue at a time: while docgauge serve runs, it exits 3.

` + exitCodes,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.jobsRun(cmd.Context(), wait, asJSON) },
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "continue until all jobs have ended")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the prompts as JSON")
	return cmd
}

func (a *Program) jobsRun(ctx context.Context, wait, asJSON bool) (err error) {
	surviveClosedPipes()
	c, err := a.config(config.NeedProjects | config.NeedAPI | config.NeedPrompts)
	if err != nil {
		return err
	}
	r, err := a.openQueue(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.app.Close()) }()
	until := jobs.UntilPassed
	if wait {
		until = jobs.UntilIdle
		r.status = a.showStatus(ctx, r)
	}
	// Merged and closed pull requests release prompts.
	r.follow(ctx)
	result, err := r.queue.Run(ctx, r.folder, until, func(report jobs.Report) error { return r.afterPass(ctx, report) })
	r.status.end()
	if errors.Is(err, jobs.ErrNewState) {
		return config.Problems{err.Error()}
	}
	if err != nil {
		return err
	}
	err = a.print(asJSON, append([]jobs.Planned{}, result.Planned...),
		func() error { return a.printRun(result, a.wording(r.app.Config)) })
	if err == nil && (ctx.Err() != nil || wait && needsAttention(result)) {
		return errReported
	}
	return err
}

// queueRunner is the queue, held for this process alone.
type queueRunner struct {
	app      *app.App
	folder   *prompts.Folder
	queue    *jobs.Queue
	pulls    *app.Pulls
	notifier *events.Notifier // nil if no notifications are wanted
	status   *statusLine      // nil without a terminal
}

// openQueue locks the queue and opens its dependencies.
func (a *Program) openQueue(c config.Config) (_ *queueRunner, err error) {
	r := &queueRunner{}
	if r.folder, err = openPrompts(c); err != nil {
		return nil, err
	}
	if r.app, err = app.OpenQueue(c, a.logger(c), a.now); err != nil {
		return nil, err
	}
	if r.pulls, err = r.app.NewPulls(); err != nil {
		return nil, errors.Join(err, r.app.Close())
	}
	r.pulls.Limit = followLimit
	r.queue = r.app.NewQueue(func() { r.status.refresh() })
	if r.notifier, err = events.ForApp(r.app); err != nil {
		return nil, errors.Join(err, r.app.Close())
	}
	return r, nil
}

// The queue stays locked while a slow code host is asked. So no reading of a pull request begins
// later than followLimit after a pass, and none takes longer than followTimeout; later passes
// read the rest.
const (
	followLimit   = 10 * time.Second
	followTimeout = time.Minute
)

// follow reads the pull requests that are due. If they cannot be read, the caps and the prompts
// that wait for a merge use their last known state.
func (r *queueRunner) follow(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	if _, err := r.pulls.Pass(within); err != nil && ctx.Err() == nil {
		r.app.Log.Warn("pull requests not read", "error", err)
	}
}

// deliveryTimeout bounds the delivery of notifications after a pass; later passes deliver the
// rest. At a stop, the wait for the answer to a create may have used
// 25 of 30 seconds.
const (
	deliveryTimeout = 15 * time.Second
	deliveryAtStop  = 4 * time.Second
)

// afterPass counts the requests and delivers the notifications of a pass, also at a stop,
// and reads the new pull requests.
func (r *queueRunner) afterPass(ctx context.Context, report jobs.Report) error {
	r.status.passed(report.Result.Planned)
	timeout := deliveryTimeout
	if ctx.Err() != nil {
		timeout = deliveryAtStop
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	err := r.app.API.Flush(within)
	if r.notifier != nil {
		if _, err := r.notifier.Deliver(within); err != nil {
			r.app.Log.Error("notifications not delivered", "error", err)
		}
	}
	r.follow(ctx)
	return err
}

// needsAttention reports whether a prompt ended badly or is in doubt, or nothing is sent.
func needsAttention(r jobs.Result) bool {
	for _, p := range r.Planned {
		switch p.State {
		case journal.Failed, journal.Rejected, journal.Lost, journal.Unknown, journal.Invalid:
			return true
		}
	}
	return r.Queue.Paused != ""
}

func (a *Program) printRun(r jobs.Result, w wording) error {
	fmt.Fprintf(a.Out, "%s created, %s sent, %d ended, %d at work\n",
		format.Plural(r.Created, "job"), format.Plural(r.Messages, "follow-up"), r.Ended, r.Following)
	if r.Queue.Paused != "" {
		render.NewText(a.Out).Line(2, "paused: %s", r.Queue.Detail)
	}
	table := render.NewTable(promptColumn(), projectColumn(), render.Column{Name: "state"},
		render.Column{Name: "pull request", Below: true}, render.Column{Name: "why", Below: true})
	var again time.Time
	changing := 0
	for _, p := range r.Planned {
		link := ""
		if p.Job != nil {
			if link = p.Job.PRLink; p.Job.Result() == "no_pr" {
				link = "no pull request"
			}
		}
		table.Add(p.ID, w.project(p.Project), string(p.State), cmp.Or(link, "-"), whyText(p))
		if p.Why == jobs.WhyChanging {
			again = p.Until
			changing++
		}
	}
	if changing > 0 {
		verb := "have"
		if changing == 1 {
			verb = "has"
		}
		fmt.Fprintf(a.Out, "%s %s just changed: a file counts once two scans saw it unchanged, which can be from %s on\n",
			format.Plural(changing, "prompt file"), verb, again.UTC().Format("15:04:05 UTC"))
	}
	if len(r.Planned) == 0 {
		return nil
	}
	fmt.Fprintln(a.Out)
	return table.Print(a.Out)
}
