package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// listedPages is how many pages of a window stand on one page.
const listedPages = 500

// pagesHandler serves /page: without a path all pages of a window, with one the readers of that path.
type pagesHandler struct {
	site   *Site
	ofPath http.Handler
}

func (h *pagesHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("path") {
		h.ofPath.ServeHTTP(w, r)
		return
	}
	setHeaders(w.Header(), pathKind().livePolicy)
	if readOnly(w, r) {
		page, err := h.answer(r)
		page.send(w, r, err)
	}
}

// pagesPage is the data of the template "pagespage".
type pagesPage struct {
	Style          template.CSS
	Script         template.JS
	Version, Title string
	Navigation     []tab
	Picker         *picker
	Made           *moment
	// Orders are the lists to choose from; Fields the fields of the form that keeps the paths with a prefix.
	Orders     []tab
	Fields     []field
	Prefix     string
	Trail      []Link // the sections that contain the prefix; empty: none
	Groups     []pathGroup
	More       int       // sections that are not shown
	List       *pageList // nil: Pageless says why
	Pageless   string
	Shown      string // which part of a long list is shown; empty: all of it
	Prev, Next string
	CSV        string
}

func (h *pagesHandler) answer(r *http.Request) (rendered, error) {
	s := h.site.Current()
	raw := r.URL.RawQuery
	if values, err := url.ParseQuery(raw); err == nil && values.Get("prefix") == "" { // an empty field of the form
		values.Del("prefix")
		raw = values.Encode()
	}
	a, q, err := readAddress(s, atPages, raw, analytics.VisitorsReport, "list", "by", "prefix", "offset")
	if err != nil {
		return refusal(a, err, h.site.Version)
	}
	a.own.Del("offset") // other lists have other lengths
	p := &pagesPage{Style: pathKind().style, Script: pathKind().script, Version: h.site.Version, Title: a.name(),
		Navigation: navigation(s, atPages, a), Prefix: q.ranking.Prefix, Made: momentOf(s.At, s.At)}
	p.orders(a, q.ranking)
	switch now := a.window(); {
	case now == nil:
		p.Pageless = "No complete window has been read yet."
	case now.TotalsOnly():
		p.Pageless = "Only the totals of this window are known, so its pages are not."
	default:
		q.ranking.N = listedPages
		err := h.site.Archive.ask(r.Context(), func(ctx context.Context, from sinks.Sink) error {
			return p.read(ctx, from, a, q)
		})
		if none, ok := errors.AsType[query.NoAnswerError](err); ok && q.ranking.List != query.MostRead {
			p.Pageless = fmt.Sprintf("%s.", none) // the window lacks one to compare with: others may have it
		} else if err != nil {
			return refusal(a, err, h.site.Version)
		}
	}
	p.Picker = a.picker()
	plain, err := pathKind().render("pagespage", p)
	return rendered{plain: plain, gzip: compressed(plain), status: http.StatusOK}, err
}

// orders adds the links to the lists, and the fields of the form.
func (p *pagesPage) orders(a *address, now query.Ranking) {
	for _, o := range []struct {
		text string
		list query.List
		by   analytics.Audience
	}{
		{"Most readers", "", ""}, {"Most people", "", analytics.Human}, {"Most AI", "", analytics.AI},
		{"Changed most", "", query.ByChange}, {"Rising", query.Rising, ""}, {"Falling", query.Falling, ""},
	} {
		v := a.values()
		for name, value := range map[string]string{"list": string(o.list), "by": string(o.by)} {
			v.Del(name)
			if value != "" {
				v.Set(name, value)
			}
		}
		p.Orders = append(p.Orders, tab{o.text, a.page + "?" + v.Encode(), now.List == cmp.Or(o.list, query.MostRead) &&
			now.By == cmp.Or(o.by, analytics.Everyone)})
	}
	for name, all := range a.values() {
		if name != "prefix" {
			p.Fields = append(p.Fields, field{name, all[0]})
		}
	}
	slices.SortFunc(p.Fields, func(x, y field) int { return cmp.Compare(x.Name, y.Name) })
}

// read asks the archive for the pages.
func (p *pagesPage) read(ctx context.Context, from sinks.Sink, a *address, q question) error {
	now := a.window()
	at := lastDay(now.Window)
	choice := query.Choice{Selection: query.Selection{Granularity: a.grid.Granularity, Projects: []string{a.project.ID}},
		At: &at, Today: q.today}
	if a.against != (Comparison{}) {
		choice.With = new(lastDay(a.against.window(a.grid.Granularity, now.Window)))
	}
	all, err := query.Top(ctx, from, choice, q.ranking)
	if err != nil {
		return err
	}
	top := all[0]
	compared := top.Changes != nil
	l := &pageList{ID: "l", Title: "Pages", Project: a.project.ID, Columns: readColumns(compared),
		Bars:   q.ranking.By != query.ByChange,
		Sorted: slices.Index([]analytics.Audience{analytics.Human, analytics.AI, analytics.Everyone}, q.ranking.By)}
	if q.ranking.List != query.MostRead {
		l.Sorted, l.Rising, l.Bars = len(l.Columns)-1, q.ranking.List == query.Falling, false
	}
	for _, page := range top.Pages {
		c := analytics.Change{Path: page.Path, Appeared: compared && page.Previous == nil}
		if page.Visitors != nil {
			c.After = *page.Visitors
		}
		if page.Previous != nil {
			c.Before = *page.Previous
		}
		l.Rows = append(l.Rows, c)
	}
	l.First = len(l.Rows)
	l.Note = view.Days(a.grid.Granularity, top.Window) + ", " + format.Plural(top.Listed, "page")
	if before := top.Previous; before != nil && compared {
		l.Note += ", compared with " + view.Days(a.grid.Granularity, before.Window)
	}
	p.List = l
	l.Query = a.rest()
	if p.Prefix != "" {
		p.Trail = trailOf(a, p.Prefix)
	}
	if err := p.readGroups(ctx, from, a, top.Revision); err != nil {
		return err
	}
	last := int64(q.offset + len(l.Rows))
	if q.offset > 0 || last < top.Listed {
		p.Shown = fmt.Sprintf("Pages %s to %s of %s.", format.Commas(min(q.offset+1, int(last))), format.Commas(last),
			format.Commas(top.Listed))
	}
	if q.offset > 0 {
		p.Prev = a.with("offset", fmt.Sprint(max(0, q.offset-listedPages)))
	}
	if last < top.Listed && q.offset+listedPages <= maxOffset {
		p.Next = a.with("offset", fmt.Sprint(q.offset+listedPages))
	}
	v := a.values()
	v.Del("compare")
	v.Set("at", at.String())
	v.Set("limit", fmt.Sprint(maxLimit))
	v.Set("format", "csv")
	p.CSV = "api/v1/pages?" + v.Encode()
	return nil
}

// pathGroup is a section with its number of pages. Its readers are never added up.
type pathGroup struct {
	Link
	Pages int
}

// maxPathGroups is how many sections are shown.
const maxPathGroups = 60

// readGroups counts the pages of each section below the prefix. One page alone is no section.
func (p *pagesPage) readGroups(ctx context.Context, from sinks.Sink, a *address, rev analytics.Revision) error {
	counts, prefix := map[string]int{}, cmp.Or(p.Prefix, "/")
	err := query.EachRow(ctx, from, &rev, func(row analytics.Row) bool {
		rest, in := strings.CutPrefix(row.Path, prefix)
		if folder, _, deeper := strings.Cut(rest, "/"); in && deeper && len(row.Path) <= maxLinked {
			counts[prefix+folder+"/"]++
		}
		return true
	})
	for section, pages := range counts {
		if pages > 1 {
			p.Groups = append(p.Groups, pathGroup{Link{section, a.with("prefix", section)}, pages})
		}
	}
	slices.SortFunc(p.Groups, func(a, b pathGroup) int {
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), strings.Compare(a.Text, b.Text))
	})
	p.More = max(0, len(p.Groups)-maxPathGroups)
	p.Groups = p.Groups[:len(p.Groups)-p.More]
	return err
}
