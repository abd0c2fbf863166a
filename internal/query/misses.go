package query

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// MissedPaths are the paths of one project that agents asked for and that are not there.
type MissedPaths struct {
	Project, ProjectName string
	// Window is the span of the windows that were read.
	analytics.Window
	// Pages are the paths that are there, in order: in the newest window that has the path, it was found.
	Pages []string
	// Misses are the other paths, the most requested first.
	Misses []view.MissedPath
}

// MissedWindows is the number of windows in which missed paths are looked for, unless another one is asked for.
const MissedWindows = 28

// Overlaps reports whether a window overlaps the last of others, which are newer.
func Overlaps(newer []analytics.Revision, w analytics.Window) bool {
	return len(newer) > 0 && w.To > newer[len(newer)-1].From
}

// Missed returns the missed paths of the last windows of each project, without those that overlap a newer one. What
// could be read comes with the error of what could not.
func Missed(ctx context.Context, from sinks.Sink, s Selection, last int) ([]MissedPaths, error) {
	s.report = analytics.AgentsReport
	all, err := s.find(ctx, from)
	if err != nil {
		return nil, err
	}
	return ofEach(all, func(of series) ([]MissedPaths, error) {
		var windows []analytics.Revision
		for i, w := range slices.SortedFunc(maps.Keys(of.windows), func(a, b analytics.Window) int {
			return int(b.From - a.From)
		}) {
			if i == last {
				break
			} else if Overlaps(windows, w) {
				continue
			} else if read := of.windows[w]; read.err != nil {
				return nil, read.err
			} else {
				windows = append(windows, read.rev)
			}
		}
		out, err := MissedIn(ctx, from, windows)
		out.ProjectName = s.Names[of.project]
		return []MissedPaths{out}, err
	})
}

// MissedIn returns the missed paths of windows of one project, the newest first. Requests are sums over the windows,
// which must not overlap.
func MissedIn(ctx context.Context, from sinks.Sink, windows []analytics.Revision) (out MissedPaths, err error) {
	missed, found := map[string]view.MissedPath{}, map[string]bool{}
	for i, rev := range windows {
		if rev.TotalsOnly() {
			return out, Selection{report: analytics.AgentsReport}.totalsOnly(ctx, from, rev)
		}
		if out.Project, out.From = rev.Project, rev.From; i == 0 {
			out.To = rev.To
		}
		first, final := rev.From.String(), (rev.To - 1).String()
		here := map[string]bool{}
		err := eachRecord(ctx, from, &rev, func(record analytics.Record) bool {
			row := agentRow(record)
			m, known := missed[row.Path]
			switch {
			case row.Path == "":
			case row.Found && !known:
				found[row.Path] = true
			case row.Found && here[row.Path]: // there for a part of the window
				found[row.Path] = true
			case row.Found:
			default:
				here[row.Path] = !known || here[row.Path]
				if !known {
					m = view.MissedPath{Project: rev.Project, Path: row.Path, Last: final}
				}
				if m.First = first; m.Requests >= 0 && row.Requests >= 0 {
					m.Requests += row.Requests
				} else {
					m.Requests = -1
				}
				if !slices.Contains(m.Agents, row.Agent) {
					m.Agents = append(m.Agents, row.Agent)
				}
				missed[row.Path] = m
			}
			return true
		})
		if err != nil {
			return out, err
		}
	}
	for path, m := range missed {
		if slices.Sort(m.Agents); !found[path] {
			out.Misses = append(out.Misses, m)
		}
	}
	slices.SortFunc(out.Misses, func(a, b view.MissedPath) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Path, b.Path))
	})
	out.Pages = slices.Sorted(maps.Keys(found))
	return out, nil
}

// MissedDays returns how often the paths that are wanted of a day were missed on it: the requests of all agents, -1 if
// unknown, as of a path beyond [analytics.MaxMisses]. It has the days in within that want a path and whose window is
// settled and verified, and comes with the error of what could not be read.
func MissedDays(
	ctx context.Context, from sinks.Sink, project string, within analytics.Window,
	wanted func(analytics.Date) map[string]bool,
) (map[analytics.Date]map[string]int64, error) {
	s := Selection{report: analytics.AgentsReport}
	scope := sinks.Scope{Projects: []string{project}, Granularities: []analytics.Granularity{analytics.Day}, Within: within}
	out := map[analytics.Date]map[string]int64{}
	var errs []error
	for rev, err := range s.list(ctx, from, scope) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		paths := wanted(rev.From)
		if len(paths) == 0 || !rev.Settled || !rev.Verified || rev.TotalsOnly() {
			continue
		}
		day, missed := map[string]int64{}, map[string]bool{}
		err := eachRecord(ctx, from, &rev, func(record analytics.Record) bool {
			row := agentRow(record)
			if !row.Found {
				missed[row.Path] = true
			}
			switch n := day[row.Path]; {
			case row.Found || !paths[row.Path]:
			case n < 0 || row.Requests < 0:
				day[row.Path] = -1
			default:
				day[row.Path] = n + row.Requests
			}
			return true
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for path := range paths {
			if len(missed) >= analytics.MaxMisses && !missed[path] {
				day[path] = -1
			}
		}
		out[rev.From] = day
	}
	return out, errors.Join(errs...)
}
