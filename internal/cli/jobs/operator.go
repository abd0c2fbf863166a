package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/state"
)

// decision is an operator's decision about a job, or a prompt of the folder.
type decision func(o *jobs.Operator, ctx context.Context, ref string, found prompts.Scanned) (journal.Job, error)

func (a commands) operatorCommands() []*cobra.Command {
	var answer jobs.Answer
	resolve := a.operatorCommand("resolve SEQ|PROMPT", "settle the outcome of an unknown job, or of a renamed prompt",
		`A job is unknown if it is unclear whether the service accepted it. Look for it
at the service, which shows its jobs and pull requests to people: docgauge jobs
show prints the time to the second, and the text that was sent. Then say one of

  --job-id ID   it is there, under that id: it is followed from now on
  --resubmit    it is not there: it is sent again, by the next pass
  --drop        give it up: it is not followed, though it may continue there

If the id was wrong the job is lost after ten minutes, and docgauge jobs retry
sends the prompt again. A queue that two unknown jobs have paused continues
after docgauge jobs release.

A prompt that is held because it looks renamed was sent under its former name:
--drop says that it counts as done, also for those that depend on it; --resubmit
sends it.`, config.NeedNothing,
		func(o *jobs.Operator, ctx context.Context, ref string, found prompts.Scanned) (journal.Job, error) {
			return o.Resolve(ctx, ref, answer, found)
		}, nil)
	resolve.Flags().StringVar(&answer.JobID, "job-id", "", "the service's id of the job: it was accepted")
	resolve.Flags().BoolVar(&answer.Resubmit, "resubmit", false, "it was not accepted: send it again")
	resolve.Flags().BoolVar(&answer.Drop, "drop", false, "give it up, whatever its outcome")
	resolve.PreRunE = func(cmd *cobra.Command, _ []string) error {
		given := 0
		for _, set := range []bool{answer.JobID != "", answer.Resubmit, answer.Drop} {
			if set {
				given++
			}
		}
		if given != 1 {
			return input.Usage(errors.New("docgauge jobs resolve: want exactly one of --job-id ID, --resubmit and " +
				"--drop; `docgauge jobs resolve --help` explains them"))
		}
		return nil
	}
	hold := a.operatorCommand("hold [SEQ|PROMPT]", "keep a prompt from being sent, or without an argument all",
		`hold keeps a prompt from being sent until docgauge jobs release PROMPT. Without
an argument it pauses the whole queue: nothing more is sent, also by a running
serve, until docgauge jobs release; jobs at work are still followed.`, config.NeedProjects|config.NeedPrompts,
		(*jobs.Operator).Hold, func(ctx context.Context, o *jobs.Operator) (string, error) {
			_, err := o.PauseQueue(ctx)
			return "the queue is paused; docgauge jobs release continues it", err
		})
	release := a.operatorCommand("release [SEQ|PROMPT]", "release a held prompt, or without an argument the queue",
		`release releases a prompt that was held, even if it looks renamed; a prompt that
waits for its next try is sent at once. Without an argument a paused queue
continues: after two prompts in doubt in a row, as soon as the service answers.`, config.NeedNothing,
		(*jobs.Operator).Release, func(ctx context.Context, o *jobs.Operator) (string, error) {
			queue, err := o.ReleaseQueue(ctx)
			if queue.Paused != "" {
				return "the queue continues once the service answers", err
			}
			return "the queue runs", err
		})
	cancel := a.operatorCommand("cancel SEQ|PROMPT", "give a prompt up, or stop following its job",
		"The service continues a job that it has; docgauge only no longer follows it.",
		config.NeedProjects|config.NeedPrompts, (*jobs.Operator).Cancel, nil)
	retry := a.operatorCommand("retry SEQ|PROMPT", "send a prompt once more, as its file is now",
		"retry sends a prompt once more whose job has ended: one that failed, or one\nwhose file was edited since.",
		config.NeedProjects|config.NeedPrompts, (*jobs.Operator).Retry, nil)
	return []*cobra.Command{resolve, hold, release, cancel, retry}
}

func oneJob(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return input.Usagef("%s wants one argument, the number or the prompt of a job; "+
			"`docgauge jobs list` shows them", cmd.CommandPath())
	}
	return nil
}

// operatorCommand makes a decision about one job, named by its number or its prompt, and
// prints the job afterwards; or, without an argument, a decision about the queue, if there is
// one, whose result it prints.
func (a commands) operatorCommand(
	use, short, long string, n config.Need, decide decision,
	queue func(context.Context, *jobs.Operator) (string, error),
) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: use, Short: short, Long: long}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the job as JSON")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && queue != nil {
			return nil
		}
		return oneJob(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if len(args) == 0 {
			n = config.NeedNothing
		}
		c, err := a.Config(n)
		if err != nil {
			return err
		}
		var found prompts.Scanned
		if c.PromptsDir != "" && len(args) > 0 {
			// A decision that does not need the folder is made without it.
			if found, err = lintPrompts(c); err != nil && n&config.NeedPrompts != 0 {
				return err
			}
		}
		db, err := state.Open(c.StateDir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		o := jobs.NewOperator(db, a.Now)
		if len(args) == 0 {
			text, err := queue(cmd.Context(), o)
			if err == nil {
				_, err = fmt.Fprintln(a.Out, text)
			}
			return err
		}
		job, err := decide(o, cmd.Context(), args[0], found)
		switch {
		case errors.Is(err, journal.ErrNoJob), errors.Is(err, jobs.ErrRefused):
			return input.Usage(err)
		case err != nil:
			return err
		case asJSON:
			return render.JSON(a.Out, job)
		}
		_, err = fmt.Fprintf(a.Out, "job %d of prompt %s is %s\n", job.Seq, job.Prompt, job.State)
		return err
	}
	return cmd
}
