package warehouse

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
)

// null is how every result shows NULL.
const null = "NULL"

// table is a result: every value as text.
type table struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.Rows = append(t.Rows, row)
}

// answers are the true answers to the questions of the page, by name, counted
// from the exported data. All but restated concern the shown revisions.
var answers = map[string]func(history) table{
	"daily-trend":    dailyTrend,
	"week-over-week": weekOverWeek,
	"share":          share,
	"overlap":        overlap,
	"top-pages":      topPages,
	"movers":         movers,
	"vanished":       func(h history) table { return onlyIn(h.week(lastWeek-7), h.week(lastWeek)) },
	"appeared":       func(h history) table { return onlyIn(h.week(lastWeek), h.week(lastWeek-7)) },
	"newest":         newest,
	"read-again":     readAgain,
	"restated":       restated,
	"since":          since,
	"sums":           sums,
}

// site returns the shown windows of the first project with granularity g (empty:
// any) that begin on from or later.
func (h history) site(g analytics.Granularity, from analytics.Date) (all []window) {
	for _, w := range h.shown() {
		if w.Project == projects[0] && (g == "" || w.Granularity == g) && w.From >= from {
			all = append(all, w)
		}
	}
	return all
}

func (h history) week(monday analytics.Date) window { return h.site(analytics.Week, monday)[0] }

func dailyTrend(h history) table {
	t := table{Columns: []string{"window_start", "human", "ai", "total"}}
	for _, w := range h.site(analytics.Day, lastWeek) {
		t.add(w.From, w.Totals.Human, w.Totals.AI, w.Totals.Total)
	}
	return t
}

func weekOverWeek(h history) table {
	t := table{Columns: []string{"window_start", "before", "total", "percent"}}
	weeks := h.site(analytics.Week, 0)
	for i, w := range weeks[1:] {
		before := weeks[i].Totals.Total
		t.add(w.From, before, w.Totals.Total, percent(w.Totals.Total-before, before))
	}
	return t
}

func share(h history) table {
	t := table{Columns: []string{"granularity", "window_start", "human_percent", "ai_percent"}}
	for _, w := range h.site("", 0) {
		if w.Granularity.RollingDays() == 0 && w.To > analytics.NewDate(2026, 10, 30) {
			t.add(w.Granularity, w.From, percent(w.Totals.Human, w.Totals.Total), percent(w.Totals.AI, w.Totals.Total))
		}
	}
	return t
}

func percent(part, whole int64) string {
	if whole == 0 {
		return null
	}
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 1, 64)
}

func overlap(h history) table {
	t := table{Columns: []string{"window_start", "human", "ai", "total", "both"}}
	for _, w := range h.site(analytics.Week, 0) {
		n := w.Totals
		t.add(w.From, n.Human, n.AI, n.Total, n.Human+n.AI-n.Total)
	}
	return t
}

func topPages(h history) table {
	t := table{Columns: []string{"path", "human", "ai", "total"}}
	rows := slices.SortedFunc(slices.Values(h.week(lastWeek).rows), func(a, b analytics.Row) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), strings.Compare(a.Path, b.Path))
	})
	for _, r := range rows[:5] {
		t.add(r.Path, r.Human, r.AI, r.Total)
	}
	return t
}

func movers(h history) table {
	type move struct {
		path                  string
		before, after, change int64
	}
	by := map[string]*move{}
	of := func(path string) *move {
		if by[path] == nil {
			by[path] = &move{path: path}
		}
		return by[path]
	}
	for _, r := range h.week(lastWeek - 7).rows {
		of(r.Path).before = r.Total
	}
	for _, r := range h.week(lastWeek).rows {
		of(r.Path).after = r.Total
	}
	var all []*move
	for _, m := range by {
		m.change = m.after - m.before
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *move) int {
		return cmp.Or(cmp.Compare(max(b.change, -b.change), max(a.change, -a.change)), strings.Compare(a.path, b.path))
	})
	t := table{Columns: []string{"path", "before", "after", "change"}}
	for _, m := range all[:5] {
		t.add(m.path, m.before, m.after, m.change)
	}
	return t
}

func onlyIn(a, b window) table {
	t := table{Columns: []string{"path", "total"}}
	for _, r := range a.rows {
		if !slices.ContainsFunc(b.rows, func(other analytics.Row) bool { return other.Path == r.Path }) {
			t.add(r.Path, r.Total)
		}
	}
	return t
}

func newest(h history) table {
	t := table{Columns: []string{"project", "granularity", "window_start", "window_end", "total", "page_count", "revision", "settled", "verified"}}
	last := map[string]analytics.Date{}
	kind := func(w window) string { return w.Project + " " + string(w.Granularity) }
	for _, w := range h.shown() {
		last[kind(w)] = max(last[kind(w)], w.To)
	}
	for _, w := range h.shown() {
		if w.To == last[kind(w)] {
			t.add(w.Project, w.Granularity, w.From, w.To, w.Totals.Total, w.Revision.Rows, w.Number, w.Settled, w.Verified)
		}
	}
	return t
}

func readAgain(h history) table {
	t := table{Columns: []string{"granularity", "window_start", "revision", "settled", "total"}}
	for _, w := range h.site("", 0) {
		if w.Number > 1 {
			t.add(w.Granularity, w.From, w.Number, w.Settled, w.Totals.Total)
		}
	}
	return t
}

// restated lists all revisions of the windows whose totals or pages changed.
func restated(h history) table {
	t := table{Columns: []string{"project", "granularity", "window_start", "revision", "human", "ai", "total", "page_count"}}
	for _, now := range h.shown() {
		var revisions []window
		for _, w := range h {
			if w.Key == now.Key {
				revisions = append(revisions, w)
			}
		}
		first := revisions[0].Revision
		if first.Totals == now.Totals && first.Rows == now.Revision.Rows {
			continue
		}
		for _, w := range revisions {
			t.add(w.Project, w.Granularity, w.From, w.Number, w.Totals.Human, w.Totals.AI, w.Totals.Total, w.Revision.Rows)
		}
	}
	return t
}

// since lists the windows of the first project whose numbers have changed since.
func since(h history) table {
	t := table{Columns: []string{"granularity", "window_start", "before", "total"}}
	former := map[analytics.Key]int64{}
	for _, w := range h.before(beforeChanges) {
		former[w.Key] = w.Totals.Total
	}
	for _, w := range h.site("", 0) {
		if before, there := former[w.Key]; there && before != w.Totals.Total {
			t.add(w.Granularity, w.From, before, w.Totals.Total)
		}
	}
	return t
}

func sums(h history) table {
	t := table{Columns: []string{"counted", "human", "ai", "total"}}
	var days, pages analytics.Totals
	for _, d := range h.site(analytics.Day, lastWeek) {
		days = plus(days, d.Totals)
	}
	week := h.week(lastWeek)
	for _, r := range week.rows {
		pages = plus(pages, analytics.Totals{Human: r.Human, AI: r.AI, Total: r.Total})
	}
	for _, c := range []struct {
		counted string
		analytics.Totals
	}{{"1 the week itself", week.Totals}, {"2 its days, added up", days}, {"3 its pages, added up", pages}} {
		t.add(c.counted, c.Human, c.AI, c.Total)
	}
	return t
}

func plus(a, b analytics.Totals) analytics.Totals {
	return analytics.Totals{Human: a.Human + b.Human, AI: a.AI + b.AI, Total: a.Total + b.Total}
}
