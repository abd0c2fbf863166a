package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/outcomes"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

type jobsQuestion struct {
	Project string `json:"project,omitempty" jsonschema:"id of a project; default: all"`
	State   string `json:"state,omitempty" jsonschema:"only jobs in this state, such as active, unknown, completed"`
	Limit   count  `json:"limit,omitempty" jsonschema:"how many jobs"`
}

type jobsAnswer struct {
	Queue     journal.Queue `json:"queue"`
	Jobs      []listedJob   `json:"jobs"`
	Total     int           `json:"total"`
	Truncated bool          `json:"truncated"`
}

// listedJob is a job with the action that a person should take, and the pull request under
// separate names.
type listedJob struct {
	view.Job
	Remedy      string    `json:"what_to_do,omitempty"`
	PullRequest view.Link `json:"pull_request,omitempty"`
	PullState   string    `json:"pull_request_state,omitempty"`
	Merged      time.Time `json:"merged_at,omitzero"`
}

func (a *assistant) jobs(ctx context.Context, q jobsQuestion) (out jobsAnswer, err error) {
	if q.State != "" && !slices.Contains(journal.States(), journal.State(q.State)) {
		return out, fmt.Errorf("state %.40q is not known; there are %v", q.State, journal.States())
	}
	err = a.withState(func(db *state.DB) error {
		all, err := db.Jobs(ctx)
		if err != nil {
			return err
		}
		if out.Queue, err = db.Queue(ctx); err != nil {
			return err
		}
		known, err := db.PullStates(ctx)
		if err != nil {
			return err
		}
		pulls := jobs.PullsByLink(all, known)
		projects, err := coverage.JobProjects(ctx, a.Config, db, q.Project)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(j journal.Job) bool {
			return len(projects) > 0 && !slices.Contains(projects, j.Project) || q.State != "" && j.State != journal.State(q.State)
		})
		slices.Reverse(all)
		out.Total, out.Jobs = len(all), []listedJob{}
		limit(&all, q.Limit, &out.Truncated)
		for _, j := range all {
			p := pulls[j.PRLink]
			shown := view.NewJob(j, pulls, a.Now())
			out.Jobs = append(out.Jobs, listedJob{shown, jobs.Remedy(j), shown.PRLink, string(p.State), p.Merged})
		}
		return nil
	})
	return out, err
}

type outcomesQuestion struct {
	Project string `json:"project,omitempty" jsonschema:"id of a project; default: all"`
	Limit   count  `json:"limit,omitempty" jsonschema:"how many merges, the newest; of each as many effects"`
}

// outcomesAnswer is the answer of the tool outcomes.
type outcomesAnswer struct {
	ruled
	Caution   string          `json:"caution"`
	Since     time.Time       `json:"since,omitzero" jsonschema:"earlier merges are left out"`
	Summaries []outcomeTotal  `json:"summaries" jsonschema:"what the verdicts of each project say together"`
	Outcomes  []mergeStudy    `json:"outcomes"`
	Redirects []view.Redirect `json:"redirects" jsonschema:"missed paths that are redirected, and the readers of their targets"`
	Total     int             `json:"total"`
	Truncated bool            `json:"truncated"`
	Problem   string          `json:"problem,omitempty" jsonschema:"windows that could not be read, and count as missing"`
}

// outcomeTotal is a summary, and the same as a sentence.
type outcomeTotal struct {
	view.OutcomeSummary
	Text string `json:"text"`
}

// mergeStudy has the effects without their days.
type mergeStudy struct {
	view.Outcome
	Total int `json:"effects_total"`
}

// studied is how long ago a merge may be.
const studied = 180 * 24 * time.Hour

func (a *assistant) outcomes(ctx context.Context, q outcomesQuestion) (out outcomesAnswer, err error) {
	s := outcomes.Selection{Since: a.Now().Add(-studied)}
	var all view.Outcomes
	err = a.withState(func(db *state.DB) (err error) {
		if s.Projects, err = coverage.JobProjects(ctx, a.Config, db, q.Project); err != nil {
			return err
		}
		return a.withArchive(func(from sinks.Sink) (err error) {
			all, err = outcomes.Estimate(ctx, db, from, s)
			return err
		})
	})
	if out = NewOutcomesAnswer(all, int(q.Limit)); all.Merges == nil {
		return out, err
	}
	if err != nil {
		out.Problem = err.Error()
	}
	return out, nil
}

// NewOutcomesAnswer returns the answer with the newest merges, and of each the first effects: at most
// so many.
func NewOutcomesAnswer(all view.Outcomes, most int) outcomesAnswer {
	out := outcomesAnswer{ruled: ruled{rule}, Caution: all.Caution(), Since: all.Since, Summaries: []outcomeTotal{},
		Outcomes: []mergeStudy{}, Total: len(all.Merges)}
	for _, s := range all.Summaries {
		out.Summaries = append(out.Summaries, outcomeTotal{s, s.Sentence()})
	}
	limit(&all.Merges, count(most), &out.Truncated)
	for _, o := range all.Merges {
		study := mergeStudy{o, len(o.Effects)}
		study.Link = analytics.SafeLink(o.Link)
		limit(&study.Pages, count(most), &out.Truncated)
		limit(&study.Effects, count(most), &out.Truncated)
		study.Effects = withoutDays(study.Effects)
		out.Outcomes = append(out.Outcomes, study)
	}
	out.Redirects = slices.Clone(all.Redirects)
	limit(&out.Redirects, count(most), &out.Truncated)
	for i := range out.Redirects {
		out.Redirects[i].Effects = withoutDays(out.Redirects[i].Effects)
	}
	return out
}

func withoutDays(effects []view.Effect) []view.Effect {
	effects = slices.Clone(effects)
	for i := range effects {
		effects[i].Days = nil
	}
	return effects
}

type promptQuestion struct {
	Text           string   `json:"text" jsonschema:"what the agent should do"`
	Title          string   `json:"title,omitempty" jsonschema:"title, for people"`
	ID             string   `json:"id,omitempty" jsonschema:"id of the prompt; default: the name of its file"`
	Project        string   `json:"project,omitempty" jsonschema:"id of the project; needed if there are several"`
	ConcurrencyKey string   `json:"concurrency_key,omitempty" jsonschema:"the prompt waits for active jobs with it"`
	FollowUps      []string `json:"follow_ups,omitempty" jsonschema:"messages for the job once it is completed"`
	DependsOn      []string `json:"depends_on,omitempty" jsonschema:"ids of prompts that must be completed first"`
}

type promptAnswer struct {
	File    string `json:"file" jsonschema:"the new file, in the folder of prompts"`
	Waiting int    `json:"prompts_waiting" jsonschema:"prompts that wait to be sent, with this one"`
}

// addPrompt writes a prompt file as `docgauge jobs add` does. An assistant that repeats
// itself must not fill the queue for days: no more prompts wait than may be sent in a day.
func (a *assistant) addPrompt(ctx context.Context, q promptQuestion) (out promptAnswer, err error) {
	select {
	case a.adding <- struct{}{}:
		defer func() { <-a.adding }()
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
	if strings.TrimSpace(q.Text) == "" {
		return out, errors.New("text: missing: want what the agent should do")
	}
	folder, err := app.OpenPrompts(a.Config)
	if err != nil {
		return out, err
	}
	unlock, err := folder.Lock(ctx) // other assistants run in other processes
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	opened, err := app.OpenReading(a.Config, a.Log, a.Now)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	planned, err := opened.PlanPrompts(ctx, folder)
	if err != nil {
		return out, err
	}
	for _, p := range planned {
		if p.State == journal.Pending {
			out.Waiting++
		}
	}
	if most := int(a.Config.MaxJobsPerDay); most > 0 && out.Waiting >= most {
		verb := map[bool]string{true: "waits", false: "wait"}[out.Waiting == 1]
		return out, fmt.Errorf("%s %s already: no more are added until some of them were sent, because "+
			"DOCGAUGE_MAX_JOBS_PER_DAY is %d; a person can add more with `docgauge jobs add`",
			format.Plural(out.Waiting, "prompt"), verb, most)
	}
	out.File, err = folder.Write("", prompts.Prompt{
		ID: q.ID, Title: q.Title, Project: q.Project, ConcurrencyKey: q.ConcurrencyKey,
		FollowUps: q.FollowUps, DependsOn: q.DependsOn, Body: strings.TrimSpace(q.Text),
	})
	if err == nil {
		out.Waiting++
		project := cmp.Or(q.Project, strings.Join(a.Config.Projects, ","))
		a.Log.Info("prompt added by an assistant", "file", out.File, "project", project)
	}
	return out, err
}
