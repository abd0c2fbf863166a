package docsapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// The statuses of section 3. Others may come; they count as still running.
const (
	StatusActive    = "active"
	StatusCompleted = "completed"
	StatusArchived  = "archived"
	StatusFailed    = "failed"
)

const (
	// maxID is the longest job id, in bytes.
	maxID = 512
	// maxText is the longest other text of a job, in bytes.
	maxText = 2 << 10
)

// Job is an agent job as the service last described it (section 2.1). The ID is
// always there; of the rest, what the service left out, or gave as something
// else than the specification says, is empty or the zero time. The texts are
// printable, on one line, at most 2 KiB each.
type Job struct {
	ID, Status             string
	Repository, Ref, Model string
	PRLink                 string // empty for null
	CreatedAt, ArchivedAt  time.Time
}

// Ended reports whether the service is done with the job: completed, archived or
// failed.
func (j Job) Ended() bool {
	return j.Status == StatusCompleted || j.Status == StatusArchived || j.Status == StatusFailed
}

// decodeJob reads an agent job object that must be the one of id, or any where
// id is empty. Nothing but the id is required: all else is only shown. Errors
// wrap errCut where the body ends too early, else errShape.
func decodeJob(body []byte, id string) (Job, error) {
	fields, err := decodeObject(body)
	if err != nil {
		return Job{}, asAnswerError(err)
	}
	source := nested(fields["source"])
	job := Job{
		ID:         exact(fields["id"]),
		Status:     text(fields["status"]),
		Repository: text(source["repository"]),
		Ref:        text(source["ref"]),
		Model:      text(fields["model"]),
		PRLink:     text(fields["prLink"]),
		CreatedAt:  timestamp(fields["createdAt"]),
		ArchivedAt: timestamp(fields["archivedAt"]),
	}
	switch {
	case checkID(job.ID) != nil:
		return Job{}, fmt.Errorf("%w: no usable id of a job in it", errShape)
	case id != "" && job.ID != id:
		return Job{}, fmt.Errorf("%w: it is another job's, %s", errShape, job.ID)
	}
	return job, nil
}

// decodeObject reads one JSON object and nothing after it.
func decodeObject(body []byte) (fields map[string]json.RawMessage, err error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	err = decoder.Decode(&fields)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, errors.New("want an object")
	}
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more data after the job")
	}
	return fields, nil
}

func nested(raw json.RawMessage) (fields map[string]json.RawMessage) {
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	return fields
}

// exact returns a JSON string as it is, empty if it is something else.
func exact(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// text returns a JSON string fit to be shown.
func text(raw json.RawMessage) string {
	s := strings.TrimSpace(strings.Map(printable, exact(raw)))
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	return s
}

// timestamp reads ISO 8601 with a zone; what cannot be read is the zero time.
func timestamp(raw json.RawMessage) time.Time {
	s := exact(raw)
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05Z0700"} {
		if t, err := time.Parse(layout, s); err == nil && t.Unix() > 0 {
			return t.UTC()
		}
	}
	return time.Time{}
}

// checkID refuses what cannot be a job's id in a path or a terminal.
func checkID(id string) error {
	odd := strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar })
	if id == "" || id == "." || id == ".." || len(id) > maxID || odd || id != strings.TrimSpace(id) {
		return fmt.Errorf("no job id: want 1 to %d printable bytes, as the service gave it", maxID)
	}
	return nil
}
