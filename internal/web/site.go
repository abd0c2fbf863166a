package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// Site is the pages of a server: the readers first, then their pages and assistants, the agent's jobs, and the status
// of the exports.
type Site struct {
	// Current returns the newest snapshot, or nil before the first one.
	Current func() *view.Snapshot
	// Archive opens the archive for windows that no snapshot has the pages of.
	Archive Archive
	// Alert is called for each view of a page that shows it; nil: there is never one.
	Alert func() Alert
	// Version is the program's, shown unchanged.
	Version string

	newest atomic.Pointer[pageSet]
}

// Alert is a problem of docgauge that no snapshot can contain. The zero value means that there is
// no problem.
type Alert struct {
	// Headline is short, Text is the reason. Rule names the Prometheus alert; the runbook
	// has a section about it.
	Headline, Text, Rule string
}

// Handlers returns the handlers of all pages and of /api/v1, by path. They are safe for concurrent use.
func (s *Site) Handlers() map[string]http.Handler {
	s.Archive = s.Archive.keeping()
	all := NewAPI(s.Current, s.Archive)
	all["/"] = &readersHandler{site: s, path: "/", page: atReaders}
	all["/report"] = &readersHandler{site: s, path: "/report", page: atReport}
	all["/page"] = &pagesHandler{s, &archiveHandler{s, atPages, analytics.VisitorsReport, []string{"path"},
		func(q question) subject { return &pathNumbers{Path: *q.path} }}}
	all["/agent"] = &archiveHandler{s, atAgents, analytics.AgentsReport, []string{"agent"}, func(q question) subject {
		if q.agents.Agent == "" {
			return &agentsNumbers{}
		}
		return &agentNumbers{Agent: q.agents.Agent}
	}}
	all["/jobs"] = &jobsHandler{site: s}
	all["/status"] = s.statusHandler()
	return all
}

// siteValues are the inputs of the pages that are made once for each snapshot.
type siteValues struct {
	snapshot *view.Snapshot // nil before the first snapshot
	pages    *pageSet       // nil: not read yet
	alert    Alert
}

func (s *Site) values() siteValues {
	v := siteValues{snapshot: s.Current(), pages: s.newest.Load()}
	if s.Alert != nil {
		v.alert = s.Alert()
	}
	return v
}

// livePages is the length of each list of pages of the newest windows.
const livePages = 100

// pageSet has the pages of the newest windows. It is not changed.
type pageSet map[analytics.Key]*Pages

// newest returns the pages of the newest window of a grid; nil where the pages of its reading, or of the
// reading that it is compared with, are not there.
func (s *pageSet) newest(g view.Grid) *Pages {
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

// Refresh reads the pages of the newest windows of a snapshot, and of those before them, from the first sink
// that has them: only of readings that were not read before. It may run beside views, but not twice
// at once. The pages that could be read are shown, whatever the error.
func (s *Site) Refresh(ctx context.Context, snapshot *view.Snapshot, from []sinks.Sink) error {
	next, now := pageSet{}, s.newest.Load()
	changed := now == nil
	var errs []error
	for _, p := range snapshot.Projects {
		for _, g := range slices.Concat(p.Grids, p.Others) {
			newest, before := compared(g, Comparison{})
			if newest == nil {
				continue
			}
			pages := now.newest(g)
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
		s.newest.Store(&next)
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
