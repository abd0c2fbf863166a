package jobs

import (
	"cmp"
	"path"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// text is what was in a file, or of a prompt: where is its path, or its id.
type text struct{ where, digest string }

// renames tells which prompts look renamed: a prompt without an id is its path, so
// under another path it would be sent a second time. See the package comment.
type renames struct {
	at time.Time
	// gone are jobs, by digest and oldest first, that keep their text from being sent
	// under another path: it is not where it was any more.
	gone map[string][]journal.Job
	// decided are those of gone for which a prompt was held as renamed that is there,
	// and of which somebody has decided: others of that text are copies.
	decided map[text]bool
}

func (v *view) renames(found prompts.Scanned) renames {
	there := map[text]bool{}
	for _, p := range found.Prompts {
		there[text{p.Path, p.Digest}], there[text{p.ID, p.Digest}] = true, true
	}
	r := renames{at: v.at, gone: map[string][]journal.Job{}, decided: map[text]bool{}}
	for _, job := range v.jobs {
		// A file that is wrong now, or is being written, may be another: its text is not
		// known to be there.
		isThere := there[text{job.Path, job.Digest}] || there[text{job.Prompt, job.Digest}]
		switch {
		case !isThere && holdsItsText(job):
			r.gone[job.Digest] = append(r.gone[job.Digest], job)
		case isThere && job.RenamedFrom != "" && job.State != journal.Held:
			r.decided[text{job.RenamedFrom, job.Digest}] = true
		}
	}
	for _, jobs := range r.gone {
		slices.SortFunc(jobs, func(a, b journal.Job) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	return r
}

// holdsItsText reports whether the text of a job is not to be sent by itself under
// another path: the service may have taken it, it counted as done, or somebody did
// not want it sent.
func holdsItsText(job journal.Job) bool {
	switch job.State {
	case journal.Pending, journal.Rejected, journal.Expired:
		return false
	}
	return true
}

// of returns the path that a prompt was renamed from, as it looks: of several that
// with the same name in another folder, else the newest. It is empty where the prompt
// may be sent. job is its newest, if it has one: what waits with the text it has now
// was judged before, or released.
func (r renames) of(p prompts.Prompt, job journal.Job) (from string) {
	judged := job.Seq != 0 && (job.State != journal.Pending || job.Digest == p.Digest)
	if judged || p.HasID() || p.Recurs() || expired(p, r.at) {
		return ""
	}
	for _, job := range r.gone[p.Digest] {
		if r.decided[text{job.Path, job.Digest}] {
			continue
		}
		if from == "" || path.Base(from) != path.Base(p.Path) || path.Base(job.Path) == path.Base(p.Path) {
			from = job.Path
		}
	}
	return from
}

// renamed holds a prompt that looks renamed; job is its newest, if it has one.
func renamed(p prompts.Prompt, job journal.Job, from string, now time.Time) journal.Change {
	c := journal.Change{From: job.State, At: now}
	if job.Seq == 0 {
		job = newJob(p, journal.Held)
	}
	job.State, job.Reason, job.RenamedFrom, job.Digest = journal.Held, "it looks renamed from "+from, from, p.Digest
	job.Next, job.Blocked, job.Tries = time.Time{}, time.Time{}, 0
	c.Job, c.Cause = job, job.Reason
	return c
}
