package page

import (
	"html/template"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/htmlview"
)

// document is all that the templates show, in words.
type document struct {
	Style    template.CSS
	Version  string
	At       htmlview.Moment
	State    state
	Projects []project
	Backlog  backlog
	Budgets  []budget
	Runs     []run
	Sinks    []sink
	Keys     []key
	Queue    *queue
}

func (d *document) fill(s *exporter.Snapshot) {
	d.At = htmlview.MomentOf(s.At, s.At)
	d.Backlog = backlogOf(s)
	d.Budgets = budgets(s)
	d.Runs = runs(s)
	d.Sinks = sinks(s)
	d.Keys = keys(s)
	d.Projects = projects(s)
	d.Queue = queueOf(s)
	d.State = stateOf(s, d)
}

// state is the first thing to read.
type state struct {
	Tone     string // ok, wait, bad
	Headline string
	Last     *run   // the newest run
	Message  string // what went wrong in it, shortened
	Next     htmlview.Moment
	Success  htmlview.Moment
	Aside    *asideCount // nil: none
	Concerns []concern
}

// asideCount is how many windows are set aside, and the heading of the first list.
type asideCount struct{ Count, Anchor string }

// concern is something an operator should look at.
type concern struct{ Name, Text string }

// maxLead is the most letters of a message at the head of the page; the table
// of runs has it whole.
const maxLead = 300

func stateOf(s *exporter.Snapshot, d *document) state {
	st := state{Next: htmlview.MomentOf(s.NextRun, s.At), Success: htmlview.MomentOf(s.LastSuccess, s.At)}
	if len(d.Runs) > 0 {
		st.Last, st.Message = &d.Runs[0], htmlview.Cut(d.Runs[0].Message, maxLead)
	}
	st.Tone, st.Headline = headline(st.Last, d.Backlog.Total, len(s.Asides))
	for _, p := range d.Projects {
		if p.Waiting != nil && len(s.Asides) > 0 && p.ID == s.Asides[0].Project {
			st.Aside = &asideCount{htmlview.Commas(len(s.Asides)), p.Waiting.Anchor}
		}
	}
	for _, k := range d.Keys {
		if k.Concern != "" {
			st.Concerns = append(st.Concerns, concern{"API key " + k.Name, k.Concern})
		}
	}
	for _, k := range d.Sinks {
		if k.Problem != "" {
			st.Concerns = append(st.Concerns, concern{"Sink " + k.Name, k.Problem})
		}
	}
	if d.Queue != nil && d.Queue.Paused != "" {
		st.Concerns = append(st.Concerns, concern{"Agent jobs", d.Queue.Paused})
	}
	if len(st.Concerns) > 0 && st.Tone == "ok" {
		st.Tone = "wait"
	}
	return st
}

func headline(last *run, due, aside int) (tone, text string) {
	switch {
	case last == nil:
		return "wait", "No run yet"
	case last.Outcome == "success" && due == 0 && aside > 0:
		return "wait", "Up to date but for " + htmlview.Plural(aside, "window") + " set aside"
	case last.Outcome == "success" && due == 0:
		return "ok", "Up to date"
	case last.Outcome == "success":
		return "ok", "Last run succeeded"
	case last.Outcome == "deferred":
		return "wait", "Waiting for the budget"
	case last.Outcome == "":
		return "wait", "A run is under way"
	default:
		return "bad", "Last run " + last.Word
	}
}
