package jobs

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// machine is a world in which anything may happen, and its invariants.
type machine struct {
	*world
	skew time.Duration // of the queue's clock
	// forward: the clock was set forward, so a day can be over too early.
	forward bool
	// resubmitted counts, by prompt, how often the operator asked for another job.
	resubmitted map[string]int
	edits       int
}

// machineCost is the cost of each job of the service.
const machineCost = 0.5

func (m *machine) queueTime() time.Time { return m.clock.Add(m.skew) }

func TestMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{world: newWorld(t), resubmitted: map[string]int{}}
		m.opt.Now = m.queueTime
		m.opt.MaxPerDay = rapid.IntRange(0, 6).Draw(t, "per day")
		m.opt.MaxActive = rapid.IntRange(0, 3).Draw(t, "active")
		// No job costs more than estimated, and none less than half of it.
		m.opt.JobCost, m.opt.MaxCostPerDay = 1, float64(rapid.IntRange(0, 3).Draw(t, "cost"))
		m.service.costs = func(*remote) docsapi.JobCost {
			return docsapi.JobCost{Amount: new(machineCost), Unit: "USD"}
		}
		m.opt.KeyMark = func() string { return "mark" }
		for range rapid.IntRange(1, 6).Draw(t, "prompts") {
			m.edit(t)
		}
		t.Repeat(map[string]func(*rapid.T){
			"":         func(*rapid.T) { m.check() },
			"pass":     m.quiet,
			"faulty":   m.faulty,
			"outage":   m.outage,
			"twin":     m.twin,
			"kill":     func(*rapid.T) { m.queue = nil },
			"edit":     m.edit,
			"remove":   func(t *rapid.T) { m.remove(m.draw(t)) },
			"operator": m.operate,
			"time":     m.goesBy,
			"clock":    m.setClock,
			"lost":     m.loses,
		})
		m.end()
	})
}

func (m *machine) draw(t *rapid.T) string { return rapid.SampledFrom(ids).Draw(t, "prompt") }

// edit writes a new file, or replaces one.
func (m *machine) edit(t *rapid.T) {
	m.edits++
	id := m.draw(t)
	p := prompts.Prompt{
		ID: id, Project: rapid.SampledFrom([]string{"prj_a", "prj_b"}).Draw(t, "project"),
		Body: fmt.Sprintf("do %s, edit %d%s", id, m.edits,
			rapid.SampledFrom([]string{"", " fails", " archives", " no change", " slow"}).Draw(t, "outcome")),
		ConcurrencyKey: rapid.SampledFrom([]string{"", "", "k"}).Draw(t, "key"),
		Resubmit:       rapid.Bool().Draw(t, "resubmit"),
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "follow-ups") {
		p.FollowUps = append(p.FollowUps, fmt.Sprintf("%s, follow-up %d", p.Body, i))
	}
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		p.Schedule = cron(t, rapid.SampledFrom([]string{"0 * * * *", "@every 90m", "30 5 * * *"}).Draw(t, "schedule"))
	case 1:
		if id > "a" {
			p.DependsOn = []string{rapid.SampledFrom(ids[:strings.Index("abcdef", id)]).Draw(t, "on")}
		}
	case 2:
		p.NotBefore = m.clock.Add(time.Duration(rapid.IntRange(-60, 600).Draw(t, "not before")) * time.Minute)
	case 3:
		p.Expires = m.clock.Add(time.Duration(rapid.IntRange(0, 6000).Draw(t, "expires")) * time.Minute)
	}
	m.prompt(p)
}

// quiet is a pass in which nothing goes wrong.
func (m *machine) quiet(*rapid.T) {
	m.faults, m.service.down = nil, nil
	if _, err := m.pass(); err != nil {
		m.Fatalf("pass: %v", err)
	}
}

// faulty is a pass in which one call goes wrong.
func (m *machine) faulty(t *rapid.T) {
	call := rapid.SampledFrom([]string{
		callCreate, callMessage, callRead, callApply, callApply, callJobs, callJob, callQueue, callRecurring, callSee,
	}).Draw(t, "call")
	f := rapid.SampledFrom(faultsOf(call)).Draw(t, "fault")
	nth := rapid.IntRange(1, 4).Draw(t, "nth")
	made := 0
	m.faults = func(c string, _ int) faults.Fault {
		if c == call {
			if made++; made == nth {
				return f
			}
		}
		return faults.None
	}
	m.pass()
	m.faults = nil
}

// outage is a pass in which the service accepts nothing.
func (m *machine) outage(t *rapid.T) {
	m.service.down = always(rapid.SampledFrom([]error{
		answer(http.StatusInternalServerError), answer(http.StatusUnauthorized), answer(http.StatusTooManyRequests),
		answer(http.StatusBadRequest), answer(http.StatusNotFound), answer(http.StatusConflict), throttled(time.Hour),
		notSentError(), lostError(),
	}).Draw(t, "answer"))
	m.pass()
	m.service.down = nil
}

// twin is a pass in which the service answers each create with the id of another job.
func (m *machine) twin(t *rapid.T) {
	var known []string
	for _, job := range m.memory.jobs {
		if job.JobID != "" {
			known = append(known, job.JobID)
		}
	}
	if slices.Sort(known); len(known) == 0 {
		return
	}
	id := rapid.SampledFrom(known).Draw(t, "id")
	m.service.answersAs = func(call, own string) string {
		projects := map[string]string{}
		for _, at := range m.service.jobs {
			projects[at.id] = at.project
		}
		if call == callCreate && projects[id] == projects[own] {
			return id
		}
		return own
	}
	m.pass()
	m.service.answersAs = nil
}

func (m *machine) goesBy(t *rapid.T) {
	m.clock = m.clock.Add(rapid.SampledFrom([]time.Duration{
		time.Second, 20 * time.Second, 2 * time.Minute, 31 * time.Minute, 5 * time.Hour,
	}).Draw(t, "time"))
}

func (m *machine) setClock(t *rapid.T) {
	step := rapid.SampledFrom([]time.Duration{
		-time.Second, -time.Hour, -400 * 24 * time.Hour, time.Minute, 40 * 24 * time.Hour,
	}).Draw(t, "step")
	m.skew += step
	m.forward = m.forward || step > 0
}

// loses makes the service forget a job.
func (m *machine) loses(t *rapid.T) {
	if jobs := m.service.jobs; len(jobs) > 0 && rapid.IntRange(0, 4).Draw(t, "rarely") == 0 {
		jobs[rapid.IntRange(0, len(jobs)-1).Draw(t, "job")].gone = true
	}
}

// operate makes one decision, sensible or not; resolve says the truth.
func (m *machine) operate(t *rapid.T) {
	id := m.draw(t)
	var err error
	decisions := []string{"hold", "release", "cancel", "retry", "resolve", "drop", "pause", "continue"}
	switch decision := rapid.SampledFrom(decisions).Draw(t, "decision"); decision {
	case "resolve":
		if job, err := Find(m.Context(), m.journal, id); err == nil && job.State == journal.Unknown {
			m.resolve(job.Seq)
			m.resubmitted[id]++
		}
	case "pause":
		m.pauseQueue()
	case "continue":
		m.releaseQueue()
	default:
		if _, err = m.decide(decision, id); err == nil && decision == "retry" {
			m.resubmitted[id]++
		}
	}
	if err != nil && !errors.Is(err, ErrRefused) && !errors.Is(err, journal.ErrNoJob) {
		t.Fatal(err)
	}
}

// check fails if an invariant is broken.
func (m *machine) check() {
	ids, unsure, busy := map[string]int64{}, map[string]int{}, 0
	tries, again := map[string]int{}, maps.Clone(m.resubmitted) // those that anything asked for
	messagedAgain := map[string]bool{}                          // jobs by id
	for seq, job := range m.memory.jobs {
		if other, twice := ids[job.JobID]; twice && job.JobID != "" {
			m.Fatalf("jobs %d and %d have the id %s", other, seq, job.JobID)
		}
		ids[job.JobID] = seq
		if job.Try > 1 {
			tries[job.Prompt]++
		}
		if strings.HasPrefix(job.Reason, "on_unknown: resubmit: ") {
			again[job.Prompt]++
		}
		for _, event := range m.memory.history[seq] {
			if strings.HasPrefix(event.Cause, "on_unknown: resubmit: ") {
				messagedAgain[job.JobID] = true
			}
		}
		if job.InDoubt && job.JobID == "" || job.State == journal.Submitting {
			unsure[job.Text]++
		}
		if job.State.Occupies() {
			busy++
		}
	}
	for _, at := range m.service.jobs {
		if _, known := ids[at.id]; !known {
			if unsure[at.texts[0]]--; unsure[at.texts[0]] < 0 {
				m.Fatalf("job %s (%s) is not in the journal, and nothing there is in doubt", at.id, at.texts[0])
			}
		}
		for i, message := range at.texts[1:] {
			if slices.Contains(at.texts[1:i+1], message) && !messagedAgain[at.id] {
				m.Fatalf("job %s got %q twice", at.id, message)
			}
		}
	}
	for prompt, n := range tries {
		if n > again[prompt] {
			m.Fatalf("%s had %d more tries, asked for were %d", prompt, n, again[prompt])
		}
	}
	if m.opt.MaxActive > 0 && busy > m.opt.MaxActive {
		m.Fatalf("%d jobs may be at work, at most %d may", busy, m.opt.MaxActive)
	}
	if most := m.service.mostIn24Hours(); m.opt.MaxPerDay > 0 && !m.forward && most > m.opt.MaxPerDay {
		m.Fatalf("%d jobs in 24 hours", most)
	} else if spent := float64(most) * machineCost; m.opt.MaxCostPerDay > 0 && !m.forward && spent > m.opt.MaxCostPerDay {
		m.Fatalf("cost %v in 24 hours", spent)
	}
}

// end lets everything end, and checks that nothing was forgotten.
func (m *machine) end() {
	m.releaseQueue()
	for _, job := range m.memory.jobs {
		if job.State == journal.Held {
			m.decides("release", fmt.Sprintf("#%d", job.Seq))
		}
	}
	m.opt.MaxActive, m.opt.MaxPerDay, m.opt.MaxCostPerDay = 0, 0, 0
	m.queue = nil
	for _, p := range slices.Clone(m.folder) {
		if p.Recurs() {
			m.remove(p.ID) // it never becomes idle
		}
	}
	var r Result
	for range 400 {
		var err error
		r, err = m.pass()
		if err != nil {
			m.Fatal(err)
		}
		m.check()
		doubt := false
		for _, job := range m.memory.jobs {
			if job.State == journal.Unknown {
				m.resubmitted[job.Prompt]++
				m.resolve(job.Seq)
				doubt = true
			}
		}
		if r.isIdle() && !doubt && r.Queue.Paused == "" {
			m.rests(r)
			return
		}
		m.releaseQueue()
		m.clock = m.clock.Add(7 * time.Minute)
	}
	m.Fatalf("it does not become idle: %+v\n%+v", r, m.memory.jobs)
}

// rests fails if a prompt waits for nothing at the end.
func (m *machine) rests(r Result) {
	for _, p := range r.Planned {
		switch {
		case p.State.Ended():
		case p.State == journal.Pending &&
			slices.Contains([]Why{whyNotBefore, whyFiring, whyDependency, whyGone}, p.Why):
		default:
			m.Fatalf("at the end %s is %s for %q: %s", p.ID, p.State, p.Why, p.Reason)
		}
	}
}
