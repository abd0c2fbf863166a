package web

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	mostTicks = 7 // windows that are named below the axis
	shownJobs = 8 // named for one window
)

// trend is one granularity in a report: readers, AI share, the state of each window and the jobs
// that ended in it, below each other on one axis.
type trend struct {
	Title                 string
	Readers               *chart
	Share, ShareArea      string // SVG paths
	ShareTop, ShareMiddle string // marks of the vertical axis
	States, Jobs          []stripe
	Zooms                 []int // numbers of newest windows to show alone
	Data                  trendData
}

// stripe is an SVG path of everything of one kind.
type stripe struct{ Class, Path string }

// trendData is the input of the script; nil is a window without a number. Tops are the upper edges
// of the two drawings.
type trendData struct {
	Days  []string `json:"days"`
	Ticks []string `json:"ticks"`
	chartLines
	Share  series     `json:"share"` // in tenths of a per cent
	States []string   `json:"states"`
	Jobs   [][]string `json:"jobs"`
	Tops   [2]float64 `json:"tops"`
	Height int        `json:"height"`
	Column int        `json:"column"`
	Most   int        `json:"most"` // ticks
}

// trendOf returns nil where no two windows in a row are known.
func trendOf(g view.Grid, jobs []view.Job) *trend {
	readers := chartOf(g, g.Cells, mostTicks)
	if readers == nil {
		return nil
	}
	c := &trend{Title: "Readers per " + string(g.Granularity), Readers: readers, Data: trendData{
		chartLines: readers.Lines, Height: chartHeight, Column: columnWidth, Most: mostTicks,
	}}
	if n := g.Granularity.RollingDays(); n > 0 {
		c.Title = "Readers per " + format.Plural(n, "day")
	}
	counts := []int{30, 90, 365}
	switch g.Granularity {
	case analytics.Week:
		counts = []int{13, 26, 52}
	case analytics.Month:
		counts = []int{12, 24}
	}
	c.Zooms = slices.DeleteFunc(counts, func(n int) bool { return n >= len(g.Cells) })
	dots := map[string]*strings.Builder{"ok": {}, "wait": {}, "bad": {}}
	changed := maps.Collect(modeChanges(g.Granularity, g.Cells))
	for i, cell := range g.Cells {
		ended := endedIn(jobs, cell.Window)
		c.Data.add(g, cell, ended)
		if _, begins := changed[i]; begins {
			c.Data.States[i] += ", people " + cell.Revision.Humans.Said() + " from here on"
		}
		for _, j := range ended {
			if dot := dots[j.Tone()]; dot != nil {
				fmt.Fprintf(dot, "M%d %dh0", i*columnWidth+columnWidth/2, chartHeight/2)
			}
		}
	}
	share := frame{len(g.Cells), max(20, ceiling((largest(c.Data.Share)+9)/10)*10)}
	c.Data.Tops = [2]float64{readers.Top, share.top}
	c.Share, c.ShareArea = share.line(c.Data.Share), share.area(c.Data.Share)
	c.ShareTop, c.ShareMiddle = axisMark(share.top/10)+"%", axisMark(share.top/20)+"%"
	for _, class := range []string{
		"missing", "provisional", "provisional-unverified", "settled", "settled-unverified",
	} {
		path := stretches(g.Cells, func(c view.Cell) bool {
			state, _ := windowState(c.Revision)
			return state == class
		})
		if path != "" {
			c.States = append(c.States, stripe{class, path})
		}
	}
	for _, class := range []string{"ok", "wait", "bad"} {
		if path := dots[class].String(); path != "" {
			c.Jobs = append(c.Jobs, stripe{class, path})
		}
	}
	return c
}

// add appends a window, and the jobs that ended in it.
func (d *trendData) add(g view.Grid, c view.Cell, ended []view.Job) {
	_, state := windowState(c.Revision)
	d.States = append(d.States, state)
	d.Days = append(d.Days, view.Days(g.Granularity, c.Window))
	d.Ticks = append(d.Ticks, tick(g.Granularity, c.Window))
	var share *int64
	if r := c.Revision; r != nil && r.Totals.Total > 0 && r.Totals.AI <= r.Totals.Total {
		tenths := int64(math.Round(float64(r.Totals.AI) / float64(r.Totals.Total) * 1000))
		share = &tenths
	}
	d.Share = append(d.Share, share)
	var names []string
	for _, j := range ended[:min(len(ended), shownJobs)] {
		names = append(names, j.StateText()+": "+format.Cut(j.Name(), view.MaxName))
	}
	if more := len(ended) - shownJobs; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	d.Jobs = append(d.Jobs, names)
}

func endedIn(jobs []view.Job, w analytics.Window) (out []view.Job) {
	for _, j := range jobs {
		if d := analytics.DateOf(j.Ended); j.Result != "" && !j.Ended.IsZero() && w.From <= d && d < w.To {
			out = append(out, j)
		}
	}
	return out
}
