package docsapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
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
	// maxUnit is the longest unit of a cost, in bytes; maxCost and maxTokens are the largest numbers.
	maxUnit   = 16
	maxCost   = 1_000_000
	maxTokens = 1_000_000_000_000

	missingJob = "no such job in this project; if this is so for every job, check DOCGAUGE_JOB_PATH and " +
		"DOCGAUGE_BASE_URL"
)

// Job is an agent job as the service last described it (section 2.1). The ID is
// always there. Any other field that the service left out, or that does not follow
// the specification, is empty or the zero time. The texts are printable, on one
// line, at most 2 KiB each.
type Job struct {
	ID, Status             string
	Repository, Ref, Model string
	Failure                string // why it failed: an extension
	PRLink                 string // empty for null
	CreatedAt              time.Time
	Cost                   JobCost
}

// JobCost is what a job has cost so far, with its follow-ups: an extension that a service may leave out.
type JobCost struct {
	// Amount is in Unit, to the millionth; it and Tokens, the number of tokens, are nil if they are unknown.
	Amount *float64
	Unit   string
	Tokens *int64
	// Problem is why a part of it that the service sent counts as unknown; else it is empty.
	Problem string
}

// Ended reports whether the service is done with the job: completed, archived or
// failed.
func (j Job) Ended() bool {
	return j.Status == StatusCompleted || j.Status == StatusArchived || j.Status == StatusFailed
}

// CreateJob starts an agent job with one POST (section 4.1), which has a title for services that know it. The POST is never
// repeated, and once it has a connection the end of ctx leaves it 25 s. The error is an
// *Error: [IsNotSent] and [IsInDoubt] report the fate of the job.
func (c *Client) CreateJob(ctx context.Context, project, prompt, title string) (Job, error) {
	r := c.writeCall(endpointCreate, "create a job", project, missingProject)
	if err := checkProject(project); err != nil {
		return Job{}, r.refuse(err)
	}
	r.url, r.title = c.agentURL(project), mime.QEncoding.Encode("utf-8", title)
	return c.post(ctx, r, prompt, "")
}

// SendMessage sends a follow-up to a job (section 4.2), as CreateJob sends a
// prompt. The service handles it later: until then the job can keep its former
// status.
func (c *Client) SendMessage(ctx context.Context, project, id, prompt string) (Job, error) {
	r := c.writeCall(endpointMessage, "send a message to a job", project, missingJob)
	if err := errors.Join(checkProject(project), checkID(id)); err != nil {
		return Job{}, r.refuse(err)
	}
	r.about = slog.String("id", id)
	r.url = c.agentURL(project) + "/" + url.PathEscape(id) + "/message"
	return c.post(ctx, r, prompt, id)
}

// Job reads a job (section 4.4), with retries. Errors are *Error, or the cause of
// the context. A 404 means that the service does not know the job, or not yet.
func (c *Client) Job(ctx context.Context, project, id string) (job Job, err error) {
	r := call{
		method: http.MethodGet, endpoint: endpointJob, op: "read a job", project: project,
		url: c.base, notFound: missingJob,
		key: c.admin, timeout: c.options.Timeout, send: c.jobTransport,
		decode: func(body []byte) (err error) {
			job, err = decodeJob(body, id)
			return err
		},
	}
	if err := errors.Join(checkProject(project), checkID(id)); err != nil {
		return Job{}, r.refuse(err)
	}
	r.about = slog.String("id", id)
	r.url = c.base + fillJobPath(c.options.JobPath, project, id)
	if err := c.read(ctx, r); err != nil {
		return Job{}, err
	}
	return job, nil
}

func (c *Client) agentURL(project string) string {
	return c.base + "/v2/agent/" + url.PathEscape(project) + "/job"
}

func (c *Client) writeCall(endpoint, op, project, notFound string) call {
	return call{
		method: http.MethodPost, endpoint: endpoint, op: op, project: project,
		url: c.base, notFound: notFound, key: c.write, timeout: c.options.Timeout,
	}
}

// post sends r with prompt, once. id is the job that must be in the answer,
// empty for a new one.
func (c *Client) post(ctx context.Context, r call, prompt, id string) (job Job, err error) {
	if strings.TrimSpace(prompt) == "" {
		return Job{}, r.refuse(errors.New("the prompt is empty"))
	}
	payload, err := jsontext.AppendQuote([]byte(`{"prompt":`), prompt)
	if err != nil {
		return Job{}, r.refuse(errors.New("the prompt is not UTF-8"))
	}
	if r.send = c.options.WriteTransport(r.project); r.send == nil {
		return Job{}, r.refuse(errors.New("no transport for the project"))
	}
	r.prompt, r.payload = prompt, append(payload, '}')
	r.decode = func(body []byte) (err error) {
		job, err = decodeJob(body, id)
		return err
	}
	if e := c.attempt(ctx, r); e != nil {
		return Job{}, e
	}
	return job, nil
}

// decodeJob reads an agent job object. It must be the job with id, or any job if
// id is empty. Only the id is required: the rest is only shown. Errors wrap errCut
// where the body ends too early, else errShape.
func decodeJob(body []byte, id string) (Job, error) {
	var fields map[string]json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(body))
	err := decoder.Decode(&fields)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = errors.New("want an object")
	} else if err == nil {
		if _, end := decoder.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("more data after the job")
		}
	}
	if err != nil {
		return Job{}, asAnswerError(err)
	}
	var source map[string]json.RawMessage
	_ = json.Unmarshal(fields["source"], &source) // anything but an object leaves its fields empty
	job := Job{
		ID:         exact(fields["id"]),
		Status:     text(fields["status"]),
		Repository: text(source["repository"]),
		Ref:        text(source["ref"]),
		Model:      text(fields["model"]),
		Failure:    text(fields["failure"]),
		PRLink:     text(fields["prLink"]),
		CreatedAt:  timestamp(fields["createdAt"]),
		Cost:       jobCost(fields["cost"], fields["cost_unit"], fields["tokens"]),
	}
	switch {
	case checkID(job.ID) != nil:
		return Job{}, fmt.Errorf("%w: no usable id of a job in it", errShape)
	case id != "" && job.ID != id:
		return Job{}, fmt.Errorf("%w: it is another job's, %s", errShape, job.ID)
	}
	return job, nil
}

// exact returns a JSON string unchanged, empty for any other value.
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

// timestamp reads ISO 8601 with a zone; an unreadable one is the zero time.
func timestamp(raw json.RawMessage) time.Time {
	s := exact(raw)
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05Z0700"} {
		if t, err := time.Parse(layout, s); err == nil && t.Unix() > 0 {
			return t.UTC()
		}
	}
	return time.Time{}
}

// jobCost reads the extension. A part that breaks a rule is unknown: it must not lose the job.
func jobCost(cost, unit, tokens json.RawMessage) (c JobCost) {
	isNull := func(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
	number := func(raw json.RawMessage, most float64) (n float64, ok bool) {
		return n, json.Unmarshal(raw, &n) == nil && n >= 0 && n <= most
	}
	if !isNull(cost) {
		odd := func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar }
		name := exact(unit)
		switch n, ok := number(cost, maxCost); {
		case !ok:
			c.Problem = fmt.Sprintf("cost: want a number from 0 to %d", maxCost)
		case !isNull(unit) && name == "", len(name) > maxUnit, strings.ContainsFunc(name, odd):
			c.Problem = fmt.Sprintf("cost_unit: want 1 to %d printable bytes without spaces, like USD", maxUnit)
		default:
			n = max(0, math.Round(n*1e6)/1e6) // no -0
			c.Amount, c.Unit = &n, name
		}
	}
	if isNull(tokens) {
		return c
	}
	if n, ok := number(tokens, maxTokens); ok && n == math.Trunc(n) {
		count := int64(n)
		c.Tokens = &count
	} else if c.Problem == "" {
		c.Problem = fmt.Sprintf("tokens: want a whole number from 0 to %d", maxTokens)
	}
	return c
}

// checkID refuses what cannot be a job's id in a path or a terminal.
func checkID(id string) error {
	odd := strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar })
	if isDots(id) || id == "" || len(id) > maxID || odd || id != strings.TrimSpace(id) {
		return fmt.Errorf("no job id: want 1 to %d printable bytes, as the service gave it", maxID)
	}
	return nil
}

func isDots(segment string) bool { return segment == "." || segment == ".." }

// defaultJobPath is the path for reading an agent job (section 4.4 leaves it open).
const defaultJobPath = "/v2/agent/{projectId}/job/{id}"

const (
	projectPlace = "{projectId}"
	idPlace      = "{id}"
)

// pathShape is a path of RFC 3986.
var pathShape = regexp.MustCompile(`^/([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*$`)

// CheckJobPath reports why path cannot be a ClientOptions.JobPath, or nil: a path relative
// to BaseURL, without query, with {projectId} and {id} once each.
func CheckJobPath(path string) error {
	plain := strings.NewReplacer(projectPlace, "p", idPlace, "i").Replace(path)
	dots := false
	for segment := range strings.SplitSeq(plain, "/") {
		dots = dots || isDots(segment)
	}
	switch {
	case strings.Count(path, projectPlace) != 1 || strings.Count(path, idPlace) != 1:
		return fmt.Errorf("DOCGAUGE_JOB_PATH: want %s and %s once each, like %s", projectPlace, idPlace, defaultJobPath)
	case strings.ContainsAny(path, "?#"):
		return errors.New("DOCGAUGE_JOB_PATH: must not have a query or a fragment")
	case !pathShape.MatchString(plain) || strings.HasPrefix(plain, "//") || dots:
		return errors.New("DOCGAUGE_JOB_PATH: want a path that begins with one / and has no spaces, " +
			"no . or .. segments and no other braces, like " + defaultJobPath)
	}
	return nil
}

// fillJobPath inserts the escaped values in one pass: a value may look like a placeholder.
func fillJobPath(path, project, id string) string {
	return strings.NewReplacer(projectPlace, url.PathEscape(project), idPlace, url.PathEscape(id)).Replace(path)
}
