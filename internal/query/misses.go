package query

import (
	"cmp"
	"context"
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

// Missed returns the missed paths of the last windows of each project; of windows that overlap only of the last. What
// could be read comes with the error of what could not.
func Missed(ctx context.Context, from sinks.Sink, s Selection, last int) ([]MissedPaths, error) {
	s.report = analytics.AgentsReport
	all, err := s.find(ctx, from)
	if err != nil {
		return nil, err
	}
	return ofEach(all, func(of series) ([]MissedPaths, error) {
		var windows []analytics.Revision
		for _, w := range slices.SortedFunc(maps.Keys(of.windows), func(a, b analytics.Window) int {
			return int(b.From - a.From)
		}) {
			if read := of.windows[w]; len(windows) == last || len(windows) == 1 && s.Granularity.RollingDays() > 0 {
				break
			} else if read.err != nil {
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
