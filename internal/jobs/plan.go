package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// Why is what a prompt waits for, for programs; Planned.Reason says it to people.
type Why string

// What a prompt waits for.
const (
	WhyNext        Why = ""                   // nothing: it is sent by the next pass, or was sent
	WhyInvalid     Why = "invalid"            // its file breaks a rule
	WhyChanging    Why = "settling"           // its file has just changed
	WhyGone        Why = "gone"               // its file is gone
	WhyNotBefore   Why = "not_before"         // that time
	WhyFiring      Why = "firing"             // the next firing of its schedule
	WhyRetry       Why = "retry"              // the time of the next try
	WhyDependency  Why = "depends_on"         // a prompt that is not completed
	WhyConcurrency Why = "concurrency"        // a job of the same concurrency key
	WhyProject     Why = "project"            // the service, or the budget, takes nothing of its project for a time
	WhyPerDay      Why = "per_day"            // the cap on jobs per day
	WhyActive      Why = "active"             // the cap on active jobs
	WhyOpenPulls   Why = "open_pull_requests" // the cap on open pull requests
	WhyReviewAge   Why = "review_age"         // the cap on their age
	WhyPaused      Why = "paused"             // the end of the queue's pause
	WhyNewState    Why = "new_state"          // the operator: the state has no job
	WhyRender      Why = "template"           // its template cannot be filled in
	WhyOperator    Why = "operator"           // the operator
)

// passes reports whether what is waited for ends by itself, and soon.
func (w Why) passes() bool {
	switch w {
	case WhyNext, WhyChanging, WhyRetry, WhyProject, WhyPerDay:
		return true
	}
	return false
}

// blocker is why a prompt waits, and until when as far as that is known.
type blocker struct {
	why    Why
	reason string
	ends   time.Time
}

func because(why Why, reason string, args ...any) blocker {
	return blocker{why: why, reason: fmt.Sprintf(reason, args...)}
}

func (b blocker) until(ends time.Time) blocker {
	b.ends = ends
	return b
}

// Planned is the state of a prompt: its file and its newest job.
type Planned struct {
	ID      string        `json:"id"`
	Path    string        `json:"path"`
	Project string        `json:"project"`
	Title   string        `json:"title,omitempty"`
	State   journal.State `json:"state"`
	// Why is what it waits for. Reason says that, and what can be done, to people. Until
	// is when the wait ends, if that is known.
	Why    Why       `json:"why,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	// Place is its place among those that wait to be submitted, from 1.
	Place int `json:"place,omitempty"`
	// Firing is that of the next job, of a recurring prompt.
	Firing time.Time `json:"firing,omitzero"`
	// Drifted: the file was edited since it was sent. Gone: it no longer exists.
	Drifted bool `json:"drifted,omitempty"`
	Gone    bool `json:"gone,omitempty"`
	// Text and FollowUps are what would be sent, Unrendered is why that is not known;
	// only by Plan, and only for pending prompts.
	Text       string   `json:"text,omitempty"`
	FollowUps  []string `json:"follow_ups,omitempty"`
	Unrendered string   `json:"template_error,omitempty"`
	// Job is the newest job, nil if there is none.
	Job *journal.Job `json:"job,omitempty"`

	prompt prompts.Prompt
}

// Ready reports whether it would be submitted now.
func (p Planned) Ready() bool { return p.Place > 0 && p.Why == WhyNext }

// Plan returns every prompt with its state, what it waits for and, if it is pending,
// what would be sent. It changes nothing.
func Plan(ctx context.Context, c Config, j Journal, found prompts.Scanned) ([]Planned, error) {
	v, err := readJournal(ctx, j, c.Now().UTC())
	if err == nil {
		err = v.readPulls(ctx, c, j, found)
	}
	if err != nil {
		return nil, err
	}
	texts, unrendered := map[string]prompts.Rendered{}, map[string]error{}
	for _, p := range v.plan(c, found, nil) {
		if p.prompt.ID == "" || p.State != journal.Pending {
			continue
		}
		if texts[p.ID], err = p.render(ctx, c, v.at); err != nil {
			unrendered[p.ID] = err
		}
	}
	all := v.plan(c, found, unrendered)
	for i := range all {
		p := &all[i]
		p.Text, p.FollowUps = texts[p.ID].Text, texts[p.ID].FollowUps
		if err := unrendered[p.ID]; err != nil {
			p.Unrendered = err.Error()
		}
	}
	return all, nil
}

// render returns what is sent: for a recurring prompt, as of its firing.
func (p Planned) render(ctx context.Context, c Config, now time.Time) (prompts.Rendered, error) {
	if !p.Firing.IsZero() {
		now = p.Firing
	}
	return prompts.Render(ctx, p.prompt, now, c.Numbers)
}

// plan returns the state of every prompt: first those that wait to be submitted, in
// their order, then the others by path. unrendered are those, by id, whose template
// cannot be filled in now.
func (v *view) plan(c Config, found prompts.Scanned, unrendered map[string]error) []Planned {
	var all []Planned
	changing := map[string]bool{}
	for _, path := range found.Changing {
		changing[path] = true
	}
	known := map[string]bool{}
	renames := v.renames(found)
	for _, p := range found.Prompts {
		known[p.ID] = true
		all = append(all, v.ofPrompt(p, renames, unrendered[p.ID]))
	}
	for _, p := range found.Invalid {
		known[p.ID] = true
		finding, _ := found.Finding(p.Path)
		all = append(all, v.ofInvalid(p, finding))
	}
	for prompt, job := range v.newest {
		ofInterest := !job.State.Ended() && (job.State != journal.Held || job.RenamedFrom == "")
		if !known[prompt] && (ofInterest || changing[job.Path]) {
			all = append(all, ofMissing(job, changing[job.Path]))
			delete(changing, job.Path)
		}
	}
	for path := range changing {
		all = append(all, Planned{ID: path, Path: path, State: journal.Pending, Why: WhyChanging, Reason: justChanged})
	}
	v.admit(c, all)
	slices.SortFunc(all, func(a, b Planned) int {
		if a.Place > 0 && b.Place > 0 {
			return a.Place - b.Place
		}
		return cmp.Or(b.Place-a.Place, strings.Compare(a.Path, b.Path)) // no place is 0
	})
	return all
}

const justChanged = "its file has just changed: it counts once two scans saw it unchanged"

// ofPrompt is the state of a prompt by itself, without regard to others.
func (v *view) ofPrompt(p prompts.Prompt, renames renames, unrendered error) Planned {
	out := Planned{ID: p.ID, Path: p.Path, Project: p.Project, Title: p.Title, State: journal.Pending, prompt: p}
	job, begun := v.newest[p.ID]
	if begun {
		out.Job = &job
		out.Drifted = !p.Recurs() && job.Digest != "" && job.Digest != p.Digest &&
			job.State != journal.Pending && job.State != journal.Held
	}
	if waits := job.State == journal.Pending || p.Recurs() && job.State.Ended(); begun && !waits {
		out.State, out.Reason = job.State, job.Reason
		if resubmits(p, job) {
			out.Why, out.Reason = WhyRetry, out.Reason+"; it is sent again (on_unknown: resubmit)"
			return out
		}
		out.addRemedy(job)
		return out
	}
	if from := renames.from(p, job); from != "" {
		held := holdRenamed(p, job, from, v.at).Job
		out.State, out.Reason = held.State, held.Reason
		out.addRemedy(held)
		return out
	}
	if p.Recurs() {
		due, next := v.firing(p)
		if job.State == journal.Pending && due.IsZero() {
			due = job.Firing // it waits for another try, or for its time
		}
		if out.Firing = due; due.IsZero() {
			out.Firing = next
		}
	}
	switch retries := job.State == journal.Pending && job.Firing.Equal(out.Firing); {
	case expired(p, v.at) || p.Recurs() && out.Firing.IsZero():
		out.State, out.Reason, out.Firing = journal.Expired, "its time was over at "+format.Time(p.Expires), time.Time{}
	case p.NotBefore.After(v.at):
		out.wait(blocker{WhyNotBefore, "not before " + format.Time(p.NotBefore), p.NotBefore})
	case out.Firing.After(v.at):
		out.wait(blocker{WhyFiring, "next firing at " + format.Time(out.Firing), out.Firing})
	case retries && v.isAhead(job.Next):
		out.wait(blocker{WhyRetry, job.Reason + "; next try at " + format.Time(job.Next), job.Next})
	case unrendered != nil:
		out.wait(because(WhyRender, "%v", unrendered))
	}
	return out
}

func (p *Planned) wait(b blocker) { p.Why, p.Reason, p.Until = b.why, b.reason, b.ends }

// resubmits reports whether a job in doubt is sent again by itself: once, and only if
// that sends the same text.
func resubmits(p prompts.Prompt, job journal.Job) bool {
	return job.State == journal.Unknown && job.Resubmit && p.Resubmit && job.Digest == p.Digest
}

// addRemedy says what can be done about a job that does not wait to be submitted.
func (p *Planned) addRemedy(job journal.Job) {
	remedy := Remedy(job)
	switch {
	case remedy != "":
		p.Why = WhyOperator
	case job.State == journal.Held:
		p.Why, remedy = WhyOperator, "docgauge jobs release "+job.Prompt+" lets it go on"
	case p.Drifted:
		remedy = "its file was edited since: docgauge jobs retry " + job.Prompt + " sends it as it is now"
	default:
		return
	}
	if p.Reason != "" {
		p.Reason += "; "
	}
	p.Reason += remedy
}

// Remedy says what a person can do about a job that is unknown, or held because it
// looks renamed. It is empty for any other job.
func Remedy(j journal.Job) string {
	switch {
	case j.State == journal.Held && j.RenamedFrom != "":
		return fmt.Sprintf("docgauge jobs release %s sends it, docgauge jobs resolve %s --drop counts it as done",
			j.Prompt, j.Prompt)
	case j.State == journal.Unknown && j.Sending:
		return fmt.Sprintf("look for the message in job %s, then: docgauge jobs resolve %d --job-id %s (it is there), "+
			"--resubmit (it is not: send it again) or --drop (go on without it)", j.JobID, j.Seq, j.JobID)
	case j.State == journal.Unknown:
		return fmt.Sprintf("look for it at the service, then: docgauge jobs resolve %d --job-id ID (it is there), "+
			"--resubmit (it is not: send it again) or --drop (give it up)", j.Seq)
	}
	return ""
}

func (v *view) ofInvalid(p prompts.Prompt, f prompts.Finding) Planned {
	out := Planned{ID: p.ID, Path: p.Path, Project: p.Project, Title: p.Title}
	out.State, out.Why, out.Reason = journal.Invalid, WhyInvalid, f.String()
	if job, ok := v.newest[p.ID]; ok {
		out.Job = &job
		if job.State != journal.Pending {
			out.State, out.Why = job.State, WhyNext
			out.addRemedy(job)
		}
	}
	return out
}

// ofMissing is the state of a job whose file is not there, or is changing.
func ofMissing(job journal.Job, changing bool) Planned {
	out := Planned{ID: job.Prompt, Path: job.Path, Project: job.Project, Title: job.Title, Job: &job}
	out.State, out.Reason, out.Gone = job.State, job.Reason, !changing
	switch {
	case changing:
		out.Why, out.Reason = WhyChanging, justChanged
	case job.State == journal.Pending || job.State == journal.Held:
		out.Why, out.Reason = WhyGone, "its file is gone: put it back, or docgauge jobs cancel "+job.Prompt
	default:
		out.addRemedy(job)
	}
	return out
}

// admit gives the prompts that wait to be submitted their places, and lets as many
// through as their dependencies, the caps and the service allow.
func (v *view) admit(c Config, all []Planned) {
	var waiting []*Planned
	states := make(map[string]journal.State, len(all))
	for i := range all {
		states[all[i].ID] = all[i].State
		if p := &all[i]; p.Why == WhyNext && p.State == journal.Pending {
			waiting = append(waiting, p)
		}
	}
	a := v.admission(c)
	for i, p := range v.inOrder(waiting) {
		p.Place = i + 1
		b := v.dependency(p, states)
		if b.why == WhyNext {
			b = a.admit(p)
		}
		p.wait(b)
	}
}

// inOrder takes the projects in turn, beginning with the one after that of the last
// job. Within a project prompts that do not recur come first, by path, then the oldest
// firing.
func (v *view) inOrder(waiting []*Planned) []*Planned {
	slices.SortFunc(waiting, func(a, b *Planned) int {
		return cmp.Or(strings.Compare(a.Project, b.Project), a.Firing.Compare(b.Firing),
			strings.Compare(a.Path, b.Path))
	})
	var projects [][]*Planned
	for i, p := range waiting {
		if i == 0 || p.Project != waiting[i-1].Project {
			projects = append(projects, nil)
		}
		projects[len(projects)-1] = append(projects[len(projects)-1], p)
	}
	last := v.lastBegun().Project
	if first := slices.IndexFunc(projects, func(of []*Planned) bool { return of[0].Project > last }); first > 0 {
		projects = slices.Concat(projects[first:], projects[:first])
	}
	out := make([]*Planned, 0, len(waiting))
	for turn := 0; len(out) < len(waiting); turn++ {
		for _, of := range projects {
			if turn < len(of) {
				out = append(out, of[turn])
			}
		}
	}
	return out
}

// admission is what is left for further jobs: of the caps, of the concurrency keys,
// and of what the service takes.
type admission struct {
	cfg     Config
	at      time.Time
	queue   blocker
	keys    map[string]string  // by concurrency key: what has it
	blocked map[string]blocker // by project
	active  int
	charged []time.Time
	pulls   reviews
}

func (v *view) admission(c Config) *admission {
	a := &admission{cfg: c, at: v.at, charged: charges(v.jobs, v.at), pulls: reviewsOf(v.jobs, v.pulls, v.at)}
	a.keys, a.blocked = map[string]string{}, map[string]blocker{}
	for _, job := range v.jobs {
		if job.State.Occupies() {
			a.active++
			a.keys[job.ConcurrencyKey] = named(job) + ", which is " + string(job.State)
		}
		if v.blocks(job) && job.Blocked.After(a.blocked[job.Project].ends) {
			a.blocked[job.Project] = because(WhyProject, "nothing of project %s is accepted: %s; next try at %s",
				job.Project, job.Reason, format.Time(job.Blocked)).until(job.Blocked)
		}
	}
	switch q := v.queue; {
	case !q.Adopted && c.OnNewState == Skip:
		a.queue = because(WhyNewState, "the state is new or restored: what is in the folder now counts as done "+
			"(DOCGAUGE_PROMPTS_ON_NEW_STATE=skip)")
	case !q.Adopted && c.OnNewState != Submit:
		a.queue = because(WhyNewState, "%v", refusal(q))
	case q.Paused != "":
		a.queue = because(WhyPaused, "the queue is paused since %s (%s): %s", format.Time(q.Since), q.Paused, q.Detail)
	}
	return a
}

// blocks reports whether the service, or the budget, refused a job for a time: others
// of its project would be refused too.
func (v *view) blocks(job journal.Job) bool { return !job.State.Ended() && v.isAhead(job.Blocked) }

// admit lets p through, or says why not.
func (a *admission) admit(p *Planned) blocker {
	key := p.prompt.ConcurrencyKey
	owner, occupied := a.keys[key]
	switch {
	case key != "" && occupied:
		return because(WhyConcurrency, "concurrency_key %s is taken by %s", key, owner)
	case a.blocked[p.Project].why != WhyNext:
		return a.blocked[p.Project]
	case a.cfg.MaxPerDay > 0 && len(a.charged) >= a.cfg.MaxPerDay:
		until := a.charged[len(a.charged)-a.cfg.MaxPerDay].Add(day)
		return because(WhyPerDay, "%d jobs in 24 h (DOCGAUGE_MAX_JOBS_PER_DAY is %d); room at %s",
			len(a.charged), a.cfg.MaxPerDay, format.Time(until)).until(until)
	case a.cfg.MaxActive > 0 && a.active >= a.cfg.MaxActive:
		return because(WhyActive, "%d jobs may be at work (DOCGAUGE_MAX_ACTIVE_JOBS is %d)", a.active, a.cfg.MaxActive)
	case a.cfg.MaxOpenPulls > 0 && a.pulls.used() >= a.cfg.MaxOpenPulls:
		return because(WhyOpenPulls, "%s (DOCGAUGE_MAX_OPEN_PULL_REQUESTS is %d); room once one is merged or closed",
			a.pulls, a.cfg.MaxOpenPulls)
	case a.cfg.MaxReviewAge > 0 && a.pulls.median() > a.cfg.MaxReviewAge:
		return because(WhyReviewAge,
			"%s, for %s in the median (DOCGAUGE_MAX_REVIEW_AGE is %s); room once the oldest are merged or closed",
			a.pulls, format.Duration(a.pulls.median()), format.Duration(a.cfg.MaxReviewAge))
	case a.queue.why != WhyNext:
		return a.queue
	}
	a.active++
	a.pulls.coming++
	a.charged = append(a.charged, a.at)
	a.keys[key] = "prompt " + p.ID + ", which is before it"
	return blocker{}
}

// named names a job in a sentence.
func named(j journal.Job) string {
	if j.Seq == 0 {
		return "prompt " + j.Prompt // it has no job yet
	}
	return fmt.Sprintf("job %d of prompt %s", j.Seq, j.Prompt)
}
