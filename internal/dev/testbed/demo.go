package testbed

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// Now is when the made-up site is looked at: a Tuesday, 31 minutes past ten.
var Now = time.Date(2026, time.October, 6, 10, 31, 12, 0, time.UTC)

// Today is the date of Now.
var Today = analytics.DateOf(Now)

// Project is a site that more and more agents read, since a date; size is about its
// readers of a day. Three days are missing six weeks ago, and the day 30 days ago is
// unverified. Of the 28-day windows only totals are known.
func Project(id string, since analytics.Date, size float64) view.Project {
	random := rand.New(rand.NewPCG(7, uint64(size)))
	p := view.Project{ID: id}
	for _, name := range []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month, "28d"} {
		g := view.Grid{Granularity: name, TotalsOnly: name == "28d"}
		for _, w := range windows(name, since) {
			c := view.Cell{Window: w}
			if name != analytics.Day || w.From < Today-44 || w.From > Today-42 {
				c.Revision = revision(random, id, g, w, size)
			}
			g.Cells = append(g.Cells, c)
		}
		g.Count()
		p.Grids = append(p.Grids, g)
	}
	return p
}

// windows lists the complete windows of a granularity that begin on or after a date.
func windows(g analytics.Granularity, since analytics.Date) (out []analytics.Window) {
	for from := since; from < Today; from++ {
		w := analytics.Window{From: from, To: from + 1}
		switch {
		case g.RollingDays() > 0:
			w.To = from + analytics.Date(g.RollingDays())
		case g == analytics.Week && from.Weekday() == time.Monday:
			w.To = from + 7
		case g == analytics.Month && from.Time().Day() == 1:
			w.To = analytics.NewDate(from.Time().Year(), from.Time().Month()+1, 1)
		case g != analytics.Day:
			continue
		}
		if w.To <= Today {
			out = append(out, w)
		}
	}
	return out
}

func revision(random *rand.Rand, id string, g view.Grid, w analytics.Window, size float64) *analytics.Revision {
	age := float64(w.From - analytics.NewDate(2026, 4, 1))
	v := size * math.Pow(float64(w.Days()), .72) * (.93 + .14*random.Float64()) * (.75 + age/420)
	if day := w.From.Weekday(); w.Days() == 1 && (day == time.Saturday || day == time.Sunday) {
		v *= .55
	}
	ai := .14 + .3/(1+math.Exp(-(age-110)/22)) + .012*random.Float64()
	r := &analytics.Revision{
		Key:    analytics.Key{Project: id, Granularity: g.Granularity, Window: w},
		Number: 1, Settled: w.To+3 <= Today, Verified: w.From != Today-30,
		Totals: analytics.Totals{Human: int64(v * (1.06 - ai)), AI: int64(v * ai), Total: int64(v)},
		Rows:   52, ExportedAt: w.To.Time().Add(10*time.Hour + 17*time.Minute),
	}
	if g.TotalsOnly {
		r.Rows = analytics.TotalsOnlyRows
	}
	return r
}

// paths are the paths of the most read pages: long ones, and some that are not plain text.
var paths = []string{
	"/", "/docs/quickstart", "/docs/api/authentication", "/docs/sdk/javascript/getting-started",
	"/blog/2026/09/agents-read-docs",
	"/llms.txt", `/search?q="<script>alert(1)</script>`,
	"/docs/guides/webhooks/verify-signatures-and-replay-protection-for-high-volume-endpoints",
	"/עברית/מדריך/התחלה", "/docs/emoji/🚀-launch-👩‍💻", "/docs/api/errors", "/pricing",
	"/changelog",
}

// Plain is a path as a picture for people shows it: without markup and letters that the
// fonts of the machine lack.
func Plain(path string) string {
	for i, r := range path {
		if r > unicode.MaxASCII || r == '?' {
			return cmp.Or(strings.TrimRight(path[:i], "/"), "/docs/guides")
		}
	}
	return path
}

// Pages are the pages of a reading, the most read first. One of them is extra.
func Pages(r analytics.Revision, extra string) (rows []analytics.Row) {
	random := rand.New(rand.NewPCG(uint64(r.To), uint64(r.From)))
	for i := range 52 {
		path := fmt.Sprintf("/docs/reference/resource-%02d", i)
		if i < len(paths) {
			path = paths[i]
		}
		if i == 14 {
			path = extra
		}
		v := float64(r.Totals.Total) * .62 * math.Pow(.86, float64(i)) * (.9 + .2*random.Float64())
		ai := .2 + .4*random.Float64()
		row := analytics.Row{Path: path, Totals: analytics.Totals{Human: int64(v * (1.05 - ai)), AI: int64(v * ai),
			Total: int64(v)}}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b analytics.Row) int { return cmp.Compare(b.Total, a.Total) })
	return rows
}

// Jobs are jobs of a project in several states, the newest first.
func Jobs(project string) (out []view.Job) {
	const pulls = "https://code.example/acme/docs/pull/"
	for i, j := range []view.Job{
		{Prompt: "weekly/losing-readers.md", Title: "Pages that lost readers", State: "active", Stalled: true},
		{Prompt: "llms-txt", Title: "Write llms.txt", State: "completed", Result: "pr", PRLink: pulls + "431"},
		{Prompt: "webhooks", Title: "Examples for webhooks", State: "failed", Result: "failed",
			Reason: "the service says: the check of the build failed"},
		{Prompt: "quickstart", Title: "Rewrite the quickstart for agents", State: "completed", Result: "pr",
			PRLink: pulls + "419"},
		{Prompt: "links", Title: "Look for dead links", State: "completed", Result: "no_pr"},
		{Prompt: "auth", Title: "One page on authentication", State: "completed", Result: "pr", PRLink: pulls + "398"},
		{Prompt: "typos", Title: "Fix typos in the guides", State: "completed", Result: "pr", PRLink: pulls + "371"},
	} {
		j.Project, j.ID = project, fmt.Sprintf("job_%d", i)
		j.Begun = Now.Add(-time.Duration(150+i*i*3311) * time.Minute)
		j.Created = j.Begun.Add(2 * time.Second)
		if j.Result != "" {
			j.Ended = j.Created.Add(time.Duration(1017+i*797) * time.Second)
		}
		out = append(out, j)
	}
	return out
}
