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
	"strings"
	"sync"
	"time"
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
	line    []*job   // jobs with an instruction that nobody works on
	busy    int      // workers
}

// Open returns the jobs of c.Dir and goes on with the active ones. The
// directory gets a journal with the first job. The error names the line of the
// journal that is wrong, or is ErrLocked.
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

// open reads the journal and puts the active jobs in line.
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

// Close stops the work and waits for the workers. What they were at is worked
// on again by the next Open of the directory.
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
	return s.accept(event{Kind: created, Job: id, Project: project, Prompt: prompt, Source: &source, Model: s.config.Model})
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

// accept makes e durable and puts its job in line, unless it is there already
// or being worked on.
func (s *Jobs) accept(e event) (Job, error) {
	if s.ctx.Err() != nil {
		return Job{}, ErrClosed
	}
	j := s.state.jobs[e.Job]
	waits := j == nil || !j.active()
	if err := s.commit(e); err != nil {
		return Job{}, err
	}
	j = s.state.jobs[e.Job]
	if waits {
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

// commit makes an event durable, then true.
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
