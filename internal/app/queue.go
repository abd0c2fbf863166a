package app

import (
	"context"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/pulls"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
)

// OpenPrompts opens the prompt folder. Prompts may depend on one whose file is gone, if the
// journal knows it; without a state, none is known.
func OpenPrompts(c config.Config) (*prompts.Folder, error) {
	known := func(ids []string) []string {
		db, err := state.OpenExisting(c.StateDir)
		if err != nil {
			return nil
		}
		defer db.Close()
		all, err := db.Jobs(context.Background())
		if err != nil {
			return nil
		}
		newest := journal.Newest(all)
		return slices.DeleteFunc(ids, func(id string) bool { return newest[id].Seq == 0 })
	}
	return prompts.Open(c.PromptsDir, prompts.Rules{Projects: c.Projects, Known: known})
}

// queueOptions are the settings of the queue.
func (a *App) queueOptions() jobs.Options {
	c := a.Config
	return jobs.Options{
		MaxPerDay: int(c.MaxJobsPerDay), MaxActive: int(c.MaxActiveJobs),
		MaxOpenPulls: int(c.MaxOpenPulls), MaxReviewAge: time.Duration(c.MaxReviewAge), JobCost: float64(c.JobCost),
		MaxCostPerDay: float64(c.MaxCostPerDay),
		PollInterval:  time.Duration(c.PollInterval),
		OnNewState:    jobs.NewState(c.PromptsOnNewState), Notify: c.NotifyURL != "", Now: a.Now, Numbers: numbers{a},
	}
}

// NewQueue makes the queue; changed is called after each change of the journal.
func (a *App) NewQueue(changed func()) *jobs.Queue {
	o := a.queueOptions()
	o.Changed, o.Clock, o.Confirm = changed, a.API.Client.ClockError, a.API.ConfirmClock
	o.KeyMark = func() string { return a.API.MarkOf(docsapi.KeyAdmin) + a.API.MarkOf(docsapi.KeyWrite) }
	o.RefuseKey = func(creates bool) {
		if name := docsapi.KeyWrite; creates && a.API.keys[name] != nil {
			a.API.Meter.refuse(name)
		} else {
			a.API.RefuseKey()
		}
	}
	o.Mark, o.Restored, o.Jitter, o.Logger = a.markBegun, a.isRestored, clock.Jitter, a.Log
	return jobs.New(o, a.API.Client, a.State)
}

// PlanPrompts says where each prompt of the folder stands.
func (a *App) PlanPrompts(ctx context.Context, folder *prompts.Folder) ([]jobs.Planned, error) {
	found, err := folder.Lint()
	if err != nil {
		return nil, err
	}
	return jobs.Plan(ctx, a.queueOptions(), a.State, found)
}

// CheckReviews returns an error if DOCGAUGE_MAX_OPEN_PULL_REQUESTS or DOCGAUGE_MAX_REVIEW_AGE is reached.
func (a *App) CheckReviews(ctx context.Context) error {
	return jobs.CheckReviews(ctx, a.queueOptions(), a.State)
}

// SnapshotReader returns the reader of the values that people and programs are shown. It reads the
// prompt folder for each snapshot.
func (a *App) SnapshotReader() *coverage.SnapshotReader {
	r := &coverage.SnapshotReader{
		Config: a.Config, State: a.State, Sinks: a.Sinks, Now: a.Now, KeyRejected: a.API.KeyRejected,
	}
	if a.Config.PromptsDir != "" {
		r.Queue = func(ctx context.Context, out *view.Snapshot) error {
			var p jobs.Prompts
			folder, err := OpenPrompts(a.Config)
			if err == nil {
				p.Planned, err = a.PlanPrompts(ctx, folder)
			}
			if err != nil {
				p.Problem = err.Error()
			}
			return a.ShowQueue(ctx, p, out)
		}
	}
	return r
}

// ShowQueue adds the queue to a snapshot, with the prompts as they stand.
func (a *App) ShowQueue(ctx context.Context, p jobs.Prompts, out *view.Snapshot) error {
	return jobs.Show(ctx, a.queueOptions(), a.State, a.Config.Projects, p, out)
}

// Pulls follows the pull requests of the jobs.
type Pulls struct {
	*pulls.Follower
	// Tokens are the tokens of the code hosts that are set.
	Tokens []*keyring
}

// NewPulls makes what follows the pull requests; nothing is sent.
func (a *App) NewPulls() (*Pulls, error) {
	c := a.Config
	github := newKeyring("DOCGAUGE_GITHUB_TOKEN", c.GitHubToken, c.SecretFiles, config.IsToken)
	gitlab := newKeyring("DOCGAUGE_GITLAB_TOKEN", c.GitLabToken, c.SecretFiles, config.IsToken)
	gitea := newKeyring("DOCGAUGE_GITEA_TOKEN", c.GiteaToken, c.SecretFiles, config.IsToken)
	host, err := codehost.New(codehost.Options{
		GitHubURL: c.GitHubURL, GitLabURL: c.GitLabURL, GiteaURL: c.GiteaURL,
		UserAgent: "docgauge/" + c.Build.Version, Now: a.Now,
		GitHubToken: func() (string, error) { return github.get(), nil },
		GitLabToken: func() (string, error) { return gitlab.get(), nil },
		GiteaToken:  func() (string, error) { return gitea.get(), nil },
	})
	if err != nil {
		return nil, config.Problems{err.Error()}
	}
	set := slices.DeleteFunc([]*keyring{github, gitlab, gitea}, func(k *keyring) bool { return k.get() == "" })
	return &Pulls{pulls.New(a.State, host, a.Now), set}, nil
}
