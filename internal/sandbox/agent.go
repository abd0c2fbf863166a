package sandbox

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/sandbox/agent"
	"github.com/docgauge/docgauge/internal/sandbox/codehost"
)

// jobObject is an agent job as section 2.1 has it, every field always present:
// prLink is null while the job is active or where nothing was changed,
// archivedAt until it is archived.
type jobObject struct {
	ID         string       `json:"id"`
	Status     agent.Status `json:"status"`
	Source     agent.Source `json:"source"`
	Model      string       `json:"model"`
	PRLink     *string      `json:"prLink"`
	CreatedAt  time.Time    `json:"createdAt"`
	ArchivedAt *time.Time   `json:"archivedAt"`
}

func (s *Sandbox) newJobObject(c *call, j agent.Job) jobObject {
	o := jobObject{ID: j.ID, Status: j.Status, Source: j.Source, Model: j.Model, CreatedAt: j.CreatedAt}
	if j.Link != "" {
		link := s.absolute(c, j.Link)
		o.PRLink = &link
	}
	if !j.ArchivedAt.IsZero() {
		o.ArchivedAt = &j.ArchivedAt
	}
	return o
}

// absolute returns the URL of a link, which is a path if it is on this sandbox.
// A restart may change the address, so the path is what is kept.
func (s *Sandbox) absolute(c *call, link string) string {
	if !strings.HasPrefix(link, codehost.Path) {
		return link
	}
	if public := s.config.Agent.PublicURL; public != "" {
		return strings.TrimSuffix(public, "/") + link
	}
	return "http://" + c.Host + link
}

// createJob is POST /v2/agent/{projectId}/job.
func (s *Sandbox) createJob(c *call, p *project) (any, error) {
	return s.post(c, p, func(prompt string) (agent.Job, error) { return s.jobs.Create(p.name, prompt) })
}

// messageJob is POST /v2/agent/{projectId}/job/{id}/message.
func (s *Sandbox) messageJob(c *call, p *project) (any, error) {
	return s.post(c, p, func(prompt string) (agent.Job, error) { return s.jobs.Message(p.name, c.params["id"], prompt) })
}

// post reads the prompt of c and has it accepted, with the faults around that.
func (s *Sandbox) post(c *call, p *project, accept func(prompt string) (agent.Job, error)) (any, error) {
	faults := s.config.Agent.Faults
	prompt, err := readPrompt(c)
	if err != nil {
		return nil, err
	}
	_ = clock.Sleep(c.Context(), faults.Latency) // or until nobody waits for the answer
	j, err := accept(prompt)
	if err != nil {
		return nil, refuseJob(err)
	}
	c.accepted = true
	return s.newJobObject(c, j), faults.afterAccepting(c, s.posts.accepted.Add(1))
}

// readJob is GET /v2/agent/{projectId}/job/{id}.
func (s *Sandbox) readJob(c *call, p *project) (any, error) {
	j, err := s.jobs.Get(p.name, c.params["id"])
	if err != nil {
		return nil, refuseJob(err)
	}
	return s.newJobObject(c, j), nil
}

func refuseJob(err error) error {
	switch {
	case errors.Is(err, agent.ErrNotFound):
		return fail(http.StatusNotFound, "%v", err)
	case errors.Is(err, agent.ErrArchived):
		return fail(http.StatusConflict, "%v", err)
	case errors.Is(err, agent.ErrClosed):
		return fail(http.StatusServiceUnavailable, "%v", err)
	}
	return err
}

// servePage answers requests for the pages of pull requests, which need no key.
// A name with a dot must be ours: any other one could be a stranger's, pointed
// at this machine to have a browser read the pages for a page of his.
func (s *Sandbox) servePage(w http.ResponseWriter, r *http.Request) {
	if !s.ownHost(r.Host) {
		http.Error(w, "host: want an IP address, a name without a dot, or the host of the public URL", http.StatusMisdirectedRequest)
		return
	}
	s.pulls.ServePage(w, r)
}

func (s *Sandbox) ownHost(host string) bool {
	if s.publicHost != "" && strings.EqualFold(host, s.publicHost) {
		return true
	}
	name := host
	if at := strings.LastIndexByte(host, ':'); at > strings.LastIndexByte(host, ']') {
		name = host[:at]
	}
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil || !strings.Contains(name, ".")
}
