package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
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

// rules are what prompt files are held against.
func (c config) rules() prompts.Rules { return prompts.Rules{Projects: c.Projects} }

// openPrompts opens the folder. That it cannot be used is a mistake in the
// configuration.
func (c config) openPrompts() (*prompts.Folder, error) {
	folder, err := prompts.Open(c.PromptsDir, c.rules())
	if err != nil {
		return nil, problems{err.Error()}
	}
	return folder, nil
}

// queueConfig says how the queue goes, as far as the configuration does.
func queueConfig(c config, now func() time.Time, log *slog.Logger) jobs.Config {
	return jobs.Config{
		MaxPerDay: int(c.MaxJobsPerDay), MaxActive: int(c.MaxActiveJobs), PollInterval: time.Duration(c.PollInterval),
		OnNewState: jobs.NewState(c.PromptsOnNewState), Notify: c.NotifyURL != "", Now: now, Logger: log,
	}
}

// reading is the queue for a command that only looks.
type reading struct {
	config
	db     *state.DB
	stores []sinks.Sink
	folder *prompts.Folder
}

// openReading opens the state, and the folder where it is needed.
func (a *Program) openReading(n need) (_ *reading, err error) {
	c, err := loadConfig(n, a.now())
	if err != nil {
		return nil, err
	}
	r := &reading{config: c}
	if n&needPrompts != 0 {
		if r.folder, err = c.openPrompts(); err != nil {
			return nil, err
		}
	}
	if r.db, err = state.OpenExisting(c.StateDir); err != nil {
		return nil, err
	}
	if r.stores, err = newSinks(c); err != nil {
		return nil, errors.Join(err, r.db.Close())
	}
	return r, nil
}

func (r *reading) Close() error { return errors.Join(r.db.Close(), closeStores(r.stores)) }

// plan returns every prompt as it stands.
func (r *reading) plan(ctx context.Context, now func() time.Time) ([]jobs.Planned, error) {
	found, err := r.folder.Lint()
	if err != nil {
		return nil, err
	}
	cfg := queueConfig(r.config, now, nil)
	cfg.Numbers = numbers{r.db, r.stores}
	return jobs.Plan(ctx, cfg, r.db, found)
}
