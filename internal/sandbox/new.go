package sandbox

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/sandbox/traffic"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// New returns a service as c describes it. The error lists every problem of c, or names file,
// line and rule of a bad line in the event log. No traffic is generated before it is requested.
func New(c Config) (*Sandbox, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Sandbox{
		config: c, projects: map[string]*project{}, site: traffic.NewWebsite(traffic.Options{Seed: c.Seed, Pages: c.Pages,
			LateDays: c.Faults.LateDays, IsGrowing: c.Scenario == Growth, Forged: c.Forged}),
		answers:  traffic.NewCache[answerKey](maxCachedBytes, content.weight),
		counting: make(chan struct{}, runtime.GOMAXPROCS(0)), hour: newSlidingHour(c.Faults.RateLimit),
	}
	s.service = s.newService()
	s.pageNumbers = sync.OnceValue(func() map[string]uint32 { return pageNumbers(s.site.Pages) })
	first := analytics.DateOf(c.Now()) - analytics.Date(c.Days)
	for _, name := range c.Projects {
		s.projects[name] = &project{name: name, synthetic: s.site.Project(name, first),
			postHour: newSlidingHour(c.Agent.Faults.RateLimit)}
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
		if s.log, err = traffic.OpenEventLog(c.DataDir, c.Projects, c.Faults.LateDays); err != nil {
			return nil, err
		}
	}
	if s.pulls, err = openPulls(inData("pulls"), c.Seed, c.Agent.Pulls, c.Now); err != nil {
		return nil, err
	}
	s.merges = &merges{pulls: s.pulls, pageNumbers: s.pageNumbers, merged: map[int]merge{}}
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
		Model:        jobModel, Editor: pretend{File: changedFile(c.Seed, s.site.Pages)}, Host: s.pulls,
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
