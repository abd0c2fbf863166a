package jobs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// Planned is a prompt as it stands: its file and its newest job.
type Planned struct {
	ID      string        `json:"id"`
	Path    string        `json:"path"`
	Project string        `json:"project"`
	Title   string        `json:"title,omitempty"`
	State   journal.State `json:"state"`
	// Why is what it waits for, Reason says that, and what can be done, to people.
	// Until is when that ends, as far as is known.
	Why    Why       `json:"why,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	// Place is where it stands among those that wait to be submitted, from 1.
	Place int `json:"place,omitempty"`
	// Firing is that of the job to come, of a prompt that recurs.
	Firing time.Time `json:"firing,omitzero"`
	// Drifted: the file was edited since it was sent, Gone: it is not there any more.
	Drifted bool `json:"drifted,omitempty"`
	Gone    bool `json:"gone,omitempty"`
	// Text and FollowUps are what would be sent, Unrendered is why that cannot be
	// said; of Plan only, and of those that are pending.
	Text       string   `json:"text,omitempty"`
	FollowUps  []string `json:"follow_ups,omitempty"`
	Unrendered string   `json:"template_error,omitempty"`
	// Job is the newest job, nil where there is none.
	Job *journal.Job `json:"job,omitempty"`

	prompt prompts.Prompt
}

// Ready reports whether it would be submitted now.
func (p Planned) Ready() bool { return p.Place > 0 && p.Why == WhyNext }

// Plan returns every prompt with its state, what it waits for and, where it is
// pending, what would be sent. It changes nothing.
func Plan(ctx context.Context, c Config, j Journal, found prompts.Scanned) ([]Planned, error) {
	v, err := load(ctx, j, c.Now().UTC())
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

// render returns what is sent: of a prompt that recurs, as of its firing.
func (p Planned) render(ctx context.Context, c Config, now time.Time) (prompts.Rendered, error) {
	if !p.Firing.IsZero() {
		now = p.Firing
	}
	return prompts.Render(ctx, p.prompt, now, c.Numbers)
}

// plan returns every prompt as it stands: first those that wait to be submitted,
// in their order, then the others by path. unrendered are those, by id, whose
// template cannot be filled in now.
func (v *view) plan(c Config, found prompts.Scanned, unrendered map[string]error) []Planned {
	var all []Planned
	settling := map[string]bool{}
	for _, path := range found.Changing {
		settling[path] = true
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
	for prompt := range v.newest {
		job, _ := v.of(prompt)
		ofInterest := !job.State.Ended() && (job.State != journal.Held || job.RenamedFrom == "")
		if !known[prompt] && (ofInterest || settling[job.Path]) {
			all = append(all, v.ofGone(job, settling[job.Path]))
			delete(settling, job.Path)
		}
	}
	for path := range settling {
		all = append(all, Planned{ID: path, Path: path, State: journal.Pending, Why: WhySettling, Reason: justChanged})
	}
	v.line(c, all)
	slices.SortFunc(all, comparePlanned)
	return all
}

const justChanged = "its file has just changed: it counts once two scans saw it unchanged"

func comparePlanned(a, b Planned) int {
	switch {
	case a.Place > 0 && b.Place > 0:
		return a.Place - b.Place
	case a.Place > 0:
		return -1
	case b.Place > 0:
		return 1
	}
	return strings.Compare(a.Path, b.Path)
}

// ofPrompt judges a prompt by itself.
func (v *view) ofPrompt(p prompts.Prompt, renames renames, unrendered error) Planned {
	out := Planned{ID: p.ID, Path: p.Path, Project: p.Project, Title: p.Title, State: journal.Pending, prompt: p}
	job, begun := v.of(p.ID)
	if begun {
		out.Job = &job
		out.Drifted = !p.Recurs() && job.Digest != "" && job.Digest != p.Digest && job.State != journal.Pending && job.State != journal.Held
	}
	if waits := job.State == journal.Pending || p.Recurs() && job.State.Ended(); begun && !waits {
		out.State, out.Reason = job.State, job.Reason
		if resubmits(p, job) {
			out.Why, out.Reason = WhyRetry, out.Reason+"; it is sent again (on_unknown: resubmit)"
			return out
		}
		out.explain(job)
		return out
	}
	if from := renames.of(p, job); from != "" {
		held := renamed(p, job, from, v.at).Job
		out.State, out.Reason = held.State, held.Reason
		out.explain(held)
		return out
	}
	out.queued(v, p, job, unrendered)
	return out
}

// resubmits reports whether a job in doubt is sent again by itself: once, and not
// where that would send something else.
func resubmits(p prompts.Prompt, job journal.Job) bool {
	return job.State == journal.Unknown && job.Resubmit && p.OnUnknown == prompts.Resubmit && job.Digest == p.Digest
}

// explain says what can be done about a job that is not in the line.
func (p *Planned) explain(job journal.Job) {
	add := func(text string) {
		if p.Reason != "" {
			p.Reason += "; "
		}
		p.Reason += text
	}
	switch {
	case Remedy(job) != "":
		p.Why = WhyOperator
		add(Remedy(job))
	case job.State == journal.Held:
		p.Why = WhyOperator
		add("docgauge jobs release " + job.Prompt + " lets it go on")
	case p.Drifted:
		add("its file was edited since: docgauge jobs retry " + job.Prompt + " sends it as it is now")
	}
}

// queued judges a prompt that waits to be submitted. job is its newest, if it has
// one.
func (p *Planned) queued(v *view, file prompts.Prompt, job journal.Job, unrendered error) {
	if file.Recurs() {
		due, next := v.firing(file)
		if job.State == journal.Pending && due.IsZero() {
			due = job.Firing // it waits for another try, or for its time
		}
		p.Firing = due
		if due.IsZero() {
			p.Firing = next
		}
		if !job.Firing.Equal(p.Firing) {
			job = journal.Job{}
		}
	}
	if expired(file, v.at) || file.Recurs() && p.Firing.IsZero() {
		p.State, p.Reason, p.Firing = journal.Expired, "its time was over at "+clock(file.Expires), time.Time{}
		return
	}
	h := v.own(*p, file, job)
	if h.free() && unrendered != nil {
		h = hold{why: WhyRender, reason: unrendered.Error()}
	}
	p.Why, p.Reason, p.Until = h.why, h.reason, h.until
}

// own is what a prompt waits for that has nothing to do with others.
func (v *view) own(p Planned, file prompts.Prompt, job journal.Job) hold {
	switch {
	case file.NotBefore.After(v.at):
		return hold{WhyNotBefore, "not before " + clock(file.NotBefore), file.NotBefore}
	case p.Firing.After(v.at):
		return hold{WhyFiring, "next firing at " + clock(p.Firing), p.Firing}
	case job.State == journal.Pending && v.waits(job.Next):
		return hold{WhyRetry, job.Reason + "; next try at " + clock(job.Next), job.Next}
	}
	return hold{}
}

func (v *view) ofInvalid(p prompts.Prompt, f prompts.Finding) Planned {
	out := Planned{ID: p.ID, Path: p.Path, Project: p.Project, Title: p.Title, State: journal.Invalid, Why: WhyInvalid, Reason: f.String()}
	if job, ok := v.of(p.ID); ok {
		out.Job = &job
		if job.State != journal.Pending {
			out.State, out.Why = job.State, WhyNext
			out.explain(job)
		}
	}
	return out
}

// ofGone is for a job whose file is not there, or settles.
func (v *view) ofGone(job journal.Job, settling bool) Planned {
	out := Planned{ID: job.Prompt, Path: job.Path, Project: job.Project, Title: job.Title, State: job.State, Reason: job.Reason, Job: &job}
	switch {
	case settling:
		out.Why, out.Reason = WhySettling, justChanged
	case job.State == journal.Pending || job.State == journal.Held:
		out.Gone, out.Why, out.Reason = true, WhyGone, "its file is gone: put it back, or docgauge jobs cancel "+job.Prompt
	default:
		out.Gone = true
		out.explain(job)
	}
	return out
}
