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

// Missed returns the missed paths of the last windows of each project. Requests are sums over windows, which must not
// overlap. What could be read comes with the error of what could not.
func Missed(ctx context.Context, from sinks.Sink, s Selection, last int) ([]MissedPaths, error) {
	s.report = analytics.AgentsReport
	all, err := s.find(ctx, from)
	if err != nil {
		return nil, err
	}
	return ofEach(all, func(of series) ([]MissedPaths, error) {
		out := MissedPaths{Project: of.project, ProjectName: s.Names[of.project]}
		windows := slices.SortedFunc(maps.Keys(of.windows), func(a, b analytics.Window) int {
			return int(b.From - a.From)
		})
		windows = windows[:min(last, len(windows))]
		missed, found := map[string]view.MissedPath{}, map[string]bool{}
		for i, w := range windows { // the newest first
			read := of.windows[w]
			if read.err != nil {
				return nil, read.err
			}
			if read.rev.TotalsOnly() {
				return nil, s.totalsOnly(ctx, from, read.rev)
			}
			if out.From = w.From; i == 0 {
				out.To = w.To
			}
			first, final := w.From.String(), (w.To - 1).String()
			here := map[string]bool{}
			err := eachRecord(ctx, from, &read.rev, func(record analytics.Record) bool {
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
						m = view.MissedPath{Project: of.project, Path: row.Path, Last: final}
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
				return nil, err
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
		return []MissedPaths{out}, nil
	})
}

// MissedDays returns how often the paths that are wanted of a day were missed on it: the requests of all agents, -1 if
// unknown. It has the days in within that want a path and whose window is settled and verified, and comes with the error
// of what could not be read.
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
		day := map[string]int64{}
		err := eachRecord(ctx, from, &rev, func(record analytics.Record) bool {
			row := agentRow(record)
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
		out[rev.From] = day
	}
	return out, errors.Join(errs...)
}
