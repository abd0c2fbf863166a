package sandbox

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sandbox/agent"
	"github.com/docgauge/docgauge/internal/sandbox/codehost"
	"github.com/docgauge/docgauge/internal/sandbox/githubapi"
	"github.com/docgauge/docgauge/internal/sandbox/worktree"
)

// Directories of the agent half in Config.DataDir, besides its journal.
const (
	pullsName     = "pulls"
	worktreesName = "worktrees"
)

// Sandbox is one service. Its methods may be used by many goroutines at once.
type Sandbox struct {
	config   Config
	keys     keyring
	projects map[string]*project
	site     *site
	log      *eventLog // nil without a data directory
	answers  *cache[answerKey, answer]
	counting chan struct{} // one slot for each answer being counted
	inFlight chan struct{} // one slot for each request
	requests requestLog

	admitted atomic.Int64 // analytics requests that passed authentication
	hour     *slidingHour

	admittedPosts, acceptedPosts atomic.Int64
	postHours                    map[string]*slidingHour // by project

	jobs       *agent.Jobs
	pulls      *codehost.Local
	github     *githubapi.API
	repo       *worktree.Repo // nil if jobs only pretend
	publicHost string         // of Config.Agent.PublicURL

	pageNumbers func() map[string]uint32 // of the synthetic site
	mergesMu    sync.Mutex
	merged      map[int]merge // by number of the pull request
}

// project is one served project and the drift that requests added to it.
type project struct {
	name      string
	synthetic *synthetic

	mu    sync.Mutex
	drift []drift
}

// New returns a service as c describes it. The error lists every problem of c,
// or names file, line and rule of a bad line in the event log. No traffic is
// generated before it is requested.
func New(c Config) (*Sandbox, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Sandbox{
		config: c, keys: newKeyring(c), projects: map[string]*project{}, answers: newAnswers(),
		counting: make(chan struct{}, runtime.GOMAXPROCS(0)), inFlight: make(chan struct{}, maxInFlight),
		requests: requestLog{out: c.RequestLog, logger: c.Logger},
		hour:     newSlidingHour(c.Faults.RateLimit), postHours: map[string]*slidingHour{},
	}
	s.site, s.merged = newSite(c), map[int]merge{}
	s.pageNumbers = sync.OnceValue(func() map[string]uint32 { return pageNumbers(s.site.pages) })
	first := analytics.DateOf(c.Now()) - analytics.Date(c.Days)
	for _, name := range c.Projects {
		traffic := &synthetic{site: s.site, seed: c.Seed, project: name, first: first}
		s.projects[name] = &project{name: name, synthetic: traffic}
		s.postHours[name] = newSlidingHour(c.Agent.Faults.RateLimit)
	}
	var err error
	if c.DataDir != "" {
		s.log, err = openEventLog(c)
	}
	if err == nil {
		err = s.openAgent()
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openAgent starts the agent half, which continues the jobs of the data directory.
func (s *Sandbox) openAgent() (err error) {
	c := s.config
	if u, err := url.Parse(c.Agent.PublicURL); err == nil {
		s.publicHost = u.Host
	}
	if s.pulls, err = codehost.OpenLocal(s.dataPath(pullsName), c.Agent.Pulls.Plan, c.Now); err != nil {
		return err
	}
	s.github = githubapi.New(githubapi.Config{
		Pulls: s.pulls.Pulls, File: s.repositoryFile, Token: c.Agent.Pulls.Token, Limit: c.Agent.Pulls.Limit, Now: c.Now,
	})
	jobs := agent.Config{
		Dir: c.DataDir, After: c.Agent.After, Workers: c.Agent.Workers, ArchiveAfter: c.Agent.ArchiveAfter,
		Source: agent.Source{Repository: "docgauge/sandbox", Ref: "main"}, Model: DefaultModel,
		Editor: agent.Pretend{File: changedFile(c.Seed, s.site.pages)}, Host: s.pulls, Now: c.Now, Logger: c.Logger,
	}
	if c.Agent.Script != "" {
		if jobs.Script, err = agent.ReadScript(c.Agent.Script); err != nil {
			return err
		}
	}
	if c.Agent.Repo != nil {
		if err := s.openRepo(*c.Agent.Repo, &jobs); err != nil {
			return err
		}
	}
	if s.jobs, err = agent.Open(jobs); err != nil {
		return errors.Join(err, s.closeRepo())
	}
	return nil
}

// openRepo lets jobs edit a repository.
func (s *Sandbox) openRepo(c Repo, jobs *agent.Config) (err error) {
	edited := worktree.Config{
		Path: c.Path, Base: c.Base, Dir: s.dataPath(worktreesName), Command: c.Command, Timeout: c.Timeout, Env: c.Env,
	}
	if jobs.Source.Repository, err = filepath.Abs(c.Path); err != nil {
		return err
	}
	if c.GitHub != "" {
		github, err := codehost.NewGitHub(codehost.GitHubConfig{
			Repository: c.GitHub, BaseURL: c.GitHubURL, Token: c.Token,
			Push: func(ctx context.Context, branch string) error { return s.repo.Push(ctx, branch) },
		})
		if err != nil {
			return err
		}
		if _, _, _, err := github.Login(); err != nil {
			return err
		}
		jobs.Host, jobs.Source.Repository = github, c.GitHub
		edited.Remote, edited.Login = cmp.Or(c.Remote, "origin"), github.Login
	}
	if s.repo, err = worktree.Open(context.Background(), edited); err != nil {
		return err
	}
	jobs.Editor, jobs.Source.Ref = s.repo, s.repo.Base()
	return nil
}

// dataPath returns a path in the data directory, empty without one.
func (s *Sandbox) dataPath(name string) string {
	if s.config.DataDir == "" {
		return ""
	}
	return filepath.Join(s.config.DataDir, name)
}

// Close stops the work on agent jobs and waits for it. With a data directory the
// next New continues them. A sandbox without a repository that never had a job
// needs no Close.
func (s *Sandbox) Close() error { return errors.Join(s.jobs.Close(), s.closeRepo()) }

func (s *Sandbox) closeRepo() error {
	if s.repo == nil {
		return nil
	}
	return s.repo.Close()
}

// Jobs returns every agent job that was accepted, with its prompts, in order:
// the truth to compare a client's journal with. Links to pull requests on this
// sandbox are paths.
func (s *Sandbox) Jobs() []agent.Record { return s.jobs.All() }

// Requests returns the newest requests, at most 65,536, in the order they were answered.
func (s *Sandbox) Requests() []Request { return s.requests.newest() }

// Visitors returns what the service would answer for window w of project now,
// all rows by total, then path, without a request: the truth to compare an
// export with.
func (s *Sandbox) Visitors(project string, w analytics.Window) (analytics.Totals, []analytics.Row, error) {
	p, ok := s.projects[project]
	if !ok {
		return analytics.Totals{}, nil, unknownProject(project)
	}
	a, err := s.answer(p, interval{w.From.Time().Unix(), w.To.Time().Unix()}, s.config.Now())
	return a.totals, append([]analytics.Row(nil), a.rows...), err
}

// addDrift adds one event to the UTC day of now and one to the day before. Human
// and AI visitors take turns.
func (p *project) addDrift(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.drift) >= maxDrift {
		return
	}
	today, kind := analytics.DateOf(now), uint32(len(p.drift)/2%2)
	p.drift = append(p.drift, drift{today - 1, kind}, drift{today, kind})
}

// driftSoFar returns the drift. It is append-only, so its length identifies it.
func (p *project) driftSoFar() []drift {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drift
}
