package report

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web/htmlview"
)

const (
	firstPages = 20  // of the most read ones are shown unfolded
	firstMoves = 10  // are shown of each kind of change
	maxJobs    = 100 // in the table of jobs
)

var (
	//go:embed *.html
	files embed.FS
	//go:embed style.css
	style string
	//go:embed script.js
	script string

	kind = htmlview.NewPage(files, style)
	// policy allows the style and the script of the file, by their digests, and the icon.
	policy = "default-src 'none'; style-src " + htmlview.Digest(string(kind.Style)) + "; script-src " + htmlview.Digest(script) + "; " +
		"img-src data:; base-uri 'none'; form-action 'none'"
)

// Write writes the file. Nothing is written if it cannot be made.
func Write(out io.Writer, r Report) error {
	page, err := kind.Render("report", documentOf(r))
	if err != nil {
		return err
	}
	_, err = out.Write(page)
	return err
}

// document is all that the templates show, in words.
type document struct {
	Style    template.CSS
	Script   template.JS
	Policy   string
	Version  string
	Title    string
	Made     htmlview.Moment
	Links    []Link
	Asked    string // the dates asked for; empty: none
	Projects []project
	Run      *run   // nil: no state is known
	Queue    *queue // nil: there is none
	Outcomes *outcomes
}

func documentOf(r Report) document {
	d := document{
		Style: kind.Style, Script: template.JS(script), Policy: policy, Version: r.Version, Links: r.Links,
		Made: htmlview.MomentOf(r.Made, r.Made), Title: "Documentation readers",
	}
	switch {
	case r.From != nil && r.To != nil:
		d.Asked = "windows from " + r.From.String() + " up to, not including, " + r.To.String()
	case r.From != nil:
		d.Asked = "windows that begin on or after " + r.From.String()
	case r.To != nil:
		d.Asked = "windows that end before " + r.To.String()
	}
	switch {
	case r.Title != "":
		d.Title = format.Cut(r.Title, view.MaxName)
	case len(r.Projects) == 1:
		d.Title += " of " + r.Projects[0].name()
	}
	var jobs []view.Job
	if r.State != nil {
		d.Run = runOf(*r.State, r.Made)
		if r.State.Queue != nil {
			jobs, d.Queue = r.State.Queue.Jobs, queueOf(r)
		}
	}
	d.Outcomes = outcomesOf(r)
	for i, p := range r.Projects {
		ofProject := slices.DeleteFunc(slices.Clone(jobs), func(j view.Job) bool { return j.Project != p.ID })
		d.Projects = append(d.Projects, projectOf(r, p, i, ofProject))
	}
	return d
}

// project is one project in words.
type project struct {
	Name, Anchor string
	Lead         *lead // nil: nothing was read
	Series       []series
}

func (p Project) name() string { return format.Cut(cmp.Or(p.Name, p.ID), view.MaxName) }

// lead is the answer in one sentence, about one window.
type lead struct {
	Total, During, Span string // During is the word before the span
	Change, Since       string // up 2.1%, the previous week; empty where that is not known
	Share               string
}

// series is one granularity: a card that opens its pane.
type series struct {
	ID, Group string
	Open      bool // at first
	Title     string
	Card      *htmlview.Card // nil: nothing was read
	Chart     *chart         // nil: no two windows in a row were read
	Pages     *pages
	Pageless  string // why there are no pages
	Grid      view.Grid
	Read      htmlview.Moment // when the newest window was
	Older     string          // how many windows are not shown; empty: none
}

func projectOf(r Report, p Project, at int, jobs []view.Job) project {
	v := project{Name: p.name(), Anchor: fmt.Sprintf("p%d", at)}
	leading := leadingOf(p.Series)
	for i, s := range p.Series {
		n := series{
			ID: fmt.Sprintf("p%dg%d", at, i), Group: v.Anchor + "g", Open: i == leading, Title: htmlview.Title(s.Grid.Granularity),
			Card: htmlview.CardOf(s.Grid, r.Against), Chart: chartOf(s.Grid, jobs), Grid: s.Grid, Pages: pagesOf(s, r.Against),
		}
		n.Pageless = "Only the totals of the site are read for this granularity, so there are no pages here."
		if newest := s.Grid.Newest; newest != nil {
			if !newest.TotalsOnly() {
				n.Pageless = "The pages of this window have not been read from a sink yet."
			}
			n.Read = htmlview.MomentOf(newest.ExportedAt.Truncate(time.Second), r.Made)
		}
		if s.Older > 0 {
			n.Older = format.Plural(s.Older, "older window")
		}
		v.Series = append(v.Series, n)
	}
	if leading >= 0 {
		v.Lead = leadOf(p.Series[leading].Grid, v.Series[leading].Card)
	}
	return v
}

// leadingOf picks the series people ask about first: weeks, else days, else the first
// with a window that was read; -1 where there is none.
func leadingOf(all []Series) int {
	first := -1
	rank := func(s Series) int {
		return slices.Index([]analytics.Granularity{analytics.Day, analytics.Week}, s.Grid.Granularity)
	}
	for i, s := range all {
		if s.Grid.Newest != nil && (first < 0 || rank(s) > rank(all[first])) {
			first = i
		}
	}
	return first
}

func leadOf(g view.Grid, c *htmlview.Card) *lead {
	t := g.Newest.Totals
	v := &lead{
		Total: format.Commas(t.Total), During: "during", Span: view.Days(g.Granularity, g.Newest.Window),
		Share: view.Percent(t.AI, t.Total),
	}
	if g.Granularity == analytics.Day {
		v.During = "on"
	}
	if len(c.Changes) > 0 {
		v.Change, v.Since = c.Changes[0].Words, c.Changes[0].Before
	}
	return v
}

// pages are the pages of the newest window, and how they differ from those of an
// earlier one.
type pages struct {
	Top                                 htmlview.PageTable
	Before                              string // the earlier window
	Known                               bool   // its pages are
	Rising, Falling, Appeared, Vanished movers
}

// movers is one kind of change.
type movers struct {
	Rows  []analytics.Change
	Count string
}

func pagesOf(s Series, against htmlview.Comparison) *pages {
	newest := s.Grid.Newest
	if newest == nil || s.Pages == nil {
		return nil
	}
	m, compared := s.Pages.Movers, s.Pages.Before != nil
	g := s.Grid.Granularity
	p := &pages{Known: compared, Before: view.Days(g, against.Window(g, newest.Window)), Top: htmlview.PageTable{
		Title: "Most read pages", Note: view.Days(g, newest.Window) + ", " + format.Plural(m.Pages, "page"), Compared: compared,
	}}
	p.Top.Add(m.Top, firstPages)
	if compared {
		p.Rising, p.Falling, p.Appeared, p.Vanished = moversOf(m.Rising), moversOf(m.Falling), moversOf(m.Appeared), moversOf(m.Vanished)
	}
	return p
}

func moversOf(r analytics.Ranking) movers {
	return movers{r.First[:min(len(r.First), firstMoves)], format.Plural(r.Count, "page")}
}

// run is the newest export. What went wrong in it is left out: that concerns the
// operator alone, and may name paths.
type run struct {
	Words            htmlview.Outcome
	Started, Success htmlview.Moment
}

func runOf(s State, now time.Time) *run {
	r := &run{Success: htmlview.MomentOf(s.LastSuccess, now)}
	if last := s.LastRun; last != nil {
		r.Words, r.Started = htmlview.OutcomeOf(*last), htmlview.MomentOf(last.Started, now)
	}
	return r
}

// queue is what the agent did.
type queue struct {
	Text    string // 3 jobs begun, 2 ended
	Paused  string
	Results []result
	Median  string // time to a pull request
	Jobs    htmlview.JobTable
}

// result is how many jobs ended so. Bar is their share, of 100.
type result struct {
	Tone, Text, Count string
	Bar               int
}

func queueOf(r Report) *queue {
	q := r.State.Queue
	begun, ended := 0, 0
	counts := map[string]int{}
	var toPR []time.Duration
	for _, j := range q.Jobs {
		if !j.Begun.IsZero() {
			begun++
		}
		if j.Result != "" {
			ended++
			counts[j.Result]++
		}
		if j.Result == "pr" && !j.Created.IsZero() && !j.Ended.IsZero() {
			toPR = append(toPR, j.Ended.Sub(j.Created))
		}
	}
	names := map[string]string{}
	for _, p := range r.Projects {
		names[p.ID] = p.name()
	}
	name := func(id string) string { return names[id] }
	if len(r.Projects) < 2 {
		name = nil
	}
	v := &queue{
		Text:   format.Plural(begun, "job") + " begun, " + format.Commas(ended) + " ended",
		Paused: htmlview.Paused(*q), Jobs: htmlview.JobTableOf(*q, name, r.Made, maxJobs),
	}
	for _, how := range view.Results {
		if n := counts[how]; n > 0 {
			j := view.Job{Result: how}
			v.Results = append(v.Results, result{j.Tone(), j.StateText(), format.Commas(n), n * 100 / ended})
		}
	}
	if len(toPR) > 0 {
		slices.Sort(toPR)
		v.Median = htmlview.Took(toPR[(len(toPR)-1)/2])
	}
	return v
}
