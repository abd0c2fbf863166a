package jobs

import (
	"encoding/json"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// notePaused is the kind of the note that the queue was paused; of all others the
// kind is the state of their job.
const notePaused = "paused"

// notice is the body of a notification.
type notice struct {
	Event string    `json:"event"`
	At    time.Time `json:"at"`
	// Text says it in one line.
	Text string `json:"text"`
	// Job is what happened to, Queue is what was paused: one of them.
	Job   *noticeJob   `json:"job,omitempty"`
	Queue *noticeQueue `json:"queue,omitempty"`
}

type noticeJob struct {
	Seq        int64         `json:"seq"`
	Prompt     string        `json:"prompt"`
	Path       string        `json:"path"`
	Project    string        `json:"project"`
	Title      string        `json:"title,omitempty"`
	Firing     time.Time     `json:"firing,omitzero"`
	Attempt    int           `json:"attempt"`
	State      journal.State `json:"state"`
	Result     string        `json:"result,omitempty"`
	Reason     string        `json:"reason,omitempty"`
	JobID      string        `json:"job_id,omitempty"`
	PRLink     string        `json:"pr_link,omitempty"`
	Repository string        `json:"repository,omitempty"`
	Ref        string        `json:"ref,omitempty"`
	Model      string        `json:"model,omitempty"`
	Created    time.Time     `json:"created_at,omitzero"`
	Ended      time.Time     `json:"ended_at,omitzero"`
}

type noticeQueue struct {
	Paused journal.Pause `json:"paused"`
	Since  time.Time     `json:"since"`
	Detail string        `json:"detail"`
}

// noteJob is the note of a job that came to the state it is in; nil where nobody
// is to hear of it.
func (q *Queue) noteJob(at time.Time, j journal.Job) *journal.Note {
	switch j.State {
	case journal.Completed, journal.Failed, journal.Archived, journal.Lost, journal.Rejected, journal.Unknown:
	default:
		return nil
	}
	text := "prompt " + j.Prompt + " is " + string(j.State)
	switch {
	case j.PRLink != "":
		text += ": " + j.PRLink
	case j.Reason != "":
		text += ": " + j.Reason
	}
	return q.note(notice{Event: string(j.State), At: at, Text: text, Job: &noticeJob{
		Seq: j.Seq, Prompt: j.Prompt, Path: j.Path, Project: j.Project, Title: j.Title, Firing: j.Firing, Attempt: j.Attempt,
		State: j.State, Result: j.Result(), Reason: j.Reason, JobID: j.JobID, PRLink: j.PRLink,
		Repository: j.Repository, Ref: j.Ref, Model: j.Model, Created: j.Created, Ended: j.Ended,
	}})
}

func (q *Queue) notePause(at time.Time, queue journal.Queue) *journal.Note {
	return q.note(notice{Event: notePaused, At: at, Text: "the prompt queue is paused: " + queue.Detail,
		Queue: &noticeQueue{Paused: queue.Paused, Since: queue.Since, Detail: queue.Detail}})
}

func (q *Queue) note(n notice) *journal.Note {
	if !q.cfg.Notify {
		return nil
	}
	body, err := json.Marshal(n)
	if err != nil {
		q.cfg.Logger.Error("notification not written", "event", n.Event, "error", err)
		return nil
	}
	return &journal.Note{Kind: n.Event, At: n.At, Body: body}
}
