package sandbox

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"path/filepath"

	"github.com/docgauge/docgauge/internal/sandbox/agent"
	"github.com/docgauge/docgauge/internal/sandbox/codehost"
	"github.com/docgauge/docgauge/internal/sandbox/worktree"
)

// What the agent half keeps in Config.DataDir, besides its journal.
const (
	pullsName     = "pulls"
	worktreesName = "worktrees"
)

// openAgent starts the agent half: it goes on with the jobs of the data directory.
func (s *Sandbox) openAgent() (err error) {
	c := s.config
	if u, err := url.Parse(c.Agent.PublicURL); err == nil {
		s.publicHost = u.Host
	}
	if s.pulls, err = codehost.OpenLocal(s.dataPath(pullsName), c.Now); err != nil {
		return err
	}
	jobs := agent.Config{
		Dir: c.DataDir, After: c.Agent.After, Workers: c.Agent.Workers, ArchiveAfter: c.Agent.ArchiveAfter,
		Source: agent.Source{Repository: "docgauge/sandbox", Ref: "main"}, Model: DefaultModel,
		Editor: agent.Pretend{}, Host: s.pulls, Now: c.Now, Logger: c.Logger,
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

// dataPath returns a path in the data directory, empty without one.
func (s *Sandbox) dataPath(name string) string {
	if s.config.DataDir == "" {
		return ""
	}
	return filepath.Join(s.config.DataDir, name)
}

// openRepo lets jobs edit a repository.
func (s *Sandbox) openRepo(c Repo, jobs *agent.Config) (err error) {
	edited := worktree.Config{Path: c.Path, Base: c.Base, Dir: s.dataPath(worktreesName), Command: c.Command, Timeout: c.Timeout, Env: c.Env}
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

func (s *Sandbox) closeRepo() error {
	if s.repo == nil {
		return nil
	}
	return s.repo.Close()
}
