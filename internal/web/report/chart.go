package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web/htmlview"
)

const (
	mostTicks = 7 // windows that are all named below the axis; of more windows
	someTicks = 6 // are
	shownJobs = 8 // named for one window
)

// chart is the trend of one series: readers, AI share, the state of each window and
// the jobs that ended in it, below each other on one axis.
type chart struct {
	Title                 string
	Readers               *htmlview.Chart
	Share, ShareArea      string // SVG paths
	ShareTop, ShareMiddle string // marks of the vertical axis
	States, Jobs          []stripe
	Zooms                 []zoom
	Data                  data
}

// stripe is an SVG path of everything of one kind.
type stripe struct{ Class, Path string }

// zoom shows the newest windows alone.
type zoom struct {
	Count int
	Text  string
}

// data is what the script reads; nil is a window without a number. Tops are the upper
// edges of the two drawings.
type data struct {
	Days   []string        `json:"days"`
	Ticks  []string        `json:"ticks"`
	Total  htmlview.Series `json:"total"`
	Human  htmlview.Series `json:"human"`
	AI     htmlview.Series `json:"ai"`
	Both   htmlview.Series `json:"both"`
	Share  htmlview.Series `json:"share"` // in tenths of a per cent
	States []string        `json:"states"`
	Jobs   [][]string      `json:"jobs"`
	Tops   [2]float64      `json:"tops"`
	Height int             `json:"height"`
	Column int             `json:"column"`
}

// chartOf returns nil where no two windows in a row are known.
func chartOf(g view.Grid, jobs []view.Job) *chart {
	names := mostTicks
	if len(g.Cells) > mostTicks {
		names = someTicks
	}
	readers := htmlview.ChartOf(g, g.Cells, names)
	if readers == nil {
		return nil
	}
	c := &chart{Title: "Readers per " + string(g.Granularity), Readers: readers, Zooms: zooms(g)}
	if n := g.Granularity.RollingDays(); n > 0 {
		c.Title = "Readers per " + format.Plural(n, "day")
	}
	c.Data = dataOf(g, readers, jobs)
	share := htmlview.Frame{Columns: len(g.Cells), Top: max(20, htmlview.Ceiling((htmlview.Max(c.Data.Share)+9)/10)*10)}
	c.Data.Tops[1] = share.Top
	c.Share, c.ShareArea = share.Line(c.Data.Share), share.Area(c.Data.Share)
	c.ShareTop, c.ShareMiddle = htmlview.Short(share.Top/10)+"%", htmlview.Short(share.Top/20)+"%"
	for _, class := range []string{"missing", "provisional", "provisional-unverified", "settled", "settled-unverified"} {
		path := htmlview.Stretches(g.Cells, func(c view.Cell) bool {
			state, _ := htmlview.State(c.Revision)
			return state == class
		})
		if path != "" {
			c.States = append(c.States, stripe{class, path})
		}
	}
	for _, class := range []string{"ok", "wait", "bad"} {
		var path strings.Builder
		for i, cell := range g.Cells {
			for _, j := range endedIn(jobs, cell.Window) {
				if j.Tone() == class {
					fmt.Fprintf(&path, "M%d %dh0", i*htmlview.ColumnWidth+htmlview.ColumnWidth/2, htmlview.ChartHeight/2)
					break
				}
			}
		}
		if path.Len() > 0 {
			c.Jobs = append(c.Jobs, stripe{class, path.String()})
		}
	}
	return c
}

func dataOf(g view.Grid, readers *htmlview.Chart, jobs []view.Job) data {
	l := readers.Lines
	d := data{Total: l.Total, Human: l.Human, AI: l.AI, Both: l.Both, Height: htmlview.ChartHeight, Column: htmlview.ColumnWidth}
	d.Tops[0] = readers.Top
	for _, c := range g.Cells {
		_, state := htmlview.State(c.Revision)
		d.States = append(d.States, state)
		d.Days = append(d.Days, view.Days(g.Granularity, c.Window))
		d.Ticks = append(d.Ticks, htmlview.Tick(g.Granularity, c.Window))
		var share *int64
		if c.Revision != nil && c.Revision.Totals.Total > 0 && c.Revision.Totals.AI <= c.Revision.Totals.Total {
			tenths := int64(math.Round(float64(c.Revision.Totals.AI) / float64(c.Revision.Totals.Total) * 1000))
			share = &tenths
		}
		d.Share = append(d.Share, share)
		var names []string
		ended := endedIn(jobs, c.Window)
		for i, j := range ended {
			if i == shownJobs {
				names = append(names, fmt.Sprintf("and %d more", len(ended)-i))
				break
			}
			names = append(names, j.StateText()+": "+format.Cut(j.Name(), view.MaxName))
		}
		d.Jobs = append(d.Jobs, names)
	}
	return d
}

func endedIn(jobs []view.Job, w analytics.Window) (out []view.Job) {
	for _, j := range jobs {
		if d := analytics.DateOf(j.Ended); j.Result != "" && !j.Ended.IsZero() && w.From <= d && d < w.To {
			out = append(out, j)
		}
	}
	return out
}

func zooms(g view.Grid) (out []zoom) {
	counts := []int{30, 90, 365}
	switch g.Granularity {
	case analytics.Week:
		counts = []int{13, 26, 52}
	case analytics.Month:
		counts = []int{12, 24}
	}
	for _, n := range counts {
		if n < len(g.Cells) {
			out = append(out, zoom{n, "Last " + format.Commas(n)})
		}
	}
	return out
}
