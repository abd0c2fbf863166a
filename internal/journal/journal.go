// Package journal holds the words of the prompt queue's journal: a job wanted,
// its state, and the events that led there. Package state keeps them, package
// jobs moves them on. It depends on the standard library only and does no I/O.
package journal

import "time"

// State is where a job of the queue stands. See package jobs for what leads
// from one to the other.
type State string

// The states. Invalid, Pending and Expired of a prompt that was never begun are
// not in the journal: they follow from its file.
const (
	Invalid    State = "invalid"    // the file breaks a rule
	Pending    State = "pending"    // waits, for the reason given
	Submitting State = "submitting" // the intent is durable, what the service did is not known yet
	Active     State = "active"     // the service works on it
	Completed  State = "completed"  // it ended well; with a pull request or without
	Failed     State = "failed"     // the service says so
	Archived   State = "archived"   // the service says so
	Rejected   State = "rejected"   // the service does not take it
	Unknown    State = "unknown"    // it may have reached the service; only the operator moves it on
	Held       State = "held"       // the operator stopped it before it began
	Cancelled  State = "cancelled"  // the operator gave it up
	Expired    State = "expired"    // its time passed before it began
	Lost       State = "lost"       // the service does not know it any more
)

// Ended reports whether nothing moves the state on but an operator who retries.
func (s State) Ended() bool {
	switch s {
	case Completed, Failed, Archived, Rejected, Cancelled, Expired, Lost:
		return true
	}
	return false
}

// Occupies reports whether a job in the state may be at work in the service: it
// counts against the cap on active jobs and blocks others of its concurrency key.
func (s State) Occupies() bool { return s == Submitting || s == Active || s == Unknown }

// Job is one job the queue wants or wanted: a prompt, or one firing of a
// recurring one. The zero times are never.
type Job struct {
	// Seq is the journal's own number, from 1; 0 is not in the journal yet.
	Seq int64 `json:"seq"`
	// Prompt is the id of the prompt, Firing the time of the firing of one that
	// recurs, Attempt 1 and one more for each retry. Together they are unique.
	Prompt  string    `json:"prompt"`
	Firing  time.Time `json:"firing,omitzero"`
	Attempt int       `json:"attempt"`

	Project string `json:"project"`
	Title   string `json:"title,omitempty"`
	// Path is the prompt's file below the folder.
	Path string `json:"path"`
	// Digest is of the file as it was when the job began; a file with another has
	// drifted. Text is what was sent, rendered.
	Digest         string   `json:"digest"`
	Text           string   `json:"text,omitempty"`
	ConcurrencyKey string   `json:"concurrency_key,omitempty"`
	Resubmit       bool     `json:"resubmit,omitempty"` // on_unknown: resubmit
	FollowUps      []string `json:"follow_ups,omitempty"`
	// Sent counts the follow-ups that the service took; Sending reports whether
	// the intent of the next one is durable and its outcome is not.
	Sent    int  `json:"follow_ups_sent"`
	Sending bool `json:"follow_up_in_flight,omitempty"`

	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`

	// What the service said last.
	JobID      string `json:"job_id,omitempty"`
	Status     string `json:"status,omitempty"`
	Repository string `json:"repository,omitempty"`
	Ref        string `json:"ref,omitempty"`
	Model      string `json:"model,omitempty"`
	PRLink     string `json:"pr_link,omitempty"`

	// Begun is when the intent became durable; Created is the service's time, or
	// ours where it gave none; Ended is when the end was seen.
	Begun   time.Time `json:"begun_at,omitzero"`
	Created time.Time `json:"created_at,omitzero"`
	Ended   time.Time `json:"ended_at,omitzero"`
	// Accepted is when the last create or message was taken.
	Accepted time.Time `json:"accepted_at,omitzero"`
	// Next is when to poll an active job, or to try a pending one again; Polls
	// counts the reads since Accepted, Missing is since when the service answers 404.
	Next    time.Time `json:"next_at,omitzero"`
	Polls   int       `json:"polls"`
	Missing time.Time `json:"missing_since,omitzero"`
}

// Result is how an ended job counts in docgauge_agent_jobs_finished_total: pr,
// no_pr, failed, archived, lost, or empty where it never was a job of the service.
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

// Event is one transition.
type Event struct {
	At    time.Time `json:"at"`
	Job   int64     `json:"job"` // Seq; 0 for the queue itself
	From  State     `json:"from,omitempty"`
	To    State     `json:"to"`
	Cause string    `json:"cause"`
}

// Queue is what holds the whole queue up.
type Queue struct {
	// Paused is why, empty while it runs: unknown (two creates in a row in doubt),
	// unauthorized (the key was refused) or operator. Since is when that began.
	Paused string    `json:"paused,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Unknowns counts creates in doubt since the last one that was not.
	Unknowns int `json:"unknowns_in_a_row"`
	// Adopted reports whether the queue knows this state: see DOCGAUGE_PROMPTS_ON_NEW_STATE.
	Adopted bool `json:"adopted"`
}

// Note is a notification that is to be delivered at least once.
type Note struct {
	ID int64 `json:"id"`
	// Kind is completed, failed, archived, lost, unknown, rejected or paused.
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
	// Body is the JSON to send.
	Body []byte `json:"-"`
	// Tries counts failed deliveries, Next is when to try again.
	Tries int       `json:"tries"`
	Next  time.Time `json:"next_at"`
}
