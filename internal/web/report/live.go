package report

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
	"github.com/docgauge/docgauge/internal/web/htmlview"
	"github.com/docgauge/docgauge/sinks"
)

// livePages is how many pages each list of a live report has.
const livePages = 50

// Live serves the report of the newest snapshot at /report: that of one project, which
// ?project= names, or else of the first. A view reads nothing: the numbers are those of
// the snapshot, and the pages of the windows are those that Refresh read before.
type Live struct {
	handler htmlview.Handler[live]
	pages   atomic.Pointer[pageSet]
}

// live is what a page is made of.
type live struct {
	snapshot *view.Snapshot // nil: there is none yet
	pages    *pageSet
}

// pageSet has the pages of newest windows. Nobody changes it.
type pageSet map[analytics.Key]readingPages

// readingPages are those of two readings, which their numbers name; 0 is no earlier one.
type readingPages struct {
	newest, before int32
	pages          *Pages
}

// NewLive returns a report of what current returns, which is nil before there is a
// snapshot.
func NewLive(current func() *view.Snapshot, version string) *Live {
	l := &Live{}
	l.handler = htmlview.Handler[live]{
		Path: "/report", Policy: policy,
		Current: func() live { return live{current(), l.pages.Load()} },
		Choose:  chooseProject,
		Render: func(v live, project string) ([]byte, int, error) {
			switch {
			case v.snapshot == nil:
				page, err := notice("No numbers yet: docgauge is starting", version)
				return page, http.StatusServiceUnavailable, err
			case project == noProject:
				page, err := notice("There is no such project", version)
				return page, http.StatusNotFound, err
			}
			var page bytes.Buffer
			err := Write(&page, Report{
				Made: v.snapshot.At, Version: version, Links: links(v.snapshot, project),
				Projects: []Project{projectIn(v, project)}, State: stateIn(v.snapshot, project), Outcomes: outcomesIn(v.snapshot, project),
			})
			return page.Bytes(), http.StatusOK, err
		},
	}
	return l
}

// notice is a page instead of a report.
func notice(title, version string) ([]byte, error) {
	return kind.Render("notice", document{Style: kind.Style, Policy: policy, Version: version, Title: title, Links: []Link{{"Status page", "./"}}})
}

func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) { l.handler.ServeHTTP(w, r) }

// noProject is not the id of any project.
const noProject = "?"

func chooseProject(v live, query url.Values) string {
	id := query.Get("project")
	if v.snapshot == nil || len(v.snapshot.Projects) == 0 {
		return noProject
	}
	for _, p := range v.snapshot.Projects {
		if id == "" || p.ID == id {
			return p.ID
		}
	}
	return noProject
}

// links lead back to the status page, to the reports of the other projects, and to the
// numbers of this one as a table.
func links(s *view.Snapshot, shown string) []Link {
	out := []Link{{"Status page", "./"}}
	for _, p := range s.Projects {
		if p.ID != shown {
			out = append(out, Link{s.ProjectName(p.ID), "report?project=" + url.QueryEscape(p.ID)})
		}
	}
	if shown != noProject {
		query := url.Values{"project": {shown}, "limit": {"10000"}, "format": {"csv"}}.Encode()
		out = append(out, Link{"Windows as CSV", "api/v1/windows?" + query}, Link{"Pages as CSV", "api/v1/pages?" + query})
	}
	return out
}

func projectIn(v live, id string) (out Project) {
	for _, p := range v.snapshot.Projects {
		if p.ID != id {
			continue
		}
		out = Project{ID: id, Name: p.Name}
		for _, g := range p.Grids {
			s := Series{Grid: g, Older: max(0, len(g.Cells)-maxCells)}
			s.Grid.Cells = g.Cells[s.Older:]
			if read, ok := v.pages.of(g); ok {
				s.Pages = read.pages
			}
			out.Series = append(out.Series, s)
		}
	}
	return out
}

// of returns the pages of the newest window of a grid, if those of its reading are there.
func (s *pageSet) of(g view.Grid) (readingPages, bool) {
	newest, before := compared(g, htmlview.Comparison{})
	if s == nil || newest == nil {
		return readingPages{}, false
	}
	read, ok := (*s)[newest.Key]
	return read, ok && read.newest == newest.Number && read.before == number(before)
}

func number(r *analytics.Revision) int32 {
	if r == nil {
		return 0
	}
	return r.Number
}

// stateIn is what a snapshot says of the runs, and of the jobs of a project.
func stateIn(s *view.Snapshot, project string) *State {
	out := &State{LastSuccess: s.LastSuccess}
	if len(s.Runs) > 0 {
		out.LastRun = &s.Runs[0]
	}
	if s.Queue != nil {
		other := func(j view.Job) bool { return j.Project != project }
		out.Queue = &view.Queue{
			Paused: s.Queue.Paused, PausedSince: s.Queue.PausedSince,
			Waiting: slices.DeleteFunc(slices.Clone(s.Queue.Waiting), other),
			Jobs:    slices.DeleteFunc(slices.Clone(s.Queue.Jobs), other),
		}
	}
	return out
}

func outcomesIn(s *view.Snapshot, project string) []view.Outcome {
	return slices.DeleteFunc(slices.Clone(s.Outcomes), func(o view.Outcome) bool { return o.Project != project })
}

// Refresh reads the pages of the newest windows of s, and of those before them, from the
// first sink that has them: only of readings that were not read before. It is for one
// goroutine beside the views. What could be read is shown, whatever the error.
func (l *Live) Refresh(ctx context.Context, s *view.Snapshot, from []sinks.Sink) error {
	next, now := pageSet{}, l.pages.Load()
	changed := now == nil
	var errs []error
	for _, p := range s.Projects {
		for _, g := range p.Grids {
			newest, before := compared(g, htmlview.Comparison{})
			if newest == nil {
				continue
			}
			read, known := now.of(g)
			if !known {
				pages, err := readFirst(ctx, from, newest, before)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				if pages == nil {
					continue
				}
				read, changed = readingPages{newest.Number, number(before), pages}, true
			}
			next[newest.Key] = read
		}
	}
	if changed || len(next) != len(*now) {
		l.pages.Store(&next)
	}
	return errors.Join(errs...)
}

// readFirst compares the pages of two readings, from the first sink that shows them. It
// returns nil where one shows other readings already: the next snapshot has those.
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
