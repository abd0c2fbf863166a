package analytics

import (
	"fmt"
	"slices"
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
)

// Reports are all of them.
var Reports = []Report{VisitorsReport, AgentsReport}

// Shape is what rows of a report are like, wherever they are stored.
type Shape struct {
	Name string
	// Columns are those of a row in their order: texts, the path first, then truths, then counts.
	Columns []column
	// Order names the columns by which rows of one path are sorted. No two rows have the same path and
	// the same values there.
	Order []string
	// Site: the rows without a path are those of the site; otherwise its totals are counts of their own.
	Site bool
}

// column is a column of a report.
type column struct {
	Name string
	Kind Kind
}

// Kind is the type of a column.
type Kind uint8

// The kinds.
const (
	Text Kind = iota
	Truth
	Count
)

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

// Dataset is a report whose rows are of the type R. One more report is one more dataset, and its row type.
type Dataset[R any] struct {
	Shape
	Fields func(*R) Fields
	// Compare orders rows by path and Order.
	Compare func(a, b R) int
	// Describe names a row in an error.
	Describe func(R) string
	// Check returns an error of a row that no window has; nil if there is no such row.
	Check func(R) error
	// Checksum adds a row to a checksum.
	Checksum func(*Checksum, R)
	// Sum returns what adds up the rows of a window in their order, and their sum.
	Sum func() (add func(R), sum *Sum)
	// Count adds a row, in any order and perhaps without its path, to what can be counted so.
	Count func(*Sum, R)
}

// IsOfSite reports whether a row with this path is one of the site.
func (s *Shape) IsOfSite(path string) bool { return s.Site && path == "" }

func (s *Shape) shape() *Shape { return s }

// The datasets.
var (
	Visitors = &Dataset[Row]{
		Shape: Shape{Name: "visitors", Columns: []column{{"path", Text}, {"human", Count}, {"ai", Count}, {"total", Count}}},
		Fields: func(r *Row) Fields {
			return Fields{Texts: []*string{&r.Path}, Counts: []*int64{&r.Human, &r.AI, &r.Total}}
		},
		Compare:  func(a, b Row) int { return strings.Compare(a.Path, b.Path) },
		Describe: func(r Row) string { return fmt.Sprintf("path %q", r.Path) },
		Checksum: (*Checksum).Add,
		Sum: func() (func(Row), *Sum) {
			sum := new(Sum)
			return sum.Add, sum
		},
		Count: (*Sum).Count,
	}
	Agents = &Dataset[AgentRow]{
		Shape: Shape{
			Name: "agents", Order: []string{"agent", "audience", "found"}, Site: true,
			Columns: []column{{"path", Text}, {"agent", Text}, {"class", Text}, {"audience", Text}, {"found", Truth},
				{"visitors", Count}, {"requests", Count}},
		},
		Fields: func(r *AgentRow) Fields {
			return Fields{Texts: []*string{&r.Path, &r.Agent, &r.Class, (*string)(&r.Audience)}, Truths: []*bool{&r.Found},
				Counts: []*int64{&r.Visitors, &r.Requests}}
		},
		Compare: AgentRow.Compare,
		Describe: func(r AgentRow) string {
			return fmt.Sprintf("path %q with agent %q, audience %q and found %t", r.Path, r.Agent, r.Audience, r.Found)
		},
		Check: func(r AgentRow) error {
			if r.Path != "" || r.Found {
				return nil
			}
			return fmt.Errorf("agent %q: the site has no row of paths that were not found", r.Agent)
		},
		Checksum: (*Checksum).addAgent,
		Sum: func() (func(AgentRow), *Sum) {
			sum := new(agentSum)
			return sum.Add, &sum.Sum
		},
		Count: func(s *Sum, _ AgentRow) { s.Rows++ },
	}
)

var datasets = [...]interface{ shape() *Shape }{VisitorsReport: Visitors, AgentsReport: Agents}

// DatasetOf returns the dataset of a type of rows, and its report.
func DatasetOf[R any]() (*Dataset[R], Report) {
	for report, of := range datasets {
		if d, ok := of.(*Dataset[R]); ok {
			return d, Report(report)
		}
	}
	panic("not a row of a report")
}

// Shape returns what rows of the report are like.
func (r Report) Shape() *Shape { return datasets[r].shape() }

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
