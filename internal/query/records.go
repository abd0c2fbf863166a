package query

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/sinks"
)

// RowRanking selects and orders rows of any report. It is repeated in the answer.
type RowRanking struct {
	Report analytics.Report `json:"report"`
	// By is the count that rows are ranked by; empty: [analytics.Shape.Rank].
	By string `json:"by"`
	// Name selects the pages of one name, a value of the column [analytics.Shape.Noun].
	Name string `json:"name,omitempty"`
	// Path selects the rows of one page. Without Path and Name the rows are the rows of the site where the report has
	// them, else all pages.
	Path string `json:"path,omitempty"`
	// Prefix keeps the paths that begin with it.
	Prefix string `json:"prefix,omitempty"`
	// N is the length of the list, without its first Offset rows.
	N      int `json:"-"`
	Offset int `json:"-"`
	// misses selects the paths that are not there.
	misses bool
}

// Complete returns the ranking with its defaults, or why the question has no answer.
func (r RowRanking) Complete() (RowRanking, error) {
	s := r.Report.Shape()
	r.By = cmp.Or(r.By, s.Rank())
	names := s.Names(analytics.Count)
	switch {
	case !slices.Contains(names, r.By):
		return r, fmt.Errorf("by %.20q: want %s", r.By, strings.Join(names, ", "))
	case r.Name != "" && !s.Site:
		return r, fmt.Errorf("%s: the report %s has pages only", s.Noun(), s.Name)
	case r.Name != "" && r.Path != "":
		return r, fmt.Errorf("path, %s: want one of the two", s.Noun())
	case r.Prefix != "" && (r.Path != "" || s.Site && r.Name == ""):
		return r, errors.New("prefix: want it with pages")
	}
	return r, nil
}

// OfSite reports whether the rows are rows of the site.
func (r RowRanking) OfSite() bool {
	return r.Report.Shape().Site && r.Name == "" && r.Path == "" && !r.misses
}

func (r RowRanking) number(counts analytics.Counts) int64 {
	return counts[slices.Index(r.Report.Shape().Names(analytics.Count), r.By)]
}

func (r RowRanking) has(row analytics.Record) bool {
	switch path := row.Path(); {
	case r.Report.Shape().IsFound(row) == r.misses:
		return false
	case r.Name != "":
		return path != "" && row.Texts[1] == r.Name && strings.HasPrefix(path, r.Prefix)
	case r.Path != "" || r.OfSite():
		return path == r.Path
	}
	return strings.HasPrefix(row.Path(), r.Prefix)
}

// RowsReading is the reading of a window. It has no totals: where rows of the site have counts, these are not added up.
type RowsReading struct {
	analytics.Key
	Number     int32     `json:"revision"`
	Settled    bool      `json:"settled"`
	Verified   bool      `json:"verified"`
	ExportedAt time.Time `json:"exported_at"`
	// Humans is the mode by which people are counted; absent where the service does not say.
	Humans analytics.Humans `json:"humans,omitempty"`
}

func rowsReading(rev analytics.Revision) RowsReading {
	return RowsReading{rev.Key, rev.Number, rev.Settled, rev.Verified, rev.ExportedAt, rev.Humans}
}

// RowsReport has rows of a report of one project in one window, and how they differ from an earlier window.
type RowsReport struct {
	RowsReading
	ProjectName string `json:"project_name,omitempty"`
	// Previous is the window to compare with; null where the archive lacks it, or the pages that are listed.
	Previous *RowsReading `json:"previous"`
	RowRanking
	// Totals are the counts of the site, by name; absent where rows of the site have them.
	Totals map[string]int64 `json:"totals,omitempty"`
	// Count is the length of the whole list.
	Count int64       `json:"count"`
	Rows  []RankedRow `json:"rows"`
}

// RankedRow is a row of a list.
type RankedRow struct {
	analytics.Key
	Rank int
	Row  analytics.Record
	RowChange
	// Beside is the count of [analytics.Shape.Beside]; nil where it is not known. So is the ratio.
	Beside *int64
	Ratio  *float64
}

// RowChange is the change of the count by which rows are ranked. Previous is nil where the earlier window has no such
// row, or is not known; so is the change.
type RowChange struct {
	Previous *analytics.Counts
	Change   *int64
	Percent  *float64
}

// change compares a row with the row of an earlier window, if was.
func (r RowRanking) change(before analytics.Record, was bool, now analytics.Record) (c RowChange) {
	if was {
		c.Previous = &before.Counts
		if from, to := r.number(before.Counts), r.number(now.Counts); from >= 0 && to >= 0 {
			c.Change, c.Percent = new(to-from), Percent(from, to)
		}
	}
	return c
}

func (c RowChange) columns(shape *analytics.Shape) (out []Column) {
	for i, name := range shape.Names(analytics.Count) {
		out = append(out, countColumn("previous_"+name, c.Previous, i))
	}
	return append(out, Column{"change", orNil(c.Change)}, Column{"change_percent", orNil(c.Percent)})
}

// Columns are the columns of the window, the rank, the columns of the report, the former counts, and the change.
func (r RankedRow) Columns() []Column {
	shape := r.Report.Shape()
	out := append(Columns(r.Key), Column{"rank", r.Rank})
	for i, c := range shape.Columns {
		out = append(out, Column{c.Name, shape.Value(r.Row, i)})
	}
	out = append(out, r.RowChange.columns(shape)...)
	if b := shape.Beside; b != nil {
		out = append(out, Column{b.Name, orNil(r.Beside)}, Column{b.Ratio, orNil(r.Ratio)})
	}
	return out
}

// MarshalJSON returns the columns.
func (r RankedRow) MarshalJSON() ([]byte, error) { return marshalColumns(r.Columns()) }

func countColumn(name string, counts *analytics.Counts, i int) Column {
	if counts == nil {
		return Column{name, nil}
	}
	return Column{name, counts[i]}
}

// orNil is the value of a pointer, without one nil.
func orNil[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func marshalColumns(columns []Column) ([]byte, error) {
	var b bytes.Buffer
	for i, c := range columns {
		value, err := json.Marshal(c.Value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%c%q:%s", "{,"[min(i, 1)], c.Name, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Records are the rows as the report has them.
func (r RowsReport) Records() (all []analytics.Record) {
	for _, row := range r.Rows {
		all = append(all, row.Row)
	}
	return all
}

// Table has the rows.
func (r RowsReport) Table() (out []any) {
	for _, row := range r.Rows {
		out = append(out, row)
	}
	return out
}

// Rows returns the rows of each project; the pages of a name for each project that has it. What could be read comes with
// the error of what could not. An UnknownProjectError concerns the question.
func Rows(ctx context.Context, from sinks.Sink, o Choice, by RowRanking) ([]RowsReport, error) {
	by, err := by.Complete()
	if err != nil {
		return nil, err
	}
	return compareEach(ctx, from, o, by, comparison.report)
}

// compareEach returns a report of the comparison of each project; of a name, of each project that has it.
func compareEach[R any](
	ctx context.Context, from sinks.Sink, o Choice, by RowRanking, report func(comparison) R,
) ([]R, error) {
	o.Selection.report = by.Report
	all, err := o.Selection.find(ctx, from)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	out, err := ofEach(all, func(s series) ([]R, error) {
		now, previous, _, err := o.choose(ctx, from, s, by.OfSite())
		if err != nil {
			return nil, err
		}
		c, err := compare(ctx, from, previous, &now, by)
		if err != nil {
			return nil, err
		}
		maps.Copy(known, c.names)
		if by.Name != "" && !c.names[by.Name] {
			return nil, nil
		}
		c.ProjectName = o.Selection.Names[s.project]
		return []R{report(c)}, nil
	})
	if len(out) == 0 && err == nil {
		return nil, unknownName(by.Report, by.Name, o.Selection.Granularity, known)
	}
	return out, err
}

func unknownName(report analytics.Report, name string, g analytics.Granularity, known map[string]bool) error {
	names := slices.Sorted(maps.Keys(known))
	return UnknownError{Similar: format.Nearest(name, names), text: fmt.Sprintf(
		"%s %.100q has no row in the %s windows asked for; %s", report.Shape().Noun(), name, g,
		format.DidYouMean(name, names))}
}

// CompareRows reads the rows of two windows of a report; earlier may be nil. The ranking must be complete.
func CompareRows(
	ctx context.Context, from sinks.Sink, earlier, later *analytics.Revision, r RowRanking,
) (RowsReport, error) {
	c, err := compare(ctx, from, earlier, later, r)
	if err != nil {
		return c.RowsReport, err
	}
	return c.report(), nil
}

// recordSet are rows by their keys.
type recordSet map[analytics.Record]analytics.Record

// comparison has the rows of two windows of which a report is made.
type comparison struct {
	RowsReport // without rows
	now        recordSet
	before     recordSet           // nil: not compared
	names      map[string]bool     // in either window
	beside     map[[2]string]int64 // nil: not known
	noRatio    bool
	found      []string // of misses: the paths that are there
}

// compare reads the rows of two windows. An export may have replaced them: the revisions become those that are read.
// Pages of a window of which only totals were read are not compared with.
func compare(
	ctx context.Context, from sinks.Sink, earlier, later *analytics.Revision, r RowRanking,
) (c comparison, err error) {
	c.RowRanking, c.names = r, map[string]bool{}
	if c.now, c.found, err = c.read(ctx, from, later); err != nil {
		return c, err
	}
	if err = c.readBeside(ctx, from, later.Key); err != nil {
		return c, err
	}
	c.RowsReading = rowsReading(*later)
	if !r.Report.Shape().Site {
		c.Totals = later.Totals.ByName()
	}
	if earlier == nil || earlier.TotalsOnly() && !r.OfSite() {
		return c, nil
	}
	c.before, _, err = c.read(ctx, from, earlier)
	c.Previous = new(rowsReading(*earlier))
	return c, err
}

// readBeside reads what the rows are shown with, if the archive has that report of the window.
func (c *comparison) readBeside(ctx context.Context, from sinks.Sink, key analytics.Key) error {
	b := c.RowRanking.Report.Shape().Beside
	if b == nil {
		return nil
	}
	key.Report = b.Report
	for rev, err := range sinks.ListIn(ctx, from, sinks.Scope{Keys: map[analytics.Key]bool{key: true}}) {
		if err != nil || rev.TotalsOnly() && !c.OfSite() {
			return nil //nolint:nilerr // a damaged window is one that is not known
		}
		c.beside, c.noRatio = map[[2]string]int64{}, b.Claimed && rev.Humans == analytics.Confirmed
		return eachRecord(ctx, from, &rev, func(row analytics.Record) bool {
			key, n := b.Of(row)
			c.beside[key] += min(n, math.MaxInt64-c.beside[key])
			return !c.OfSite() || row.Path() == ""
		})
	}
	return nil
}

// besideOf returns the count beside a row, and the ratio.
func (c *comparison) besideOf(row analytics.Record) (n *int64, ratio *float64) {
	if c.beside == nil {
		return nil, nil
	}
	shape := c.RowRanking.Report.Shape()
	key, has := shape.Beside.Key(row)
	if !has {
		return nil, nil
	}
	count := c.beside[key]
	if count > 0 && !c.noRatio {
		ratio = new(math.Round(shape.Beside.Per*float64(row.Counts[slices.Index(shape.Names(analytics.Count),
			shape.Rank())])/float64(count)*100) / 100)
	}
	return &count, ratio
}

// read reads the rows of a window that are listed, and of misses the paths that are there, in order.
func (c *comparison) read(
	ctx context.Context, from sinks.Sink, rev *analytics.Revision,
) (rows recordSet, found []string, err error) {
	rows = recordSet{}
	r, shape := c.RowRanking, c.RowRanking.Report.Shape()
	all := !r.OfSite() && r.Path == ""
	err = eachRecord(ctx, from, rev, func(row analytics.Record) bool {
		if shape.Site {
			c.names[row.Texts[1]] = true
		}
		if r.has(row) {
			rows[shape.Key(row)] = row
		} else if r.misses && shape.IsFound(row) && row.Path() != "" && (len(found) == 0 || found[len(found)-1] != row.Path()) {
			found = append(found, row.Path())
		}
		return all || row.Path() <= r.Path
	})
	return rows, found, err
}

// report ranks the rows.
func (c comparison) report() RowsReport {
	out, r, shape := c.RowsReport, c.RowRanking, c.RowRanking.Report.Shape()
	all := slices.SortedFunc(maps.Values(c.now), func(a, b analytics.Record) int {
		return cmp.Or(cmp.Compare(r.number(b.Counts), r.number(a.Counts)), shape.Compare(a, b))
	})
	out.Rows, out.Count = []RankedRow{}, int64(len(all))
	for i, row := range all[min(r.Offset, len(all)):] {
		if i == r.N {
			break
		}
		before, was := c.before[shape.Key(row)]
		beside, ratio := c.besideOf(row)
		out.Rows = append(out.Rows, RankedRow{out.Key, r.Offset + i + 1, row, r.change(before, was, row), beside, ratio})
	}
	return out
}

// RowHistory has the counts of one row of a report, window by window, oldest first, including the windows that the
// archive lacks.
type RowHistory struct {
	Project     string                `json:"project"`
	ProjectName string                `json:"project_name,omitempty"`
	Granularity analytics.Granularity `json:"granularity"`
	Report      analytics.Report      `json:"report"`
	// Row has the texts of the row, as the newest window has them; the path is empty for the site.
	Row     map[string]string  `json:"row"`
	Windows []RowHistoryWindow `json:"windows"`
	// NewerMissing counts the complete windows after those, which the archive lacks.
	NewerMissing int `json:"newer_windows_missing"`
}

// RowHistoryWindow is one window of a history. Counts is nil where they are not known.
type RowHistoryWindow struct {
	analytics.Key
	Row      analytics.Record // its texts
	State    string           // settled, provisional or Missing
	Verified *bool
	Revision *int32
	Absent   bool // the rows of the window are known, and this one is not among them
	Counts   *analytics.Counts
	RowChange
}

// Columns are its columns.
func (w RowHistoryWindow) Columns() []Column {
	shape := w.Report.Shape()
	out := Columns(w.Key)
	for i, c := range shape.Columns {
		if c.Kind == analytics.Text {
			out = append(out, Column{c.Name, shape.Value(w.Row, i)})
		}
	}
	out = append(out, Column{"state", w.State}, Column{"verified", orNil(w.Verified)},
		Column{"revision", orNil(w.Revision)}, Column{"absent", w.Absent})
	for i, name := range shape.Names(analytics.Count) {
		out = append(out, countColumn(name, w.Counts, i))
	}
	return append(out, w.RowChange.columns(shape)...)
}

// MarshalJSON returns the columns.
func (w RowHistoryWindow) MarshalJSON() ([]byte, error) { return marshalColumns(w.Columns()) }

// Table has the windows.
func (h RowHistory) Table() (out []any) {
	for _, w := range h.Windows {
		out = append(out, w)
	}
	return out
}

// RowHistories returns the histories of the rows of a name, on the site or on the page of o; where a report has no rows
// of the site, the history of the site or of the page. Each project that has them in one of the windows has an answer.
func RowHistories(
	ctx context.Context, from sinks.Sink, report analytics.Report, name string, o HistoryOptions,
) ([]RowHistory, error) {
	o.Selection.report = report
	all, err := o.Selection.find(ctx, from)
	if err != nil {
		return nil, err
	}
	known, pages := map[string]bool{}, false
	out, err := ofEach(all, func(s series) ([]RowHistory, error) {
		windows, newer, err := o.windows(s)
		if err != nil {
			return nil, err
		}
		r := rowReader{from: from, shape: report.Shape(), name: name, series: s, known: known,
			rows: map[analytics.Window]recordSet{}}
		if o.Page != nil {
			r.page = *o.Page
		}
		histories, err := r.histories(ctx, o.Selection.Granularity, windows)
		pages = pages || r.pages
		for i := range histories {
			h := &histories[i]
			h.Project, h.ProjectName, h.NewerMissing = s.project, o.Selection.Names[s.project], newer
			h.Granularity, h.Report = o.Selection.Granularity, report
			for j := range h.Windows {
				h.Windows[j].Project, h.Windows[j].Granularity, h.Windows[j].Report = s.project, h.Granularity, report
			}
		}
		return histories, err
	})
	noun, page := report.Shape().Noun(), o.Page != nil && *o.Page != ""
	switch {
	case len(out) > 0 || err != nil:
		return out, err
	case page && !pages:
		last, _ := all[0].newest(func(analytics.Window, reading) bool { return true })
		return nil, o.Selection.totalsOnly(ctx, from, all[0].windows[last].rev)
	case page && name == "":
		return nil, noAnswer("page %.200q has no row of the report %s in the %s windows asked for", *o.Page, report,
			o.Selection.Granularity)
	case page && known[name]:
		return nil, noAnswer("%s %s did not read page %.200q in the %s windows asked for: paths are exact, and "+
			"`docgauge top --%s NAME --prefix PATH` lists them", noun, name, *o.Page, o.Selection.Granularity, noun)
	}
	return nil, unknownName(report, name, o.Selection.Granularity, known)
}

// rowReader reads the rows of a name, of each window once.
type rowReader struct {
	from       sinks.Sink
	shape      *analytics.Shape
	name, page string
	series     series
	rows       map[analytics.Window]recordSet // by key; nil: not known
	known      map[string]bool                // names that were met
	pages      bool                           // the pages of a window are known
}

func (r *rowReader) histories(
	ctx context.Context, g analytics.Granularity, windows []analytics.Window,
) (out []RowHistory, err error) {
	former, newest := map[analytics.Window]analytics.Window{}, recordSet{}
	for _, w := range windows {
		if before, known := r.series.endingAt(g.ComparedWith(w).To); known {
			former[w] = before
		}
		for _, w := range []analytics.Window{former[w], w} {
			if err := r.read(ctx, w); err != nil {
				return nil, err
			}
		}
		maps.Copy(newest, r.rows[w])
	}
	for _, key := range slices.SortedFunc(maps.Keys(newest), r.shape.Compare) {
		h := RowHistory{Row: map[string]string{}}
		for i, c := range r.shape.Columns {
			if text, ok := r.shape.Value(newest[key], i).(string); ok {
				h.Row[c.Name] = text
			}
		}
		for _, w := range windows {
			h.Windows = append(h.Windows, r.window(w, former[w], key, newest[key]))
		}
		out = append(out, h)
	}
	return out, nil
}

func (r *rowReader) window(w, before analytics.Window, key, row analytics.Record) RowHistoryWindow {
	step := RowHistoryWindow{Row: row, State: Missing}
	step.Window = w
	if known, ok := r.series.windows[w]; ok {
		step.State, step.Verified, step.Revision = known.rev.State(), &known.rev.Verified, &known.rev.Number
	}
	now, ok := r.rows[w][key]
	if !ok {
		step.Absent = r.rows[w] != nil
		return step
	}
	step.Counts = &now.Counts
	was, ok := r.rows[before][key]
	step.RowChange = RowRanking{Report: r.shape.Report(), By: r.shape.Rank()}.change(was, ok, now)
	return step
}

// read reads the rows of a window, unless they are not known, and enters the reading that it found.
func (r *rowReader) read(ctx context.Context, w analytics.Window) error {
	of, known := r.series.windows[w]
	switch {
	case !known || r.rows[w] != nil:
		return nil
	case of.err != nil:
		return of.err
	case !r.shape.Site && r.page == "":
		row := analytics.Record{Counts: of.rev.Totals.Counts()}
		r.rows[w] = recordSet{r.shape.Key(row): row}
		return nil
	case r.page != "" && of.rev.TotalsOnly():
		return nil
	}
	found := recordSet{}
	err := eachRecord(ctx, r.from, &of.rev, func(row analytics.Record) bool {
		if r.shape.Site {
			r.known[row.Texts[1]] = true
		}
		if row.Path() == r.page && r.shape.IsFound(row) && (!r.shape.Site || row.Texts[1] == r.name) {
			found[r.shape.Key(row)] = row
		}
		return row.Path() <= r.page
	})
	r.series.windows[w], r.rows[w], r.pages = of, found, r.pages || !of.rev.TotalsOnly()
	return err
}
