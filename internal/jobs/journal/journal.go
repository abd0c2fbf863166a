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
	Held       State = "held"       // the operator stopped it before it began, or it looks renamed
	Cancelled  State = "cancelled"  // the operator gave it up
	Expired    State = "expired"    // its time passed before it began
	Lost       State = "lost"       // the service does not know it any more
)

// States returns all states in the order in which people are shown them: first those
// that wait or are under way, then those that need attention, then those that ended.
func States() []State {
	return []State{Pending, Submitting, Active, Unknown, Held, Invalid, Rejected, Failed, Lost, Archived, Completed, Cancelled, Expired}
}

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
	// Seq is the journal's own number, from 1; 0 is not in the journal yet. Version
	// grows with every change, so that who changes it knows that nobody else did.
	Seq     int64 `json:"seq"`
	Version int64 `json:"-"`
	// Prompt is the id of the prompt, Firing the time of the firing of one that
	// recurs, Attempt 1 and one more for each retry. Together they are unique.
	Prompt  string    `json:"prompt"`
	Firing  time.Time `json:"firing,omitzero"`
	Attempt int       `json:"attempt"`

	Project string `json:"project"`
	Title   string `json:"title,omitempty"`
	// Path is the prompt's file below the folder.
	Path string `json:"path"`
	// RenamedFrom is the path the file had as it looks, of a prompt that was held for
	// that: its text was sent from there. It stays when somebody has decided.
	RenamedFrom string `json:"renamed_from,omitempty"`
	// Digest is of the file as it was when the job began; a file with another has
	// drifted.
	Digest         string `json:"digest"`
	ConcurrencyKey string `json:"concurrency_key,omitempty"`
	// Resubmit reports whether it is sent once more by itself where it is in doubt
	// (on_unknown: resubmit, and not used up).
	Resubmit bool `json:"resubmit,omitempty"`
	// Text and FollowUps are what is sent, rendered. They are long: lists of jobs
	// come without them, and a change without them leaves them as they are.
	Text      string   `json:"text,omitempty"`
	FollowUps []string `json:"follow_ups,omitempty"`
	// Messages is how many follow-ups there are, Sent how many the service took;
	// Sending reports whether the intent of the next one is durable and its outcome
	// is not.
	Messages int  `json:"follow_ups_total"`
	Sent     int  `json:"follow_ups_sent"`
	Sending  bool `json:"follow_up_in_flight,omitempty"`

	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	// InDoubt reports whether nobody ever learned if the service took it: of an
	// unknown job, and of one that was unknown and given up.
	InDoubt bool `json:"in_doubt,omitempty"`

	// What the service said last. No two jobs of a project have one JobID.
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
	// Charged is when the create last counted against the cap per day: the time of
	// the intent, then that of its outcome; zero once the service is known not to
	// have taken it.
	Charged time.Time `json:"charged_at,omitzero"`
	// Accepted is when the last create or message was taken.
	Accepted time.Time `json:"accepted_at,omitzero"`
	// Next is when to poll an active job, or to try a pending one again. Tries counts
	// the creates, or messages, in a row that were not taken for a time.
	// Blocked is until when the service, or the budget, said to take nothing.
	Next    time.Time `json:"next_at,omitzero"`
	Tries   int       `json:"tries,omitempty"`
	Blocked time.Time `json:"blocked_until,omitzero"`
	// Polls counts the reads since Accepted, Missing is since when the service
	// answers 404.
	Polls   int       `json:"polls"`
	Missing time.Time `json:"missing_since,omitzero"`
	// SeenActive reports whether a read since Accepted found the job at work, SeenDone
	// counts those that found it completed although it may not have begun.
	SeenActive bool `json:"-"`
	SeenDone   int  `json:"-"`
}

// stalledAfter is how long a job is at work before people should look at it.
const stalledAfter = 2 * time.Hour

// Stalled reports whether the job has been at work for very long.
func (j Job) Stalled(now time.Time) bool {
	return j.State == Active && now.Sub(j.Accepted) > stalledAfter
}

// Newer reports whether j comes after other among the jobs of a prompt: it is of
// a later firing, or a later attempt of the same one.
func (j Job) Newer(other Job) bool {
	if !j.Firing.Equal(other.Firing) {
		return j.Firing.After(other.Firing)
	}
	return j.Attempt > other.Attempt
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

// Event is one transition, or something else worth telling of a job.
type Event struct {
	At    time.Time `json:"at"`
	Job   int64     `json:"job"` // Seq; 0 for the queue itself
	From  State     `json:"from,omitempty"`
	To    State     `json:"to"`
	Cause string    `json:"cause"`
}

// Recurring is a prompt with a schedule: its firings count from Since on, when the
// queue first saw it with that schedule.
type Recurring struct {
	Schedule string    `json:"schedule"`
	Since    time.Time `json:"since"`
}

// Queue is what holds the whole queue up.
type Queue struct {
	// Paused is why, empty while it runs. Since is when that began.
	Paused Pause     `json:"paused,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Detail is what happened, for people.
	Detail string `json:"detail,omitempty"`
	// Answered is when the service last answered a read in a pause, Released when the
	// operator last asked to go on.
	Answered time.Time `json:"answered_at,omitzero"`
	Released time.Time `json:"released_at,omitzero"`
	// Unknowns counts creates and messages in doubt since the last that was answered.
	Unknowns int `json:"unknowns_in_a_row"`
	// Adopted reports whether the queue knows this state: see DOCGAUGE_PROMPTS_ON_NEW_STATE.
	Adopted bool `json:"adopted"`
	// KeyMark stands for the keys that were refused; it is not one of them.
	KeyMark string `json:"-"`
	// Version is as that of a Job.
	Version int64 `json:"-"`
}

// Pause is why the queue submits nothing.
type Pause string

// The pauses.
const (
	PausedUnknown      Pause = "unknown"      // two creates or messages in a row are in doubt
	PausedUnauthorized Pause = "unauthorized" // the key was refused
	PausedOperator     Pause = "operator"     // the operator wants it so
	// PausedNewState is not in the journal: it has no job, and there are prompts.
	PausedNewState Pause = "new_state"
)

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
