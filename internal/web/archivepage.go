package web

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// archiveHandler serves pages about one thing, whose numbers are read from the archive at each view. It is safe for
// concurrent use.
type archiveHandler struct {
	site   *Site
	page   string
	report analytics.Report // has the windows that can be shown
	own    []string         // parameters
	about  func(q question) subject
}

// subject is what such a page shows: one path, one agent, or all agents. It is the data of its template.
type subject interface {
	title() string
	// machines are its numbers over HTTP: a list of the API, and its parameters besides the page's.
	machines(g analytics.Granularity) (list string, own url.Values)
	// read asks the archive for the numbers of the window of choice.
	read(ctx context.Context, from sinks.Sink, p *archivePage, choice query.Choice) error
}

// archivePage is the data of the template "archivepage".
type archivePage struct {
	Style          template.CSS
	Version, Title string
	Name           string // of the project
	Navigation     []tab
	Picker         *picker
	Made           *moment
	CSV, JSON      string
	// One of them is what the page shows.
	Path   *pathNumbers
	Agent  *agentNumbers
	Agents *agentsNumbers

	address  *address
	window   analytics.Window // that is shown
	until    *analytics.Date  // the end of the windows that are shown; nil: the newest are
	outcomes view.Outcomes
}

func (h *archiveHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header(), pathKind().livePolicy)
	if readOnly(w, r) {
		page, section, err := h.answer(r)
		if section != "" {
			w.Header().Set("Location", section)
			page.status = http.StatusFound
		}
		page.send(w, r, err)
	}
}

// answer returns the page; for a path that ends as the name of a section, and is none, also the address of that section.
func (h *archiveHandler) answer(r *http.Request) (_ rendered, section string, _ error) {
	s := h.site.Current()
	a, q, err := readAddress(s, h.page, r.URL.RawQuery, h.report, h.own...)
	if err != nil {
		page, err := refusal(a, err, h.site.Version)
		return page, "", err
	}
	about := h.about(q)
	p := &archivePage{Style: pathKind().style, Version: h.site.Version, Title: about.title(), Name: a.name(),
		Navigation: navigation(s, h.page, a), Picker: a.picker(), Made: momentOf(s.At, s.At), address: a,
		outcomes: s.Outcomes.Of(a.project.ID)}
	p.Picker.Compared = nil // the archive compares with the window before
	choice := query.Choice{Today: q.today,
		Selection: query.Selection{Granularity: a.grid.Granularity, Projects: []string{a.project.ID}}}
	if now := a.window(); now != nil {
		choice.At = new(lastDay(now.Window))
	}
	err = h.site.Archive.ask(r.Context(), func(ctx context.Context, from sinks.Sink) error {
		in := pageInputs{analytics.DateOf(s.At), a.project, p.outcomes}
		name := fmt.Sprintf("%s?%s %d", a.page, a.values().Encode(), versionOf(from, in))
		said, err := answer(ctx, from, name, always, func() (archiveAnswer, error) {
			err := about.read(ctx, from, p, choice)
			if prefix := strings.TrimSuffix(a.own.Get("path"), "*"); err != nil && strings.HasSuffix(prefix, "/") {
				top, none := query.Top(ctx, from, choice, query.Ranking{By: analytics.Everyone, Prefix: prefix})
				if none == nil && top[0].Count > 0 {
					section = a.about(atPages, "prefix", prefix)
				}
			}
			if unknown, ok := errors.AsType[query.UnknownProjectError](err); ok {
				err = query.NoAnswerError(unknown)
			}
			return archiveAnswer{about, section, p.window, p.until}, err
		})
		about, section, p.window, p.until = said.about, said.section, said.window, said.until
		return err
	})
	if err != nil {
		page, err := refusal(a, p.doubt(err), h.site.Version)
		return page, section, err
	}
	switch about := about.(type) {
	case *pathNumbers:
		p.Path = about
	case *agentNumbers:
		p.Agent = about
	case *agentsNumbers:
		p.Agents = about
	}
	list, own := about.machines(a.grid.Granularity)
	p.JSON = "api/v1/" + list + "?" + p.values(own).Encode()
	p.CSV = p.JSON + "&format=csv"
	plain, err := pathKind().render("archivepage", p)
	return rendered{plain: plain, gzip: compressed(plain), status: http.StatusOK}, "", err
}

// archiveAnswer is what the archive said for a page.
type archiveAnswer struct {
	about   subject
	section string
	window  analytics.Window
	until   *analytics.Date
}

func always(archiveAnswer) bool { return true }

// doubt links to what may be meant instead of a path or an agent that the archive lacks.
func (p *archivePage) doubt(err error) error {
	unknown, ok := errors.AsType[query.UnknownError](err)
	if !ok {
		return err
	}
	e := addressError{code: http.StatusNotFound, text: unknown.Error() + "."}
	ofPath := p.address.page == atPages && unknown.Nearest == nil
	if ofPath {
		e.text = fmt.Sprintf("%s has no reader in the last %d %s windows of the archive. Paths are exact: "+
			"/quickstart is not /quickstart/.", format.Path(p.address.own.Get("path")), shownWindows(p.address.grid.Granularity),
			p.address.grid.Granularity)
	}
	if unknown.Similar != "" {
		before, _, _ := strings.Cut(e.text, "; did you mean")
		e.text = strings.TrimSuffix(before, ".") + ". Did you mean " + unknown.Similar + "?"
		e.near = Link{unknown.Similar, p.address.about(atAgents, "agent", unknown.Similar)}
		if ofPath {
			e.near.Href = p.address.about(atPages, "path", unknown.Similar)
		}
	}
	return e
}

// about is the address of a page about a path, a prefix or an agent, in the window of this one.
func (a *address) about(page, parameter, value string) string {
	return a.to(page) + "&" + url.Values{parameter: {value}}.Encode()
}

// rest is the end of the addresses of other pages about the same window, after their project and what they are about.
func (a *address) rest() string {
	v := a.values()
	v.Del("project")
	v.Del("compare")
	for name := range a.own {
		v.Del(name)
	}
	if len(v) == 0 {
		return ""
	}
	return "&" + v.Encode()
}

// values are the parameters of the API that lead to the numbers of the page.
func (p *archivePage) values(own url.Values) url.Values {
	v := p.address.values()
	v.Del("compare")
	for name, all := range own {
		v[name] = all
	}
	if own.Has("path") || own.Has("agent") { // a history
		v.Del("at")
	}
	if p.until != nil {
		v.Set("to", p.until.String())
	}
	return v
}

// answered is the error of a question about a report that may not be exported, or a name that may not be there: none
// then.
func answered(err error) error {
	_, none := errors.AsType[query.NoAnswerError](err)
	_, unknown := errors.AsType[query.UnknownProjectError](err)
	if none || unknown {
		return nil
	}
	return err
}

// history asks for the last windows up to the newest; if the window that is shown is older than those, up to that.
func history[H any](
	p *archivePage, choice query.Choice, read func(query.HistoryOptions) ([]H, error), first func(H) analytics.Window,
) ([]H, error) {
	o := query.HistoryOptions{Selection: choice.Selection, Last: shownWindows(choice.Selection.Granularity),
		Today: choice.Today}
	all, err := read(o)
	if (err != nil || first(all[0]).To > p.window.To) && p.address.pinned {
		p.until = new(p.window.To) // a kept answer must not keep the page
		o.Until = p.until
		return read(o)
	}
	return all, err
}

// shownWindows is how many windows of a granularity a page shows.
func shownWindows(g analytics.Granularity) int {
	switch g {
	case analytics.Week:
		return 26
	case analytics.Month:
		return 24
	}
	return 56
}

// windowRemark is why a window has no numbers, or that these may change; empty: they are final.
func windowRemark(state string, verified *bool, absent, known bool, none string) string {
	switch {
	case state == query.Missing:
		return query.Missing
	case absent:
		return none
	case !known:
		return "totals only"
	case !*verified:
		return state + ", unverified"
	case state == "settled":
		return ""
	}
	return state
}

// beforeWindow names the window that one is compared with.
func beforeWindow(g analytics.Granularity, w analytics.Window) string {
	if g == analytics.Day {
		return "the previous " + w.From.Weekday().String()
	}
	return previous(g)
}

// changeSince is a change of a number since an earlier window; nil if it is not known.
func changeSince(before *int64, now int64, name string) *change {
	if before == nil {
		return nil
	}
	g := gainOf(before, now)
	c := change{Before: "on " + name, Text: g.Text, Tone: g.Tone}
	switch {
	case g.By == 0:
		c.Text = "unchanged"
	case g.Growth != "":
		c.Text += " (" + g.Growth + ")"
	}
	return &c
}
