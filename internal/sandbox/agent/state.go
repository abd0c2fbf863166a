package agent

import (
	"fmt"
	"slices"
	"time"
)

// job is a job and what is left to do for it.
type job struct {
	Record
	// last is what the instructions before came to; pending reports whether it
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
	if e.Kind == created {
		return s.create(e)
	}
	j, ok := s.jobs[e.Job]
	if !ok {
		return fmt.Errorf("job %.60q: has an event before it was created", e.Job)
	}
	switch e.Kind {
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
		return j.end(e)
	case archived:
		j.outcome, j.ArchivedAt = Archived, e.At
	default:
		return fmt.Errorf("event %.40q: is not known; a newer docgauge may have written it", e.Kind)
	}
	return nil
}

func (s *state) create(e event) error {
	if _, twice := s.jobs[e.Job]; twice || e.Source == nil {
		return fmt.Errorf("job %.60q: want it created once, with a source", e.Job)
	}
	j := &job{Record: Record{Job: Job{ID: e.Job, Project: e.Project, Source: *e.Source, Model: e.Model, CreatedAt: e.At}}}
	j.Prompts = []string{e.Prompt}
	s.jobs[e.Job] = j
	s.order = append(s.order, e.Job)
	return nil
}

func (j *job) end(e event) error {
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
	return nil
}
