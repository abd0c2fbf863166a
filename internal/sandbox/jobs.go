package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/sandbox/agent"
	"github.com/docgauge/docgauge/internal/sandbox/codehost"
)

// Limits of a prompt. The specification has none; these are the limits of docgauge's prompt
// files.
const (
	maxPrompt = 64 << 10
	// maxBody lets every byte of a prompt be written as \u00XX, and leaves space for more fields.
	maxBody = 6*maxPrompt + 4<<10
)

// postJob is POST /v2/agent/{project}/job and /v2/agent/{project}/job/{id}/message. Faults
// strike before or after the prompt is accepted, never in between.
func (s *Sandbox) postJob(c *call, p *project) (any, error) {
	faults := s.config.Agent.Faults
	prompt, err := readPrompt(c)
	if err != nil {
		return nil, err
	}
	_ = clock.Sleep(c.Context(), faults.Latency) // or until the client has gone
	var j agent.Job
	if id := c.PathValue("id"); id == "" {
		j, err = s.jobs.Create(p.name, prompt)
	} else {
		j, err = s.jobs.Message(p.name, id, prompt)
	}
	if err != nil {
		return nil, jobRefusal(err)
	}
	c.accepted = true
	return s.withLink(c, j), faults.afterAccepting(c, s.acceptedPosts.Add(1))
}

// readJob is GET /v2/agent/{project}/job/{id}.
func (s *Sandbox) readJob(c *call, p *project) (any, error) {
	j, err := s.jobs.Get(p.name, c.PathValue("id"))
	if err != nil {
		return nil, jobRefusal(err)
	}
	return s.withLink(c, j), nil
}

// withLink returns j with an absolute link. That of a pull request on this sandbox is kept as
// its number, since a restart may change the address and --repo the name of the repository.
func (s *Sandbox) withLink(c *call, j agent.Job) agent.Job {
	if j.PRLink == nil {
		return j
	}
	link := *j.PRLink
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
	j.PRLink = &link
	return j
}

func jobRefusal(err error) error {
	for sentinel, status := range map[error]int{
		agent.ErrNotFound: http.StatusNotFound, agent.ErrArchived: http.StatusConflict,
		agent.ErrClosed: http.StatusServiceUnavailable,
	} {
		if errors.Is(err, sentinel) {
			return fail(status, "%v", err)
		}
	}
	return err
}

// readPrompt returns the prompt in the body of c; every error is a refusal that names the
// field and the rule and nothing of the prompt. Other fields are ignored.
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
		return "", fail(http.StatusRequestEntityTooLarge, "prompt: want at most %d bytes of UTF-8, got %d",
			maxPrompt, len(prompt))
	}
	return prompt, nil
}
