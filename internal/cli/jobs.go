package cli

import (
	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/prompts"
)

func (a *Program) jobsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "the prompt queue: prompt files that become agent jobs",
		Long: `Each prompt file in DOCGAUGE_PROMPTS_DIR becomes exactly one agent job, which is
followed until it is completed, archived or failed. What was sent, and what came of
it, is in a journal in DOCGAUGE_STATE_DIR: a prompt is never sent twice by itself,
whatever is killed in between.

  docgauge jobs lint      check the files
  docgauge jobs plan      what would be sent, and why each prompt waits
  docgauge jobs run       one pass; --wait until all jobs have ended
  docgauge jobs list      the jobs, with their pull requests
  docgauge jobs show      one of them, with its history
docgauge serve runs the queue by itself.

A job is unknown where nobody can tell whether the service took it: the answer was
lost, or the process killed. It is not sent again by itself, because it was accepted
more often than not. docgauge jobs list shows its number SEQ, docgauge jobs show SEQ
when it was sent. Look for it at the service, where people see its jobs and pull
requests, then say

  docgauge jobs resolve SEQ --job-id ID    it is there: follow it
  docgauge jobs resolve SEQ --resubmit     it is not: send it again
  docgauge jobs resolve SEQ --drop         give it up

Two in a row pause the queue until the service answers again and either an hour has
passed or docgauge jobs release says so.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.jobsPlanCommand(), a.jobsRunCommand(), a.jobsListCommand(), a.jobsShowCommand(), a.jobsLintCommand(), a.jobsAddCommand())
	cmd.AddCommand(a.operatorCommands()...)
	return cmd
}

// openPrompts opens the folder. If that fails the configuration is wrong.
func openPrompts(c config.Config) (*prompts.Folder, error) {
	folder, err := app.OpenPrompts(c)
	if err != nil {
		return nil, config.Problems{err.Error()}
	}
	return folder, nil
}

// reading is the queue for a command that changes nothing.
type reading struct {
	*app.App
	folder *prompts.Folder
}

// openReading opens the state, and the folder where it is needed.
func (a *Program) openReading(n config.Need) (_ *reading, err error) {
	c, err := a.config(n)
	if err != nil {
		return nil, err
	}
	r := &reading{}
	if n&config.NeedPrompts != 0 {
		if r.folder, err = openPrompts(c); err != nil {
			return nil, err
		}
	}
	r.App, err = app.OpenReading(c, a.logger(c), a.now)
	return r, err
}
