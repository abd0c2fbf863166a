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
followed until it is completed, archived or failed. The texts sent, and their
outcomes, are in a journal in DOCGAUGE_STATE_DIR: a prompt is never sent twice
automatically, even if docgauge is killed in between.

  docgauge jobs lint      check the files
  docgauge jobs plan      show what would be sent, and why each prompt waits
  docgauge jobs run       one pass; with --wait, until all jobs have ended
  docgauge jobs list      show the jobs, with their pull requests
  docgauge jobs show      show one of them, with its history
docgauge serve runs the queue by itself.

A job is unknown if it is unclear whether the service accepted it: the answer
was lost, or docgauge was killed. It is not sent again automatically, because
most such jobs had been accepted. docgauge jobs list shows its number SEQ,
docgauge jobs show SEQ when it was sent. Look for it at the service, which shows
its jobs and pull requests to people, then run one of

  docgauge jobs resolve SEQ --job-id ID    it is there: follow it
  docgauge jobs resolve SEQ --resubmit     it is not: send it again
  docgauge jobs resolve SEQ --drop         give it up

Two in a row pause the queue until the service answers again, and either an hour
has passed or you run docgauge jobs release.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.jobsPlanCommand(), a.jobsRunCommand(), a.jobsListCommand(), a.jobsShowCommand())
	cmd.AddCommand(a.jobsLintCommand(), a.jobsAddCommand())
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

// lintPrompts reads the folder.
func lintPrompts(c config.Config) (prompts.Scanned, error) {
	folder, err := openPrompts(c)
	if err != nil {
		return prompts.Scanned{}, err
	}
	return folder.Lint()
}
