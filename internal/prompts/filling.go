package prompts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// MaxPages is the most pages a template lists at once.
const MaxPages = 100

// filling fills in the templates of one prompt. What it asked for once it does not
// ask again, so that all of a prompt has the same numbers.
type filling struct {
	ctx     context.Context
	prompt  Prompt
	at      time.Time
	numbers Numbers

	sites   map[analytics.Granularity]Site
	pages   map[analytics.Granularity]Pages
	windows map[analytics.Granularity]analytics.Window
	ranked  map[question]pageList
}

// question is what a list of pages answers, with MaxPages pages.
type question struct {
	rank string
	g    analytics.Granularity
	a    Audience
}

// record is a page or the site, as a template sees it.
type record map[string]any

func (r record) String() string { return fmt.Sprint(r["line"]) }

// pageList is some pages, a line each.
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

func (f *filling) have(g string) (bool, error) {
	_, err := f.site(g)
	if errors.Is(err, ErrNoNumbers) {
		return false, nil
	}
	return err == nil, err
}

func (f *filling) siteVisitors(g string) (record, error) {
	site, err := f.site(g)
	if err != nil {
		return nil, err
	}
	r := numbersOf(site.Totals, site.Former)
	r["from"], r["to"], r["last"] = day{site.Window.From}, day{site.Window.To}, day{site.Window.To - 1}
	r["line"] = fmt.Sprintf("%s to %s: %s, compared with %s to %s",
		site.Window.From, site.Window.To-1, r["line"], site.FormerWindow.From, site.FormerWindow.To-1)
	return r, nil
}

func (f *filling) topPages(g string, n int, audience ...string) (pageList, error) {
	return f.list("top_pages", Top, g, n, audience)
}

func (f *filling) risingPages(g string, n int, audience ...string) (pageList, error) {
	return f.list("rising_pages", Rising, g, n, audience)
}

func (f *filling) fallingPages(g string, n int, audience ...string) (pageList, error) {
	return f.list("falling_pages", Falling, g, n, audience)
}

// ranking is Top, Rising or Falling.
type ranking func(former, next []analytics.Row, a Audience, n int) []Change

func (f *filling) list(name string, rank ranking, granularity string, n int, audience []string) (pageList, error) {
	if n < 1 || n > MaxPages {
		return nil, callf("%s %d: want from 1 to %d pages", name, n, MaxPages)
	}
	a, err := audienceOf(audience)
	if err != nil {
		return nil, callf("%s: %w", name, err)
	}
	pages, err := f.rows(granularity)
	if err != nil {
		return nil, err
	}
	q := question{name, analytics.Granularity(granularity), a}
	list, ok := f.ranked[q]
	if !ok {
		list = listOf(rank(pages.Former, pages.Rows, a, MaxPages))
		f.ranked = keep(f.ranked, q, list)
	}
	return list[:min(n, len(list))], nil
}

func audienceOf(args []string) (Audience, error) {
	if len(args) == 0 {
		return Everyone, nil
	}
	a := Audience(args[0])
	if len(args) > 1 || a != Everyone && a != Human && a != AI {
		return "", errors.New(`want "human", "ai" or "total" after the number of pages`)
	}
	return a, nil
}

func listOf(changes []Change) pageList {
	list := make(pageList, len(changes))
	for i, c := range changes {
		r := numbersOf(c.Now, c.Before)
		r["path"] = quote(c.Path)
		r["line"] = fmt.Sprintf("- %s: %s", r["path"], r["line"])
		list[i] = r
	}
	return list
}

func numbersOf(now, before analytics.Totals) record {
	r := record{
		"human": now.Human, "ai": now.AI, "total": now.Total,
		"human_change": now.Human - before.Human, "ai_change": now.AI - before.AI, "change": now.Total - before.Total,
	}
	r["line"] = fmt.Sprintf("%d visitors (%+d), %d human (%+d), %d AI (%+d)",
		now.Total, r["change"], now.Human, r["human_change"], now.AI, r["ai_change"])
	return r
}

// keep sets m[k] and returns m.
func keep[K comparable, V any](m map[K]V, k K, v V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	m[k] = v
	return m
}
