// Package journal has the types of the prompt queue's journal: a job, its state, the
// transitions that led there, and the changes that move it on. Package state stores them,
// package jobs makes the changes. It depends on the standard library only and does no I/O.
package journal

import (
	"errors"
	"fmt"
	"time"
)

// State is the state of a job. Package jobs has the table of the transitions.
type State string

// The states. A prompt without a job is invalid, pending or expired: its file says which.
const (
	Invalid    State = "invalid"    // the file breaks a rule
	Pending    State = "pending"    // it waits, for the reason given
	Submitting State = "submitting" // the intent is durable, the outcome is not known yet
	Active     State = "active"     // the service is working on it
	Completed  State = "completed"  // it ended well, with or without a pull request
	Failed     State = "failed"     // the service reported a failure
	Archived   State = "archived"   // the service reported that it was archived
	Rejected   State = "rejected"   // the service refused it for good
	Unknown    State = "unknown"    // it may have reached the service; only the operator moves it on
	Held       State = "held"       // the operator stopped it before it began, or it looks renamed
	Cancelled  State = "cancelled"  // the operator gave it up
	Expired    State = "expired"    // its time passed before it began
	Lost       State = "lost"       // the service no longer knows it
)

// States returns all states in the order in which people are shown them: first those that wait
// or are under way, then those that need attention, then those that ended.
func States() []State {
	return []State{
		Pending, Submitting, Active, Unknown, Held, Invalid, Rejected, Failed, Lost, Archived, Completed, Cancelled,
		Expired,
	}
}

// Ended reports whether the state is final: only an operator's retry leads on.
func (s State) Ended() bool {
	switch s {
	case Completed, Failed, Archived, Rejected, Cancelled, Expired, Lost:
		return true
	}
	return false
}

// Occupies reports whether the service may be working on a job in this state. Such a job counts
// against the cap on active jobs and blocks others of its concurrency key.
func (s State) Occupies() bool { return s == Submitting || s == Active || s == Unknown }

// Job is one job of the queue: of a prompt, or of one firing of a recurring prompt. A zero time
// means never.
type Job struct {
	// Seq is the journal's own number, from 1; 0 means not in the journal yet. Version grows
	// with every change, which a concurrent writer notices.
	Seq     int64 `json:"seq"`
	Version int64 `json:"-"`
	// Prompt is the id of the prompt, Firing the time of the firing of a recurring one, and Try
	// is 1, and one more for each retry. Together they are unique.
	Prompt string    `json:"prompt"`
	Firing time.Time `json:"firing,omitzero"`
	Try    int       `json:"attempt"`

	Project string `json:"project"`
	Title   string `json:"title,omitempty"`
	// Path is the prompt's file, relative to the folder.
	Path string `json:"path"`
	// RenamedFrom is set for a prompt that was held because it looks renamed: the path its text
	// was sent from. It stays after the operator has decided.
	RenamedFrom string `json:"renamed_from,omitempty"`
	// Digest is the digest of the file when the job began: another one means that it was edited since.
	Digest         string `json:"digest"`
	ConcurrencyKey string `json:"concurrency_key,omitempty"`
	// Resubmit means that it is sent once more automatically if it is in doubt
	// (on_unknown: resubmit, and not used up).
	Resubmit bool `json:"resubmit,omitempty"`
	// Text and FollowUps are the rendered texts to send. Lists of jobs omit them, and a change
	// without them leaves them unchanged.
	Text      string   `json:"text,omitempty"`
	FollowUps []string `json:"follow_ups,omitempty"`
	// Messages is the number of follow-ups, Sent the number that the service accepted. Sending
	// means that the intent of the next one is durable and its outcome is not.
	Messages int  `json:"follow_ups_total"`
	Sent     int  `json:"follow_ups_sent"`
	Sending  bool `json:"follow_up_in_flight,omitempty"`

	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	// InDoubt means that it never became known whether the service accepted it: the job is
	// unknown, or was unknown when it was given up.
	InDoubt bool `json:"in_doubt,omitempty"`

	// The service's last answer. No two jobs of a project have the same JobID.
	JobID      string `json:"job_id,omitempty"`
	Status     string `json:"status,omitempty"`
	Repository string `json:"repository,omitempty"`
	Ref        string `json:"ref,omitempty"`
	Model      string `json:"model,omitempty"`
	PRLink     string `json:"pr_link,omitempty"`

	// Cost is what the service last said that it has cost so far, in CostUnit, and Tokens the
	// number of tokens; nil is unknown. IsPriced says whether the cost is final.
	Cost     *float64 `json:"cost,omitempty"`
	CostUnit string   `json:"cost_unit,omitempty"`
	Tokens   *int64   `json:"tokens,omitempty"`
	// Estimate is DOCGAUGE_JOB_COST when it began, which counts once it is created.
	Estimate float64 `json:"estimated_cost,omitempty"`

	// Pages are the paths of the pages that the prompt names.
	Pages []string `json:"pages,omitempty"`

	// Begun is when the intent became durable. Created is the service's time, or ours if it gave
	// none. Ended is when the end was seen.
	Begun   time.Time `json:"begun_at,omitzero"`
	Created time.Time `json:"created_at,omitzero"`
	Ended   time.Time `json:"ended_at,omitzero"`
	// Charged is when the create last counted against the cap per day: the time of the intent, then the time of its
	// outcome; zero once the service is known to have refused it.
	Charged time.Time `json:"charged_at,omitzero"`
	// Accepted is when the last create or follow-up was accepted.
	Accepted time.Time `json:"accepted_at,omitzero"`
	// Next is when to read an active job, or to send a pending one again. Refusals counts the
	// consecutive creates or follow-ups that were refused for a time. Until Blocked the service,
	// or the budget, accepts nothing of the project.
	Next     time.Time `json:"next_at,omitzero"`
	Refusals int       `json:"tries,omitempty"`
	Blocked  time.Time `json:"blocked_until,omitzero"`
	// Polls counts the reads since Accepted. Missing is since when the service answers 404.
	Polls   int       `json:"polls"`
	Missing time.Time `json:"missing_since,omitzero"`
	// SeenActive means that a read since Accepted found the job at work. SeenDone counts the
	// reads that found it completed although it may not have begun.
	SeenActive bool `json:"-"`
	SeenDone   int  `json:"-"`
}

// stalledAfter is how long a job is at work before a person should look at it.
const stalledAfter = 2 * time.Hour

// Stalled reports whether the job has been at work for very long.
func (j Job) Stalled(now time.Time) bool {
	return j.State == Active && now.Sub(j.Accepted) > stalledAfter
}

// Result is the label of an ended job in docgauge_agent_jobs_finished_total: pr, no_pr, failed,
// archived or lost; empty if the service never had it.
func (j Job) Result() string {
	switch {
	case j.State == Completed && j.PRLink != "":
		return "pr"
	case j.State == Completed && j.JobID != "":
		return "no_pr"
	case j.State == Failed, j.State == Archived, j.State == Lost:
		return string(j.State)
	}
	return ""
}

// IsPriced reports whether the last cost of a job with that result is what it cost in the end: the
// service said that it ended.
func IsPriced(result string) bool { return result != "" && result != string(Lost) }

// Transition is one change of the state of a job, or another entry of its history.
type Transition struct {
	At    time.Time `json:"at"`
	Job   int64     `json:"job"` // Seq; 0 for the queue itself
	From  State     `json:"from,omitempty"`
	To    State     `json:"to"`
	Cause string    `json:"cause"`
}

// Recurring is a prompt with a schedule. Its firings count from Since on, when the queue first
// saw it with that schedule.
type Recurring struct {
	Schedule string    `json:"schedule"`
	Since    time.Time `json:"since"`
}

// Queue is the state of the queue as a whole.
type Queue struct {
	// Paused is the reason why nothing is sent, empty while the queue runs. Since is the beginning
	// of the pause, Detail its description for people.
	Paused Pause     `json:"paused,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Detail string    `json:"detail,omitempty"`
	// Answered is when the service last answered a read during a pause. Released is when the
	// operator last released the queue.
	Answered time.Time `json:"answered_at,omitzero"`
	Released time.Time `json:"released_at,omitzero"`
	// Unknowns counts creates and follow-ups in doubt since the last that was answered.
	Unknowns int `json:"unknowns_in_a_row"`
	// Adopted means that the queue knows this state: see DOCGAUGE_PROMPTS_ON_NEW_STATE. Restored
	// means that it does not because the state is a backup from before the last send.
	Adopted  bool `json:"adopted"`
	Restored bool `json:"restored,omitempty"`
	// KeyMark identifies the keys that were refused, or while the queue is not paused those with which a create or
	// a message was accepted last, without revealing them.
	KeyMark string `json:"-"`
	// Version is like Job.Version.
	Version int64 `json:"-"`
}

// Pause is why the queue sends nothing.
type Pause string

// The pauses.
const (
	PausedUnknown      Pause = "unknown"      // two consecutive creates or follow-ups are in doubt
	PausedUnauthorized Pause = "unauthorized" // the key was refused
	PausedOperator     Pause = "operator"     // an operator paused it
	// PausedNewState is never in the journal: the journal has no job, and there are prompts.
	PausedNewState Pause = "new_state"
)

// Event is a notification that is delivered at least once.
type Event struct {
	ID int64 `json:"id"`
	// Kind is the new state of a job, paused, or an event of the pipeline.
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
	// Body is the JSON to send.
	Body []byte `json:"-"`
	// Tries counts failed deliveries. Next is when to deliver it again.
	Tries int       `json:"tries"`
	Next  time.Time `json:"next_at"`
	// Begun is since when it is being sent, zero if it is not. InDoubt counts the deliveries
	// that may have arrived.
	Begun   time.Time `json:"-"`
	InDoubt int       `json:"-"`
}

// Change is one step of the journal. Several are made together, all or none.
type Change struct {
	// Job is the job as it becomes. Without a Seq it is new, and there must be none of its
	// prompt, firing and try; with one, the job must be at its Version and in state From.
	// Without a Prompt no job is changed. A new JobID must belong to no other job of the project.
	Job  Job
	From State
	// Cause is the reason, for the history. A change without one is not in the history.
	At    time.Time
	Cause string
	// Event is entered for delivery; nil for none.
	Event *Event
	// Queue is the new value of the queue, at its Version; nil leaves the queue unchanged.
	Queue *Queue
}

// Reasons why a change was not made.
var (
	// ErrRaced: the job or the queue has changed since the change was prepared.
	ErrRaced = errors.New("it was changed at the same time")
	// ErrDuplicate: the journal has a job of that prompt, firing and try.
	ErrDuplicate = errors.New("the journal already has that job")
	// ErrNoJob: the journal has no job with that number.
	ErrNoJob = errors.New("the journal has no such job")
)

// TakenError is about a change that gave a job the service's id of another job of its project.
// The other job keeps it.
type TakenError struct {
	JobID string
	// By is the number of the job that has the id, Prompt its prompt.
	By     int64
	Prompt string
}

// Error names both.
func (e *TakenError) Error() string {
	return fmt.Sprintf("%s is the id of job %d of prompt %s", e.JobID, e.By, e.Prompt)
}

// Newest returns the newest job of each prompt, by prompt.
func Newest(jobs []Job) map[string]Job {
	newest := make(map[string]Job, len(jobs))
	for _, job := range jobs {
		if newest[job.Prompt].Seq < job.Seq {
			newest[job.Prompt] = job
		}
	}
	return newest
}
