package web

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

// What bounds the size of the status page.
const (
	maxTrend       = 30     // windows in a chart
	firstPages     = 10     // of a list, shown unfolded
	maxPages       = 50     // of a list
	maxRows        = 2000   // of all lists, unless the unfolded ones are more
	maxCells       = 400    // drawn of one grid
	maxAllCells    = 20_000 // drawn on the page
	minCells       = 31     // drawn of one grid however many grids there are
	maxStatusJobs  = 50     // in the table of jobs
	maxWaiting     = 10     // windows of a project that wait
	maxAgents      = 10     // of one window, and as many misses
	maxNewEffects  = 8      // effects of merges
	maxError       = 300    // characters of an error beside a run or window
	expiryConcerns = 7 * day
)

// statusHandler serves how the exports are doing, at /status.
func (s *Site) statusHandler() http.Handler {
	return &pageHandler[siteValues]{
		path: "/status", policy: statusKind().livePolicy, current: s.values,
		render: func(v siteValues) ([]byte, int, error) {
			p := &statusPage{Style: statusKind().style, Script: statusKind().script, Version: s.Version, Values: v.snapshot,
				Navigation: navigation(v.snapshot, atStatus, nil)}
			if v.snapshot == nil {
				page, err := statusKind().render("starting", p)
				return page, http.StatusServiceUnavailable, err
			}
			p.fill(v)
			page, err := statusKind().render("page", p)
			return page, http.StatusOK, err
		},
	}
}

// statusPage is the data of the templates: the values, and anything derived from several of them.
type statusPage struct {
	Style      template.CSS
	Script     template.JS
	Version    string
	Navigation []tab
	Values     *view.Snapshot
	Pipeline   pipeline
	Skipped    string // the anchor of the first list of windows that are skipped
	Projects   []*statusProject
	Jobs       *jobTable    // nil: no queue is configured
	Effects    *effectTable // nil: nothing was merged
}

func (p *statusPage) fill(values siteValues) {
	p.Pipeline = pipelineOf(p.Values, values.alert)
	p.addProjects(values.pages)
	p.addQueue()
	p.addEffects()
	for _, v := range p.Projects {
		if asides := p.Values.Asides; len(asides) > 0 && v.ID == asides[0].Project {
			p.Skipped = v.Anchor + "w"
		}
	}
}

// pipeline is how the exports are doing.
type pipeline struct {
	Tone, Headline, Told string // Tone is ok, wait or bad; Told is the newest run in a sentence
	Due                  int    // windows
	Concerns             []concern
}

// concern is something an operator should look at. Rule names the alert; the runbook has a
// section about it.
type concern struct{ Name, Text, Rule string }

func pipelineOf(s *view.Snapshot, alert Alert) (p pipeline) {
	for _, d := range s.Due {
		p.Due += d.Count
	}
	p.Told = toldOf(s)
	p.Tone, p.Headline = headlineOf(s, p.Due)
	for _, k := range s.Keys {
		if text := keyConcern(k, s.At); text != "" {
			rule := map[bool]string{true: "DocgaugeKeyRejected", false: "DocgaugeKeyExpiring"}[k.Rejected]
			p.Concerns = append(p.Concerns, concern{"API key " + k.Name, text, rule})
		}
	}
	for _, r := range s.Refused {
		p.Concerns = append(p.Concerns, concern{r.What(), fmt.Sprintf("The service refuses it (401, 403), but accepts the "+
			"key otherwise: %s until %s.", format.Plural(r.Windows, "window")+" skipped", format.Clock(r.Until, s.At)),
			"DocgaugeWindowsSetAside"})
	}
	for _, k := range s.Sinks {
		if k.Problem != "" {
			p.Concerns = append(p.Concerns, concern{"Sink " + k.Name, k.Problem, "DocgaugeSinkFailing"})
		}
	}
	if s.Queue != nil {
		if paused := pausedText(*s.Queue); paused != "" {
			p.Concerns = append(p.Concerns, concern{"Agent jobs", paused, "DocgaugeQueuePaused"})
		}
	}
	if len(p.Concerns) > 0 && p.Tone == "ok" {
		p.Tone = "wait"
	}
	if alert.Text != "" {
		p.Tone, p.Headline = "bad", alert.Headline
		p.Concerns = append([]concern{{"Not ready", alert.Text, alert.Rule}}, p.Concerns...)
	}
	return p
}

func headlineOf(s *view.Snapshot, due int) (tone, text string) {
	if len(s.Runs) == 0 {
		return "wait", "No run yet"
	}
	switch last := s.Runs[0]; last.Outcome {
	case "success":
		switch {
		case due > 0:
			return "ok", "Last run succeeded"
		case skipped(s) > 0:
			return "wait", "Up to date except for " + format.Plural(skipped(s), "window") + " skipped"
		}
		return "ok", "Up to date"
	case "deferred":
		return "wait", "Waiting for the request budget"
	case "":
		return "wait", "A run is in progress"
	default:
		return "bad", "Last run " + outcomeOf(last).Word
	}
}

// skipped counts the windows that are skipped, alone or with their project or report.
func skipped(s *view.Snapshot) int {
	n := len(s.Asides)
	for _, r := range s.Refused {
		n += r.Windows
	}
	return n
}

// toldOf summarizes the newest run in a sentence.
func toldOf(s *view.Snapshot) string {
	if len(s.Runs) == 0 {
		return "No export has run with this state directory."
	}
	r := s.Runs[0]
	began := age(r.Started.Sub(s.At))
	if r.Outcome == "" {
		return "It started " + began + " and has not ended: it is running, or was killed."
	}
	text := "The last run started " + began
	if d := r.Finished.Sub(r.Started); d >= time.Second {
		text += " and took " + took(d)
	}
	requests := format.Plural(r.Requests, "request")
	done := format.Plural(r.Windows, "window") + ", " + requests
	switch {
	case r.Outcome == "deferred" && r.Windows == 0:
		return text + ". It read no window, because the requests of this hour are used up."
	case r.Outcome == "deferred":
		return text + ": " + done + ". The rest waits for the request budget."
	case r.Outcome == "success" && r.Windows == 0:
		return text + ". It read no window, because none was due (" + requests + ")."
	}
	return text + ": " + done + "."
}

// notCounted names the windows that wait and are not due; empty: none.
func (p *statusPage) notCounted() string {
	var waits []string
	if n := skipped(p.Values); n > 0 {
		waits = append(waits, format.Plural(n, "window")+" skipped")
	}
	later := 0
	for _, project := range p.Values.Projects {
		later += len(rowsLater(project))
	}
	if later > 0 {
		waits = append(waits, format.Plural(later, "window")+" whose rows are read later")
	}
	if len(waits) == 0 {
		return ""
	}
	return "Not counted: " + strings.Join(waits, ", ") + "."
}

// budgetName names a request budget.
func (p *statusPage) budgetName(b view.Budget) string {
	switch {
	case b.Project == "":
		return "Reading"
	case len(p.Projects) > 1:
		return "Agent jobs, " + p.Values.ProjectName(b.Project)
	}
	return "Agent jobs"
}

// dueReasons explain why a window can be due.
var dueReasons = map[string]string{
	"missing":    "not read yet",
	"settle":     "read before it settled; it can no longer change",
	"unverified": "its numbers changed while they were read",
}

// keyLeft returns the remaining life of a key.
func keyLeft(k view.Key, now time.Time) string {
	switch left := k.Expires.Sub(now); {
	case left <= 0:
		return "expired"
	case left < day:
		return "less than a day left"
	default:
		return format.Plural(int(left/day), "day") + " left"
	}
}

// keyConcern describes a current or imminent problem with a key, or is empty.
func keyConcern(k view.Key, now time.Time) string {
	on := k.Expires.UTC().Format(time.DateOnly)
	switch left := k.Expires.Sub(now); {
	case k.Rejected:
		return "rejected by the service (401 or 403): replace it"
	case k.Expires.IsZero() || left >= expiryConcerns:
		return ""
	case left <= 0:
		return fmt.Sprintf("expired on %s: replace it", on)
	default:
		return fmt.Sprintf("expires on %s, %s", on, keyLeft(k, now))
	}
}

// statusProject is one project on the status page.
type statusProject struct {
	view.Project
	Page        *statusPage
	Anchor      string // of its content
	Open        bool   // unfolded at first
	Cards       []statusCard
	Waiting     []analytics.Aside // windows that are skipped, and those whose rows are read later
	MoreWaiting int
	Lists       []pageList
	Agents      []*agentList
	Rows        []*rowList // of other reports
	Coverage    []coverage
	Wide        bool // a calendar is wide
}

// statusCard is one granularity of a project.
type statusCard struct {
	ID     string
	Grid   view.Grid
	At     time.Time
	Newest *card                 // nil: no complete window yet
	Trend  *chart                // nil: nothing to draw
	Open   *analytics.OpenWindow // nil: not read
}

func (p *statusPage) addProjects(pages *pageSet) {
	s, grids := p.Values, 0
	for _, v := range s.Projects {
		grids += len(v.Grids)
	}
	cells := min(maxCells, max(minCells, maxAllCells/max(grids, 1)))
	rows := min(maxPages, max(firstPages, maxRows/max(len(s.Windows), 1)))
	for i := range s.Projects {
		v := &statusProject{Project: s.Projects[i], Page: p, Anchor: fmt.Sprintf("p%d", i), Open: i == 0}
		for _, a := range s.Asides {
			if a.Project == v.ID {
				v.Waiting = append(v.Waiting, a)
			}
		}
		v.Waiting = append(v.Waiting, rowsLater(v.Project)...)
		v.MoreWaiting = max(0, len(v.Waiting)-maxWaiting)
		v.Waiting = v.Waiting[:len(v.Waiting)-v.MoreWaiting]
		for j, g := range v.Grids {
			c := statusCard{ID: fmt.Sprintf("p%dg%d", i, j), Grid: g, At: s.At, Newest: cardOf(g, Comparison{})}
			c.Trend = chartOf(g, g.Cells[max(0, len(g.Cells)-maxTrend):], 3)
			for _, w := range s.Windows {
				if w.Project != v.ID || w.Granularity != g.Granularity {
					continue
				}
				if c.Newest != nil {
					c.Newest.People = s.PeopleIn(w.Key)
					c.Newest.Notes = append(c.Newest.Notes, notesOf(g, w, s.At)...)
				}
				if list := newestPages(w, pages.newest(g), rows); len(list.Rows) > 0 {
					list.ID, list.Project, list.Query = c.ID+"l", v.ID, "&window="+string(g.Granularity)
					v.Lists = append(v.Lists, list)
				}
			}
			for i, o := range s.Open {
				if o.Project == v.ID && o.Granularity == g.Granularity {
					c.Open = &s.Open[i]
				}
			}
			drawn := coverageOf(g, cells)
			v.Cards, v.Coverage = append(v.Cards, c), append(v.Coverage, drawn)
			v.Wide = v.Wide || drawn.Calendar.Width > maxNarrow
		}
		for _, w := range s.Others {
			if w.Project == v.ID && w.Report != analytics.AgentsReport {
				if l := rowListOf(rowsOf(w), fmt.Sprintf("p%d%s%s", i, w.Report, w.Granularity), maxAgents); l != nil {
					v.Rows = append(v.Rows, l)
				}
			}
			if w.Project == v.ID && w.Report == analytics.AgentsReport && len(w.Rows) > 0 {
				read := agentsOf(w)
				for _, g := range v.Others {
					if newer := pages.newest(g); g.Report == w.Report && g.Granularity == w.Granularity && newer != nil {
						read = newer
					}
				}
				l := agentListOf(read, fmt.Sprintf("p%da%s", i, w.Granularity), v.ID, maxAgents)
				l.Title = title(w.Granularity)
				v.Agents = append(v.Agents, l)
			}
		}
		p.Projects = append(p.Projects, v)
	}
}

// readsRowsLater is the reason for which a window waits whose totals alone are known.
const readsRowsLater analytics.AsideReason = "rows_later"

// rowsLater are the windows of a project whose rows are read once they have settled, newest first
// in each grid.
func rowsLater(p view.Project) (out []analytics.Aside) {
	for _, g := range p.Grids {
		for _, c := range slices.Backward(g.Cells) {
			if !c.RowsFrom.IsZero() {
				key := analytics.Key{Project: p.ID, Granularity: g.Granularity, Window: c.Window}
				out = append(out, analytics.Aside{Key: key, Reason: readsRowsLater, Until: c.RowsFrom})
			}
		}
	}
	return out
}

// waitReasons are the reasons why a window waits.
var waitReasons = map[analytics.AsideReason]string{
	readsRowsLater:           "Totals known, rows later",
	analytics.AsideMalformed: "Skipped: an answer contains invalid data",
	analytics.AsideRepeats:   "Skipped: the service repeats the same rows",
	analytics.AsideEmpty:     "Skipped: the service sends no rows under its totals, or totals of zero over rows",
	analytics.AsideRefused:   "Skipped: the service rejects its requests, but not others",
	analytics.AsideFailing:   "Skipped: the service fails for it, but not for others",
}

// notesOf returns how many rows of a window are suspect, or that it has none yet.
func notesOf(g view.Grid, w view.Window, now time.Time) (out []note) {
	most, why := w.MovedRows, "read before the totals last changed"
	switch {
	case w.MovedRows > 0 && w.RepeatedRows > 0:
		most = min(w.MovedRows+w.RepeatedRows, w.Rows)
		why = format.Commas(w.MovedRows) + " " + why + ", " +
			format.Commas(w.RepeatedRows) + " with a path that came twice"
	case w.RepeatedRows > 0:
		most, why = w.RepeatedRows, "with a path that came twice"
	}
	if most > 0 {
		upTo := map[bool]string{true: "up to "}[w.MovedRows > 0 && w.RepeatedRows > 0]
		text := "Suspect: " + upTo + format.Commas(most) + " of " + format.Plural(w.Rows, "row")
		out = append(out, note{Text: text, Why: why})
	}
	for _, c := range g.Cells {
		if c.Window == w.Window && !c.RowsFrom.IsZero() {
			why := "its rows are read once it has settled, after"
			out = append(out, note{Text: "Totals only so far", Why: why, Until: momentOf(c.RowsFrom, now)})
		}
	}
	return out
}

// newestPages lists the most read pages of a window, with their changes where those were read.
func newestPages(w view.Window, read *Pages, rows int) pageList {
	l := pageList{Title: title(w.Granularity), First: firstPages, Bars: true, Sorted: 2}
	if read != nil {
		l.Rows, l.Columns = read.Movers.Top, readColumns(read.Before != nil)
	} else {
		l.Columns = readColumns(false)
		for _, r := range w.Pages[:min(len(w.Pages), rows)] {
			l.Rows = append(l.Rows, analytics.Change{Path: r.Path, After: r.Totals})
		}
	}
	l.Rows = l.Rows[:min(len(l.Rows), rows)]
	l.Note = l.listed(view.Days(w.Granularity, w.Window), w.Rows)
	return l
}

// newest is the card of one granularity; nil: nothing was read.
func (p *statusProject) newest(g analytics.Granularity) *card {
	for i := range p.Cards {
		if p.Cards[i].Grid.Granularity == g {
			return p.Cards[i].Newest
		}
	}
	return nil
}

// missing counts the windows that were not read.
func (p *statusProject) missing() (n int) {
	for _, g := range p.Grids {
		n += g.Missing
	}
	return n
}

// openJobs counts the prompts that have not come to an end.
func (p *statusProject) openJobs() (n int) {
	open := []string{"pending", "submitting", "active", "unknown", "held"}
	for _, c := range p.Page.Values.Queue.Prompts {
		if c.Project == p.ID && slices.Contains(open, c.State) {
			n += c.Count
		}
	}
	return n
}

// state describes the progress of a project in a few words, and its tone.
func (p *statusProject) state() explained {
	aside, due := 0, 0
	for _, a := range p.Page.Values.Asides {
		if a.Project == p.ID {
			aside++
		}
	}
	for _, d := range p.Page.Values.Due {
		if d.Project == p.ID {
			due += d.Count
		}
	}
	switch {
	case aside > 0:
		return explained{format.Plural(aside, "window") + " skipped", "wait"}
	case due > 0:
		return explained{format.Plural(due, "window") + " due", "wait"}
	case !slices.ContainsFunc(p.Grids, func(g view.Grid) bool { return g.Known > 0 }):
		return explained{"nothing read yet", "wait"}
	}
	return explained{"up to date", "ok"}
}

// addQueue counts the prompts of all projects by state.
func (p *statusPage) addQueue() {
	s := p.Values
	if s.Queue == nil {
		return
	}
	var states []string
	sums := map[string]int{}
	for _, c := range s.Queue.Prompts {
		if c.Count > 0 && sums[c.State] == 0 {
			states = append(states, c.State)
		}
		sums[c.State] += c.Count
	}
	for i, state := range states {
		states[i] = format.Commas(sums[state]) + " " + state
	}
	p.Jobs = jobTableOf(*s.Queue, cmp.Or(strings.Join(states, ", "), "No prompts"), p.names(), s.At, maxStatusJobs)
}

// names returns the function that names projects, or nil for one project.
func (p *statusPage) names() func(id string) string {
	if len(p.Values.Projects) < 2 {
		return nil
	}
	return p.Values.ProjectName
}

// addEffects lists what became of the readers of the newest merges. Pages without enough data are
// left out.
func (p *statusPage) addEffects() {
	s := p.Values
	if len(s.Outcomes.Merges) == 0 {
		return
	}
	t := &effectTable{Title: "Readers after merges, the newest merge first", Merged: "Merged", Linked: true,
		Summaries: s.Outcomes.Sentences(p.names()), Caution: s.Outcomes.Caution()}
	more := 0
	for _, o := range s.Outcomes.Merges {
		known := 0
		for _, e := range o.Effects {
			if e.Verdict == view.NotEnoughData {
				continue
			}
			if known++; len(t.Rows) == maxNewEffects {
				more++
				continue
			}
			row := effectRow{Effect: e, Merge: o.Merge}
			if len(s.Projects) > 1 {
				row.Project = s.ProjectName(o.Project)
			}
			t.Rows = append(t.Rows, row)
		}
		if known == 0 {
			t.Incomparable++
		}
	}
	if more > 0 {
		t.More = format.Plural(more, "more effect") + " not shown; docgauge outcomes shows all"
	}
	p.Effects = t
}
