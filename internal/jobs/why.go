package jobs

import (
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// Why is what a prompt waits for, for programs; Planned.Reason says it to people.
type Why string

// What a prompt waits for.
const (
	WhyNext        Why = ""            // nothing: it goes with the next pass, or has gone
	WhyInvalid     Why = "invalid"     // its file breaks a rule
	WhySettling    Why = "settling"    // its file has just changed
	WhyGone        Why = "gone"        // its file is gone
	WhyNotBefore   Why = "not_before"  // for that time
	WhyFiring      Why = "firing"      // for the next firing of its schedule
	WhyRetry       Why = "retry"       // for the time of the next try
	WhyDependency  Why = "depends_on"  // for a prompt that is not done
	WhyConcurrency Why = "concurrency" // for a job of the same concurrency key
	WhyProject     Why = "project"     // the service, or the budget, takes nothing of its project for a time
	WhyPerDay      Why = "per_day"     // for the cap on jobs per day
	WhyActive      Why = "active"      // for the cap on active jobs
	WhyPaused      Why = "paused"      // the whole queue is paused
	WhyNewState    Why = "new_state"   // the state has no job: somebody must say what to do
	WhyRender      Why = "template"    // its template cannot be filled in
	WhyOperator    Why = "operator"    // for somebody to decide
)

// passes reports whether what is waited for comes by itself, and soon, whatever
// becomes of other prompts.
func (w Why) passes() bool {
	switch w {
	case WhyNext, WhySettling, WhyRetry, WhyProject, WhyPerDay:
		return true
	}
	return false
}

// hold is why something waits, and until when as far as that is known.
type hold struct {
	why    Why
	reason string
	until  time.Time
}

func (h hold) free() bool { return h.why == WhyNext }

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// named names a job in a sentence.
func named(j journal.Job) string {
	if j.Seq == 0 {
		return "prompt " + j.Prompt // it has no job yet
	}
	return fmt.Sprintf("job %d of prompt %s", j.Seq, j.Prompt)
}

// Remedy says what a person can do about a job that is unknown, or held because it
// looks renamed; of any other it says nothing.
func Remedy(j journal.Job) string {
	switch {
	case j.State == journal.Unknown:
		return resolve(j)
	case j.State == journal.Held && j.RenamedFrom != "":
		return fmt.Sprintf("docgauge jobs release %s sends it, docgauge jobs resolve %s --drop counts it as done", j.Prompt, j.Prompt)
	}
	return ""
}

// resolve says what can be done about a job in doubt.
func resolve(j journal.Job) string {
	if j.Sending {
		return fmt.Sprintf("look for the message in job %s, then: docgauge jobs resolve %d --job-id %s (it is there), --resubmit (it is not: send it again) or --drop (go on without it)", j.JobID, j.Seq, j.JobID)
	}
	return fmt.Sprintf("look for it at the service, then: docgauge jobs resolve %d --job-id ID (it is there), --resubmit (it is not: send it again) or --drop (give it up)", j.Seq)
}
