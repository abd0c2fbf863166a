package sandbox

import (
	"context"
	"encoding/json"
	slashpath "path"
	"strings"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// jobAPI serves the jobs of a sandbox. Faults strike before or after a prompt is accepted, never in
// between.
type jobAPI struct{ *Sandbox }

func (s jobAPI) Create(c *api.Call, prompt, title string) (any, error) {
	return s.accept(c, func() (runner.Job, error) { return s.jobs.Create(c.Project, prompt, title) })
}

func (s jobAPI) Message(c *api.Call, id, prompt string) (any, error) {
	return s.accept(c, func() (runner.Job, error) { return s.jobs.Message(c.Project, id, prompt) })
}

func (s jobAPI) accept(c *api.Call, do func() (runner.Job, error)) (any, error) {
	faults := s.config.Agent.Faults
	_ = clock.Sleep(c.Context(), faults.Latency) // or until the client has gone
	j, err := do()
	if err != nil {
		return nil, err
	}
	c.Accepted = true
	return s.withLink(c, j), faults.afterAccepting(c, s.acceptedPosts.Add(1))
}

func (s jobAPI) Get(c *api.Call, id string) (any, error) {
	j, err := s.jobs.Get(c.Project, id)
	if err != nil {
		return nil, err
	}
	return s.withLink(c, j), nil
}

// withLink returns j with an absolute link. The link of a pull request on this sandbox is kept as its number, since
// a restart may change the address and --repo the name of the repository.
func (s *Sandbox) withLink(c *api.Call, j runner.Job) runner.Job {
	if j.PRLink == nil {
		return j
	}
	link := *j.PRLink
	if number, ours := strings.CutPrefix(link, pullPath); ours {
		if pr, ok := s.pulls.Pull(number); ok {
			link = pr.WebPath()
		}
		base := "http://" + c.Host
		if public := s.config.Agent.PublicURL; public != "" {
			base = strings.TrimSuffix(public, "/")
		}
		link = base + link
	}
	j.PRLink = &link
	return j
}

// repositoryFile returns a file of the repository that jobs edit, or of the synthetic site.
func (s *Sandbox) repositoryFile(ctx context.Context, commit, name string) ([]byte, bool, error) {
	if s.repo != nil {
		return s.repo.File(ctx, commit, name)
	}
	pages := s.site.Pages
	if name == navigationFile {
		text, err := json.MarshalIndent(navigation(pages), "", "  ")
		return text, true, err
	}
	_, found := s.pageNumbers()[strings.TrimSuffix("/"+name, pageEnd)]
	return []byte(pretendedHead(name) + "\n"), found && slashpath.Ext(name) == pageEnd, nil
}
