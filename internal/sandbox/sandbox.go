package sandbox

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// Sandbox is one service. Its methods are safe for concurrent use.
type Sandbox struct {
	config   Config
	service  *api.Service
	projects map[string]*project
	answers  *cache[answerKey, content]
	counting chan struct{} // one slot for each answer being counted

	admitted                     atomic.Int64 // analytics requests that passed authentication
	hour                         *slidingHour
	admittedPosts, acceptedPosts atomic.Int64

	site       *website
	log        *eventLog // nil without a data directory
	jobs       *runner.Queue
	repo       *runner.Repo // nil if jobs only pretend
	pulls      *pullStore
	github     *fake.Host
	publicHost string // of Config.Agent.PublicURL

	pageNumbers func() map[string]uint32 // of the synthetic site
	mergesMu    sync.Mutex
	merged      map[int]merge // by number of the pull request
}

// project is one served project and the drift that requests added to it.
type project struct {
	name      string
	synthetic *synthetic
	postHour  *slidingHour

	mu    sync.Mutex
	drift []drift // append-only: its length identifies it
}

// New returns a service as c describes it. The error lists every problem of c, or names file,
// line and rule of a bad line in the event log. No traffic is generated before it is requested.
func New(c Config) (*Sandbox, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Sandbox{
		config: c, projects: map[string]*project{}, merged: map[int]merge{}, site: newSite(c),
		answers:  newCache[answerKey](maxCachedRows, func(c content) int { return c.weight() + answerOverhead }),
		counting: make(chan struct{}, runtime.GOMAXPROCS(0)), hour: newSlidingHour(c.Faults.RateLimit),
	}
	s.service = s.newService()
	s.pageNumbers = sync.OnceValue(func() map[string]uint32 { return pageNumbers(s.site.pages) })
	first := analytics.DateOf(c.Now()) - analytics.Date(c.Days)
	for _, name := range c.Projects {
		traffic := &synthetic{website: s.site, seed: c.Seed, project: name, first: first}
		s.projects[name] = &project{name: name, synthetic: traffic, postHour: newSlidingHour(c.Agent.Faults.RateLimit)}
	}
	if u, err := url.Parse(c.Agent.PublicURL); err == nil {
		s.publicHost = u.Host
	}
	inData := func(name string) string {
		if c.DataDir == "" {
			return ""
		}
		return filepath.Join(c.DataDir, name)
	}
	var err error
	if c.DataDir != "" {
		if s.log, err = openEventLog(c); err != nil {
			return nil, err
		}
	}
	if s.pulls, err = openPulls(inData("pulls"), c.Seed, c.Agent.Pulls, c.Now); err != nil {
		return nil, err
	}
	s.github = fake.NewHost("github", "", c.Agent.Pulls.Token).Over(s.pulls.Store)
	s.github.Prefix, s.github.File, s.github.Limit, s.github.ReadOnly = GitHubPath, s.repositoryFile, c.Agent.Pulls.Limit,
		true
	script, err := readAgentScript(c.Agent.Script, c.Agent.After)
	if err != nil {
		return nil, err
	}
	script.Priced = c.Scenario == Growth
	jobs := runner.Options{
		Dir: c.DataDir, Workers: c.Agent.Workers,
		ArchiveAfter: c.Agent.ArchiveAfter,
		Source:       func(string) runner.Source { return runner.Source{Repository: "docgauge/sandbox", Ref: "main"} },
		Model:        jobModel, Editor: pretend{File: changedFile(c.Seed, s.site.pages)}, Host: s.pulls,
		Now: c.Now, Logger: c.Logger,
	}
	if r := c.Agent.Repo; r != nil {
		options := *r
		options.Allow = []string{runner.AllowCI, runner.AllowHooks}
		options.Instead = script.builtIn(r.Command == "")
		if s.repo, err = runner.OpenRepo(context.Background(), options, inData("worktrees")); err != nil {
			return nil, err
		}
		jobs.Editor, jobs.Source = s.repo, func(string) runner.Source { return s.repo.Source() }
		if r.CodeHost != "" {
			jobs.Host = s.repo
		}
	}
	jobs.Editor = script.editor(jobs.Editor)
	if s.jobs, err = runner.Open(jobs); err != nil {
		return nil, errors.Join(err, s.closeRepo())
	}
	return s, nil
}

// Close stops the work on agent jobs and waits for it. With a data directory the next New
// continues them. A sandbox without a repository that never had a job needs no Close.
func (s *Sandbox) Close() error { return errors.Join(s.jobs.Close(), s.closeRepo()) }

func (s *Sandbox) closeRepo() error {
	if s.repo == nil {
		return nil
	}
	return s.repo.Close()
}

// Jobs returns every agent job that was accepted, with its prompts, in order: the truth to
// compare a client's journal with. Links to pull requests on this sandbox are paths.
func (s *Sandbox) Jobs() []runner.Job { return s.jobs.All() }

// Requests returns the newest requests, at most 65,536, in the order they were answered.
func (s *Sandbox) Requests() []api.Request { return s.service.Requests.Newest() }

// Visitors returns what the service would answer for window w of project now, all rows by
// total, then path, without a request: the truth to compare an export with.
func (s *Sandbox) Visitors(project string, w analytics.Window) (analytics.Totals, []analytics.Row, error) {
	a, err := truthOf(s, visitorsReport, project, w)
	return a.totals, slices.Clone(a.rows), err
}

// Agents returns what the service would answer as Visitors does: the agents of the site, and those of
// each path.
func (s *Sandbox) Agents(project string, w analytics.Window) (totals, rows []analytics.AgentRow, err error) {
	a, err := truthOf(s, agentsReport, project, w)
	return slices.Clone(a.totals), slices.Clone(a.rows), err
}

func truthOf[A content](s *Sandbox, r report[A], project string, w analytics.Window) (a A, err error) {
	p, ok := s.projects[project]
	if !ok {
		return a, api.UnknownProject(project)
	}
	return answerOf(s, r, p, interval{w.From.Time().Unix(), w.To.Time().Unix()}, s.config.Now())
}

// addDrift adds one event to the UTC day of now and one to the day before. Human and AI
// visitors take turns.
func (p *project) addDrift(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.drift) >= maxDrift {
		return
	}
	today, kind := analytics.DateOf(now), uint32(len(p.drift)/2%2)
	p.drift = append(p.drift, drift{today - 1, kind}, drift{today, kind})
}
