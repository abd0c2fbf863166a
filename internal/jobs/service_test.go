package jobs

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/docsapi"
)

// service is a service that accepts every create and message, and remembers it. Words in
// a prompt choose the outcome: "fails", "archives", "no change", "slow".
type service struct {
	now  func() time.Time
	jobs []*remote
	// down, if not nil, returns the error of a call; nil for none.
	down func(call, project string) error
	// answersAs, if not nil, says under which id a create or a message is answered.
	answersAs func(call, id string) string
	// links are the pull requests of some jobs, by prompt, as the service spells them.
	links map[string]string
	// status, if not empty, is the status of every job.
	status string
	// costs, if not nil, returns what a job has cost so far.
	costs func(*remote) docsapi.JobCost
	// calls counts all calls, whatever the answer.
	calls map[string]int
}

type remote struct {
	id, project string
	texts       []string // the prompt, then the messages
	taken       []time.Time
	gone        bool // it is not found
}

const turn = 2 * time.Minute

// begin counts a call, and returns its error.
func (s *service) begin(call, project string) error {
	s.calls[call]++
	if s.down == nil {
		return nil
	}
	return s.down(call, project)
}

// answered is a job as the service answers with it.
func (s *service) answered(call string, got docsapi.Job) docsapi.Job {
	if s.answersAs != nil {
		got.ID = s.answersAs(call, got.ID)
	}
	return got
}

func (s *service) CreateJob(_ context.Context, project, prompt, title string) (docsapi.Job, error) {
	if err := s.begin(callCreate, project); err != nil {
		return docsapi.Job{}, err
	}
	j := &remote{
		id: fmt.Sprintf("job-%d", len(s.jobs)+1), project: project,
		texts: []string{prompt}, taken: []time.Time{s.now()},
	}
	s.jobs = append(s.jobs, j)
	return s.answered(callCreate, s.show(j)), nil
}

func (s *service) SendMessage(_ context.Context, project, id, prompt string) (docsapi.Job, error) {
	j, err := s.find(callMessage, project, id)
	if err != nil {
		return docsapi.Job{}, err
	}
	before := s.show(j) // the message is taken up later
	j.texts, j.taken = append(j.texts, prompt), append(j.taken, s.now())
	return s.answered(callMessage, before), nil
}

func (s *service) Job(_ context.Context, project, id string) (docsapi.Job, error) {
	j, err := s.find(callRead, project, id)
	if err != nil {
		return docsapi.Job{}, err
	}
	return s.show(j), nil
}

func (s *service) find(call, project, id string) (*remote, error) {
	if err := s.begin(call, project); err != nil {
		return nil, err
	}
	for _, j := range s.jobs {
		if j.id == id && j.project == project && !j.gone {
			return j, nil
		}
	}
	return nil, answer(http.StatusNotFound)
}

// show returns the present state of the job: at work for a turn after each text.
func (s *service) show(j *remote) docsapi.Job {
	out := docsapi.Job{
		ID: j.id, Status: docsapi.StatusActive, Repository: "acme/docs", Ref: "main", Model: "m1",
		CreatedAt: j.taken[0],
	}
	if s.costs != nil {
		out.Cost = s.costs(j)
	}
	if s.status != "" {
		out.Status = s.status
		return out
	}
	last := j.texts[len(j.texts)-1]
	work := turn
	if strings.Contains(last, "slow") {
		work = 3 * time.Hour
	}
	if s.now().Before(j.taken[len(j.taken)-1].Add(work)) {
		return out
	}
	switch {
	case strings.Contains(last, "fails"):
		out.Status, out.Failure = docsapi.StatusFailed, "no credit"
	case strings.Contains(last, "archives"):
		out.Status = docsapi.StatusArchived
	default:
		out.Status = docsapi.StatusCompleted
		if !strings.Contains(j.texts[0], "no change") {
			out.PRLink = cmp.Or(s.links[j.texts[0]], "https://example.com/pr/"+j.id)
		}
	}
	return out
}

// taken returns how often the service accepted a text as a prompt.
func (s *service) taken(text string) (n int) {
	for _, j := range s.jobs {
		if j.texts[0] == text {
			n++
		}
	}
	return n
}

// of returns the job of a prompt's text.
func (s *service) of(text string) *remote {
	return s.jobs[slices.IndexFunc(s.jobs, func(j *remote) bool { return j.texts[0] == text })]
}

// got returns how often a job was sent a message.
func (s *service) got(id, text string) (n int) {
	for _, j := range s.jobs {
		for _, message := range j.texts[1:] {
			if j.id == id && message == text {
				n++
			}
		}
	}
	return n
}

// mostIn24Hours returns how many jobs were created in some 24 hours, at the most.
func (s *service) mostIn24Hours() (most int) {
	for i, from := range s.jobs {
		for n, to := range s.jobs[i:] {
			if to.taken[0].Sub(from.taken[0]) < day {
				most = max(most, n+1)
			}
		}
	}
	return most
}

// answer returns the client's error for a response of the service.
func answer(status int) error {
	outcome := docsapi.Permanent
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusTooEarly:
		outcome = docsapi.Transient
	case status < 400, status >= 500, status == http.StatusRequestTimeout:
		outcome = docsapi.InDoubt
	}
	return &docsapi.Error{
		Op: "call", Method: "POST", URL: "https://api.example.com", Status: status, Outcome: outcome, FromAPI: true,
		Message: "said so",
	}
}

func throttled(after time.Duration) error {
	return &docsapi.Error{
		Op: "call", Status: http.StatusTooManyRequests, Outcome: docsapi.Transient, RetryAfter: after, FromAPI: true,
	}
}

// notSentError returns the client's error if no connection was made.
func notSentError() error {
	return &docsapi.Error{Op: "call", Outcome: docsapi.Transient, Message: "no connection", Err: docsapi.ErrNotSent}
}

// lostError returns the client's error if no response came.
func lostError() error {
	return &docsapi.Error{Op: "call", Outcome: docsapi.InDoubt, Message: "no answer"}
}

// always answers every call, or those named, with err.
func always(err error, calls ...string) func(string, string) error {
	return func(call, _ string) error {
		if len(calls) == 0 || slices.Contains(calls, call) {
			return err
		}
		return nil
	}
}
