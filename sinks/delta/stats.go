package delta

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
)

// statistics are the bounds by which readers leave files out, in Delta's form.
type statistics struct {
	Records   int64            `json:"numRecords"`
	Min       map[string]any   `json:"minValues,omitempty"`
	Max       map[string]any   `json:"maxValues,omitempty"`
	NullCount map[string]int64 `json:"nullCount"`
}

// totalsStats is the statistics of the totals file of rev.
func totalsStats(rev analytics.Revision) string {
	s := newStatistics(rev, rev.Report.Shape().TotalsTable, 1)
	for name, n := range rev.Totals.ByName() {
		s.exactly(name, n)
	}
	s.between("humans", string(rev.Humans), string(rev.Humans))
	s.exactly("page_count", rev.Rows)
	return s.text()
}

// rowsStats is the statistics of the file of rows with this footer, of a table.
func rowsStats(foot archive.Footer, table string, b archive.Bounds) string {
	s := newStatistics(foot.Revision, table, foot.SiteRows+max(foot.Rows, 0))
	for name, bounds := range b.Counts {
		s.Min[name], s.Max[name] = bounds[0], bounds[1]
	}
	for name, bounds := range b.Texts {
		s.between(name, bounds[0], bounds[1])
	}
	return s.text()
}

// newStatistics has the columns that are the same in every row. A file without a row has no values,
// and no column has NULL. Delta has no bounds for booleans.
func newStatistics(rev analytics.Revision, table string, rows int64) *statistics {
	s := &statistics{Records: rows, Min: map[string]any{}, Max: map[string]any{}, NullCount: map[string]int64{}}
	for _, c := range columnsOf(rev.Report, table) {
		s.NullCount[c.Name] = 0
	}
	if rows == 0 {
		return s
	}
	s.between("project", rev.Project, rev.Project)
	s.between("granularity", string(rev.Granularity), string(rev.Granularity))
	s.exactly("window_start", rev.From)
	s.exactly("window_end", rev.To)
	s.exactly("revision", rev.Number)
	// Times are milliseconds there: the bounds lie around the microsecond.
	const layout = "2006-01-02T15:04:05.000Z"
	least := rev.ExportedAt.UTC().Truncate(time.Millisecond)
	most := rev.ExportedAt.UTC().Add(time.Millisecond - time.Nanosecond).Truncate(time.Millisecond)
	s.Min["exported_at"], s.Max["exported_at"] = least.Format(layout), most.Format(layout)
	return s
}

// exactly says that all rows have this value.
func (s *statistics) exactly(name string, value any) { s.Min[name], s.Max[name] = value, value }

// between says that all rows have texts from least to greatest.
func (s *statistics) between(name, least, greatest string) {
	s.Min[name] = prefix(least)
	if most, ok := above(greatest); ok {
		s.Max[name] = most
	}
}

func (s *statistics) text() string {
	text, err := json.Marshal(s)
	if err != nil {
		return "" // cannot be: then readers read the file
	}
	return string(text)
}

// boundRunes is the length of the texts that Delta keeps in statistics.
const boundRunes = 32

// prefix is a text that is not greater than s.
func prefix(s string) string {
	n := 0
	for i := range s {
		if n == boundRunes {
			return s[:i]
		}
		n++
	}
	return s
}

// above is a text that is not less than s: a longer one is cut, and ends in the greatest
// of all characters instead. It returns false in the one case where that is not enough.
func above(s string) (string, bool) {
	short := prefix(s)
	if len(short) == len(s) {
		return s, true
	}
	return short + string(utf8.MaxRune), !strings.HasPrefix(s[len(short):], string(utf8.MaxRune))
}
