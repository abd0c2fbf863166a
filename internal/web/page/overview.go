package page

import (
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web/htmlview"
)

// overview has a row for each of several projects.
type overview struct {
	Queue bool // there is one
	Rows  []overviewRow
}

type overviewRow struct {
	Name, Anchor string
	Day, Week    *htmlview.Card // nil: nothing was read
	State, Tone  string
	Gaps, Jobs   string
}

// openStates are those of prompts that have not come to an end.
var openStates = []string{"pending", "submitting", "active", "unknown", "held"}

func overviewOf(s *view.Snapshot, projects []project) *overview {
	v := &overview{Queue: s.Queue != nil}
	for i, p := range s.Projects {
		r := overviewRow{Name: projects[i].Name, Anchor: projects[i].Anchor}
		gaps := 0
		for j, g := range p.Grids {
			gaps += g.Missing
			switch g.Granularity {
			case analytics.Day:
				r.Day = projects[i].Cards[j].Newest
			case analytics.Week:
				r.Week = projects[i].Cards[j].Newest
			}
		}
		r.Gaps = format.Commas(gaps)
		r.State, r.Tone = standing(s, p)
		if v.Queue {
			jobs := 0
			for _, c := range s.Queue.Prompts {
				if c.Project == p.ID && slices.Contains(openStates, c.State) {
					jobs += c.Count
				}
			}
			r.Jobs = format.Commas(jobs)
		}
		v.Rows = append(v.Rows, r)
	}
	return v
}

// standing says in a few words how far a project is.
func standing(s *view.Snapshot, p view.Project) (text, tone string) {
	aside, due := 0, 0
	for _, a := range s.Asides {
		if a.Project == p.ID {
			aside++
		}
	}
	for _, d := range s.Due {
		if d.Project == p.ID {
			due += d.Count
		}
	}
	switch {
	case aside > 0:
		return format.Plural(aside, "window") + " skipped", "wait"
	case due > 0:
		return format.Plural(due, "window") + " due", "wait"
	case !slices.ContainsFunc(p.Grids, func(g view.Grid) bool { return g.Known > 0 }):
		return "nothing read yet", "wait"
	}
	return "up to date", "ok"
}
