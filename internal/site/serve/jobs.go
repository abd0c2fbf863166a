package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// archiveAfter is the time after which an ended job takes no more messages and its home is removed.
const archiveAfter = 30 * 24 * time.Hour

// jobsDir is the directory of the jobs, in the directory of a site.
const jobsDir = "jobs"

// ReadJobs returns the jobs in the directory of a site, also beside the server that works on them.
func ReadJobs(dir string) ([]runner.Recorded, error) {
	return runner.ReadJobs(filepath.Join(dir, jobsDir))
}

// Jobs are the agent jobs of a site. It implements [Jobs].
type Jobs struct {
	*runner.Queue
	repos   map[string]*runner.Repo
	refused error // why no job is taken; nil = they are
	// places hides where the repositories and the directory are: an answer does not say it.
	places *strings.Replacer
}

// newJail returns the jail that r asks for; nil without one.
func (r *JobRules) newJail(ctx context.Context, dir string, logger *slog.Logger) (*runner.Jail, error) {
	if r.settings.Jail == "none" {
		return nil, nil //nolint:nilnil // no jail is wanted
	}
	jail, err := runner.NewJail(ctx, runner.JailOptions{Hosts: r.hosts, Tools: r.tools, Dir: dir, Logger: logger})
	if err != nil {
		err = fmt.Errorf("DOCGAUGE_SITE_JAIL=bubblewrap: %w; DOCGAUGE_SITE_JAIL=none runs agents with the rights of "+
			"docgauge", err)
	}
	return jail, err
}

// Jailed says how agents are confined.
func (r *JobRules) Jailed() string {
	if r.settings.Jail == "none" {
		return "not jailed: an agent can read and change what docgauge can (DOCGAUGE_SITE_JAIL=none)"
	}
	return "jailed with bubblewrap"
}

// Level is the level of a log message about how agents are confined.
func (r *JobRules) Level() slog.Level {
	if r.settings.Jail == "none" {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// OpenJobs opens the jobs below dir and continues those that are active. If there is no jail, they fail,
// and Refused says why no more are taken. Where held reports that the clock may be wrong, none is archived.
func OpenJobs(
	ctx context.Context, r *JobRules, dir string, now func() time.Time, held func() bool, logger *slog.Logger,
) (_ *Jobs, err error) {
	j := &Jobs{repos: map[string]*runner.Repo{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.closeRepos())
		}
	}()
	if dir, err = filepath.Abs(filepath.Join(dir, jobsDir)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	model := r.settings.Agent
	if r.settings.Jail == "none" {
		model += ", not jailed"
	}
	jail, err := r.newJail(ctx, filepath.Join(dir, "jail"), logger)
	j.refused = err
	places := []string{filepath.Dir(dir), "DOCGAUGE_SITE_DIR"}
	for project, o := range r.repos {
		o.Jail = jail
		if o.URL != "" {
			o.Path = filepath.Join(dir, "copies", project+".git")
		} else if path, err := filepath.Abs(o.Path); err == nil {
			places = append(places, path, "DOCGAUGE_SITE_REPO")
		}
		if j.repos[project], err = runner.OpenRepo(ctx, o, filepath.Join(dir, "work", project)); err != nil {
			delete(j.repos, project)
			return nil, fmt.Errorf("DOCGAUGE_SITE_REPO: project %s: %w", project, err)
		}
	}
	j.places = strings.NewReplacer(places...)
	j.Queue, err = runner.Open(runner.Options{
		Dir: dir, Workers: r.settings.Concurrency, ArchiveAfter: archiveAfter, Model: model,
		Source: func(project string) runner.Source { return j.repos[project].Source() },
		Editor: jobEditor{j}, Host: jobEditor{j}, Now: now, Logger: logger,
		ClockHeld: held, Archived: func(job runner.Job) error {
			if repo := j.repos[job.Project]; repo != nil {
				return repo.Forget(job.ID)
			}
			return nil
		},
	})
	return j, err
}

// Refused returns why no job is taken, nil if they are.
func (j *Jobs) Refused() error { return j.refused }

// Close stops the work on jobs, and waits for it. The next OpenJobs continues it.
func (j *Jobs) Close() error { return errors.Join(j.Queue.Close(), j.closeRepos()) }

func (j *Jobs) closeRepos() (err error) {
	for _, repo := range j.repos {
		err = errors.Join(err, repo.Close())
	}
	return err
}

// taken returns a refusal if no job of a project is taken. Its status tells clients that the prompt
// was not: after a 5xx they could not know.
func (j *Jobs) taken(project string) error {
	if j.refused != nil {
		return api.Fail(http.StatusNotFound, "agent jobs: this site runs none now: its jail is missing; "+
			"docgauge site check says more")
	}
	if j.repos[project] == nil {
		return api.Fail(http.StatusNotFound, "agent jobs: project %s has no repository", project)
	}
	return nil
}

// Create accepts a job.
func (j *Jobs) Create(c *api.Call, prompt, title string) (any, error) {
	if err := j.taken(c.Project); err != nil {
		return nil, err
	}
	job, err := j.Queue.Create(c.Project, prompt, title)
	return j.shown(job), err
}

// shown returns a job as answers have it.
func (j *Jobs) shown(job runner.Job) runner.Job {
	job.Failure = j.places.Replace(job.Failure)
	return job
}

// Message accepts a message for a job.
func (j *Jobs) Message(c *api.Call, id, prompt string) (any, error) {
	if err := j.taken(c.Project); err != nil {
		return nil, err
	}
	job, err := j.Queue.Message(c.Project, id, prompt)
	return j.shown(job), err
}

// Get returns a job.
func (j *Jobs) Get(c *api.Call, id string) (any, error) {
	job, err := j.Queue.Get(c.Project, id)
	return j.shown(job), err
}

// jobEditor is the repository of each job's project.
type jobEditor struct{ *Jobs }

func (e jobEditor) Edit(ctx context.Context, t runner.Task) (runner.Result, error) {
	switch repo := e.repos[t.Project]; {
	case e.refused != nil:
		return runner.Result{}, e.refused
	case repo == nil:
		return runner.Result{}, fmt.Errorf("DOCGAUGE_SITE_REPO: has none for project %s any more", t.Project)
	default:
		return repo.Edit(ctx, t)
	}
}

// Diff returns none: code hosts make their own.
func (e jobEditor) Diff(context.Context, runner.Change) (string, error) { return "", nil }

func (e jobEditor) Propose(ctx context.Context, job runner.Job, c runner.Change, diff string) (string, error) {
	repo := e.repos[job.Project]
	if repo == nil {
		return "", fmt.Errorf("DOCGAUGE_SITE_REPO: has none for project %s any more", job.Project)
	}
	return repo.Propose(ctx, job, c, diff)
}

// TryJobs tries what jobs need, without one: the jail, the agent's program, and of each project the
// repository, the rights of the token and the check. found gets a name and what was found, or the error.
func TryJobs(ctx context.Context, r *JobRules, logger *slog.Logger, found func(name, detail string, err error)) error {
	temp, err := durable.NewTemp("", "docgauge-check")
	if err != nil {
		return err
	}
	dir := temp.Path
	jail, jailErr := r.newJail(ctx, filepath.Join(dir, "jail"), logger)
	found("agent jobs", r.Jailed(), jailErr)
	if name := r.settings.Agent; jailErr == nil && name != "command" {
		version, err := runner.Version(ctx, name, jail, filepath.Join(dir, "agent"))
		found("agent", name+": "+version, err)
	}
	if name := r.settings.Agent; r.gateway == nil && name != "command" {
		err := runner.CheckAccess(name, r.variables(), r.hosts, r.settings.Jail != "none")
		found("model", name+": has a key, and its service among its hosts", err)
	}
	if r.gateway != nil {
		found("gateway", r.gateway.String()+": answers", r.gateway.Try(ctx))
	}
	for project, o := range r.repos {
		o.Jail = jail
		if jailErr != nil {
			o.Check = ""
		}
		if o.URL != "" {
			o.Path = filepath.Join(dir, project+".git")
		}
		err = errors.Join(err, tryRepo(ctx, project, o, found))
	}
	return errors.Join(err, temp.Remove())
}

// TryPrompt carries out a prompt for a project in a copy of its repository, of which nothing is kept, and returns the
// result and the change as a diff. Nothing is pushed.
func TryPrompt(ctx context.Context, r *JobRules, project, prompt string, logger *slog.Logger) (
	result runner.Result, diff string, err error) {
	o, ok := r.repos[project]
	if !ok {
		return result, "", fmt.Errorf("DOCGAUGE_SITE_REPO: has none for project %s", project)
	}
	temp, err := durable.NewTemp("", "docgauge-try")
	if err != nil {
		return result, "", err
	}
	defer func() { err = errors.Join(err, temp.Remove()) }()
	if o.Jail, err = r.newJail(ctx, filepath.Join(temp.Path, "jail"), logger); err != nil {
		return result, "", err
	}
	if o.URL == "" {
		if o.URL, err = filepath.Abs(o.Path); err != nil {
			return result, "", err
		}
	}
	o.Path = filepath.Join(temp.Path, "copy.git")
	repo, err := runner.OpenRepo(ctx, o, filepath.Join(temp.Path, "work"))
	if err != nil {
		return result, "", err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()
	if result, err = repo.Edit(ctx, runner.Task{Job: "try", Project: project, Prompt: prompt}); err != nil {
		return result, "", err
	}
	diff, err = repo.Diff(ctx, result.Change)
	return result, diff, err
}

func tryRepo(ctx context.Context, project string, o runner.RepoOptions,
	found func(name, detail string, err error)) error {
	repo, err := runner.OpenRepo(ctx, o, "")
	if err != nil {
		found("repository", project, err)
		return nil
	}
	err = repo.Check(ctx)
	source := repo.Source()
	found("repository", project+": "+source.Repository+", branch "+source.Ref, err)
	if err == nil && o.Check != "" {
		found("check command", project+": passes on branch "+source.Ref, repo.TryCheckCommand(ctx))
	}
	return repo.Close()
}
