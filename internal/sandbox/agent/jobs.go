package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

// Config describes how jobs are kept and worked off.
type Config struct {
	// Dir is the data directory; empty = jobs are in memory alone.
	Dir    string
	Script Script
	// After is how long an instruction takes that has no duration by script.
	After time.Duration
	// Workers is how many instructions are worked on at once, at least 1.
	Workers int
	// ArchiveAfter the end of its last instruction a job is archived; 0 = never.
	ArchiveAfter time.Duration
	Source       Source
	Model        string
	Editor       Editor
	Host         Host
	Now          func() time.Time
	Logger       *slog.Logger
}

// Jobs keeps jobs and works them off. Its methods may be used by many
// goroutines at once.
type Jobs struct {
	config  Config
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu      sync.Mutex
	state   state
	journal *journal // nil without a data directory, or before the first job
	waiting []*job   // jobs with an instruction that nobody works on
	busy    int      // workers
}

// Open returns the jobs of c.Dir and continues the active ones. The journal is
// created with the first job. The error names the line of the journal that is wrong,
// or is ErrLocked.
func Open(c Config) (*Jobs, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Jobs{config: c, ctx: ctx, cancel: cancel, state: state{jobs: map[string]*job{}}}
	if c.Dir == "" {
		return s, nil
	}
	if _, err := os.Stat(filepath.Join(c.Dir, JournalName)); errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s, s.open()
}

// open reads the journal and queues the active jobs.
func (s *Jobs) open() (err error) {
	if s.journal, err = openJournal(s.config.Dir, s.state.apply); err != nil {
		return err
	}
	for _, id := range s.state.order {
		if j := s.state.jobs[id]; j.active() {
			s.queue(j)
		}
	}
	return nil
}

// Close stops the work and waits for the workers. Their unfinished instructions are
// worked on again by the next Open of the directory.
func (s *Jobs) Close() error {
	s.cancel()
	s.workers.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journal == nil {
		return nil
	}
	return s.journal.file.Close()
}

// Create accepts a prompt as a new job of project.
func (s *Jobs) Create(project, prompt string) (Job, error) {
	id := "job_" + strings.ToLower(rand.Text()[:20])
	source := s.config.Source
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accept(event{
		Kind: created, Job: id, Project: project, Prompt: prompt, Source: &source, Model: s.config.Model,
	})
}

// Message accepts a prompt for a job of project. The error is ErrNotFound or
// ErrArchived, or says why the journal did not take it.
func (s *Jobs) Message(project, id, prompt string) (Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.find(project, id)
	if err != nil {
		return Job{}, err
	}
	if !j.ArchivedAt.IsZero() {
		return Job{}, fmt.Errorf("job %.140q: %w", id, ErrArchived)
	}
	return s.accept(event{Kind: message, Job: id, Prompt: prompt})
}

// accept makes e durable and queues its job, unless the job is queued already or
// being worked on.
func (s *Jobs) accept(e event) (Job, error) {
	if s.ctx.Err() != nil {
		return Job{}, ErrClosed
	}
	j := s.state.jobs[e.Job]
	idle := j == nil || !j.active()
	if err := s.commit(e); err != nil {
		return Job{}, err
	}
	j = s.state.jobs[e.Job]
	if idle {
		s.queue(j)
	}
	return j.record().Job, nil
}

// Get returns a job of project, or ErrNotFound.
func (s *Jobs) Get(project, id string) (Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.find(project, id)
	if err != nil {
		return Job{}, err
	}
	return j.record().Job, nil
}

// All returns every job that was accepted, in order.
func (s *Jobs) All() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Record, 0, len(s.state.order))
	for _, id := range s.state.order {
		all = append(all, s.state.jobs[id].record())
	}
	return all
}

// find returns a job of project, archived if it is old enough.
func (s *Jobs) find(project, id string) (*job, error) {
	j, ok := s.state.jobs[id]
	if !ok || j.Project != project {
		return nil, fmt.Errorf("job %.140q: %w", id, ErrNotFound)
	}
	at := j.endedAt.Add(s.config.ArchiveAfter)
	if s.config.ArchiveAfter > 0 && !j.active() && j.ArchivedAt.IsZero() && !s.config.Now().Before(at) {
		return j, s.commitAt(at, event{Kind: archived, Job: id})
	}
	return j, nil
}

// commit makes an event durable, then applies it.
func (s *Jobs) commit(e event) error { return s.commitAt(s.config.Now(), e) }

func (s *Jobs) commitAt(at time.Time, e event) (err error) {
	e.At = at.UTC().Truncate(time.Millisecond)
	if s.journal == nil && s.config.Dir != "" {
		err = s.open()
	}
	if err == nil && s.journal != nil {
		err = s.journal.append(e)
	}
	if err != nil {
		return err
	}
	return s.state.apply(e)
}

// queue puts j at the end of the queue and makes sure that somebody works.
func (s *Jobs) queue(j *job) {
	s.waiting = append(s.waiting, j)
	if s.busy < s.config.Workers {
		s.busy++
		s.workers.Go(s.workOff)
	}
}

// workOff works until no job waits. A job with more to do goes to the end of the
// queue, so that no job keeps the others waiting.
func (s *Jobs) workOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.waiting) > 0 && s.ctx.Err() == nil {
		j := s.waiting[0]
		s.waiting = s.waiting[1:]
		if s.carryOut(j) && j.active() {
			s.waiting = append(s.waiting, j)
		}
	}
	s.busy--
}

// retryEvery is how often writing the end of an instruction is tried again: the
// work is done, only its record is missing, on a full disk for example.
const retryEvery = time.Second

// carryOut does the next instruction of j. The caller holds the lock, which is free
// during the work. It returns false if Close came first.
func (s *Jobs) carryOut(j *job) (over bool) {
	w := work{
		config: s.config, id: j.ID, project: j.Project, source: j.Source, title: Subject(j.Prompts[0]),
		proposed: j.link != "", pending: j.pending,
		task: Task{Job: j.ID, Prompt: j.Prompts[j.Worked], Last: j.last, Again: j.begun},
		commit: func(e event) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.commit(e)
		},
	}
	if !w.pending {
		// After a crash from here on, the editor is told that it begins again.
		if err := s.commit(event{Kind: started, Job: j.ID}); err != nil {
			s.config.Logger.Error("agent job's beginning not written", "job_id", j.ID, "error", err)
		}
	}
	s.mu.Unlock()
	end := w.do(s.ctx)
	s.mu.Lock()
	if end.Status == Failed && s.ctx.Err() != nil {
		return false // stopped: the same as a crash
	}
	for err := s.commit(end); err != nil; err = s.commit(end) {
		s.config.Logger.Error("agent job's end not written", "job_id", end.Job, "error", err)
		s.mu.Unlock()
		err = clock.Sleep(s.ctx, retryEvery)
		s.mu.Lock()
		if err != nil {
			return false
		}
	}
	s.config.Logger.Info("agent job ended", "job_id", j.ID, "project", j.Project, "instruction", j.Worked,
		"outcome", string(end.Status), "pr_link", end.Link, "failure", end.Failure)
	return true
}

// work is one instruction that is being worked on, without the lock.
type work struct {
	config             Config
	id, project, title string
	source             Source
	task               Task
	pending            bool // the change is committed, only the pull request is missing
	proposed           bool // the job has a pull request
	commit             func(event) error
}

// do returns the event that ends the instruction.
func (w *work) do(ctx context.Context) event {
	end := event{Kind: ended, Job: w.id, Status: Completed}
	failed := func(err error) event {
		end.Status, end.Failure, end.Link = Failed, err.Error(), ""
		return end
	}
	change := w.task.Last
	if !w.pending {
		rule := w.config.Script.Match(w.task.Prompt, w.config.After)
		if err := clock.Sleep(ctx, rule.After); err != nil {
			return failed(err)
		}
		switch rule.Outcome {
		case NoChange:
			return end
		case Fail:
			return failed(errors.New("the script wants it to fail"))
		case Archive:
			end.Status = Archived
			return end
		}
		w.task.BuiltIn = rule.Outcome == PR
		var err error
		if change, end.Output, err = w.config.Editor.Edit(ctx, w.task); err != nil {
			return failed(err)
		}
		if change.Empty() || change.Head == w.task.Last.Head && w.proposed {
			return end
		}
		// After a crash from here on, nothing is edited again: the instruction continues
		// with the pull request. A Host takes the same branch twice.
		if err := w.commit(event{Kind: committed, Job: w.id, Change: &change}); err != nil {
			return failed(err)
		}
	}
	diff, err := w.config.Editor.Diff(ctx, change)
	if err == nil {
		end.Link, err = w.config.Host.Propose(ctx, Proposal{
			Change: change, Job: w.id, Project: w.project, Title: w.title, Source: w.source, Diff: diff,
		})
	}
	if err != nil {
		return failed(err)
	}
	return end
}

// job is a job and what is left to do for it.
type job struct {
	Record
	// last is the result of the instructions before; pending reports whether it
	// still has to be proposed before the running instruction is over, begun
	// whether work on that one has begun.
	last           Change
	begun, pending bool
	// outcome and endedAt are those of the last instruction.
	outcome Status
	endedAt time.Time
	link    string
}

func (j *job) active() bool { return j.Worked < len(j.Prompts) }

// record returns j as callers see it.
func (j *job) record() Record {
	r := j.Record
	r.Prompts = slices.Clone(j.Prompts)
	if r.Status = j.outcome; j.active() {
		r.Status = Active
	} else {
		r.Link = j.link
	}
	return r
}

// state is all jobs: the sum of the events so far.
type state struct {
	jobs  map[string]*job
	order []string // ids, as created
}

// apply adds one event, live or from the journal.
func (s *state) apply(e event) error {
	j, exists := s.jobs[e.Job]
	switch {
	case e.Kind == created && (exists || e.Source == nil):
		return fmt.Errorf("job %.60q: want it created once, with a source", e.Job)
	case e.Kind != created && !exists:
		return fmt.Errorf("job %.60q: has an event before it was created", e.Job)
	}
	switch e.Kind {
	case created:
		s.jobs[e.Job] = &job{Record: Record{
			Job:     Job{ID: e.Job, Project: e.Project, Source: *e.Source, Model: e.Model, CreatedAt: e.At},
			Prompts: []string{e.Prompt},
		}}
		s.order = append(s.order, e.Job)
	case message:
		j.Prompts = append(j.Prompts, e.Prompt)
	case started:
		j.begun = true
	case committed:
		if e.Change == nil {
			return fmt.Errorf("job %.60q: event committed lacks its change", e.Job)
		}
		j.last, j.pending = *e.Change, true
	case ended:
		if !j.active() {
			return fmt.Errorf("job %.60q: ended more often than instructions were accepted", e.Job)
		}
		j.Worked++
		j.begun, j.pending = false, false
		j.outcome, j.endedAt, j.Failure, j.Output = e.Status, e.At, e.Failure, e.Output
		if e.Link != "" {
			j.link = e.Link
		}
		if e.Status == Archived && !j.active() {
			j.ArchivedAt = e.At
		}
	case archived:
		j.outcome, j.ArchivedAt = Archived, e.At
	default:
		return fmt.Errorf("event %.40q: is not known; a newer docgauge may have written it", e.Kind)
	}
	return nil
}
