package jobs

import (
	"path"
	"time"

	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// textAt is a text, by its digest, and where it is: the path of a file, or the id of
// a prompt.
type textAt struct{ where, digest string }

// renames finds prompts that look renamed: see the package comment.
type renames struct {
	now time.Time
	// gone are jobs, by digest and oldest first, whose text has left its path. They prevent
	// the text from being sent again under another path.
	gone map[string][]journal.Job
	// decided are the texts of gone for which another prompt was held as renamed, and the operator has decided about
	// it: further copies of the text are copies.
	decided map[textAt]bool
}

func (s *queueState) renames(found prompts.Scanned) renames {
	present := map[textAt]bool{}
	for _, p := range found.Prompts {
		present[textAt{p.Path, p.Digest}], present[textAt{p.ID, p.Digest}] = true, true
	}
	r := renames{now: s.now, gone: map[string][]journal.Job{}, decided: map[textAt]bool{}}
	for _, job := range s.jobs {
		// A file that is invalid now, or still changing, does not show that the text is
		// present: it may be another one.
		isPresent := present[textAt{job.Path, job.Digest}] || present[textAt{job.Prompt, job.Digest}]
		switch {
		case isPresent && job.RenamedFrom != "" && job.State != journal.Held:
			r.decided[textAt{job.RenamedFrom, job.Digest}] = true
		case isPresent, job.State == journal.Pending, job.State == journal.Rejected, job.State == journal.Expired:
			// The service never had the text of these three, and the operator did not stop it.
		default:
			r.gone[job.Digest] = append(r.gone[job.Digest], job)
		}
	}
	return r
}

// from returns the path that a prompt looks renamed from: of several paths the one
// with the same file name, else the newest. It is empty if the prompt may be sent. job
// is the newest of the prompt, if there is one: a pending job with the text of the file
// was examined before, or released.
func (r renames) from(p prompts.Prompt, job journal.Job) (from string) {
	examined := job.Seq != 0 && (job.State != journal.Pending || job.Digest == p.Digest)
	if examined || p.HasID() || p.Recurs() || expired(p, r.now) {
		return ""
	}
	for _, job := range r.gone[p.Digest] {
		if r.decided[textAt{job.Path, job.Digest}] {
			continue
		}
		if from == "" || path.Base(from) != path.Base(p.Path) || path.Base(job.Path) == path.Base(p.Path) {
			from = job.Path
		}
	}
	return from
}

// holdRenamed holds a prompt that looks renamed; job is its newest, if there is one.
func holdRenamed(p prompts.Prompt, job journal.Job, from string, now time.Time) journal.Change {
	before := job.State
	if job.Seq == 0 {
		job = newJob(p, journal.Held)
	}
	job.State, job.Reason, job.RenamedFrom, job.Digest = journal.Held, "it looks renamed from "+from, from, p.Digest
	job.Next, job.Blocked, job.Refusals = time.Time{}, time.Time{}, 0
	return journal.Change{Job: job, From: before, At: now, Cause: job.Reason}
}

// newJob is the first job of a prompt.
func newJob(p prompts.Prompt, state journal.State) journal.Job {
	return journal.Job{
		Prompt: p.ID, Try: 1, Project: p.Project, Title: p.Title, Path: p.Path, Digest: p.Digest,
		ConcurrencyKey: p.ConcurrencyKey, Resubmit: p.Resubmit, Pages: p.Pages, State: state,
	}
}
