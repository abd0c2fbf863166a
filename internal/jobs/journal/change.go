package journal

import (
	"errors"
	"fmt"
	"time"
)

// Decisions a caller takes on a change that was not made.
var (
	// ErrRaced: the job, or the queue, is not as it was when the change was made up.
	ErrRaced = errors.New("somebody else changed it meanwhile")
	// ErrDuplicate: there is a job of that prompt, firing and attempt already.
	ErrDuplicate = errors.New("the journal has that job already")
	// ErrNoJob: there is no job of that number.
	ErrNoJob = errors.New("the journal has no such job")
)

// TakenError is of a change that gave a job the service's id of another job of its
// project. That one keeps it.
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

// Change is one step of the journal. Several are made together, all or none.
type Change struct {
	// Job is the job as it is to be. Without a Seq it is new, and one of its prompt,
	// firing and attempt must not be there; with one, it must be at its Version and
	// in state From. Without a Prompt no job is changed. Its JobID, unless it has it
	// already, must be that of no other job of its project.
	Job  Job
	From State
	// Cause is why, for the history; without one the history has nothing of it.
	At    time.Time
	Cause string
	// Note is to be delivered, nil for none.
	Note *Note
	// Queue is the queue as it is to be, at its Version; nil leaves it as it is.
	Queue *Queue
}
