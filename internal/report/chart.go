package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/htmlview"
)

// A drawing is so many units high, and so many wide for each window; it is
// stretched to its place, and the words around it are not part of it.
const (
	chartHeight = 1000
	columnWidth = 10
	mostTicks   = 7 // as many as that have each a name, of more some have
	someTicks   = 6
	shownJobs   = 8 // named for one window
)

// chart is the trend of one line: readers, AI share, the state of each window and
// the jobs that ended in it, under each other on one axis.
type chart struct {
	Title, Label string
	Width        int
	Gaps         string // an SVG path over the windows that are missing
	Readers      panel
	Share        panel
	States       []stripe
	Jobs         []stripe
	Ticks        []string
	Zooms        []zoom
	Data         data
}

// panel is one drawing.
type panel struct {
	Area, Total, Human, AI, Both, Share string // SVG paths, broken where a window is missing
	Top, Middle                         string // marks of the vertical axis, whose foot is 0
}

// stripe is an SVG path of everything of one kind.
type stripe struct{ Class, Path string }

// zoom shows the newest windows alone.
type zoom struct {
	Count int
	Text  string
}

// data is what the script reads; nil is a window without a number. Tops are those
// of the two drawings.
type data struct {
	Days   []string   `json:"days"`
	Ticks  []string   `json:"ticks"`
	Total  []*int64   `json:"total"`
	Human  []*int64   `json:"human"`
	AI     []*int64   `json:"ai"`
	Both   []*int64   `json:"both"`
	Share  []*int64   `json:"share"` // in tenths of a per cent
	States []string   `json:"states"`
	Jobs   [][]string `json:"jobs"`
	Tops   [2]float64 `json:"tops"`
	Height int        `json:"height"`
	Column int        `json:"column"`
}

// chartOf returns nil where no window is known.
func chartOf(l Line, jobs []Job) *chart {
	if l.newest() == nil {
		return nil
	}
	d := dataOf(l, jobs)
	readers := htmlview.Frame{N: len(l.Cells), Width: float64(columnWidth * len(l.Cells)), Height: chartHeight, Top: htmlview.Ceiling(largest(d.Total, d.Human, d.AI))}
	share := readers
	share.Top = max(20, htmlview.Ceiling((largest(d.Share)+9)/10)*10)
	d.Tops = [2]float64{readers.Top, share.Top}
	c := &chart{
		Title: "Readers per " + per(l.Granularity), Width: columnWidth * len(l.Cells), Data: d, Label: label(l),
		Readers: panel{
			Area: readers.Area(at(d.Total)), Total: readers.Line(at(d.Total)), Human: readers.Line(at(d.Human)),
			AI: readers.Line(at(d.AI)), Both: readers.Line(at(d.Both)), Top: htmlview.Short(readers.Top), Middle: htmlview.Short(readers.Top / 2),
		},
		Share: panel{Area: share.Area(at(d.Share)), Share: share.Line(at(d.Share)), Top: htmlview.Short(share.Top/10) + "\u202f%", Middle: htmlview.Short(share.Top/20) + "\u202f%"},
		Ticks: ticks(d.Ticks), Zooms: zooms(l),
	}
	c.Gaps, c.States = stripes(l.Cells)
	c.Jobs = dots(l.Cells, jobs)
	return c
}

func dataOf(l Line, jobs []Job) data {
	d := data{Height: chartHeight, Column: columnWidth}
	for _, c := range l.Cells {
		_, state := htmlview.Reading(c.Revision)
		d.Days, d.States = append(d.Days, htmlview.Days(l.Granularity, c.Window)), append(d.States, state)
		d.Ticks = append(d.Ticks, htmlview.Tick(l.Granularity, c.Window))
		d.Jobs = append(d.Jobs, jobWords(endedIn(jobs, c.Window)))
		var v [5]*int64
		if c.Revision != nil {
			v = numbers(c.Revision.Totals)
		}
		d.Total, d.Human, d.AI, d.Both, d.Share = append(d.Total, v[0]), append(d.Human, v[1]), append(d.AI, v[2]), append(d.Both, v[3]), append(d.Share, v[4])
	}
	return d
}

// numbers are total, human, AI, both and the AI share in tenths of a per cent.
func numbers(t analytics.Totals) (v [5]*int64) {
	v[0], v[1], v[2] = &t.Total, &t.Human, &t.AI
	if n, ok := both(t); ok {
		v[3] = &n
	}
	if t.Total > 0 && t.AI <= t.Total {
		share := int64(math.Round(float64(t.AI) / float64(t.Total) * 1000))
		v[4] = &share
	}
	return v
}

func at(series []*int64) htmlview.Values {
	return func(i int) (int64, bool) {
		if series[i] == nil {
			return 0, false
		}
		return *series[i], true
	}
}

func largest(all ...[]*int64) (n int64) {
	for _, series := range all {
		for _, v := range series {
			if v != nil {
				n = max(n, *v)
			}
		}
	}
	return n
}

func per(g analytics.Granularity) string {
	if n := g.RollingDays(); n > 0 {
		return htmlview.Plural(n, "day")
	}
	return string(g)
}

// label is the drawing for those who do not see it.
func label(l Line) string {
	var low, high *Cell
	known := 0
	for i := range l.Cells {
		c := &l.Cells[i]
		if c.Revision == nil {
			continue
		}
		known++
		if low == nil || c.Revision.Totals.Total < low.Revision.Totals.Total {
			low = c
		}
		if high == nil || c.Revision.Totals.Total > high.Revision.Totals.Total {
			high = c
		}
	}
	point := func(c *Cell) string {
		return fmt.Sprintf("%s (%s)", htmlview.Commas(c.Revision.Totals.Total), htmlview.Days(l.Granularity, c.Window))
	}
	return fmt.Sprintf("Unique visitors of %s: lowest %s, highest %s, newest %s.", htmlview.Plural(known, "window"), point(low), point(high), point(l.newest()))
}

// ticks are the names of the windows in the middle of equal parts of the axis.
func ticks(all []string) (out []string) {
	n := len(all)
	if n > mostTicks {
		n = someTicks
	}
	for k := range n {
		out = append(out, all[(2*k+1)*len(all)/(2*n)])
	}
	return out
}

func zooms(l Line) (out []zoom) {
	counts := []int{30, 90, 365}
	if l.Granularity == analytics.Week {
		counts = []int{13, 26, 52}
	}
	if l.Granularity == analytics.Month {
		counts = []int{12, 24}
	}
	for _, n := range counts {
		if n < len(l.Cells) {
			out = append(out, zoom{n, "Last " + htmlview.Commas(n)})
		}
	}
	return out
}

// stripes draws the state of each window, and the gaps.
func stripes(cells []Cell) (missing string, out []stripe) {
	paths := map[string]*strings.Builder{}
	var order []string
	for from := 0; from < len(cells); {
		symbol, _ := htmlview.Reading(cells[from].Revision)
		to := from + 1
		for to < len(cells) && same(cells[to], symbol) {
			to++
		}
		if paths[symbol] == nil {
			paths[symbol] = &strings.Builder{}
			order = append(order, symbol)
		}
		fmt.Fprintf(paths[symbol], "M%d 0H%dV%dH%dZ", from*columnWidth, to*columnWidth, chartHeight, from*columnWidth)
		from = to
	}
	slices.Sort(order)
	for _, symbol := range order {
		out = append(out, stripe{symbol, paths[symbol].String()})
	}
	if gap := paths["missing"]; gap != nil {
		missing = gap.String()
	}
	return missing, out
}

func same(c Cell, symbol string) bool {
	s, _ := htmlview.Reading(c.Revision)
	return s == symbol
}

// dots marks the windows in which jobs ended, by what became of them.
func dots(cells []Cell, jobs []Job) (out []stripe) {
	for _, class := range []string{"pr", "no_pr", "bad"} {
		var path strings.Builder
		for i, c := range cells {
			if slices.ContainsFunc(endedIn(jobs, c.Window), func(j Job) bool { return resultClass(j) == class }) {
				fmt.Fprintf(&path, "M%d %dh0", i*columnWidth+columnWidth/2, chartHeight/2)
			}
		}
		if path.Len() > 0 {
			out = append(out, stripe{class, path.String()})
		}
	}
	return out
}

func resultClass(j Job) string {
	switch j.Result {
	case "pr", "no_pr":
		return j.Result
	case "":
		return ""
	}
	return "bad"
}

func endedIn(jobs []Job, w analytics.Window) (out []Job) {
	for _, j := range jobs {
		if at := j.Ended; !at.IsZero() && j.Result != "" && inside(at, w) {
			out = append(out, j)
		}
	}
	return out
}

func inside(t time.Time, w analytics.Window) bool {
	d := analytics.DateOf(t)
	return w.From <= d && d < w.To
}

func jobWords(jobs []Job) (out []string) {
	for i, j := range jobs {
		if i == shownJobs {
			return append(out, fmt.Sprintf("and %d more", len(jobs)-i))
		}
		out = append(out, resultWords[j.Result]+": "+nameOf(j))
	}
	return out
}

// jobsOf are the jobs of one project.
func jobsOf(r Report, project string) (out []Job) {
	if r.State == nil || r.State.Queue == nil {
		return nil
	}
	for _, j := range r.State.Queue.Jobs {
		if j.Project == project {
			out = append(out, j)
		}
	}
	return out
}
