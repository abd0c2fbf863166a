package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Limits of a prompt. The specification has none; this is what docgauge's own
// prompt files may have.
const (
	maxPrompt = 64 << 10
	// maxBody lets every byte of a prompt be written as \u00XX, and has room for more fields.
	maxBody = 6*maxPrompt + 4<<10
)

// readPrompt returns the prompt in the body of c; every error is a refusal that
// names the field and the rule and nothing of the prompt. Other fields are ignored.
func readPrompt(c *call) (string, error) {
	if media, _, err := mime.ParseMediaType(c.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return "", fail(http.StatusUnsupportedMediaType, "Content-Type header: want application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, c.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return "", fail(http.StatusRequestEntityTooLarge, "body: want at most %d bytes", maxBody)
	}
	if err != nil {
		return "", fail(http.StatusBadRequest, "body: ended before it was complete")
	}
	prompt, err := parsePrompt(body)
	if err != nil {
		return "", fail(http.StatusBadRequest, "%v", err)
	}
	if len(prompt) > maxPrompt {
		return "", fail(http.StatusRequestEntityTooLarge, "prompt: want at most %d bytes of UTF-8, got %d", maxPrompt, len(prompt))
	}
	return prompt, nil
}

var errBody = errors.New(`body: want one JSON object, such as {"prompt": "…"}`)

func parsePrompt(body []byte) (prompt string, err error) {
	if !utf8.Valid(body) {
		return "", errors.New("body: want UTF-8")
	}
	// A map, because a struct would take "Prompt" for "prompt".
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return "", errBody
	}
	value, ok := fields["prompt"]
	if !ok {
		return "", errors.New("prompt: is required")
	}
	if bytes.Equal(value, []byte("null")) || json.Unmarshal(value, &prompt) != nil {
		return "", fmt.Errorf("prompt: want a string")
	}
	if strings.TrimSpace(prompt) == "" {
		return "", errors.New("prompt: must not be empty")
	}
	return prompt, nil
}
