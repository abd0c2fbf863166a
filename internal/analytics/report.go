package analytics

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Report is a report of the service, and a dataset. Its text is the last element of its path in the API.
type Report uint8

// The reports. Their numbers are stored in the state.
const (
	// VisitorsReport has a [Row] for each page.
	VisitorsReport Report = iota
	// AgentsReport has an [AgentRow] for each agent on each path.
	AgentsReport
	// SourcesReport has a [SourceRow] for each source of people on each path.
	SourcesReport
	// ViewsReport has a [ViewRow] for each page.
	ViewsReport
)

// shapes is the table of reports: one more report is one more line here, and the type of its rows.
var shapes = [...]*Shape{
	VisitorsReport: newShape(Shape{
		Name: "visitors", row: reflect.TypeFor[Row](),
		About: "unique visitors of each page in each window", AboutSite: "unique visitors of the whole site in each window",
		TotalsTable: "totals", EmptyPath: true,
	}),
	AgentsReport: newShape(Shape{
		Name: "agents", row: reflect.TypeFor[AgentRow](),
		About: "unique readers and requests of each agent on each path in each window",
		Order: []string{"agent", "audience", "found"}, Site: true, Check: checkAgent,
		Bounds: []Bound{{Human, "", "audience", string(Human), true}, {AI, "", "audience", string(AI), false}},
	}),
	SourcesReport: newShape(Shape{
		Name: "sources", row: reflect.TypeFor[SourceRow](),
		About: "unique people and their requests, by the source that brought them to each path in each window",
		Order: []string{"source", "agent"}, Site: true,
		Beside: &Beside{Report: AgentsReport, Name: "reads", Ratio: "per_100_reads", Per: 100,
			Key: func(r Record) ([2]string, bool) { return [2]string{r.Texts[0], r.Texts[1]}, hasAgents(r.Texts[1]) },
			Of:  readsForSource},
		Bounds: []Bound{{Human, Confirmed, "agent", BrowserAgent, false}, {Human, Claimed, "", "", false}},
	}),
	ViewsReport: newShape(Shape{
		Name: "views", row: reflect.TypeFor[ViewRow](),
		About: "requests for each page in each window", AboutSite: "requests for pages of the whole site in each window",
		Beside: &Beside{Report: VisitorsReport, Name: "readers", Ratio: "per_reader", Per: 1, Claimed: true,
			Key: func(r Record) ([2]string, bool) { return [2]string{r.Path()}, true },
			Of:  func(r Record) ([2]string, int64) { return [2]string{r.Path()}, r.Counts[2] }},
		Additive: true,
	}),
}

// Reports are all of them.
var Reports = func() (all []Report) {
	for i := range shapes {
		all = append(all, Report(i))
	}
	return all
}()

// OtherReports are the reports that are listed alike: visitors and agents have lists and flags for them alone.
var OtherReports = Reports[AgentsReport+1:]

// Shape is what tells a report from the others, wherever its rows are read, stored or shown.
type Shape struct {
	Name string
	// About says what the rows are, AboutSite what totals beside them are.
	About, AboutSite string
	// TotalsTable is the table of the totals beside the rows, without one NAME_totals; empty if rows are these totals.
	TotalsTable string
	// Columns are the fields of the type of the rows, as JSON names them: texts, the path first, then truths, then
	// counts. The counts are also the totals of the site.
	Columns []Column
	// Order names the columns by which rows of one path are sorted. No two rows have the same path and
	// the same values there.
	Order []string
	// Site: the rows without a path are rows of the site; otherwise its totals are counts beside the rows.
	Site bool
	// Bounds say which counts of the report visitors the readers of a row of the site bound: at most three.
	Bounds []Bound
	// Beside is what rows are shown with; nil for nothing.
	Beside *Beside
	// Additive: the counts are not of readers but of requests. A site is the sum of its pages, total is human + ai, and
	// longer spans are sums of days, so that all windows are days.
	Additive bool
	// EmptyPath: a page may have an empty path.
	EmptyPath bool
	// Check returns an error of a row that no window has.
	Check func(Record) error

	row                   reflect.Type
	texts, truths, counts int
	order                 []int // the indexes of Order in Columns
	// audience and agent are the indexes of the texts of these names, and requests the index of the count "requests"; -1
	// if the report has none. rank is the index of the count that rows are ranked by.
	audience, agent, requests, rank int
}

// Bound says that the readers of the rows of the site bound a count of visitors: their largest number is not more, and
// their sum is not less.
type Bound struct {
	Visitors Audience
	// Humans: the service counts people so; empty: however it counts them.
	Humans Humans
	// Text and Value name the rows: those with this value of this text. Without a text, all rows.
	Text, Value string
	// Exact: each reader is in one of these rows, where the service says how it counts people.
	Exact bool
}

// Beside is a count from another report of the same window, with which rows are shown.
type Beside struct {
	Report Report
	Name   string
	// Ratio names the count that rows are ranked by, for Per of these.
	Ratio string
	Per   float64
	// Key says which rows of the two reports belong together, and whether there can be such; Of also how much a row of the
	// other one adds.
	Key func(Record) (key [2]string, has bool)
	Of  func(Record) (key [2]string, n int64)
	// Claimed: there is no ratio where only confirmed people are counted.
	Claimed bool
}

// Column is a column of a report.
type Column struct {
	Name  string
	Kind  Kind
	About string // for readers of the tables; empty if the name says it
	Least int64  // of a count: -1 if that stands for an unknown one
}

// Kind is the type of a column.
type Kind uint8

// The kinds.
const (
	Text Kind = iota
	Truth
	Count
)

// The most columns of each kind that a report has.
const (
	maxTexts  = 4
	maxTruths = 1
	maxCounts = 4
)

// Record is a row of any report: its values by kind, in the order of [Shape.Columns]. Values beyond the columns are
// zero.
type Record struct {
	Texts  [maxTexts]string // the path first
	Truths [maxTruths]bool
	Counts Counts
}

// Counts are the counts of a row or of a site, in the order of [Shape.Columns].
type Counts [maxCounts]int64

// Path is the path of the row; empty for a row of the site.
func (r Record) Path() string { return r.Texts[0] }

// Fields are all places of the record, whatever the columns of its report.
func (r *Record) Fields() (f Fields) {
	for i := range r.Texts {
		f.Texts = append(f.Texts, &r.Texts[i])
	}
	for i := range r.Truths {
		f.Truths = append(f.Truths, &r.Truths[i])
	}
	for i := range r.Counts {
		f.Counts = append(f.Counts, &r.Counts[i])
	}
	return f
}

// Fields are the columns of one row, by kind and in the order of [Shape.Columns].
type Fields struct {
	Texts  []*string
	Truths []*bool
	Counts []*int64
}

// All are the fields in the order of the columns.
func (f Fields) All() (all []any) {
	for _, text := range f.Texts {
		all = append(all, text)
	}
	for _, truth := range f.Truths {
		all = append(all, truth)
	}
	for _, count := range f.Counts {
		all = append(all, count)
	}
	return all
}

func newShape(s Shape) *Shape {
	s.Columns = columnsOf(s.row)
	for i, c := range s.Columns {
		*[...]*int{Text: &s.texts, Truth: &s.truths, Count: &s.counts}[c.Kind]++
		if slices.Contains(s.Order, c.Name) {
			s.order = append(s.order, i)
		}
	}
	s.Fields(new(Record)) // panics where a record has no room for so many columns
	if !s.Site {
		s.TotalsTable = cmp.Or(s.TotalsTable, s.Name+"_totals")
	}
	index := func(name string, first int) int {
		i := slices.IndexFunc(s.Columns, func(c Column) bool { return c.Name == name })
		return max(i-first, -1)
	}
	s.audience, s.agent, s.requests = index("audience", 0), index("agent", 0), index("requests", s.texts+s.truths)
	if !s.Site {
		s.rank = index("total", s.texts+s.truths)
	}
	return &s
}

// Fields are the columns of a record.
func (s *Shape) Fields(r *Record) Fields {
	f := r.Fields()
	return Fields{f.Texts[:s.texts], f.Truths[:s.truths], f.Counts[:s.counts]}
}

// Sum returns a function that adds up the rows of a window in their order, and their sum.
func (s *Shape) Sum() (add func(Record), sum *Sum) {
	sum = new(Sum)
	count := s.counter(sum)
	return func(r Record) {
		s.Checksum(&sum.Checksum, r)
		if people := s.People(r); people > 0 {
			sum.People += Checksum(sipHash([]byte(r.Path())) * uint64(people))
		}
		count(r)
	}, sum
}

// People is the number of people in a row of a path; 0 where the report does not tell people from others.
func (s *Shape) People(r Record) int64 {
	switch {
	case !s.Site:
		return r.Counts[0]
	case s.audience >= 0 && r.Path() != "" && s.IsFound(r) && r.Texts[s.audience] == string(Human):
		return r.Counts[s.rank]
	}
	return 0
}

// Counter returns a function that adds up rows in any order, perhaps without their path: without a checksum, which
// takes longer than the rest, and where the report has rows of the site only their number.
func (s *Shape) Counter(sum *Sum) func(Record) {
	if s.Site {
		return func(Record) { sum.Rows++ }
	}
	return s.counter(sum)
}

func (s *Shape) counter(sum *Sum) func(Record) {
	if s.Site {
		return s.countSite(sum)
	}
	return s.countTotals(sum)
}

// Noun is the name of the first key column: it says what one row of the site is, or one page if the report has no rows
// of the site.
func (s *Shape) Noun() string {
	if s.Site {
		return s.Columns[1].Name
	}
	return "page"
}

// Names are the columns of a kind, without the path.
func (s *Shape) Names(kind Kind) (names []string) {
	for _, c := range s.Columns[1:] {
		if c.Kind == kind {
			names = append(names, c.Name)
		}
	}
	return names
}

// Rank is the count by which rows are ranked.
func (s *Shape) Rank() string { return s.Names(Count)[s.rank] }

// Has reports whether there is a column of this name. The counts of visitors and requests, the text audience and the
// truth found mean the same in every report.
func (s *Shape) Has(name string) bool {
	return slices.ContainsFunc(s.Columns, func(c Column) bool { return c.Name == name })
}

// TextKey are the texts of Order: rows of the site and of a path that are about the same have the same ones.
func (s *Shape) TextKey() (names []string) {
	for _, i := range s.order {
		if i < s.texts {
			names = append(names, s.Columns[i].Name)
		}
	}
	return names
}

func (s *Shape) textKey(r Record) (key [maxTexts]string) {
	for _, i := range s.order {
		if i < s.texts {
			key[i] = r.Texts[i]
		}
	}
	return key
}

// IsFound reports whether the path of a row is there: it is where the report does not say.
func (s *Shape) IsFound(r Record) bool { return s.truths == 0 || r.Truths[0] }

// Key is a row with its path and the columns of Order alone. Unconfirmed readers have no audience there, since that
// depends on the mode of counting people.
func (s *Shape) Key(r Record) (key Record) {
	key.Texts[0] = r.Texts[0]
	for _, i := range s.order {
		if i < s.texts {
			key.Texts[i] = r.Texts[i]
		} else {
			key.Truths[i-s.texts] = r.Truths[i-s.texts]
		}
	}
	if s.isPerson(r) && r.Texts[s.agent] == UnconfirmedAgent {
		key.Texts[s.audience] = ""
	}
	return key
}

// Value is the value of a column: a string, a bool or an int64.
func (s *Shape) Value(r Record, column int) any {
	switch truths := s.texts + s.truths; {
	case column < s.texts:
		return r.Texts[column]
	case column < truths:
		return r.Truths[column-s.texts]
	default:
		return r.Counts[column-truths]
	}
}

// Report is the report with this shape.
func (s *Shape) Report() Report { return Report(slices.Index(shapes[:], s)) }

// isPerson reports whether a row is about people by agent.
func (s *Shape) isPerson(r Record) bool {
	return s.agent >= 0 && s.audience >= 0 && (r.Texts[s.agent] == BrowserAgent || r.Texts[s.agent] == UnconfirmedAgent)
}

// Top returns the first n rows by the count of [Shape.Rank], the largest first, ties in order: rows of the site where
// the report has them, else rows of pages. People are always among them. more is how many others there are. An error of
// rows ends it.
func (s *Shape) Top(rows iter.Seq2[Record, error], n int) (top []Record, more int, err error) {
	order := func(a, b Record) int {
		return cmp.Or(cmp.Compare(b.Counts[s.rank], a.Counts[s.rank]), s.Compare(a, b))
	}
	first := best[Record]{n: n, order: func(a, b Record) int {
		if people := s.isPerson(a); people != s.isPerson(b) {
			return map[bool]int{true: -1, false: 1}[people]
		}
		return order(a, b)
	}}
	for row, err := range rows {
		if err != nil {
			return nil, 0, err
		}
		if s.Site && row.Path() != "" {
			break // rows of the site come first
		}
		first.add(row)
	}
	top = first.sorted()
	slices.SortFunc(top, order)
	return top, int(first.count) - len(top), nil
}

// IsOfSite reports whether a row is a row of the site.
func (s *Shape) IsOfSite(r Record) bool { return s.Site && r.Path() == "" }

// Compare orders rows by path and Order; false comes before true.
func (s *Shape) Compare(a, b Record) int {
	if c := strings.Compare(a.Texts[0], b.Texts[0]); c != 0 {
		return c
	}
	for _, i := range s.order {
		if i < s.texts {
			if c := strings.Compare(a.Texts[i], b.Texts[i]); c != 0 {
				return c
			}
		} else if truth := a.Truths[i-s.texts]; truth != b.Truths[i-s.texts] {
			if truth {
				return 1
			}
			return -1
		}
	}
	return 0
}

// Describe names a row in an error.
func (s *Shape) Describe(r Record) string {
	text := fmt.Sprintf("path %q", r.Path())
	for n, i := range s.order {
		before := ", "
		switch {
		case n == 0:
			before = " with "
		case n == len(s.order)-1:
			before = " and "
		}
		text += before + s.Columns[i].Name
		if i < s.texts {
			text += fmt.Sprintf(" %q", r.Texts[i])
		} else {
			text += fmt.Sprintf(" %t", r.Truths[i-s.texts])
		}
	}
	return text
}

// Checksum adds a row to a checksum.
func (s *Shape) Checksum(c *Checksum, r Record) {
	var space [256]byte
	b := append(space[:0], r.Texts[0]...)
	for _, text := range r.Texts[1:s.texts] {
		b = append(append(b, 0), text...)
	}
	for _, truth := range r.Truths[:s.truths] {
		b = append(b, 0, '0')
		if truth {
			b[len(b)-1] = '1'
		}
	}
	for _, n := range r.Counts[:s.counts] {
		b = strconv.AppendInt(append(b, 0), n, 10)
	}
	*c += Checksum(sipHash(b))
}

// HasWindows reports whether the report has windows of a granularity.
func (r Report) HasWindows(g Granularity) bool { return g == Day || !r.Shape().Additive }

// UsualWindow returns the granularity that is meant where none is named: g, or day if the report has no such windows.
func (r Report) UsualWindow(g Granularity) Granularity {
	if r.HasWindows(g) {
		return g
	}
	return Day
}

// Shape returns what rows of the report are like.
func (r Report) Shape() *Shape { return shapes[r] }

// ParseReport reads what String returns.
func ParseReport(name string) (Report, error) {
	var names []string
	for _, r := range Reports {
		names = append(names, r.String())
	}
	i := slices.Index(names, name)
	if i < 0 {
		return 0, fmt.Errorf("report %.40q: want %s", name, strings.Join(names, " or "))
	}
	return Report(i), nil
}

// String returns the name of r.
func (r Report) String() string { return r.Shape().Name }

// MarshalText returns the name of r.
func (r Report) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the name of a report.
func (r *Report) UnmarshalText(text []byte) (err error) {
	*r, err = ParseReport(string(text))
	return err
}

// RowType is the type of the rows of one report, for code that is about this report alone.
type RowType interface {
	Row | AgentRow | SourceRow | ViewRow
}

// columnsOf returns the columns of a type of rows.
func columnsOf(row reflect.Type) (columns []Column) {
	for _, f := range reflect.VisibleFields(row) {
		if f.Anonymous {
			continue
		}
		kind, ok := kinds[f.Type.Kind()]
		if !ok {
			panic("a column cannot be a " + f.Type.String())
		}
		least, _ := strconv.ParseInt(f.Tag.Get("least"), 10, 64) // 0 without one
		columns = append(columns, Column{f.Tag.Get("json"), kind, f.Tag.Get("about"), least})
	}
	return columns
}

var kinds = map[reflect.Kind]Kind{reflect.String: Text, reflect.Bool: Truth, reflect.Int64: Count}

// fieldsOf returns the fields of a row, which can be set.
func fieldsOf(row reflect.Value) (fields Fields) {
	for i := range row.NumField() {
		switch f := row.Field(i); f.Kind() {
		case reflect.String:
			fields.Texts = append(fields.Texts, f.Addr().Convert(reflect.TypeFor[*string]()).Interface().(*string))
		case reflect.Bool:
			fields.Truths = append(fields.Truths, f.Addr().Interface().(*bool))
		case reflect.Int64:
			fields.Counts = append(fields.Counts, f.Addr().Interface().(*int64))
		case reflect.Struct:
			fields.Counts = append(fields.Counts, f.Addr().Interface().(*Totals).Fields()...)
		}
	}
	return fields
}

// ReportOf returns the report whose rows have a type.
func ReportOf[R RowType]() Report {
	return Report(slices.IndexFunc(shapes[:], func(s *Shape) bool { return s.row == reflect.TypeFor[R]() }))
}

// rowFields returns the report of a row, and its fields.
func rowFields[R RowType](row *R) (Report, Fields) {
	return ReportOf[R](), fieldsOf(reflect.ValueOf(row).Elem())
}

// copyFields sets the fields of one row to the values of another.
func copyFields(to, from Fields) {
	for i, text := range to.Texts {
		*text = *from.Texts[i]
	}
	for i, truth := range to.Truths {
		*truth = *from.Truths[i]
	}
	for i, count := range to.Counts {
		*count = *from.Counts[i]
	}
}

// Rows yields records as rows of the type of their report.
func Rows[R RowType](records iter.Seq2[Record, error]) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var row R
		var record Record
		report, to := rowFields(&row)
		from := report.Shape().Fields(&record)
		var err error
		for record, err = range records {
			if copyFields(to, from); !yield(row, err) {
				return
			}
		}
	}
}

// Records yields rows as records of their report.
func Records[R RowType](rows iter.Seq2[R, error]) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var row R
		var record Record
		report, from := rowFields(&row)
		to := report.Shape().Fields(&record)
		var err error
		for row, err = range rows {
			if copyFields(to, from); !yield(record, err) {
				return
			}
		}
	}
}

// RecordOf returns a row as a record of its report.
func RecordOf[R RowType](row R) (record Record) {
	report, from := rowFields(&row)
	copyFields(report.Shape().Fields(&record), from)
	return record
}

// RowsOf returns records as rows of a type with the columns of their report.
func RowsOf[R RowType](records []Record) (rows []R) {
	var row R
	report, to := rowFields(&row)
	for _, record := range records {
		copyFields(to, report.Shape().Fields(&record))
		rows = append(rows, row)
	}
	return rows
}
