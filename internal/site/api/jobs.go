package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Limits of a prompt. The specification has none; these are the limits of docgauge's prompt
// files.
const (
	MaxPrompt = 64 << 10
	// MaxBody lets every byte of a prompt be written as \u00XX, and leaves space for more fields.
	MaxBody = 6*MaxPrompt + 4<<10
)

// postJob is POST /v2/agent/{project}/job and /v2/agent/{project}/job/{id}/message.
func (s *Service) postJob(c *Call) (any, error) {
	if s.Jobs == nil {
		return nil, errNoJobs
	}
	prompt, err := readPrompt(c)
	if err != nil {
		return nil, err
	}
	if id := c.PathValue("id"); id != "" {
		return s.Jobs.Message(c, id, prompt)
	}
	return s.Jobs.Create(c, prompt)
}

// readJob is GET /v2/agent/{project}/job/{id}.
func (s *Service) readJob(c *Call) (any, error) {
	if s.Jobs == nil {
		return nil, errNoJobs
	}
	return s.Jobs.Get(c, c.PathValue("id"))
}

// errNoJobs has a status that tells clients that the prompt was not taken: after a 501 they could
// not know.
var errNoJobs = Fail(http.StatusNotFound, "agent jobs: this site runs none")

// readPrompt returns the prompt in the body of c; every error is a refusal that names the
// field and the rule and nothing of the prompt. Other fields are ignored.
func readPrompt(c *Call) (prompt string, err error) {
	if media, _, err := mime.ParseMediaType(c.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return "", Fail(http.StatusUnsupportedMediaType, "Content-Type header: want application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, c.Body, MaxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return "", Fail(http.StatusRequestEntityTooLarge, "body: want at most %d bytes", MaxBody)
	}
	// A map, because a struct would take "Prompt" for "prompt".
	var fields map[string]json.RawMessage
	bad := func(message string) (string, error) { return "", Fail(http.StatusBadRequest, "%s", message) }
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
	case len(prompt) > MaxPrompt:
		return "", Fail(http.StatusRequestEntityTooLarge, "prompt: want at most %d bytes of UTF-8, got %d",
			MaxPrompt, len(prompt))
	}
	return prompt, nil
}
