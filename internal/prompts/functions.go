package prompts

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// maxPages is the maximum number of pages in one list of a template.
const maxPages = 100

// maxMissAgents is the maximum number of agents that are named for a path.
const maxMissAgents = 5

// ErrNoNumbers: the numbers that a template asks for do not exist, or not yet.
var ErrNoNumbers = errors.New("no numbers")

// Numbers are the numbers of a project for its templates.
type Numbers interface {
	// Windows returns what is asked for of the newest settled window of a granularity, and of the window of
	// [analytics.Granularity.ComparedWith]. If one of the two is missing, the error is ErrNoNumbers with the reason.
	Windows(ctx context.Context, project string, g analytics.Granularity, of Content) (Compared, error)
	// Outcomes returns the outcomes of the merged pull requests.
	Outcomes(ctx context.Context, project string) (view.Outcomes, error)
}

// Content is what a template asks of two adjacent windows.
type Content string

// The contents.
const (
	Totals Content = "numbers"
	Pages  Content = "pages"  // the rows, and the totals
	Agents Content = "agents" // of the site, by the report of agents
	Misses Content = "misses" // the paths that agents missed, by that report
)

// Compared is the content of a window and of the window that it is compared with. Rows are in any order. Agents and
// Misses belong to Window, most readers or requests first; one without a Previous had none in FormerWindow.
type Compared struct {
	Window, FormerWindow analytics.Window
	Totals, FormerTotals analytics.Totals
	Rows, FormerRows     []analytics.Row
	Agents               []view.RankedAgent
	Misses               []view.Miss
}

// renderer renders the templates of one prompt. It keeps the numbers it has read, so
// that all texts of a prompt have the same numbers.
type renderer struct {
	ctx     context.Context
	prompt  Prompt
	now     time.Time
	numbers Numbers

	known map[string]Compared // by content and granularity
	// windows are those read, by report and granularity.
	windows map[string]analytics.Window
	movers  map[string]analytics.Movers // by granularity and audience
	merges  *view.Outcomes              // nil: not read yet
}

// variableNames are the names of variables; docs/agent-jobs.md describes them.
var variableNames = []string{"id", "project", "title", "date", "firing"}

// variables returns the value of dot in a template.
func (r *renderer) variables() map[string]any {
	all := map[string]any{
		"id": r.prompt.ID, "project": r.prompt.Project, "title": r.prompt.Title, "date": day{analytics.DateOf(r.now)},
	}
	if r.prompt.Recurs() {
		all["firing"] = moment{r.now}
	}
	return all
}

// functions returns our functions; docs/agent-jobs.md describes them. Strangers choose paths: every function
// leaves those out that are not plain.
func (r *renderer) functions() map[string]any {
	return map[string]any{
		"date": parseDay, "addDays": addDays, "format": formatTime,
		"have":          r.have,
		"site_visitors": r.siteVisitors,
		"top_pages":     r.pagesBy("top_pages", func(m analytics.Movers) []analytics.Change { return m.Top }),
		"rising_pages": r.pagesBy("rising_pages",
			func(m analytics.Movers) []analytics.Change { return m.Rising.First }),
		"falling_pages": r.pagesBy("falling_pages",
			func(m analytics.Movers) []analytics.Change { return m.Falling.First }),
		"agents": r.listAgents, "misses": r.listMisses,
		"outcomes": r.outcomes, "outcomes_summary": r.outcomesSummary,
	}
}

// functionNames are all functions of templates: ours, and the functions of the template language that cannot print
// more than their arguments.
var functionNames = func() map[string]any {
	all := new(renderer).functions()
	for _, name := range []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len"} {
		all[name] = true
	}
	return all
}()

// functionError is an error of one of our functions.
type functionError struct{ error }

func (e *functionError) Unwrap() error { return e.error }

func functionErrorf(format string, args ...any) error {
	return &functionError{fmt.Errorf(format, args...)}
}

// day is a date in a template, printed as 2026-01-31. It has no exported methods
// that a template could call, apart from String.
type day struct{ date analytics.Date }

func (d day) String() string  { return d.date.String() }
func (d day) time() time.Time { return d.date.Time() }

// moment is a time in a template, in UTC, printed as 2026-01-31T09:00:00Z.
type moment struct{ at time.Time }

func (m moment) String() string  { return m.at.Format(time.RFC3339) }
func (m moment) time() time.Time { return m.at }

// instant is a day or a moment.
type instant interface{ time() time.Time }

func parseDay(s string) (day, error) {
	d, err := analytics.ParseDate(s)
	if err != nil {
		return day{}, &functionError{err}
	}
	return day{d}, nil
}

func addDays(n int, d day) (day, error) {
	const most = 40_000 // a century and more
	if n < -most || n > most {
		return day{}, functionErrorf("addDays %d: want from %d to %d", n, -most, most)
	}
	return day{d.date + analytics.Date(n)}, nil
}

// formatTime prints a day or a moment. In a range, a layout that is printed longer than it is could grow without end.
func formatTime(layout string, v instant) (string, error) {
	const most = 200
	if len(layout) > most {
		return "", functionErrorf("format: want a layout of at most %d bytes, not %d", most, len(layout))
	}
	return v.time().Format(layout), nil
}

// record is a page or the site, as a template sees it.
type record map[string]any

func (r record) String() string { return fmt.Sprint(r["line"]) }

// pageList is some pages, printed as one line per page.
type pageList []record

func (l pageList) String() string {
	if len(l) == 0 {
		return "- none"
	}
	lines := make([]string, len(l))
	for i, r := range l {
		lines[i] = r.String()
	}
	return strings.Join(lines, "\n")
}

func newRecord(now, before analytics.Totals) record {
	r := record{
		"human": now.Human, "ai": now.AI, "total": now.Total,
		"human_change": now.Human - before.Human, "ai_change": now.AI - before.AI, "change": now.Total - before.Total,
	}
	r["line"] = fmt.Sprintf("%d visitors (%+d), %d human (%+d), %d AI (%+d)",
		now.Total, r["change"], now.Human, r["human_change"], now.AI, r["ai_change"])
	return r
}

func (r *renderer) have(granularity string, report ...string) (bool, error) {
	content := Totals
	if len(report) > 0 {
		content = Content(report[0])
	}
	if len(report) > 1 || len(report) > 0 && content != Agents {
		return false, functionErrorf(`have: want nothing or "agents" after the kind of window`)
	}
	_, err := r.read(granularity, content)
	if errors.Is(err, ErrNoNumbers) {
		return false, nil
	}
	return err == nil, err
}

func (r *renderer) siteVisitors(granularity string) (record, error) {
	site, err := r.read(granularity, Totals)
	if err != nil {
		return nil, err
	}
	rec := newRecord(site.Totals, site.FormerTotals)
	w, former := site.Window, site.FormerWindow
	rec["from"], rec["to"], rec["last"] = day{w.From}, day{w.To}, day{w.To - 1}
	rec["line"] = fmt.Sprintf("%s to %s: %s, compared with %s to %s",
		w.From, w.To-1, rec["line"], former.From, former.To-1)
	return rec, nil
}

// pagesBy returns a function that lists pages from the ranking of two windows.
func (r *renderer) pagesBy(
	name string, choose func(analytics.Movers) []analytics.Change,
) func(granularity string, n int, audience ...string) (pageList, error) {
	return func(granularity string, n int, audience ...string) (pageList, error) {
		if err := checkCount(name, n, "pages"); err != nil {
			return nil, err
		}
		by := analytics.Everyone
		if len(audience) > 0 {
			by = analytics.Audience(audience[0])
		}
		audiences := []analytics.Audience{analytics.Everyone, analytics.Human, analytics.AI}
		if len(audience) > 1 || !slices.Contains(audiences, by) {
			return nil, functionErrorf(`%s: want "human", "ai" or "total" after the number of pages`, name)
		}
		key := granularity + " " + string(by)
		movers, ok := r.movers[key]
		if !ok {
			pages, err := r.read(granularity, Pages)
			if err != nil {
				return nil, err
			}
			movers, err = analytics.FindMovers(analytics.ByPath(plainRows(pages.FormerRows)),
				analytics.ByPath(plainRows(pages.Rows)), by, maxPages)
			if err != nil {
				return nil, functionErrorf("pages of the %s: %w", granularity, err)
			}
			r.movers[key] = movers
		}
		list := pageList{}
		for _, c := range choose(movers)[:min(n, len(choose(movers)))] {
			rec := newRecord(c.After, c.Before)
			rec["path"] = quote(c.Path)
			rec["line"] = fmt.Sprintf("- %s: %s", rec["path"], rec["line"])
			list = append(list, rec)
		}
		return list, nil
	}
}

// plainRows returns the rows whose paths may stand in a prompt.
func plainRows(rows []analytics.Row) []analytics.Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r analytics.Row) bool { return !view.PlainPath(r.Path) })
}

// checkCount returns an error if a function cannot list so many things.
func checkCount(function string, n int, things string) error {
	if n < 1 || n > maxPages {
		return functionErrorf("%s %d: want from 1 to %d %s", function, n, maxPages, things)
	}
	return nil
}

// read returns the content of two windows of a granularity, which it reads once. It refuses numbers that do not
// fit the prompt: of windows that are not compared with each other, are long past, or differ from those whose
// numbers the prompt already has.
func (r *renderer) read(granularity string, content Content) (Compared, error) {
	g, err := analytics.ParseGranularity(granularity)
	if err != nil {
		return Compared{}, &functionError{err}
	}
	if r.numbers == nil && content == Pages {
		content = Totals // both are missing
	}
	key := string(content) + " " + string(g)
	if numbers, ok := r.known[key]; ok {
		return numbers, nil
	}
	var numbers Compared
	if err = ErrNoNumbers; r.numbers != nil {
		numbers, err = r.numbers.Windows(r.ctx, r.prompt.Project, g, content)
	}
	series := string(g)
	if content == Agents || content == Misses {
		series = "agents " + series
	}
	window, former := numbers.Window, numbers.FormerWindow
	switch today, seen := analytics.DateOf(r.now), r.windows[series]; {
	case err != nil:
	case former.To != g.ComparedWith(window).To || former.Days() < 1 || window.Days() < 1:
		err = fmt.Errorf("%w: the settled window %s is not compared with %s", ErrNoNumbers, window, former)
	case today > window.To+analytics.Date(2*window.Days()+7):
		err = fmt.Errorf("%w: the newest settled window is %s, and it is %s: is anything exported?",
			ErrNoNumbers, window, today)
	case seen != window && seen != analytics.Window{}:
		err = fmt.Errorf("%w: they changed while the prompt was rendered, from the window %s to %s", ErrNoNumbers,
			seen, window)
	}
	if err != nil {
		return Compared{}, functionErrorf("%s of the %s: %w", content, g, err)
	}
	r.known[key], r.windows[series] = numbers, window
	return numbers, nil
}

// former returns the numbers of the former window.
func former(c view.AgentChange) view.AgentNumbers {
	if c.Previous == nil {
		return view.AgentNumbers{}
	}
	return *c.Previous
}

// listAgents lists the agents of the site.
func (r *renderer) listAgents(granularity string) (pageList, error) {
	numbers, err := r.read(granularity, Agents)
	if err != nil {
		return nil, err
	}
	list := pageList{}
	for _, a := range numbers.Agents[:min(maxPages, len(numbers.Agents))] {
		before := former(a.AgentChange)
		rec := record{"name": quote(a.Agent), "class": word(a.Class), "audience": word(string(a.Audience)),
			"readers": a.Visitors, "readers_change": a.Visitors - before.Visitors,
			"requests": a.Requests, "requests_change": a.Requests - before.Requests}
		rec["line"] = fmt.Sprintf("- %s (%s, %s): %d readers (%+d), %d requests (%+d)", rec["name"], rec["class"],
			rec["audience"], a.Visitors, rec["readers_change"], a.Requests, rec["requests_change"])
		list = append(list, rec)
	}
	return list, nil
}

// listMisses lists the paths that agents missed.
func (r *renderer) listMisses(granularity string, n int) (pageList, error) {
	if err := checkCount("misses", n, "paths"); err != nil {
		return nil, err
	}
	numbers, err := r.read(granularity, Misses)
	if err != nil {
		return nil, err
	}
	list := pageList{}
	for _, m := range numbers.Misses {
		if !view.PlainPath(m.Path) || len(list) == n {
			continue
		}
		var names []string
		for _, a := range m.Agents[:min(maxMissAgents, len(m.Agents))] {
			names = append(names, quote(a.Agent))
		}
		rec := record{"path": quote(m.Path), "agents": strings.Join(names, ", "), "nearest": "",
			"requests": m.Requests, "change": m.Requests - former(m.AgentChange).Requests}
		near := "no page is similar"
		if i := slices.IndexFunc(m.Near, view.PlainPath); i >= 0 {
			rec["nearest"] = quote(m.Near[i])
			near = "most similar page " + rec["nearest"].(string)
		}
		rec["line"] = fmt.Sprintf("- %s: %d requests (%+d) by %s; %s", rec["path"], m.Requests, rec["change"],
			rec["agents"], near)
		list = append(list, rec)
	}
	return list, nil
}

// outcomesSummary says what all outcomes say together, and what they do not say. It reads them once.
func (r *renderer) outcomesSummary() (string, error) {
	if r.numbers == nil {
		return "", functionErrorf("outcomes: %w", ErrNoNumbers)
	}
	if r.merges == nil {
		merges, err := r.numbers.Outcomes(r.ctx, r.prompt.Project)
		if err != nil {
			return "", functionErrorf("outcomes: %w", err)
		}
		r.merges = &merges
	}
	if len(r.merges.Summaries) == 0 {
		return "No merge was judged yet.", nil
	}
	return strings.Join(append(r.merges.Sentences(nil), r.merges.Caution()), " "), nil
}

// outcomeList is some outcomes, printed as one line for each and their summary.
type outcomeList pageList

func (l outcomeList) String() string {
	text := pageList(l).String()
	if len(l) > 0 {
		text += fmt.Sprintf("\n\n%s", l[0]["summary"]) // a separate paragraph, not part of the last item
	}
	return text
}

// outcomes lists the effects of merges that have a verdict, newest merge first.
func (r *renderer) outcomes(n int) (outcomeList, error) {
	if err := checkCount("outcomes", n, "effects"); err != nil {
		return nil, err
	}
	summary, err := r.outcomesSummary()
	if err != nil {
		return nil, err
	}
	round := func(n float64) int { return int(math.Round(n)) }
	list := outcomeList{}
	for _, o := range r.merges.Merges {
		for _, e := range o.Effects {
			if e.Verdict == view.NotEnoughData || e.Verdict == view.TooEarly || len(list) == n ||
				!view.PlainPath(e.Path) {
				continue
			}
			rec := record{
				"path": quote(e.Path), "audience": string(e.Audience), "merged": day{o.Date()},
				"verdict": string(e.Verdict),
				"before":  round(e.Before), "after": round(e.Actual), "expected": round(e.Expected),
				"change": round(100 * e.Change), "low": round(100 * e.Low), "high": round(100 * e.High),
				"summary": summary,
			}
			who := map[analytics.Audience]string{analytics.Human: "human", analytics.AI: "AI"}[e.Audience]
			rec["line"] = fmt.Sprintf("- %s, merged %s: %d %s visitors a day since, %d expected without it: "+
				"%+d%% (90%% interval %+d%% to %+d%%), %s", rec["path"], rec["merged"], rec["after"], who,
				rec["expected"],
				rec["change"], rec["low"], rec["high"], e.Verdict)
			list = append(list, rec)
		}
	}
	return list, nil
}
