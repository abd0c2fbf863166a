package agent

import (
	"context"
	"errors"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

// queue puts j at the end of the line and sees that somebody works.
func (s *Jobs) queue(j *job) {
	s.line = append(s.line, j)
	if s.busy < s.config.Workers {
		s.busy++
		s.workers.Go(s.workOff)
	}
}

// workOff works until the line is empty. A job with more to do goes to the end
// of the line, so that no job keeps the others waiting.
func (s *Jobs) workOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.line) > 0 && s.ctx.Err() == nil {
		j := s.line[0]
		s.line = s.line[1:]
		if s.carryOut(j) && j.active() {
			s.line = append(s.line, j)
		}
	}
	s.busy--
}

// carryOut does the next instruction of j, giving the lock back in between. It
// is not over if Close came first.
func (s *Jobs) carryOut(j *job) (over bool) {
	r := run{jobs: s, job: j, task: Task{Job: j.ID, Prompt: j.Prompts[j.Worked], Last: j.last, Again: j.begun}, pending: j.pending, linked: j.link != "", title: Subject(j.Prompts[0])}
	if !j.pending {
		if err := s.commit(event{Kind: started, Job: j.ID}); err != nil {
			s.config.Logger.Error("agent job's beginning not written", "job", j.ID, "error", err)
		}
	}
	s.mu.Unlock()
	end := r.do(s.ctx)
	s.mu.Lock()
	if end.Status == Failed && s.ctx.Err() != nil {
		return false
	}
	if err := s.insist(end); err != nil {
		return false
	}
	s.config.Logger.Info("agent job ended", "job", j.ID, "project", j.Project, "instruction", j.Worked, "status", end.Status, "link", end.Link, "failure", end.Failure)
	return true
}

// retryEvery is how often writing the end of an instruction is tried again: the
// work is done, only its record is missing, on a full disk for example.
const retryEvery = time.Second

// insist makes end durable, however long it takes, or returns why Close came first.
func (s *Jobs) insist(end event) error {
	for {
		err := s.commit(end)
		if err == nil {
			return nil
		}
		s.config.Logger.Error("agent job's end not written", "job", end.Job, "error", err)
		s.mu.Unlock()
		err = clock.Sleep(s.ctx, retryEvery)
		s.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// run is one instruction being worked on. It reads what does not change of its
// job, without the lock.
type run struct {
	jobs            *Jobs
	job             *job
	task            Task
	pending, linked bool
	title           string
}

// do returns the event that ends the instruction.
func (r *run) do(ctx context.Context) event {
	end := event{Kind: ended, Job: r.job.ID, Status: Completed}
	if r.pending {
		r.propose(ctx, &end, r.task.Last)
		return end
	}
	rule := r.jobs.config.Script.Match(r.task.Prompt, r.jobs.config.After)
	if err := clock.Sleep(ctx, rule.After); err != nil {
		return r.failed(end, err)
	}
	switch rule.Outcome {
	case NoChange:
		return end
	case Fail:
		return r.failed(end, errors.New("the script wants it to fail"))
	case Archive:
		end.Status = Archived
		return end
	}
	r.task.BuiltIn = rule.Outcome == PR
	return r.edit(ctx, end)
}

func (r *run) edit(ctx context.Context, end event) event {
	change, output, err := r.jobs.config.Editor.Edit(ctx, r.task)
	end.Output = output
	if err != nil {
		return r.failed(end, err)
	}
	if change.Empty() || change.Head == r.task.Last.Head && r.linked {
		return end
	}
	if err := r.committed(change); err != nil {
		return r.failed(end, err)
	}
	r.propose(ctx, &end, change)
	return end
}

// committed makes the change durable: from here on nobody edits again.
func (r *run) committed(c Change) error {
	r.jobs.mu.Lock()
	defer r.jobs.mu.Unlock()
	return r.jobs.commit(event{Kind: committed, Job: r.job.ID, Change: &c})
}

func (r *run) propose(ctx context.Context, end *event, c Change) {
	diff, err := r.jobs.config.Editor.Diff(ctx, c)
	if err == nil {
		end.Link, err = r.jobs.config.Host.Propose(ctx, Proposal{Change: c, Job: r.job.ID, Title: r.title, Source: r.job.Source, Diff: diff})
	}
	if err != nil {
		*end = r.failed(*end, err)
	}
}

func (*run) failed(end event, err error) event {
	end.Status, end.Failure, end.Link = Failed, err.Error(), ""
	return end
}
