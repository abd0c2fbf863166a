package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// line gives those that wait to be submitted their places, and finds what they
// wait for on account of others.
func (v *view) line(c Config, all []Planned) {
	var waiting []*Planned
	states := make(map[string]journal.State, len(all))
	for i := range all {
		states[all[i].ID] = all[i].State
		if p := &all[i]; p.Why == WhyNext && p.State == journal.Pending {
			waiting = append(waiting, p)
		}
	}
	d := v.door(c)
	for i, p := range v.ordered(waiting) {
		p.Place = i + 1
		h := v.dependencies(p, states)
		if h.free() {
			h = d.admit(p)
		}
		p.Why, p.Reason, p.Until = h.why, h.reason, h.until
	}
}

// ordered takes the projects in turn, beginning with the one after that of the
// last job; within a project what does not recur goes first, by path, then the
// oldest firing.
func (v *view) ordered(waiting []*Planned) []*Planned {
	slices.SortFunc(waiting, func(a, b *Planned) int {
		return cmp.Or(strings.Compare(a.Project, b.Project), a.Firing.Compare(b.Firing), strings.Compare(a.Path, b.Path))
	})
	var projects [][]*Planned
	for i, p := range waiting {
		if i == 0 || p.Project != waiting[i-1].Project {
			projects = append(projects, nil)
		}
		projects[len(projects)-1] = append(projects[len(projects)-1], p)
	}
	last := v.last().Project
	first := slices.IndexFunc(projects, func(of []*Planned) bool { return of[0].Project > last })
	if first > 0 {
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

// dependencies is what a prompt waits for that must be completed before.
func (v *view) dependencies(p *Planned, states map[string]journal.State) hold {
	for _, id := range p.prompt.DependsOn {
		job, ok := v.of(id)
		switch {
		case ok && job.State == journal.Completed:
		case ok && job.State.Ended():
			return hold{why: WhyDependency, reason: fmt.Sprintf("waits for %s to be completed, and that is %s: docgauge jobs retry %s", id, job.State, id)}
		default:
			return hold{why: WhyDependency, reason: fmt.Sprintf("waits for %s to be completed: it is %s", id, states[id])}
		}
	}
	return hold{}
}

// door lets so many prompts through as the caps and the service allow.
type door struct {
	*view
	c       Config
	queue   hold
	keys    map[string]string // concurrency key to who occupies it
	blocked map[string]hold   // by project
	active  int
	charged []time.Time
}

func (v *view) door(c Config) *door {
	d := &door{view: v, c: c, queue: v.paused(c), keys: map[string]string{}, blocked: map[string]hold{}, charged: v.charged()}
	for _, job := range v.jobs {
		if job.State.Occupies() {
			d.active++
			d.keys[job.ConcurrencyKey] = named(job) + ", which is " + string(job.State)
		}
		if h, ok := v.blocks(job); ok && h.until.After(d.blocked[job.Project].until) {
			d.blocked[job.Project] = h
		}
	}
	return d
}

// blocks reports whether the service, or the budget, refused a job for a time:
// others of its project would be refused too.
func (v *view) blocks(job journal.Job) (hold, bool) {
	if job.State.Ended() || !v.waits(job.Blocked) {
		return hold{}, false
	}
	reason := fmt.Sprintf("nothing of project %s is taken: %s; next try at %s", job.Project, job.Reason, clock(job.Blocked))
	return hold{WhyProject, reason, job.Blocked}, true
}

// admit lets p through, or says why not.
func (d *door) admit(p *Planned) hold {
	key := p.prompt.ConcurrencyKey
	who, taken := d.keys[key]
	h := d.blocked[p.Project]
	switch {
	case key != "" && taken:
		return hold{why: WhyConcurrency, reason: "concurrency_key " + key + " is taken by " + who}
	case !h.free():
		return h
	case d.c.MaxPerDay > 0 && len(d.charged) >= d.c.MaxPerDay:
		until := d.charged[len(d.charged)-d.c.MaxPerDay].Add(day)
		return hold{WhyPerDay, fmt.Sprintf("%d jobs in 24 h (DOCGAUGE_MAX_JOBS_PER_DAY is %d); room at %s", len(d.charged), d.c.MaxPerDay, clock(until)), until}
	case d.c.MaxActive > 0 && d.active >= d.c.MaxActive:
		return hold{why: WhyActive, reason: fmt.Sprintf("%d jobs may be at work (DOCGAUGE_MAX_ACTIVE_JOBS is %d)", d.active, d.c.MaxActive)}
	case !d.queue.free():
		return d.queue
	}
	d.active++
	d.charged = append(d.charged, d.at)
	d.keys[key] = "prompt " + p.ID + ", which is before it"
	return hold{}
}

// paused is what holds the whole queue up.
func (v *view) paused(c Config) hold {
	switch {
	case !v.queue.Adopted && c.OnNewState == Skip:
		return hold{why: WhyNewState, reason: "the state has no job yet: what is in the folder now counts as done (DOCGAUGE_PROMPTS_ON_NEW_STATE=skip)"}
	case !v.queue.Adopted && c.OnNewState != Submit:
		return hold{why: WhyNewState, reason: errNewState.Error()}
	case v.queue.Paused != "":
		return hold{why: WhyPaused, reason: fmt.Sprintf("the queue is paused since %s (%s): %s", clock(v.queue.Since), v.queue.Paused, v.queue.Detail)}
	}
	return hold{}
}
