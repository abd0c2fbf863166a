package report

import (
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/htmlview"
)

// shownGaps is how many stretches of missing windows are named.
const shownGaps = 6

// coverage says what the archive has of one line.
type coverage struct {
	Known, All string // 28, 30 windows
	States     []entry
	Gaps       string // which are missing
	Read       htmlview.Moment
	Older      string
}

// entry is a state that occurs, and how often. A window can be in two.
type entry struct{ Class, Text, Note string }

func coverageOf(l Line, r Report) coverage {
	counts := map[string]int{}
	known := 0
	for _, c := range l.Cells {
		if c.Revision == nil {
			counts["missing"]++
			continue
		}
		known++
		if c.Revision.Settled {
			counts["settled"]++
		} else {
			counts["provisional"]++
		}
		if !c.Revision.Verified {
			counts["unverified"]++
		}
	}
	v := coverage{Known: htmlview.Commas(known), All: htmlview.Plural(len(l.Cells), "window"), Gaps: gaps(l), States: states(counts)}
	if cell := l.newest(); cell != nil {
		v.Read = htmlview.MomentOf(cell.Revision.ExportedAt.Truncate(time.Second), r.Made)
	}
	if l.Older > 0 {
		v.Older = htmlview.Plural(l.Older, "older window")
	}
	return v
}

func states(counts map[string]int) (out []entry) {
	for _, e := range []entry{
		{"settled", "settled", "They can no longer change."},
		{"provisional", "provisional", "They can still change and will be read once more."},
		{"unverified", "unverified", "Their numbers changed while they were read; they will be read again."},
		{"missing", "missing", "They are over, and the archive does not have them."},
	} {
		if n := counts[e.Class]; n > 0 {
			e.Text = htmlview.Commas(n) + " " + e.Text
			out = append(out, e)
		}
	}
	return out
}

// gaps names the stretches of missing windows, newest first.
func gaps(l Line) string {
	var names []string
	left := 0
	for end := len(l.Cells) - 1; end >= 0; end-- {
		if l.Cells[end].Revision != nil {
			continue
		}
		begin := end
		for begin > 0 && l.Cells[begin-1].Revision == nil {
			begin--
		}
		if len(names) < shownGaps {
			names = append(names, stretch(l.Granularity, l.Cells[begin].Window, l.Cells[end].Window))
		} else {
			left++
		}
		end = begin
	}
	if left > 0 {
		names = append(names, "and "+htmlview.Commas(left)+" more")
	}
	return strings.Join(names, "; ")
}

func stretch(g analytics.Granularity, first, last analytics.Window) string {
	if first == last {
		return htmlview.Days(g, first)
	}
	return htmlview.Days(g, first) + " to " + htmlview.Days(g, last)
}
