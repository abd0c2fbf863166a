package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
)

// endTimeout bounds what is noted of a run, and handed over, once it was interrupted.
const endTimeout = 5 * time.Second

func (a *Program) exportCommand() *cobra.Command {
	var sel selection
	var o runOptions
	var dry bool
	cmd := &cobra.Command{
		Use:   "export",
		Short: "read what is due within the budget and write it to the sinks",
		Long: `export is one batch run: it plans, reads due windows within the request budget,
commits each whole window to every sink, and exits. Run it every hour from cron:
what the budget does not allow now is read by the next runs, newest first.

A run that is killed at any moment loses nothing: the next one goes on with the
pages that were read and delivers the windows that were sealed.

With --from and --to exactly the windows inside [from,to) are read, again if
need be, and nothing else.

` + exitCodes,
		Example: `  docgauge export                                     what is due, as far as the budget goes
  docgauge export --wait                              go on across budget pauses until nothing is due
  docgauge export --from 2026-10-01 --to 2026-11-01   read October again
  docgauge export --windows day --project prj_a`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dry {
				return a.plan(cmd.Context(), &sel, o.json)
			}
			return a.export(cmd.Context(), &sel, o)
		},
	}
	sel.flags(cmd, true)
	cmd.Flags().BoolVar(&o.wait, "wait", false, "go on across budget pauses until nothing is due")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "the same as docgauge plan: send nothing")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the summary as JSON")
	return cmd
}

// runOptions say how a run goes.
type runOptions struct {
	wait bool // go on across budget pauses
	json bool
	// anew takes an empty ledger for what it is, whatever the sinks hold.
	anew bool
}

// summary is what a run reports; its JSON keys are stable.
type summary struct {
	Outcome      string    `json:"outcome"`
	Committed    int       `json:"windows_committed"`
	Waiting      int       `json:"windows_waiting_for_a_sink"`
	Recovered    int       `json:"windows_delivered_from_the_spool"`
	Open         int       `json:"open_windows_read"`
	Rows         int64     `json:"rows"`
	Requests     int       `json:"requests"`
	Throttled    int       `json:"requests_throttled"`
	Drifted      int       `json:"readings_drifted"`
	Mispredicted int       `json:"pages_mispredicted"`
	Unverified   int       `json:"windows_unverified"`
	MovedRows    int64     `json:"rows_moved"`
	RepeatedRows int64     `json:"rows_repeated"`
	SetAside     int       `json:"windows_set_aside"`
	Left         int       `json:"windows_left"`
	LeftRequests int       `json:"requests_left"`
	Resume       time.Time `json:"next_request_at,omitzero"`
	Finish       time.Time `json:"finished_by,omitzero"`
	Errors       []string  `json:"errors"`
	// Warnings are of the windows that were set aside.
	Warnings    []string `json:"warnings"`
	seconds     float64
	budgetSpent bool
}

// The outcomes of a run.
const (
	outcomeSuccess     = "success"
	outcomeDeferred    = "deferred"
	outcomeFailed      = "failed"
	outcomeInterrupted = "interrupted"
)

func (a *Program) export(ctx context.Context, sel *selection, o runOptions) error {
	c, err := loadConfig(needProjects|needAPI, a.now())
	if err != nil {
		return err
	}
	return a.exportWith(ctx, c, sel, o)
}

func (a *Program) exportWith(ctx context.Context, c config, sel *selection, o runOptions) (err error) {
	// Bad flags are found before anything is opened.
	if err := sel.check(c, a.now()); err != nil {
		return err
	}
	r, err := a.openRunner(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	s, err := r.run(ctx, sel, o)
	s.say([]error{err, r.follow(ctx, s)})
	if o.json {
		err = writeJSON(a.Out, s)
	} else {
		err = s.print(a.Out, a.Err)
	}
	if err == nil && (!s.good() || len(s.Errors) > 0) {
		return errSaid
	}
	return err
}

// check plans against an empty ledger: it finds every mistake in the flags.
func (s *selection) check(c config, now time.Time) error {
	in, err := s.input(c, ledger{}, now, 0)
	if err != nil {
		return err
	}
	_, _, err = s.items(in)
	return err
}

// run is one run: everything due, or what the budget lets through of it. It is
// entered in the state before it returns. An error is one of entering it.
func (r *runner) run(ctx context.Context, sel *selection, o runOptions) (summary, error) {
	started := r.now()
	r.read.reset()
	id, err := r.begin(ctx, started)
	if err != nil {
		return summary{Outcome: outcomeFailed}, err
	}
	sent, throttled := r.api.budget.Sent()
	s, err := r.work(ctx, sel, o, int(id))
	switch {
	case errors.Is(context.Cause(ctx), schedule.ErrDeadline):
		s.Outcome = outcomeFailed
		s.Errors = append(s.Errors, fmt.Sprintf("the run took longer than DOCGAUGE_RUN_TIMEOUT (%v) and was ended; the next one goes on", time.Duration(r.RunTimeout)))
	case err != nil && ctx.Err() == nil:
		s.Errors = append(s.Errors, err.Error())
	}
	took := r.now().Sub(started)
	s.seconds = took.Seconds()
	// The run is over, interrupted or not: what it did must still be noted.
	ctx, cancel := outliving(ctx)
	defer cancel()
	s.Requests, s.Throttled = r.api.budget.Sent()
	s.Requests, s.Throttled = s.Requests-sent, s.Throttled-throttled
	err = errors.Join(r.api.flush(ctx, r.db), r.db.EndRun(ctx, state.Run{
		ID: id, Finished: r.now(), Outcome: s.Outcome, Message: strings.Join(s.Errors, "; "),
		Windows: s.Committed + s.Waiting, Requests: s.Requests,
	}, s.good(), state.Observation{Name: "export_duration_seconds", Bucket: exporter.Bucket(took), Count: 1, Sum: took}))
	return s, err
}

// begin enters a run in the state, one that is ended before it begins too.
func (r *runner) begin(ctx context.Context, at time.Time) (id int64, err error) {
	ctx, cancel := outliving(ctx)
	defer cancel()
	return r.db.BeginRun(ctx, at)
}

// follow does what comes after a run, which is in the state by then: a stop leaves
// for the next run what is not urgent, and nobody waits for the collection.
func (r *runner) follow(ctx context.Context, s summary) error {
	later := func(err error) error {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the next run does it
		}
		return err
	}
	var errs []error
	if s.good() {
		errs = append(errs, later(r.fillPages(ctx)))
	}
	errs = append(errs, r.deliver(ctx))
	if s.good() && ctx.Err() == nil {
		errs = append(errs, later(r.compare(ctx)), later(r.collect(ctx)))
	}
	return errors.Join(errs...)
}

// work recovers, then reads in passes: one, or with wait as many as it takes.
func (r *runner) work(ctx context.Context, sel *selection, o runOptions, id int) (s summary, err error) {
	defer func() { s.Outcome = outcome(ctx, s, err) }()
	if !o.anew {
		if _, err := restoreNew(ctx, r.db, r.stores, r.log); err != nil {
			return s, err
		}
	}
	for {
		if err := r.recover(ctx, &s); err != nil {
			return s, err
		}
		if err := r.pass(ctx, sel, id, &s); err != nil {
			return s, err
		}
		if !o.wait || !s.budgetSpent || s.Left == 0 || ctx.Err() != nil {
			return s, nil
		}
		r.log.Info("waiting for the budget", "until", s.Resume.Format(time.RFC3339), "windows_left", s.Left, "finished_by", s.Finish.Format(time.RFC3339))
		if err := sleep(ctx, s.Resume.Sub(r.now())); err != nil {
			return s, nil
		}
	}
}

// recover delivers what earlier runs, or an earlier pass whose sink was down,
// left in the spool.
func (r *runner) recover(ctx context.Context, s *summary) error {
	l, err := readLedger(ctx, r.db)
	if err != nil {
		return err
	}
	delivered, failures, err := r.pipeline.Recover(ctx, l.owed())
	s.Recovered += delivered
	s.say(failures)
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(d, time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pass plans and reads once.
func (r *runner) pass(ctx context.Context, sel *selection, id int, s *summary) error {
	d, err := r.due(ctx, sel, id)
	if err != nil {
		return err
	}
	r.progress.begin(d.items, d.budget.finish(costOf(d.items, d.ledger)))
	result := r.pipeline.Run(ctx, export.Work{
		Items: d.items, Known: d.ledger.known, Sizes: d.ledger.sizes, Room: r.api.budget.Room,
		Policy: d.policy, Movements: d.ledger.moved, Asides: d.ledger.asides,
	})
	r.progress.end()
	s.add(result)
	if s.Left == 0 {
		return nil
	}
	if d, err = r.due(context.WithoutCancel(ctx), sel, id); err != nil {
		return err
	}
	// What plan counts: windows that are set aside are not due before their time, and
	// running ones are no backlog.
	d.items = slices.DeleteFunc(d.items, isOpen)
	s.Left, s.LeftRequests = len(d.items), costOf(d.items, d.ledger)
	s.Resume, s.Finish = d.budget.opens(result.Wanted), d.budget.finish(s.LeftRequests)
	return nil
}

func isOpen(item schedule.Item) bool { return item.Reason == schedule.ReasonOpen }

// outlook is what is to be read now, and what the budget allows.
type outlook struct {
	items  []schedule.Item
	ledger ledger
	policy schedule.Policy
	budget capacity
}

func (r *runner) due(ctx context.Context, sel *selection, id int) (d outlook, err error) {
	now := r.now()
	if d.ledger, err = readLedger(ctx, r.db); err != nil {
		return d, err
	}
	in, err := sel.input(r.config, d.ledger, now, id)
	if err != nil {
		return d, err
	}
	if d.items, _, err = sel.items(in); err != nil {
		return d, err
	}
	d.policy = in.Policy
	d.items = slices.DeleteFunc(d.items, r.read.once)
	d.budget, err = readCapacity(ctx, r.db, r.config, now)
	return d, err
}

// readings are the windows that a run has read so far.
type readings struct {
	mu   sync.Mutex
	done map[analytics.Key]bool
}

// reset begins another run.
func (r *readings) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = map[analytics.Key]bool{}
}

// observe is told each step by the pipeline, from many goroutines.
func (r *readings) observe(ev export.Event) {
	if ev.Step == export.StepOpen || ev.Step == export.StepRecorded {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.done[ev.Key] = true
	}
}

// once reports whether the item is of the kind that is read once in a run, asked
// for or open, and this run has read it.
func (r *readings) once(item schedule.Item) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return (item.Reason == schedule.ReasonAsked || item.Reason == schedule.ReasonOpen) && r.done[item.Key]
}

// costOf is how many requests the items will probably take.
func costOf(items []schedule.Item, l ledger) int {
	sum := 0
	for _, item := range items {
		n, _ := l.sizes.Requests(item)
		sum += n
	}
	return sum
}

func (s *summary) add(r export.Result) {
	s.Committed += r.Committed
	s.Waiting += r.Waiting
	s.Open += r.Open
	s.Rows += r.Rows
	s.Drifted += r.Drifted
	s.Mispredicted += r.Mispredicted
	s.Unverified += r.Unverified
	s.MovedRows += r.MovedRows
	s.RepeatedRows += r.RepeatedRows
	s.SetAside += r.SetAside
	s.Left, s.budgetSpent = r.Left, r.BudgetSpent
	s.say(r.Errors)
	for _, err := range r.Warnings {
		s.Warnings = append(s.Warnings, err.Error())
	}
}

func (s *summary) say(errs []error) {
	for _, err := range errs {
		if err != nil {
			s.Errors = append(s.Errors, err.Error())
		}
	}
}

// good reports whether the run did all it could: what the budget defers is no failure.
func (s *summary) good() bool { return s.Outcome == outcomeSuccess || s.Outcome == outcomeDeferred }

func outcome(ctx context.Context, s summary, err error) string {
	switch {
	case ctx.Err() != nil:
		return outcomeInterrupted
	case err != nil || len(s.Errors) > 0 || s.SetAside > 0 && s.Committed+s.Waiting+s.Recovered+s.Open == 0:
		return outcomeFailed // also where there is nothing but windows that were set aside
	case s.Left > 0:
		return outcomeDeferred
	}
	return outcomeSuccess
}

// print writes the result to out, and what went wrong to log.
func (s *summary) print(out, log io.Writer) error {
	for _, text := range s.Errors {
		fmt.Fprintln(log, "docgauge: "+text)
	}
	for _, text := range s.Warnings {
		fmt.Fprintln(log, "docgauge: set aside: "+text)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %s rows, %s in %.1f s\n", s.Outcome, plural(s.Committed, "window"), commas(s.Rows), plural(s.Requests, "request"), s.seconds)
	if s.Recovered > 0 {
		fmt.Fprintf(&b, "delivered %s that an earlier run had read\n", plural(s.Recovered, "window"))
	}
	if s.Waiting > 0 {
		fmt.Fprintf(&b, "%s in the spool: a sink is down; the next run delivers first, without a request\n", plural(s.Waiting, "window"))
	}
	if s.Drifted > 0 {
		fmt.Fprintf(&b, "%s begun again because the numbers changed meanwhile\n", plural(s.Drifted, "reading"))
	}
	if s.Unverified > 0 {
		fmt.Fprintf(&b, "NOT VERIFIED: %s; %s were read before the numbers last moved, %s repeated a path\n",
			plural(s.Unverified, "window"), plural(int(s.MovedRows), "row"), plural(int(s.RepeatedRows), "row"))
	}
	if s.SetAside > 0 {
		fmt.Fprintf(&b, "set aside: %s that the service does not give as it should; `docgauge status` lists them\n", plural(s.SetAside, "window"))
	}
	if s.Throttled > 0 {
		fmt.Fprintf(&b, "the service throttled %s although our budget had room: something else uses the same quota, or DOCGAUGE_BUDGET is above it\n", plural(s.Throttled, "request"))
	}
	s.printLeft(&b)
	_, err := io.WriteString(out, b.String())
	return err
}

func (s *summary) printLeft(b *strings.Builder) {
	if s.Left == 0 {
		return
	}
	fmt.Fprintf(b, "left: %s, about %s", plural(s.Left, "window"), plural(s.LeftRequests, "request"))
	switch {
	case s.Outcome == outcomeInterrupted:
		b.WriteString("; interrupted, the next run goes on")
	case !s.budgetSpent:
		b.WriteString("; the next run tries again")
	default:
		fmt.Fprintf(b, "; the budget opens at %s and lets the rest be done by %s", clock(s.Resume), clock(s.Finish))
	}
	b.WriteString("\n")
}
