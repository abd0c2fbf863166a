package runner

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/git"
)

// Options says how jobs are kept and worked on.
type Options struct {
	Dir          string        // data directory; empty = jobs are only in memory
	Workers      int           // instructions worked on at once, at least 1
	ArchiveAfter time.Duration // time from the end of its last instruction until a job is archived; 0 = never
	Source       func(project string) Source
	Model        string
	Editor       Editor
	// ClockHeld reports whether the clock may be wrong: then no job is archived; nil = never.
	ClockHeld func() bool
	// Archived is called once a job takes no more messages; nil = not at all.
	Archived func(Job) error
	Host     Host
	Now      func() time.Time
	Logger   *slog.Logger
}

// Queue keeps jobs and works on them. Its methods are safe for concurrent use.
type Queue struct {
	options Options
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu      sync.Mutex
	jobs    map[string]*Job
	order   []*Job   // as created
	journal *journal // nil without a data directory, or before the first job
	waiting []*Job   // have an instruction and no worker
	busy    int      // workers
}

// Open returns the jobs of o.Dir and continues the active ones. The journal is created with
// the first job. The error names a bad line of the journal, or is errLocked.
func Open(o Options) (*Queue, error) {
	ctx, cancel := context.WithCancel(context.Background())
	q := &Queue{options: o, ctx: ctx, cancel: cancel, jobs: map[string]*Job{}}
	if o.Dir == "" {
		return q, nil
	}
	if _, err := os.Stat(filepath.Join(o.Dir, journalName)); errors.Is(err, fs.ErrNotExist) {
		return q, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q, q.openJournal()
}

// openJournal reads the journal, starts work on the active jobs and archives what is old enough.
func (q *Queue) openJournal() (err error) {
	if q.journal, err = openJournal(q.options.Dir, q.apply); err != nil {
		return err
	}
	for _, j := range q.order {
		if j.active() {
			q.enqueue(j)
		}
	}
	q.ageAll()
	return nil
}

// Close stops the work and waits for the workers. The next Open of the directory works on
// their unfinished instructions again.
func (q *Queue) Close() error {
	q.mu.Lock()
	q.cancel() // with the lock: no worker begins after it
	q.mu.Unlock()
	q.workers.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.journal == nil {
		return nil
	}
	return q.journal.file.Close()
}

// Create accepts a prompt as a new job of project. The title is its pull request's; empty = the prompt's first
// line.
func (q *Queue) Create(project, prompt, title string) (Job, error) {
	source := q.options.Source(project)
	if title != "" {
		title = Subject(title)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.accept(event{
		Kind: eventCreated, Job: "job_" + strings.ToLower(rand.Text()[:20]), Project: project, Prompt: prompt,
		Title: title, Source: &source, Model: q.options.Model,
	})
}

// Message accepts a prompt for a job of project. The error is errNotFound or errArchived, or
// comes from the journal.
func (q *Queue) Message(project, id, prompt string) (Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j, err := q.find(project, id)
	if err != nil {
		return Job{}, err
	}
	if j.ArchivedAt != nil {
		return Job{}, fmt.Errorf("job %.140q: %w", id, errArchived)
	}
	return q.accept(event{Kind: eventMessage, Job: id, Prompt: prompt})
}

// accept makes e durable and queues its job, unless the job is already queued or being worked on.
func (q *Queue) accept(e event) (Job, error) {
	if q.ctx.Err() != nil {
		return Job{}, errClosed
	}
	j := q.jobs[e.Job]
	idle := j == nil || !j.active()
	if err := q.commit(e); err != nil {
		return Job{}, err
	}
	j = q.jobs[e.Job]
	if idle {
		q.enqueue(j)
	}
	return j.shown(), nil
}

// Get returns a job of project, or errNotFound.
func (q *Queue) Get(project, id string) (Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j, err := q.find(project, id)
	if err != nil {
		return Job{}, err
	}
	return j.shown(), nil
}

// All returns every job that was accepted, in order.
func (q *Queue) All() []Job {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]Job, 0, len(q.order))
	for _, j := range q.order {
		all = append(all, j.shown())
	}
	return all
}

// find returns a job of project, archived if it is old enough.
func (q *Queue) find(project, id string) (*Job, error) {
	j, ok := q.jobs[id]
	if !ok || j.Project != project {
		return nil, fmt.Errorf("job %.140q: %w", id, errNotFound)
	}
	return j, q.age(j)
}

// age archives a job that is old enough.
func (q *Queue) age(j *Job) error {
	at := j.endedAt.Add(q.options.ArchiveAfter)
	if q.options.ArchiveAfter > 0 && !j.active() && j.ArchivedAt == nil && !q.options.Now().Before(at) &&
		(q.options.ClockHeld == nil || !q.options.ClockHeld()) {
		return q.commit(event{At: at, Kind: eventArchived, Job: j.ID})
	}
	return nil
}

// ageAll archives all jobs that are old enough, and lets what is kept of archived ones go.
func (q *Queue) ageAll() {
	for _, j := range q.order {
		err := q.age(j)
		if err == nil && j.ArchivedAt != nil && !j.forgotten && q.options.Archived != nil {
			err = q.options.Archived(j.shown())
			j.forgotten = err == nil
		}
		if err != nil {
			q.options.Logger.Error("agent job not archived", "job_id", j.ID, "error", err)
		}
	}
}

// commit makes an event durable, then applies it. Without a time it happens now.
func (q *Queue) commit(e event) (err error) {
	if e.At.IsZero() {
		e.At = q.options.Now()
	}
	e.At = e.At.UTC().Truncate(time.Millisecond)
	if q.journal == nil && q.options.Dir != "" {
		err = q.openJournal()
	}
	if err == nil && q.journal != nil {
		err = q.journal.append(e)
	}
	if err != nil {
		return err
	}
	return q.apply(e)
}

// apply adds one event, live or from the journal.
func (q *Queue) apply(e event) error {
	j, exists := q.jobs[e.Job]
	switch {
	case e.Kind == eventCreated && (exists || e.Source == nil):
		return fmt.Errorf("job %.60q: want it created once, with a source", e.Job)
	case e.Kind != eventCreated && !exists:
		return fmt.Errorf("job %.60q: has an event before it was created", e.Job)
	}
	switch e.Kind {
	case eventCreated:
		j = &Job{
			ID: e.Job, Project: e.Project, Source: *e.Source, Model: e.Model, Title: e.Title, CreatedAt: e.At,
			Prompts: []string{e.Prompt},
		}
		q.jobs[e.Job], q.order = j, append(q.order, j)
	case eventMessage:
		j.Prompts = append(j.Prompts, e.Prompt)
	case eventStarted:
		if j.begun {
			j.spent(nil) // what was interrupted cost something too
		}
		j.begun, j.Model = true, cmp.Or(e.Model, j.Model)
	case eventWorked:
		j.worked++
	case eventCommitted:
		if e.Change == nil {
			return fmt.Errorf("job %.60q: event committed lacks its change", e.Job)
		}
		j.last, j.pending, j.retries, j.worked = *e.Change, true, 0, 0
		j.report(e.Report)
	case eventPostponed:
		if !j.pending {
			j.spent(e.Report)
		}
		if e.Report != nil && e.Report.Session != nil && j.session != nil && e.Report.Session.ID == j.session.ID {
			j.session = e.Report.Session // what it cost by now is not to be counted twice
		}
		j.retries++
		j.worked, j.begun, j.RetryAt, j.Failure, j.Output = 0, false, &e.Until, e.Failure, e.Output
	case eventEnded:
		if !j.active() {
			return fmt.Errorf("job %.60q: ended more often than instructions were accepted", e.Job)
		}
		if !j.pending {
			j.report(e.Report)
		}
		j.Worked++
		j.begun, j.pending, j.retries, j.worked, j.RetryAt = false, false, 0, 0, nil
		j.Status, j.endedAt, j.Failure, j.Output = e.Status, e.At, e.Failure, e.Output
		if e.Link != "" {
			j.PRLink = &e.Link
		}
		if e.Status == Archived && !j.active() {
			j.ArchivedAt = &e.At
		}
	case eventArchived:
		j.Status, j.ArchivedAt = Archived, &e.At
	default:
		return fmt.Errorf("event %.40q: unknown; a newer docgauge may have written it", e.Kind)
	}
	return nil
}

// Instructions that are to be tried again later, or whose pull request is, are tried at most maxRetries times, after
// firstRetry, and each time after twice the time before: over five hours in all, the length of the longest window of the
// limits that agents commonly meet. Errors that pass sooner are tried fewRetries times.
const (
	maxRetries = 5
	fewRetries = 2
	firstRetry = 10 * time.Minute
)

// An instruction may be what ends the process each time, and costs something each time. So it fails after maxWorked
// interruptions of work that had lasted longWork: a process that lives less long does not show that.
const (
	maxWorked = 5
	longWork  = 15 * time.Second
)

// maxFailure is the size in bytes at which the reason of a failure is cut.
const maxFailure = 1000

// enqueue puts j at the end of the queue, when its time comes, and makes sure that there is a worker.
func (q *Queue) enqueue(j *Job) {
	if j.RetryAt != nil {
		wait := min(j.RetryAt.Sub(q.options.Now()), firstRetry<<maxRetries) // should the clock have been wrong
		time.AfterFunc(wait, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			if j.RetryAt = nil; q.ctx.Err() == nil {
				q.enqueue(j)
			}
		})
		return
	}
	q.waiting = append(q.waiting, j)
	if q.busy < q.options.Workers {
		q.busy++
		q.workers.Go(q.work)
	}
}

// retryEvery is the time between two attempts to write what was done.
const retryEvery = time.Second

// record is commit for an event of work that is done, whose record alone is missing, for example on a full disk:
// it tries until that is written, or until Close. The caller has the lock, which is free between two attempts.
func (q *Queue) record(e event) error {
	err := q.commit(e)
	for err != nil && q.ctx.Err() == nil {
		q.options.Logger.Error("agent job's progress not written", "job_id", e.Job, "event", e.Kind, "error", err)
		q.mu.Unlock()
		_ = clock.Sleep(q.ctx, retryEvery)
		q.mu.Lock()
		err = q.commit(e)
	}
	return err
}

// work is a worker: it carries out instructions until no job waits. A job with more to do
// goes to the end of the queue, so that no job keeps the others waiting. The lock is free
// during the work itself.
func (q *Queue) work() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 && q.ctx.Err() == nil {
		j, before := q.waiting[0], *q.waiting[0]
		q.waiting = q.waiting[1:]
		if !before.pending {
			// After a crash from here on, the editor learns that it begins again.
			if err := q.commit(event{Kind: eventStarted, Job: j.ID, Model: q.options.Model}); err != nil {
				q.options.Logger.Error("agent job's beginning not written", "job_id", j.ID, "error", err)
			}
		}
		long := time.AfterFunc(longWork, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			if q.ctx.Err() == nil && j.begun && !j.pending && j.Worked == before.Worked {
				_ = q.commit(event{Kind: eventWorked, Job: j.ID}) // without it, one interruption does not count
			}
		})
		q.mu.Unlock()
		end := q.carryOut(before)
		q.mu.Lock()
		long.Stop()
		if end.Failure != "" && q.ctx.Err() != nil {
			break // stopped: the same as a crash
		}
		if q.record(end) != nil {
			break
		}
		switch {
		case j.RetryAt != nil:
			q.options.Logger.Warn("agent job is tried again later", "job_id", j.ID, "project", j.Project,
				"retry_at", *j.RetryAt, "retries", j.retries, "failure", end.Failure)
			q.enqueue(j)
		default:
			q.options.Logger.Info("agent job ended", "job_id", j.ID, "project", j.Project, "instruction", j.Worked,
				"outcome", string(end.Status), "pr_link", end.Link, "failure", end.Failure)
			if j.active() {
				q.waiting = append(q.waiting, j)
			}
		}
		q.ageAll()
	}
	q.busy--
}

// mayPass reports whether the remote or the code host may do hours later what it did not do now.
func mayPass(err error) bool {
	_, again := git.Again(err, maxRetries)
	return again || codehost.Passes(err)
}

// carryOut does the next instruction of j, without the lock, and returns the event that ends it.
func (q *Queue) carryOut(j Job) event {
	end := event{Kind: eventEnded, Job: j.ID, Status: Completed}
	failed := func(err error) event {
		end.Status, end.Failure, end.Link = Failed, oneLine(err.Error(), maxFailure), ""
		return end
	}
	later := func(err error) event {
		end.Kind, end.Status, end.Failure, end.Link = eventPostponed, "", oneLine(err.Error(), maxFailure), ""
		end.Until = q.options.Now().Add(firstRetry << j.retries).UTC().Truncate(time.Millisecond)
		return end
	}
	change := j.last
	if j.pending && j.retries > 0 {
		end.Output = j.Output
	}
	if j.worked >= maxWorked {
		return failed(fmt.Errorf("interrupted %d times: docgauge ended each time while the job was at work; find out why in "+
			"the system's log (out of memory?), then send the job a message", j.worked))
	}
	if !j.pending {
		task := Task{Job: j.ID, Project: j.Project, Prompt: j.Prompts[j.Worked], Created: j.CreatedAt, Session: j.session,
			Last: j.last, Again: j.begun}
		if j.Worked == 0 {
			task.Title = j.Title
		}
		result, err := q.options.Editor.Edit(q.ctx, task)
		change, end.Output, end.Report = result.Change, result.Output, result.Report
		if result.NewSession {
			q.options.Logger.Warn("agent begins a new session: another agent had the one before, or it is lost", "job_id",
				j.ID, "project", j.Project)
		}
		switch {
		case err != nil && j.retries < result.Retries:
			return later(err)
		case err != nil && result.Retries > 0:
			return failed(fmt.Errorf("%w; tried %d times", err, 1+j.retries))
		case err != nil:
			return failed(err)
		case result.Archive:
			end.Status = Archived
			return end
		case change.isEmpty() || change.Head == j.last.Head && j.PRLink != nil:
			return end
		}
		// After a crash from here on, nothing is edited again: the instruction continues with
		// the pull request.
		q.mu.Lock()
		err = q.record(event{Kind: eventCommitted, Job: j.ID, Change: &change, Report: result.Report})
		j = *q.jobs[j.ID] // with the report
		q.mu.Unlock()
		if err != nil {
			return failed(err)
		}
		end.Report = nil
	}
	diff, err := q.options.Editor.Diff(q.ctx, change)
	if err == nil {
		// After a crash during Propose, it is called again: a Host accepts the same branch twice.
		end.Link, err = q.options.Host.Propose(q.ctx, j, change, diff)
	}
	switch {
	case err != nil && end.Link != "": // only its text or its labels are not as wanted
		end.Failure = oneLine(err.Error(), maxFailure)
	case err != nil && j.retries < maxRetries && mayPass(err):
		return later(err)
	case err != nil:
		return failed(err)
	}
	return end
}
