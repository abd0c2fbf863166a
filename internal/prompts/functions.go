package prompts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// maxPages is the maximum number of pages in one list of a template.
const maxPages = 100

// ErrNoNumbers: the numbers that a template asks for do not exist, or not yet.
var ErrNoNumbers = errors.New("no numbers")

// Numbers are the numbers of a project for its templates: of the newest settled
// window of a granularity, and of the window that ends where that one begins (for a
// rolling granularity, not the window that ended a day earlier). If one of the two is
// missing, the error is ErrNoNumbers and says why.
type Numbers interface {
	Site(ctx context.Context, project string, g analytics.Granularity) (Site, error)
	Pages(ctx context.Context, project string, g analytics.Granularity) (Pages, error)
	// Outcomes are those of the merged pull requests, newest first.
	Outcomes(ctx context.Context, project string) ([]view.Outcome, error)
}

// Site has the totals of two adjacent windows.
type Site struct {
	Window, FormerWindow analytics.Window
	Totals, Former       analytics.Totals
}

// Pages has the rows of two adjacent windows, in any order.
type Pages struct {
	Window, FormerWindow analytics.Window
	Rows, Former         []analytics.Row
}

// renderer renders the templates of one prompt. It keeps the numbers it has read, so
// that all texts of a prompt have the same numbers.
type renderer struct {
	ctx     context.Context
	prompt  Prompt
	at      time.Time
	numbers Numbers

	sites   map[analytics.Granularity]Site
	pages   map[analytics.Granularity]Pages
	windows map[analytics.Granularity]analytics.Window
	movers  map[moversKey]analytics.Movers
	merges  []view.Outcome // nil: not read yet
}

type moversKey struct {
	granularity string
	audience    analytics.Audience
}

func newRenderer(ctx context.Context, p Prompt, at time.Time, n Numbers) *renderer {
	return &renderer{
		ctx: ctx, prompt: p, at: at.UTC(), numbers: n,
		sites: map[analytics.Granularity]Site{}, pages: map[analytics.Granularity]Pages{},
		windows: map[analytics.Granularity]analytics.Window{}, movers: map[moversKey]analytics.Movers{},
	}
}

// variableNames are the names of variables; docs/agent-jobs.md describes them.
var variableNames = []string{"id", "project", "title", "date", "firing"}

// variables returns what dot is in a template.
func (r *renderer) variables() map[string]any {
	all := map[string]any{
		"id": r.prompt.ID, "project": r.prompt.Project, "title": r.prompt.Title, "date": day{analytics.DateOf(r.at)},
	}
	if r.prompt.Recurs() {
		all["firing"] = moment{r.at}
	}
	return all
}

// functions returns our functions; docs/agent-jobs.md describes them.
func (r *renderer) functions() map[string]any {
	return map[string]any{
		"date": parseDay, "addDays": addDays, "format": format,
		"have":          r.have,
		"site_visitors": r.siteVisitors,
		"top_pages":     r.pagesBy("top_pages", func(m analytics.Movers) []analytics.Change { return m.Top }),
		"rising_pages":  r.pagesBy("rising_pages", func(m analytics.Movers) []analytics.Change { return m.Rising.First }),
		"falling_pages": r.pagesBy("falling_pages", func(m analytics.Movers) []analytics.Change { return m.Falling.First }),
		"outcomes":      r.outcomes,
	}
}

// functionNames are all functions of templates: ours, and those of the template
// language that cannot print more than they are given.
var functionNames = func() map[string]any {
	all := new(renderer).functions()
	for _, name := range []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len"} {
		all[name] = true
	}
	return all
}()

func sortedFunctionNames() []string { return slices.Sorted(maps.Keys(functionNames)) }

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

func format(layout string, v instant) string { return v.time().Format(layout) }

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

func (r *renderer) have(granularity string) (bool, error) {
	_, err := r.site(granularity)
	if errors.Is(err, ErrNoNumbers) {
		return false, nil
	}
	return err == nil, err
}

func (r *renderer) siteVisitors(granularity string) (record, error) {
	site, err := r.site(granularity)
	if err != nil {
		return nil, err
	}
	rec := newRecord(site.Totals, site.Former)
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
		if n < 1 || n > maxPages {
			return nil, functionErrorf("%s %d: want from 1 to %d pages", name, n, maxPages)
		}
		key := moversKey{granularity, analytics.Everyone}
		if len(audience) > 0 {
			key.audience = analytics.Audience(audience[0])
		}
		audiences := []analytics.Audience{analytics.Everyone, analytics.Human, analytics.AI}
		if len(audience) > 1 || !slices.Contains(audiences, key.audience) {
			return nil, functionErrorf(`%s: want "human", "ai" or "total" after the number of pages`, name)
		}
		movers, ok := r.movers[key]
		if !ok {
			pages, err := r.windowPages(granularity)
			if err != nil {
				return nil, err
			}
			earlier, later := analytics.ByPath(pages.Former), analytics.ByPath(pages.Rows)
			movers, err = analytics.FindMovers(earlier, later, key.audience, maxPages)
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

// adjacent is the windows that numbers are of.
type adjacent struct{ window, former analytics.Window }

// site returns the site's numbers of a granularity.
func (r *renderer) site(granularity string) (Site, error) {
	return readOnce(r, "numbers", granularity, r.sites, func(g analytics.Granularity) (Site, adjacent, error) {
		site, err := r.numbers.Site(r.ctx, r.prompt.Project, g)
		return site, adjacent{site.Window, site.FormerWindow}, err
	})
}

// windowPages returns the pages of a granularity.
func (r *renderer) windowPages(granularity string) (Pages, error) {
	return readOnce(r, "pages", granularity, r.pages, func(g analytics.Granularity) (Pages, adjacent, error) {
		pages, err := r.numbers.Pages(r.ctx, r.prompt.Project, g)
		return pages, adjacent{pages.Window, pages.FormerWindow}, err
	})
}

// readOnce returns the numbers of a granularity from known, or reads them. It refuses
// numbers that would not be what the prompt means: of windows that are not adjacent,
// long past, or not the ones that the prompt already has numbers of.
func readOnce[T any](
	r *renderer, name, granularity string, known map[analytics.Granularity]T,
	read func(analytics.Granularity) (T, adjacent, error),
) (T, error) {
	var none T
	g, err := analytics.ParseGranularity(granularity)
	if err != nil {
		return none, &functionError{err}
	}
	if r.numbers == nil {
		return none, functionErrorf("numbers of the %s: %w", g, ErrNoNumbers)
	}
	if numbers, ok := known[g]; ok {
		return numbers, nil
	}
	numbers, windows, err := read(g)
	window, former := windows.window, windows.former
	today, seen := analytics.DateOf(r.at), r.windows[g]
	switch {
	case err != nil:
	case former.To != window.From || former.Days() < 1 || window.Days() < 1:
		err = fmt.Errorf("%w: the settled window %s does not follow on %s", ErrNoNumbers, window, former)
	case today > window.To+analytics.Date(2*window.Days()+7):
		err = fmt.Errorf("%w: the newest settled window is %s, and it is %s: is anything exported?",
			ErrNoNumbers, window, today)
	case seen != window && seen != analytics.Window{}:
		err = fmt.Errorf("%w: they changed meanwhile, from the window %s to %s", ErrNoNumbers, seen, window)
	}
	if err != nil {
		return none, functionErrorf("%s of the %s: %w", name, g, err)
	}
	known[g], r.windows[g] = numbers, window
	return numbers, nil
}
