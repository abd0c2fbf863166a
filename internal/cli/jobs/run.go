package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/events"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/view"
)

func (a commands) runCommand() *cobra.Command {
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

One process runs the queue at a time: while docgauge serve does, with
DOCGAUGE_PROMPTS_DIR set, run exits 3.

` + console.ExitCodes,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context(), wait, asJSON) },
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "continue until all jobs have ended")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the prompts as JSON")
	return cmd
}

func (a commands) run(ctx context.Context, wait, asJSON bool) (err error) {
	console.SurviveClosedPipes()
	c, err := a.Config(config.NeedProjects | config.NeedAPI | config.NeedPrompts)
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
	err = a.Print(asJSON, append([]jobs.Planned{}, result.Planned...),
		func() error { return a.printRun(result, a.Wording(r.app.Config)) })
	if err == nil && (ctx.Err() != nil || wait && needsAttention(result)) {
		return render.ErrReported
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

func (a commands) openQueue(c config.Config) (_ *queueRunner, err error) {
	r := &queueRunner{}
	if r.folder, err = OpenPrompts(c); err != nil {
		return nil, err
	}
	if r.app, err = app.OpenQueue(c, a.Logger(c), a.Now); err != nil {
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

// RunAll runs the queue until every job has ended and nothing more happens by itself. If no job was
// ever sent from its state, it sends what the folder has.
func RunAll(ctx context.Context, a *console.Console, c config.Config) (result jobs.Result, err error) {
	r, err := commands{a}.openQueue(c)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, r.app.Close()) }()
	run := func(onNewState jobs.NewState, until jobs.Until) (jobs.Result, error) {
		r.app.Config.PromptsOnNewState = config.NewState(onNewState)
		return r.app.NewQueue(func() {}).Run(ctx, r.folder, until,
			func(report jobs.Report) error { return r.afterPass(ctx, report) })
	}
	if result, err = run(jobs.Refuse, jobs.UntilIdle); errors.Is(err, jobs.ErrNewState) {
		if _, err = run(jobs.Submit, jobs.UntilPassed); err == nil {
			result, err = run(jobs.Refuse, jobs.UntilIdle)
		}
	}
	return result, err
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

func (a commands) printRun(r jobs.Result, w render.Wording) error {
	fmt.Fprintf(a.Out, "%s created, %s sent, %d ended, %d at work\n",
		format.Plural(r.Created, "job"), format.Plural(r.Messages, "follow-up"), r.Ended, r.Following)
	if r.Queue.Paused != "" {
		render.NewText(a.Out).Line(2, "paused: %s", r.Queue.Detail)
	}
	table := render.NewTable(promptColumn(), render.ProjectColumn(), render.Column{Name: "state"},
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
		table.Add(p.ID, w.Project(p.Project), string(p.State), cmp.Or(link, "-"), whyText(p))
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

// eraseLine moves the cursor to the first column and empties the line.
const eraseLine = "\r\x1b[K"

// statusLine is a line at the bottom of a terminal that shows how jobs run --wait is
// going; log lines scroll above it. It reads the journal and writes nothing: a run
// without a terminal has none, and its methods do nothing then.
type statusLine struct {
	now        func() time.Time
	run        *queueRunner
	terminal   *os.File
	release    func() bool
	restoreLog func()

	mu      sync.Mutex
	planned []jobs.Planned // as of the last pass
	text    string
	ended   bool
}

// showStatus shows the line if standard error is a terminal, until end is called.
func (a commands) showStatus(ctx context.Context, r *queueRunner) *statusLine {
	terminal, ok := a.Err.(*os.File)
	if a.Quiet || !ok || !render.IsTerminal(a.Err) || os.Getenv("TERM") == "dumb" || runtime.GOOS == "windows" {
		return nil
	}
	l := &statusLine{now: a.Now, run: r, terminal: terminal}
	l.restoreLog = a.DivertLog(l)
	l.release = context.AfterFunc(ctx, func() { l.show("stopping once the pending request is answered") })
	return l
}

// end takes the line away.
func (l *statusLine) end() {
	if l == nil {
		return
	}
	l.release()
	l.restoreLog()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true // a stop may still be about to show itself
	_, _ = l.terminal.WriteString(eraseLine)
}

// passed is called with the prompts after each pass.
func (l *statusLine) passed(planned []jobs.Planned) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.planned = planned
	l.mu.Unlock()
	l.refresh()
}

// refresh shows the current journal. If it cannot be read, the line does not change.
func (l *statusLine) refresh() {
	if l == nil {
		return
	}
	all, err := l.run.app.State.Jobs(context.Background())
	if err != nil {
		return
	}
	queue, err := l.run.app.State.Queue(context.Background())
	if err != nil {
		return
	}
	l.mu.Lock()
	planned := l.planned
	l.mu.Unlock()
	l.show(statusText(planned, all, queue, l.run.app.Config, l.now()))
}

// show puts text in the place of the line before.
func (l *statusLine) show(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	width, _, err := term.GetSize(int(l.terminal.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	if runes := []rune(text); len(runes) >= width {
		text = string(runes[:width-1])
	}
	if text == l.text || l.ended {
		return
	}
	l.text = text
	_, _ = l.terminal.WriteString(eraseLine + text) // a terminal that is gone does not end the run
}

// Write writes log lines above the line.
func (l *statusLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.terminal.WriteString(eraseLine + string(p) + l.text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// statusText is the number of prompts in each state, the time at which more may be sent, and the
// use of the caps. It has no text from files or the service.
func statusText(planned []jobs.Planned, all []journal.Job, queue journal.Queue, c config.Config, now time.Time) string {
	counts := map[journal.State]int{}
	newest := journal.Newest(all)
	var next time.Time
	for _, p := range planned {
		state := p.State
		if j, ok := newest[p.ID]; ok && (p.Job == nil || p.Job.Seq != j.Seq || p.Job.Version != j.Version) {
			state = j.State // it has changed since the last pass
		}
		counts[state]++
		delete(newest, p.ID)
		if state == journal.Pending && p.Until.After(now) && (next.IsZero() || p.Until.Before(next)) {
			next = p.Until
		}
	}
	for _, j := range newest {
		if !j.State.Ended() {
			counts[j.State]++
		}
	}
	var states []string
	for _, state := range journal.States() {
		if n := counts[state]; n > 0 {
			states = append(states, format.Commas(int64(n))+" "+string(state))
		}
	}
	var parts []string
	if queue.Paused != "" {
		parts = append(parts, "paused ("+string(queue.Paused)+")")
	}
	if len(states) > 0 {
		parts = append(parts, strings.Join(states, ", "))
	}
	if !next.IsZero() {
		parts = append(parts, "more may be sent at "+format.Time(next))
	}
	perDay, active := jobs.Usage(all, now)
	parts = append(parts, ofCap(active, int(c.MaxActiveJobs))+" at work",
		ofCap(perDay, int(c.MaxJobsPerDay))+" in 24 h")
	if c.MaxCostPerDay > 0 {
		cost, unit := jobs.CostOfDay(all, float64(c.JobCost), now)
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("cost %s of %s %s", view.AmountText(cost),
			view.AmountText(float64(c.MaxCostPerDay)), unit)))
	}
	return strings.Join(parts, " · ")
}

func ofCap(used, limit int) string {
	if limit == 0 {
		return fmt.Sprint(used)
	}
	return fmt.Sprintf("%d of %d", used, limit)
}
