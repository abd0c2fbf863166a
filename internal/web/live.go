package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// livePages is the length of each list of pages in a live report.
const livePages = 100

// LiveReport serves the report of the newest snapshot at /report, for the project in ?project=, or
// else for the first one. A view reads nothing: the numbers come from the snapshot, and the
// pages of the windows were read before by Refresh.
type LiveReport struct {
	handler pageHandler[liveValues]
	pages   atomic.Pointer[pageSet]
}

// liveValues are the inputs of a live report.
type liveValues struct {
	snapshot *view.Snapshot // nil before the first snapshot
	pages    *pageSet
}

// pageSet has the pages of the newest windows. It is not changed.
type pageSet map[analytics.Key]*Pages

// NewLiveReport returns a report of the snapshot from current, which is nil before the first.
func NewLiveReport(current func() *view.Snapshot, version string) *LiveReport {
	l := &LiveReport{}
	notice := func(code int, title string) ([]byte, int, error) {
		r := Report{Version: version, Title: title, Links: []Link{{"Status page", "./"}}, live: true}
		page, err := reportKind().render("notice", r.page())
		return page, code, err
	}
	l.handler = pageHandler[liveValues]{
		path: "/report", policy: reportKind().livePolicy,
		current: func() liveValues { return liveValues{current(), l.pages.Load()} },
		choose:  chooseProject,
		render: func(v liveValues, project string) ([]byte, int, error) {
			switch {
			case v.snapshot == nil:
				return notice(http.StatusServiceUnavailable, "No numbers yet: docgauge is starting")
			case project == noProject:
				return notice(http.StatusNotFound, "There is no such project")
			}
			var page bytes.Buffer
			r := v.report(project)
			r.Version = version
			err := r.Write(&page)
			return page.Bytes(), http.StatusOK, err
		},
	}
	return l
}

func (l *LiveReport) ServeHTTP(w http.ResponseWriter, r *http.Request) { l.handler.ServeHTTP(w, r) }

// noProject is not the id of any project.
const noProject = "?"

func chooseProject(v liveValues, query url.Values) string {
	if v.snapshot != nil {
		for _, p := range v.snapshot.Projects {
			if id := query.Get("project"); id == "" || p.ID == id {
				return p.ID
			}
		}
	}
	return noProject
}

// report returns the report of one project. Its links lead back to the status page, to the reports
// of the other projects, and to its numbers as a table.
func (v liveValues) report(project string) Report {
	s := v.snapshot
	r := Report{Made: s.At, live: true, Links: []Link{{"Status page", "./"}}, Pages: map[analytics.Key]*Pages{}}
	for _, p := range s.Projects {
		if p.ID != project {
			r.Links = append(r.Links, Link{s.ProjectName(p.ID), "report?project=" + url.QueryEscape(p.ID)})
			continue
		}
		r.Projects = []view.Project{p}
		for _, g := range slices.Concat(p.Grids, p.Others) {
			if pages := v.pages.of(g); pages != nil {
				r.Pages[g.Newest.Key] = pages
			}
		}
	}
	query := url.Values{"project": {project}, "limit": {fmt.Sprint(maxLimit)}, "format": {"csv"}}
	r.Links = append(r.Links, Link{"Windows as CSV", "api/v1/windows?" + query.Encode()})
	if kinds := kindsOf(s, project); len(kinds) > 0 {
		kind := kinds[max(0, slices.Index(kinds, analytics.Week))]
		query.Set("window", string(kind))
		r.Links = append(r.Links, Link{"Pages of the newest " + spanName(kind) + " as CSV", "api/v1/pages?" + query.Encode()})
	}
	r.State = &view.Snapshot{Runs: s.Runs, LastSuccess: s.LastSuccess, Outcomes: s.Outcomes.Of(project)}
	if s.Queue != nil {
		other := func(j view.Job) bool { return j.Project != project }
		r.State.Queue = &view.Queue{ // its problem may name a path of this machine
			Paused: s.Queue.Paused, PausedSince: s.Queue.PausedSince,
			Waiting: slices.DeleteFunc(slices.Clone(s.Queue.Waiting), other),
			Jobs:    slices.DeleteFunc(slices.Clone(s.Queue.Jobs), other),
		}
	}
	return r
}

// of returns the pages of the newest window of a grid; nil where those of its reading, or of the
// reading that it is compared with, are not there.
func (s *pageSet) of(g view.Grid) *Pages {
	newest, before := compared(g, Comparison{})
	if s == nil || newest == nil {
		return nil
	}
	pages := (*s)[newest.Key]
	if pages == nil || pages.Newest.Number != newest.Number || number(pages.Before) != number(before) {
		return nil
	}
	return pages
}

// number returns the number of a reading, or 0 for nil.
func number(r *analytics.Revision) int32 {
	if r == nil {
		return 0
	}
	return r.Number
}

// Refresh reads the pages of the newest windows of s, and of those before them, from the first sink
// that has them: only of readings that were not read before. It may run beside views, but not twice
// at once. The pages that could be read are shown, whatever the error.
func (l *LiveReport) Refresh(ctx context.Context, s *view.Snapshot, from []sinks.Sink) error {
	next, now := pageSet{}, l.pages.Load()
	changed := now == nil
	var errs []error
	for _, p := range s.Projects {
		for _, g := range slices.Concat(p.Grids, p.Others) {
			newest, before := compared(g, Comparison{})
			if newest == nil {
				continue
			}
			pages := now.of(g)
			if pages == nil {
				var err error
				if pages, err = readFirst(ctx, from, newest, before); err != nil {
					errs = append(errs, err)
				}
				if pages == nil {
					continue
				}
				changed = true
			}
			next[newest.Key] = pages
		}
	}
	if changed || len(next) != len(*now) {
		l.pages.Store(&next)
	}
	return errors.Join(errs...)
}

// readFirst compares the pages of two readings, from the first sink that shows them. It returns nil
// where one shows other readings already: the next snapshot has those.
func readFirst(ctx context.Context, from []sinks.Sink, newest, before *analytics.Revision) (*Pages, error) {
	var errs []string
	for _, sink := range from {
		later, earlier := *newest, before
		if before != nil {
			copied := *before
			earlier = &copied
		}
		pages, err := readPages(ctx, sink, &later, earlier, livePages)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil && (later.Number != newest.Number || number(earlier) != number(before)):
			return nil, nil
		case err == nil:
			return pages, nil
		}
		errs = append(errs, fmt.Sprintf("%s: %v", sink.Name(), err))
	}
	return nil, fmt.Errorf("pages of %s: %s", newest.Key, strings.Join(errs, "; "))
}
