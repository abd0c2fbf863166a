package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/state"
)

// operate is what an operator's command has: the state, and the prompts where it
// needs them.
type operate struct {
	*jobs.Operator
	found prompts.Scanned
}

// operatorCommand is a command that decides about one job, named by its number or
// its prompt.
func (a *Program) operatorCommand(use, short, long string, n config.Need, do func(context.Context, operate, string) (journal.Job, error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: oneJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.operator(cmd.Context(), n, asJSON, func(ctx context.Context, o operate) (journal.Job, error) { return do(ctx, o, args[0]) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the job as JSON")
	return cmd
}

func oneJob(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s wants one argument, the number or the prompt of a job; `docgauge jobs list` shows them", cmd.CommandPath())}
	}
	return nil
}

// operator opens what a decision needs, makes it, and prints the job as it is now.
func (a *Program) operator(ctx context.Context, n config.Need, asJSON bool, do func(context.Context, operate) (journal.Job, error)) (err error) {
	c, err := a.config(n)
	if err != nil {
		return err
	}
	var o operate
	if c.PromptsDir != "" {
		// A decision that can do without the folder is made without it.
		if o.found, err = lintPrompts(c); err != nil && n&config.NeedPrompts != 0 {
			return err
		}
	}
	db, err := state.Open(c.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	o.Operator = jobs.NewOperator(db, a.now)
	job, err := do(ctx, o)
	if errors.Is(err, journal.ErrNoJob) || errors.Is(err, jobs.ErrRefused) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(a.Out, job)
	}
	_, err = fmt.Fprintf(a.Out, "job %d of prompt %s is %s\n", job.Seq, job.Prompt, job.State)
	return err
}

// lintPrompts reads the folder as it is.
func lintPrompts(c config.Config) (prompts.Scanned, error) {
	folder, err := openPrompts(c)
	if err != nil {
		return prompts.Scanned{}, err
	}
	return folder.Lint()
}

func (a *Program) operatorCommands() []*cobra.Command {
	return []*cobra.Command{
		a.jobsResolveCommand(),
		a.jobsHoldCommand(),
		a.jobsReleaseCommand(),
		a.operatorCommand("cancel SEQ|PROMPT", "give a prompt up, or stop following its job",
			"The service goes on with a job that it has: it is only not followed any more.", config.NeedProjects|config.NeedPrompts,
			func(ctx context.Context, o operate, ref string) (journal.Job, error) {
				return o.Cancel(ctx, ref, o.found)
			}),
		a.operatorCommand("retry SEQ|PROMPT", "send a prompt once more, as its file is now",
			"retry gives a prompt another attempt whose job has ended: one that failed, or one whose\nfile was edited since.", config.NeedProjects|config.NeedPrompts,
			func(ctx context.Context, o operate, ref string) (journal.Job, error) {
				return o.Retry(ctx, ref, o.found)
			}),
	}
}

func (a *Program) jobsResolveCommand() *cobra.Command {
	var answer jobs.Answer
	cmd := a.operatorCommand("resolve SEQ|PROMPT", "say what has become of a job that is unknown, or of a renamed prompt",
		`A job is unknown where nobody can tell whether the service took it. Look for it at the
service, where people see its jobs and pull requests: docgauge jobs show has the time to
the second and what was sent. Then say one of

  --job-id ID   it is there, under that id: it is followed from now on
  --resubmit    it is not there: it is sent again, by the next pass
  --drop        give it up: it is not followed, and if it is there it goes on there

If the id was wrong the job is lost after ten minutes, and docgauge jobs retry sends the
prompt again. A queue that two unknown jobs have paused goes on after docgauge jobs release.

A prompt that is held because it looks renamed was sent under its former name: --drop
says that it counts as done, also for those that depend on it; --resubmit sends it.`, config.NeedNothing,
		func(ctx context.Context, o operate, ref string) (journal.Job, error) {
			if n := howMany(answer.JobID != "", answer.Resubmit, answer.Drop); n != 1 {
				return journal.Job{}, usageError{errors.New("docgauge jobs resolve: say exactly one of --job-id ID, --resubmit and --drop; `docgauge jobs resolve --help` tells them apart")}
			}
			return o.Resolve(ctx, ref, answer, o.found)
		})
	cmd.Flags().StringVar(&answer.JobID, "job-id", "", "the service's id of the job: it was accepted")
	cmd.Flags().BoolVar(&answer.Resubmit, "resubmit", false, "it was not accepted: send it again")
	cmd.Flags().BoolVar(&answer.Drop, "drop", false, "give it up, whatever became of it")
	return cmd
}

// howMany counts those that are true.
func howMany(all ...bool) (n int) {
	for _, set := range all {
		if set {
			n++
		}
	}
	return n
}

func (a *Program) jobsReleaseCommand() *cobra.Command {
	cmd := a.operatorCommand("release [SEQ|PROMPT]", "let a prompt go on that was held, or without an argument the queue",
		`release lets a prompt go on that was held, also one that looks renamed, or one that
waits for its next try at once. Without an argument it lets a paused queue go on: after two prompts in doubt in a row, as soon
as the service answers.`, config.NeedNothing,
		func(ctx context.Context, o operate, ref string) (journal.Job, error) {
			return o.Release(ctx, ref, o.found)
		})
	return orQueue(cmd, a.releaseQueue)
}

func (a *Program) jobsHoldCommand() *cobra.Command {
	cmd := a.operatorCommand("hold [SEQ|PROMPT]", "keep a prompt from being sent, or without an argument all",
		`hold keeps a prompt from being sent until docgauge jobs release PROMPT. Without an
argument it pauses the whole queue: nothing more is sent, also by a serve that runs, until
docgauge jobs release; jobs at work are followed on.`, config.NeedProjects|config.NeedPrompts,
		func(ctx context.Context, o operate, ref string) (journal.Job, error) {
			return o.Hold(ctx, ref, o.found)
		})
	return orQueue(cmd, a.pauseQueue)
}

// orQueue makes a command about one job mean the whole queue where none is named.
func orQueue(cmd *cobra.Command, all func(context.Context) error) *cobra.Command {
	one := cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return oneJob(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return one(cmd, args)
		}
		return all(cmd.Context())
	}
	return cmd
}

func (a *Program) pauseQueue(ctx context.Context) error {
	return a.onQueue(ctx, func(o *jobs.Operator) (string, error) {
		_, err := o.PauseQueue(ctx)
		return "the queue is paused; docgauge jobs release lets it go on", err
	})
}

func (a *Program) releaseQueue(ctx context.Context) error {
	return a.onQueue(ctx, func(o *jobs.Operator) (string, error) {
		queue, err := o.ReleaseQueue(ctx)
		if queue.Paused != "" {
			return "the queue goes on once the service answers", err
		}
		return "the queue runs", err
	})
}

// onQueue decides about the whole queue, and prints what that comes to.
func (a *Program) onQueue(ctx context.Context, do func(*jobs.Operator) (string, error)) (err error) {
	c, err := a.config(config.NeedNothing)
	if err != nil {
		return err
	}
	db, err := state.Open(c.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	text, err := do(jobs.NewOperator(db, a.now))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Out, text)
	return err
}
