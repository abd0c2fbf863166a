package page

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web/htmlview"
)

// What bounds the size of the page.
const (
	maxTrend    = 30     // windows in a chart
	firstPages  = 10     // of a table, shown unfolded
	maxPages    = 50     // of a table
	maxRows     = 2000   // of all tables, unless the unfolded ones are more
	maxCells    = 400    // drawn of one grid
	maxAllCells = 20_000 // drawn on the page
	minCells    = 31     // drawn of one grid however many grids there are
	maxJobs     = 50     // in the table of jobs
	maxRuns     = 20     // in the table of runs
	maxWaiting  = 10     // windows of a project that wait
	maxError    = 300    // characters of an error beside a run or window
)

// document is all that the templates show, in words.
type document struct {
	Style    template.CSS
	Version  string
	At       htmlview.Moment
	State    state
	Overview *overview // nil: there is one project
	Projects []project
	Backlog  backlog
	Budgets  []budget
	Runs     []run
	Sinks    []sink
	Keys     []key
	Queue    *queue // nil: none is configured
	Effects  *effects
}

func documentOf(v shown, version string) document {
	s := v.snapshot
	d := document{
		Style: kind.Style, Version: version, At: htmlview.MomentOf(s.At, s.At),
		Projects: projects(s), Backlog: backlogOf(s), Budgets: budgets(s), Runs: runs(s), Sinks: sinks(s), Keys: keys(s), Queue: queueOf(s), Effects: effectsOf(s),
	}
	if len(d.Projects) > 1 {
		d.Overview = overviewOf(s, d.Projects)
	}
	d.State = stateOf(v, &d)
	return d
}

// state is the first thing to read.
type state struct {
	Tone     string // ok, wait, bad
	Headline string
	Told     string // the last run in a sentence
	Message  string // what went wrong in it, shortened; the table of runs has it whole
	Remedy   string // a link to what to do about that
	Next     htmlview.Moment
	Success  htmlview.Moment
	Aside    *asideCount // nil: none
	Left     string      // requests for reading, 12 of 90; empty: that is not known
	Concerns []concern
}

// asideCount is how many windows are skipped, and the heading of the first list.
type asideCount struct{ Count, Anchor string }

// concern is something an operator should look at. Remedy is a link to what to do.
type concern struct{ Name, Text, Remedy string }

// The alerts whose sections of the runbook the page links to.
const (
	ruleExportFailing = "DocgaugeExportFailing"
	ruleKeyExpiring   = "DocgaugeKeyExpiring"
	ruleKeyRejected   = "DocgaugeKeyRejected"
	ruleQueuePaused   = "DocgaugeQueuePaused"
	ruleSetAside      = "DocgaugeWindowsSetAside"
	ruleSinkFailing   = "DocgaugeSinkFailing"
)

// remedy links to the section of the runbook about an alert.
func remedy(rule string) string {
	return "https://github.com/docgauge/docgauge/blob/main/docs/runbook.md#" + strings.ToLower(rule)
}

func stateOf(v shown, d *document) state {
	s := v.snapshot
	st := state{
		Told: "No export has run with this state directory.", Remedy: remedy(ruleExportFailing),
		Next: htmlview.MomentOf(s.NextRun, s.At), Success: htmlview.MomentOf(s.LastSuccess, s.At),
	}
	var last *run
	if len(d.Runs) > 0 {
		last = &d.Runs[0]
		st.Told, st.Message = told(s), format.Cut(last.Message, maxError)
	}
	st.Tone, st.Headline = headline(last, d.Backlog.Total, len(s.Asides))
	for _, p := range d.Projects {
		if p.Waiting != nil && len(s.Asides) > 0 && p.ID == s.Asides[0].Project {
			st.Aside = &asideCount{format.Commas(len(s.Asides)), p.Waiting.Anchor}
		}
	}
	for _, b := range d.Budgets {
		if b.Reading && !b.Unlimited {
			st.Left = b.Remaining + " of " + b.Limit
		}
	}
	st.Concerns = concerns(d)
	if len(st.Concerns) > 0 && st.Tone == "ok" {
		st.Tone = "wait"
	}
	if a := v.alert; a.Text != "" {
		st.Tone, st.Headline = "bad", a.Headline
		st.Concerns = append([]concern{{"Not ready", a.Text, remedy(a.Rule)}}, st.Concerns...)
	}
	return st
}

func concerns(d *document) (out []concern) {
	for _, k := range d.Keys {
		rule := ruleKeyExpiring
		if k.Rejected {
			rule = ruleKeyRejected
		}
		if k.Concern != "" {
			out = append(out, concern{"API key " + k.Name, k.Concern, remedy(rule)})
		}
	}
	for _, k := range d.Sinks {
		if k.Problem != "" {
			out = append(out, concern{"Sink " + k.Name, k.Problem, remedy(ruleSinkFailing)})
		}
	}
	if d.Queue != nil && d.Queue.Paused != "" {
		out = append(out, concern{"Agent jobs", d.Queue.Paused, remedy(ruleQueuePaused)})
	}
	return out
}

func headline(last *run, due, aside int) (tone, text string) {
	switch {
	case last == nil:
		return "wait", "No run yet"
	case last.Outcome == "success" && due == 0 && aside > 0:
		return "wait", "Up to date except for " + format.Plural(aside, "window") + " skipped"
	case last.Outcome == "success" && due == 0:
		return "ok", "Up to date"
	case last.Outcome == "success":
		return "ok", "Last run succeeded"
	case last.Outcome == "deferred":
		return "wait", "Waiting for the request budget"
	case last.Outcome == "":
		return "wait", "A run is in progress"
	default:
		return "bad", "Last run " + last.Words.Word
	}
}

// told is what the newest run of a snapshot did, in a sentence.
func told(s *view.Snapshot) string {
	r := s.Runs[0]
	began := htmlview.MomentOf(r.Started, s.At).Age
	if r.Outcome == "" {
		return "It started " + began + " and has not ended: it is running, or was killed."
	}
	text := "The last run started " + began
	if took := r.Finished.Sub(r.Started); took >= time.Second {
		text += " and took " + htmlview.Took(took)
	}
	done := format.Plural(r.Windows, "window") + ", " + format.Plural(r.Requests, "request")
	switch {
	case r.Outcome == "deferred" && r.Windows == 0:
		return text + ". It read no window, because the requests of this hour are used up."
	case r.Outcome == "deferred":
		return text + ": " + done + ". The rest waits for the request budget."
	case r.Outcome == "success" && r.Windows == 0:
		return text + ". It read no window, because none was due (" + format.Plural(r.Requests, "request") + ")."
	}
	return text + ": " + done + "."
}

type project struct {
	ID, Name string
	Anchor   string // of its content
	Folds    bool
	Open     bool // at first
	Cards    []card
	Waiting  *waiting // nil: nothing waits
	Tables   []htmlview.PageTable
	Coverage []coverage
}

// card is one granularity of a project.
type card struct {
	ID, Title string
	Newest    *htmlview.Card  // nil: no complete window yet
	Trend     *htmlview.Chart // nil: nothing to draw
	Open      *open           // nil: not read
}

type open struct {
	Span             htmlview.Span
	Human, AI, Total string
	Read             htmlview.Moment
}

func projects(s *view.Snapshot) (out []project) {
	grids := 0
	for _, p := range s.Projects {
		grids += len(p.Grids)
	}
	cells := min(maxCells, max(minCells, maxAllCells/max(grids, 1)))
	rows := min(maxPages, max(firstPages, maxRows/max(len(s.Windows), 1)))
	for i, p := range s.Projects {
		v := project{ID: p.ID, Name: s.ProjectName(p.ID), Anchor: fmt.Sprintf("p%d", i), Folds: len(s.Projects) > 1, Open: i == 0}
		v.Waiting = waitingOf(s, p, v.Anchor+"w")
		for j, g := range p.Grids {
			c := card{ID: fmt.Sprintf("p%dg%d", i, j), Title: htmlview.Title(g.Granularity), Newest: htmlview.CardOf(g, htmlview.Comparison{})}
			c.Trend = htmlview.ChartOf(g, g.Cells[max(0, len(g.Cells)-maxTrend):], 3)
			for _, w := range s.Windows {
				if w.Project != p.ID || w.Granularity != g.Granularity {
					continue
				}
				if c.Newest != nil {
					c.Newest.Notes = append(c.Newest.Notes, notesOf(g, w, s.At)...)
				}
				if len(w.Pages) > 0 {
					v.Tables = append(v.Tables, pagesOf(w, rows))
				}
			}
			for _, o := range s.Open {
				if o.Project == p.ID && o.Granularity == g.Granularity {
					c.Open = &open{
						htmlview.SpanOf(o.Granularity, o.Window), format.Commas(o.Totals.Human), format.Commas(o.Totals.AI),
						format.Commas(o.Totals.Total), htmlview.MomentOf(o.ReadAt, s.At),
					}
				}
			}
			v.Cards, v.Coverage = append(v.Cards, c), append(v.Coverage, coverageOf(g, cells))
		}
		out = append(out, v)
	}
	return out
}

// notesOf says how many rows of a window are suspect, or that it has none yet.
func notesOf(g view.Grid, w view.Window, now time.Time) (out []htmlview.Note) {
	moved := format.Commas(w.MovedRows) + " read before the totals last changed"
	repeated := format.Commas(w.RepeatedRows) + " with a path that came twice"
	of := " of " + format.Plural(w.Rows, "row")
	switch {
	case w.MovedRows > 0 && w.RepeatedRows > 0:
		most := format.Commas(min(w.MovedRows+w.RepeatedRows, w.Rows))
		out = append(out, htmlview.Note{Text: "Suspect: up to " + most + of, Why: moved + ", " + repeated})
	case w.MovedRows > 0:
		out = append(out, htmlview.Note{Text: "Suspect: " + format.Commas(w.MovedRows) + of, Why: "read before the totals last changed"})
	case w.RepeatedRows > 0:
		out = append(out, htmlview.Note{Text: "Suspect: " + format.Commas(w.RepeatedRows) + of, Why: "with a path that came twice"})
	}
	for _, c := range g.Cells {
		if c.Window == w.Window && !c.RowsFrom.IsZero() {
			out = append(out, htmlview.Note{Text: "Totals only so far", Why: "its rows are read once it has settled, after", Until: htmlview.MomentOf(c.RowsFrom, now)})
		}
	}
	return out
}

func pagesOf(w view.Window, rows int) htmlview.PageTable {
	t := htmlview.PageTable{
		Title: htmlview.Title(w.Granularity), Note: view.Days(w.Granularity, w.Window) + ", " + format.Plural(w.Rows, "page"),
	}
	var pages []analytics.Change
	for _, r := range w.Pages[:min(len(w.Pages), rows)] {
		pages = append(pages, analytics.Change{Path: r.Path, After: r.Totals()})
	}
	t.Add(pages, firstPages)
	return t
}

// waiting are the windows of a project that are not due before their time: those
// that are skipped, and those whose rows are read once they have settled.
type waiting struct {
	Anchor  string // of its heading
	Remedy  string // a link to what to do about windows that are skipped; empty: none is
	Windows []waitingWindow
	More    string // how many are not listed; empty: none
}

// waitingWindow is one of them.
type waitingWindow struct {
	Span         htmlview.Span
	Title        string
	Why, Note    string
	First, Until htmlview.Moment // First: of the failed attempts, if any
	Detail       string          // the last error
}

// asideReasons explain the reasons for which a window can be skipped.
var asideReasons = map[analytics.AsideReason]string{
	analytics.AsideMalformed: "an answer contains invalid data",
	analytics.AsideRepeats:   "the service repeats the same rows",
	analytics.AsideEmpty:     "the service sends no rows although the totals are not zero",
	analytics.AsideRefused:   "the service rejects its requests, but not others",
	analytics.AsideFailing:   "the service fails for it, but not for others",
}

// waitingOf lists what waits, those that are skipped first, each kind newest first;
// nil where nothing does.
func waitingOf(s *view.Snapshot, p view.Project, anchor string) *waiting {
	w := &waiting{Anchor: anchor}
	all := 0
	add := func(v waitingWindow) {
		if all++; all <= maxWaiting {
			w.Windows = append(w.Windows, v)
		}
	}
	for _, a := range s.Asides {
		if a.Project != p.ID {
			continue
		}
		why, known := asideReasons[a.Reason]
		if !known {
			why = string(a.Reason)
		}
		w.Remedy = remedy(ruleSetAside)
		add(waitingWindow{
			Span: htmlview.SpanOf(a.Granularity, a.Window), Title: htmlview.Title(a.Granularity),
			Why: "Skipped: " + why, Note: "in " + format.Plural(a.Failures, "run"),
			First: htmlview.MomentOf(a.Since, s.At), Until: htmlview.MomentOf(a.Until, s.At), Detail: format.Cut(a.Detail, maxError),
		})
	}
	for _, g := range p.Grids {
		for i := len(g.Cells) - 1; i >= 0; i-- {
			if c := g.Cells[i]; !c.RowsFrom.IsZero() {
				add(waitingWindow{
					Span: htmlview.SpanOf(g.Granularity, c.Window), Title: htmlview.Title(g.Granularity), Why: "Totals known, rows later",
					Note: "its rows change while they are read, until it has settled", Until: htmlview.MomentOf(c.RowsFrom, s.At),
				})
			}
		}
	}
	if all == 0 {
		return nil
	}
	if more := all - len(w.Windows); more > 0 {
		w.More = format.Plural(more, "more window")
	}
	return w
}
