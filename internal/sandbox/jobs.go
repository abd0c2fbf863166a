package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/sandbox/agent"
	"github.com/docgauge/docgauge/internal/sandbox/codehost"
)

// Limits of a prompt. The specification has none; these are the limits of
// docgauge's own prompt files.
const (
	maxPrompt = 64 << 10
	// maxBody lets every byte of a prompt be written as \u00XX, and has room for more fields.
	maxBody = 6*maxPrompt + 4<<10
)

// jobObject is an agent job as section 2.1 has it, every field always present:
// prLink is null while the job is active or if nothing was changed,
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

// newJobObject returns j with an absolute link. The link of a pull request on this
// sandbox is kept as its number, since a restart may change the address and --repo the
// name of the repository.
func (s *Sandbox) newJobObject(c *call, j agent.Job) jobObject {
	o := jobObject{ID: j.ID, Status: j.Status, Source: j.Source, Model: j.Model, CreatedAt: j.CreatedAt}
	if link := j.Link; link != "" {
		if number, ours := strings.CutPrefix(link, codehost.Path); ours {
			if pr, ok := s.pulls.Pull(number); ok {
				link = pr.WebPath()
			}
			base := "http://" + c.Host
			if public := s.config.Agent.PublicURL; public != "" {
				base = strings.TrimSuffix(public, "/")
			}
			link = base + link
		}
		o.PRLink = &link
	}
	if !j.ArchivedAt.IsZero() {
		o.ArchivedAt = &j.ArchivedAt
	}
	return o
}

// createJob is POST /v2/agent/{project}/job.
func (s *Sandbox) createJob(c *call, p *project) (any, error) {
	return s.post(c, func(prompt string) (agent.Job, error) { return s.jobs.Create(p.name, prompt) })
}

// messageJob is POST /v2/agent/{project}/job/{id}/message.
func (s *Sandbox) messageJob(c *call, p *project) (any, error) {
	return s.post(c, func(prompt string) (agent.Job, error) { return s.jobs.Message(p.name, c.PathValue("id"), prompt) })
}

// post has the prompt of c accepted. Faults strike before or after that, never in
// between.
func (s *Sandbox) post(c *call, accept func(prompt string) (agent.Job, error)) (any, error) {
	faults := s.config.Agent.Faults
	prompt, err := readPrompt(c)
	if err != nil {
		return nil, err
	}
	_ = clock.Sleep(c.Context(), faults.Latency) // or until nobody waits for the answer
	j, err := accept(prompt)
	if err != nil {
		return nil, jobRefusal(err)
	}
	c.accepted = true
	return s.newJobObject(c, j), faults.afterAccepting(c, s.acceptedPosts.Add(1))
}

// readJob is GET /v2/agent/{project}/job/{id}.
func (s *Sandbox) readJob(c *call, p *project) (any, error) {
	j, err := s.jobs.Get(p.name, c.PathValue("id"))
	if err != nil {
		return nil, jobRefusal(err)
	}
	return s.newJobObject(c, j), nil
}

func jobRefusal(err error) error {
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

// readPrompt returns the prompt in the body of c; every error is a refusal that
// names the field and the rule and nothing of the prompt. Other fields are ignored.
func readPrompt(c *call) (prompt string, err error) {
	if media, _, err := mime.ParseMediaType(c.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return "", fail(http.StatusUnsupportedMediaType, "Content-Type header: want application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, c.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return "", fail(http.StatusRequestEntityTooLarge, "body: want at most %d bytes", maxBody)
	}
	// A map, because a struct would take "Prompt" for "prompt".
	var fields map[string]json.RawMessage
	bad := func(message string) (string, error) { return "", fail(http.StatusBadRequest, "%s", message) }
	switch {
	case err != nil:
		return bad("body: ended before it was complete")
	case !utf8.Valid(body):
		return bad("body: want UTF-8")
	case json.Unmarshal(body, &fields) != nil || fields == nil:
		return bad(`body: want one JSON object, such as {"prompt": "…"}`)
	case fields["prompt"] == nil:
		return bad("prompt: is required")
	case bytes.Equal(fields["prompt"], []byte("null")) || json.Unmarshal(fields["prompt"], &prompt) != nil:
		return bad("prompt: want a string")
	case strings.TrimSpace(prompt) == "":
		return bad("prompt: must not be empty")
	case len(prompt) > maxPrompt:
		return "", fail(http.StatusRequestEntityTooLarge, "prompt: want at most %d bytes of UTF-8, got %d", maxPrompt,
			len(prompt))
	}
	return prompt, nil
}
