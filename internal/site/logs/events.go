package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// maxEventPath limits the path of an event, in bytes.
const maxEventPath = 2048

// Event is one view in an event log: one JSON object a line.
type Event struct {
	Time    string `json:"time"` // RFC 3339
	Visitor string `json:"visitor"`
	Kind    string `json:"kind"` // human or ai
	Path    string `json:"path"`
	Project string `json:"project"` // may be missing
	Agent   string `json:"agent"`   // of an AI, as its user agent has it; may be missing

	// What else the line may say.
	Referrer string `json:"referrer,omitempty"`
	Bytes    *int64 `json:"bytes,omitempty"`    // of the answer
	Evidence bool   `json:"evidence,omitempty"` // the visitor shows now that it is a browser
	Markdown bool   `json:"markdown,omitempty"` // the answer is Markdown
}

// ParseEvent reads a line of an event log. The error names the field and the rule.
func ParseEvent(line []byte) (e Event, at time.Time, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, at, fmt.Errorf(
			"line: want one JSON object with time, visitor, kind, path and optionally project, agent, referrer, bytes, "+
				"evidence and markdown: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return e, at, errors.New("line: want one JSON object a line, found more after it")
	}
	if at, err = time.Parse(time.RFC3339, e.Time); err != nil {
		return e, at, fmt.Errorf("time %.40q: want RFC 3339 with a zone, such as 2026-10-01T12:00:00Z", e.Time)
	}
	switch {
	case e.Visitor == "":
		return e, at, errors.New("visitor: is missing or empty")
	case e.Kind != "human" && e.Kind != "ai":
		return e, at, fmt.Errorf("kind %.40q: want human or ai", e.Kind)
	case e.Agent != "" && e.Kind != "ai":
		return e, at, errors.New("agent: want it only where kind is ai")
	case e.Evidence && e.Kind != "human":
		return e, at, errors.New("evidence: want it only where kind is human")
	case e.Bytes != nil && (*e.Bytes < 0 || *e.Bytes > maxBytes):
		return e, at, fmt.Errorf("bytes %d: want a number from 0 to %d", *e.Bytes, int64(maxBytes))
	case !strings.HasPrefix(e.Path, "/") || len(e.Path) > maxEventPath:
		return e, at, fmt.Errorf("path %.40q: want / at the beginning and at most %d bytes", e.Path, maxEventPath)
	}
	return e, at, nil
}

// parseEvent reads a line as [ParseEvent] does.
func parseEvent(line []byte, into *Line) error {
	e, at, err := ParseEvent(line)
	*into = Line{Time: at.Unix(), Method: []byte("GET"), Status: 200, Target: []byte(e.Path), Reader: []byte(e.Visitor),
		Kind: []byte(e.Kind), Project: []byte(e.Project), UserAgent: []byte(e.Agent), Referrer: []byte(e.Referrer),
		Shown: e.Evidence, Markdown: e.Markdown}
	if e.Bytes != nil {
		into.Bytes, into.HasBytes = *e.Bytes, true
	}
	return err
}
