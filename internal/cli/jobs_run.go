package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/jobs/notify"
)

// passEvery is how long run --wait waits at most between two passes.
const passEvery = 15 * time.Second

func (a *Program) jobsRunCommand() *cobra.Command {
	var wait, asJSON bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "submit what may go, and read the jobs that are at work: one pass",
		Long: `run does one pass: it reads the jobs that are due, sends the follow-ups of those
completed, and submits the prompts that may go, within the caps
DOCGAUGE_MAX_JOBS_PER_DAY and DOCGAUGE_MAX_ACTIVE_JOBS. With --wait it goes on until
every job has ended and nothing goes on by itself; then it exits 1 if a job failed, was
rejected or lost, or is in doubt. On a terminal it shows meanwhile how each prompt
stands, what is left of the caps and of the agent budget, and when more may be sent.
Ctrl-C ends it once what is being sent is answered; the next run goes on from there.

One process runs the queue at a time: beside docgauge serve it exits 3.

` + exitCodes,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.jobsRun(cmd.Context(), wait, asJSON) },
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "go on until all jobs have ended")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the prompts as JSON")
	return cmd
}

// queueRunner is the queue, held for this process alone.
type queueRunner struct {
	app   *app.App
	look  *lookout
	queue *jobs.Queue
	// changed has something in it when the journal has changed.
	changed chan struct{}
	live    *live // nil where nobody watches
	// notes delivers notifications; nil where nobody wants them.
	notes *notify.Notifier
}

// openQueue takes the queue's lock and heals what another process left.
func (a *Program) openQueue(ctx context.Context) (_ *queueRunner, err error) {
	c, err := a.config(config.NeedProjects | config.NeedAPI | config.NeedPrompts)
	if err != nil {
		return nil, err
	}
	folder, err := openPrompts(c)
	if err != nil {
		return nil, err
	}
	opened, err := app.OpenQueue(c, a.logger(c), a.now)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}()
	r := &queueRunner{app: opened, look: &lookout{folder: folder, log: opened.Log}, changed: make(chan struct{}, 1)}
	r.queue = opened.NewQueue(r.noteChange)
	if r.notes, err = opened.NewNotifier(); err != nil {
		return nil, err
	}
	return r, r.queue.Start(ctx)
}

// noteChange asks the live table to be drawn again, once, however often it is called.
func (r *queueRunner) noteChange() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// notifyTimeout bounds what run delivers after a pass; the rest is tried again.
const notifyTimeout = 15 * time.Second

// notify delivers what is in the outbox. What cannot be delivered stays there.
func (r *queueRunner) notify(ctx context.Context) {
	if r.notes == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	defer cancel()
	if _, err := r.notes.Deliver(ctx); err != nil {
		r.app.Log.Error("notifications not delivered", "error", err)
	}
}

func (a *Program) jobsRun(ctx context.Context, wait, asJSON bool) (err error) {
	surviveClosedPipes()
	r, err := a.openQueue(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.app.Close()) }()
	if wait {
		r.live = a.showLive(ctx, r)
	}
	result, err := r.run(ctx, wait, a.now)
	r.live.end()
	if err != nil {
		return err
	}
	if asJSON {
		err = writeJSON(a.Out, append([]jobs.Planned{}, result.Planned...))
	} else {
		err = a.printRun(result, r.look)
	}
	if err == nil && (ctx.Err() != nil || wait && bad(result)) {
		return errSaid
	}
	return err
}

// run makes one pass, or as many as it takes.
func (r *queueRunner) run(ctx context.Context, wait bool, now func() time.Time) (total jobs.Result, err error) {
	for {
		result, err := r.pass(ctx)
		total = sum(total, result)
		if err != nil || !wait || result.Settled() || ctx.Err() != nil {
			return total, err
		}
		rest(ctx, r.pause(result, now()))
	}
}

// pass makes one pass over the prompts as they are now.
func (r *queueRunner) pass(ctx context.Context) (jobs.Result, error) {
	found, err := r.look.scan(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = nil // the stop cut it short
		}
		return jobs.Result{}, err
	}
	result, err := r.queue.Pass(ctx, found)
	r.look.until(result.Planned)
	r.live.passed(result.Planned)
	if ferr := r.app.API.Flush(context.WithoutCancel(ctx)); ferr != nil {
		err = errors.Join(err, ferr)
	}
	r.notify(ctx)
	if errors.Is(err, jobs.ErrNewState) {
		err = config.Problems{err.Error()}
	}
	return result, err
}

// pause is how long to wait for the next pass.
func (r *queueRunner) pause(result jobs.Result, now time.Time) time.Duration {
	pause := passEvery
	if left := result.Next.Sub(now); !result.Next.IsZero() {
		pause = min(pause, left)
	}
	if files, again := r.look.settling(); files > 0 {
		pause = min(pause, time.Until(again))
	}
	return pause
}

// rest waits, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(max(d, 10*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// sum adds what a pass did to what those before did; how things stand is the
// last one's.
func sum(a, b jobs.Result) jobs.Result {
	b.Created += a.Created
	b.Messages += a.Messages
	b.Polled += a.Polled
	b.Ended += a.Ended
	b.Unknown += a.Unknown
	b.Rejected += a.Rejected
	return b
}

// bad reports whether a prompt came to a bad end, or is in doubt.
func bad(r jobs.Result) bool {
	for _, p := range r.Planned {
		switch p.State {
		case journal.Failed, journal.Rejected, journal.Lost, journal.Unknown, journal.Invalid:
			return true
		}
	}
	return r.Queue.Paused != ""
}

func (a *Program) printRun(r jobs.Result, look *lookout) error {
	fmt.Fprintf(a.Out, "%s created, %s sent, %d ended, %d at work\n", plural(r.Created, "job"), plural(r.Messages, "follow-up"), r.Ended, r.Following)
	if r.Queue.Paused != "" {
		fmt.Fprintf(a.Out, "paused: %s\n", plain(r.Queue.Detail))
	}
	if files, again := look.settling(); files > 0 {
		fmt.Fprintf(a.Out, "%s just changed: a file counts once it was seen unchanged twice, which can be from %s on\n", have(files, "prompt file"), again.UTC().Format("15:04:05 UTC"))
	}
	if len(r.Planned) == 0 {
		return nil
	}
	fmt.Fprintln(a.Out)
	var rows [][]string
	for _, p := range r.Planned {
		link := "-"
		if p.Job != nil {
			link = orMinus(p.Job.PRLink)
		}
		rows = append(rows, []string{p.ID, p.Project, string(p.State), link, orNext(p)})
	}
	return jobTable(a.Out, []string{"prompt", "project", "state", "pull request", "why"}, rows)
}
