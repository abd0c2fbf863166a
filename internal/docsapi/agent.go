package docsapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// The names of the agent operations in Attempt.
const (
	EndpointCreate  = "agent_create"
	EndpointMessage = "agent_message"
	EndpointJob     = "agent_job"
)

const (
	missingProject = "check DOCGAUGE_PROJECTS and DOCGAUGE_BASE_URL"
	missingJob     = "no such job in this project; if that is so for every job, check DOCGAUGE_JOB_PATH and DOCGAUGE_BASE_URL"
)

// CreateJob starts an agent job with one POST (section 4.1). It is never sent
// again by itself, and once it has a connection ctx does not end it. The error
// is an *Error: see [IsNotSent] and [IsInDoubt] for what has become of the job.
func (c *Client) CreateJob(ctx context.Context, project, prompt string) (Job, error) {
	r := c.writeCall(EndpointCreate, "create a job", project)
	r.missing = missingProject
	if err := checkProject(project); err != nil {
		return Job{}, r.refuse(err)
	}
	r.url = c.agentURL(project)
	return c.post(ctx, r, prompt, "")
}

// SendMessage sends a follow-up to a job (section 4.2), as CreateJob sends a
// prompt. The service takes it up later: the job's status can still be that of
// before.
func (c *Client) SendMessage(ctx context.Context, project, id, prompt string) (Job, error) {
	r := c.writeCall(EndpointMessage, "send a message to a job", project)
	r.missing = missingJob
	if err := errors.Join(checkProject(project), checkID(id)); err != nil {
		return Job{}, r.refuse(err)
	}
	r.about = slog.String("id", id)
	r.url = c.agentURL(project) + "/" + url.PathEscape(id) + "/message"
	return c.post(ctx, r, prompt, id)
}

// Job reads a job (section 4.4), with retries. Errors are *Error, or the
// context's. A 404 means that the service does not know the job, or not yet.
func (c *Client) Job(ctx context.Context, project, id string) (Job, error) {
	r := call{
		method: http.MethodGet, endpoint: EndpointJob, op: "read a job", project: project,
		url: c.base, missing: missingJob,
		key: c.admin, timeout: c.timeout, send: c.jobTransport,
	}
	if err := errors.Join(checkProject(project), checkID(id)); err != nil {
		return Job{}, r.refuse(err)
	}
	r.about = slog.String("id", id)
	r.url = c.base + fillJobPath(c.jobPath, project, id)
	var job Job
	r.decode = func(body []byte) (err error) {
		job, err = decodeJob(body, id)
		return err
	}
	if err := c.read(ctx, r); err != nil {
		return Job{}, err
	}
	return job, nil
}

func (c *Client) agentURL(project string) string {
	return c.base + "/v2/agent/" + url.PathEscape(project) + "/job"
}

func (c *Client) writeCall(endpoint, op, project string) call {
	return call{
		method: http.MethodPost, endpoint: endpoint, op: op, project: project,
		url: c.base, key: c.write, timeout: c.writeTimeout,
	}
}

// post sends r with prompt, once. id is the job that must be in the answer,
// empty for a new one.
func (c *Client) post(ctx context.Context, r call, prompt, id string) (job Job, err error) {
	if r.payload, err = encodePrompt(prompt); err != nil {
		return Job{}, r.refuse(err)
	}
	if r.send = c.writeTransport(r.project); r.send == nil {
		return Job{}, r.refuse(errors.New("no transport for the project"))
	}
	r.prompt = prompt
	r.decode = func(body []byte) (err error) {
		job, err = decodeJob(body, id)
		return err
	}
	if e := c.attempt(ctx, r); e != nil {
		return Job{}, e
	}
	return job, nil
}

// encodePrompt returns the request's body. It refuses what could not be sent as
// it is.
func encodePrompt(prompt string) ([]byte, error) {
	if strings.TrimSpace(prompt) == "" {
		return nil, errors.New("the prompt is empty")
	}
	body, err := jsontext.AppendQuote([]byte(`{"prompt":`), prompt)
	if err != nil {
		return nil, errors.New("the prompt is not UTF-8")
	}
	return append(body, '}'), nil
}
