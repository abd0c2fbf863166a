package web

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// readersHandler serves the readers of a window, as a page of the server or, as /report, as one file. The newest window
// is made once for each snapshot; any other is read from the archive.
type readersHandler struct {
	site       *Site
	path, page string
	cache      pageCache[siteValues]
}

func (h *readersHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	policy := reportKind().livePolicy
	if h.page == atReport {
		policy = reportKind().policy
	}
	setHeaders(w.Header(), policy)
	if r.URL.Path != h.path {
		http.Error(w, "not found: the page is at "+h.path, http.StatusNotFound)
		return
	}
	if readOnly(w, r) {
		page, err := h.answer(r)
		page.send(w, r, err)
	}
}

func (h *readersHandler) answer(r *http.Request) (rendered, error) {
	v := h.site.values()
	a, q, err := readAddress(v.snapshot, h.page, r.URL.RawQuery, analytics.VisitorsReport)
	switch {
	case v.snapshot == nil:
		return starting(h.site.Version, h.page)
	case err != nil:
		return refusal(a, err, h.site.Version)
	}
	// A file of no window in particular has the newest ones of every granularity.
	all := h.page == atReport && !q.values.Has("window") && !q.values.Has("at")
	if a.newest() {
		return h.cache.page(v, fmt.Sprint(all, a.values().Encode()), func() ([]byte, int, error) {
			page, err := h.render(v, a, v.report(a, all, h.page != atReport))
			return page, http.StatusOK, err
		})
	}
	report := v.report(a, all, h.page != atReport)
	if err := h.site.Archive.ask(r.Context(), report.read); err != nil {
		return refusal(a, err, h.site.Version)
	}
	page, err := h.render(v, a, report)
	return rendered{plain: page, gzip: compressed(page), status: http.StatusOK}, err
}

func (h *readersHandler) render(v siteValues, a *address, r Report) ([]byte, error) {
	r.Version = h.site.Version
	if !r.live {
		var file bytes.Buffer
		err := r.Write(&file)
		return file.Bytes(), err
	}
	p := r.page()
	p.Title, p.Navigation, p.Picker = a.name(), navigation(v.snapshot, h.page, a), a.picker()
	p.Pipeline = pipelineOf(v.snapshot, v.alert)
	p.AllPages, p.AllAgents, p.File = a.to(atPages), a.to(atAgents), a.to(atReport)
	query := url.Values{"project": {a.project.ID}, "limit": {fmt.Sprint(maxLimit)}, "format": {"csv"},
		"window": {string(a.grid.Granularity)}}
	p.Links = []Link{{"windows as CSV", "api/v1/windows?" + query.Encode()}}
	if now := a.window(); now != nil && !now.TotalsOnly() {
		query.Set("at", lastDay(now.Window).String())
		p.Links = append(p.Links, Link{"pages as CSV", "api/v1/pages?" + query.Encode()})
	}
	return reportKind().render("readerspage", p)
}

// starting is the page before the first snapshot.
func starting(version, page string) (rendered, error) {
	r := Report{Version: version, Title: "No numbers yet: docgauge is starting", live: page != atReport}
	p := r.page()
	p.Navigation = navigation(nil, page, nil)
	plain, err := reportKind().render("notice", p)
	return rendered{plain: plain, gzip: compressed(plain), status: http.StatusServiceUnavailable}, err
}

// report returns the report of the window at an address, or of the newest ones of all granularities. Of the newest it
// has the pages that were read for the snapshot.
func (v siteValues) report(a *address, all, live bool) Report {
	s, p := v.snapshot, a.project
	r := Report{Made: s.At, Against: a.against, Pages: map[analytics.Key]*Pages{}, live: live, recent: true}
	if !all {
		r.around, r.rest = &a.grid, a.rest()
		p.Grids = []view.Grid{a.grid}
		p.Others = nil
		for _, g := range a.project.Others {
			if g.Granularity == a.grid.Granularity {
				p.Others = append(p.Others, g)
			}
		}
		if a.pinned {
			p.Grids[0].Cells = a.grid.Cells[:a.cell+1]
			p.Grids[0].Count()
			p.Others = slices.DeleteFunc(p.Others, func(g view.Grid) bool { return g.EndingAt(a.window().To) == nil })
			for i := range p.Others {
				g := &p.Others[i]
				end := slices.IndexFunc(g.Cells, func(c view.Cell) bool { return c.To == a.window().To })
				g.Cells = g.Cells[:end+1]
				g.Count()
			}
		}
	}
	r.Projects = []view.Project{p}
	for _, g := range slices.Concat(p.Grids, p.Others) {
		if pages := v.pages.newest(g); pages != nil && a.newest() {
			r.Pages[g.Newest.Key] = pages
		}
	}
	r.State = &view.Snapshot{Runs: s.Runs, LastSuccess: s.LastSuccess, Outcomes: s.Outcomes.Of(p.ID)}
	if a.window() == nil || a.window() == a.grid.Newest {
		r.State.Open = slices.DeleteFunc(slices.Clone(s.Open), func(o analytics.OpenWindow) bool { return o.Project != p.ID })
	}
	if s.Queue != nil {
		r.State.Queue = queueOf(*s.Queue, p.ID)
	}
	return r
}

// queueOf is the queue of one project.
func queueOf(q view.Queue, project string) *view.Queue {
	other := func(j view.Job) bool { return j.Project != project }
	return &view.Queue{ // its problem may name a path of this machine
		Paused: q.Paused, PausedSince: q.PausedSince,
		Waiting: slices.DeleteFunc(slices.Clone(q.Waiting), other),
		Jobs:    slices.DeleteFunc(slices.Clone(q.Jobs), other),
	}
}

// read reads the pages of the newest windows of a report from an archive.
func (r Report) read(ctx context.Context, from sinks.Sink) error {
	for _, p := range r.Projects {
		for _, g := range slices.Concat(p.Grids, p.Others) {
			newest, before := compared(g, r.Against)
			if newest == nil {
				continue
			}
			pages, err := readFirst(ctx, []sinks.Sink{from}, newest, before)
			if err != nil {
				return err
			}
			if pages != nil {
				r.Pages[newest.Key] = pages
			}
		}
	}
	return nil
}
