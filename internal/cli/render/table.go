package render

import (
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Column describes a column of a [Table].
type Column struct {
	Name string
	// Right aligns the column to the right, as numbers are.
	Right bool
	// Cut says what may be left out of a cell if the terminal is too narrow.
	Cut cut
	// Optional columns are left out if all their cells are empty or a dash.
	Optional bool
	// Below moves the cells to separate lines below their row, where they are wrapped
	// and not cut, if the terminal is too narrow: links and reasons, for example.
	Below bool
	// Spare columns are left out if the terminal is too narrow.
	Spare bool
}

// Number is a column of numbers.
func Number(name string) Column { return Column{Name: name, Right: true} }

// cut says where a cell is shortened; an ellipsis stands for the rest.
type cut int

// Where cells are shortened.
const (
	cutNever  cut = iota
	CutEnd        // sentences and names
	CutMiddle     // paths and ids, whose ends tell them apart
)

const (
	// columnGap separates two columns, and indents the rows of a group.
	columnGap = 2
	// readableColumn is the least width of a column before cells go below their row,
	// leastColumn before lines are cut.
	readableColumn = 20
	leastColumn    = 8
	// maxPadding is the most columns to which cells are padded in a pipe: one long path would lengthen every line.
	maxPadding = 100
)

// Table is rows under named columns, without lines between them. No line is wider than
// the terminal ([width]), whatever is in the cells, and none ends with a blank. Cells
// are shown on one line, without characters that a terminal obeys.
type Table struct {
	columns []Column
	rows    []row
	grouped bool
}

// row is cells, or the title of the rows that follow.
type row struct {
	cells []string
	title string
}

// NewTable returns a table without rows.
func NewTable(columns ...Column) *Table { return &Table{columns: columns} }

// Add adds a row: one cell for each column.
func (t *Table) Add(cells ...string) {
	r := row{cells: make([]string, len(t.columns))}
	for i := range r.cells {
		r.cells[i] = Printable(cells[i])
	}
	t.rows = append(t.rows, r)
}

// Group puts the rows that are added next below a title.
func (t *Table) Group(title string) {
	t.grouped = true
	t.rows = append(t.rows, row{title: Printable(title)})
}

// Print writes the table.
func (t *Table) Print(w io.Writer) error { return t.print(w, width(w)) }

func (t *Table) print(w io.Writer, width int) error {
	l := t.layout(width)
	var b strings.Builder
	l.line(&b, l.indent, func(i int) string { return t.columns[i].Name })
	for _, r := range t.rows {
		if r.cells == nil {
			l.whole(&b, 0, r.title)
			continue
		}
		l.line(&b, l.indent, func(i int) string { return r.cells[i] })
		for _, i := range l.below {
			if blank(r.cells[i]) {
				continue
			}
			hang := l.indent + 2*columnGap
			for _, line := range Wrap(strings.Repeat(" ", hang)+r.cells[i], l.width, hang) {
				l.whole(&b, 0, line)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// layout has the width of each column.
type layout struct {
	columns []Column
	widths  []int
	shown   []int // indices of the columns that are side by side
	below   []int // and of those on separate lines
	indent  int
	width   int // of the terminal; 0 is unlimited
}

func (t *Table) layout(width int) *layout {
	l := &layout{columns: t.columns, widths: make([]int, len(t.columns)), width: width}
	if t.grouped {
		l.indent = columnGap
	}
	for i, c := range t.columns {
		l.widths[i] = runewidth.StringWidth(c.Name)
		empty := true
		for _, r := range t.rows {
			if r.cells != nil {
				l.widths[i] = max(l.widths[i], runewidth.StringWidth(r.cells[i]))
				empty = empty && blank(r.cells[i])
			}
		}
		if !empty || !c.Optional {
			l.shown = append(l.shown, i)
		}
	}
	if width == 0 {
		for i := range l.widths {
			l.widths[i] = min(l.widths[i], maxPadding)
		}
		return l
	}
	// Rather than to make a prompt unreadable, its link goes below it.
	widths, fits := l.fitted(readableColumn)
	if below := slices.DeleteFunc(slices.Clone(l.shown), func(i int) bool { return !t.columns[i].Below }); !fits &&
		len(below) > 0 {
		l.below = below
		l.shown = slices.DeleteFunc(l.shown, func(i int) bool { return t.columns[i].Below })
	}
	if !fits {
		if _, fits = l.fitted(readableColumn); !fits {
			l.shown = slices.DeleteFunc(l.shown, func(i int) bool { return t.columns[i].Spare })
		}
		widths, _ = l.fitted(leastColumn)
	}
	l.widths = widths
	return l
}

// fitted narrows the columns that may be cut, the widest first, until the columns that
// are side by side fit; fits is false if they would have to be narrower than least.
func (l *layout) fitted(least int) (widths []int, fits bool) {
	widths = slices.Clone(l.widths)
	excess := l.indent - columnGap - l.width
	for _, i := range l.shown {
		excess += widths[i] + columnGap
	}
	for ; excess > 0; excess-- {
		widest := -1
		for _, i := range l.shown {
			c := l.columns[i]
			if c.Cut == cutNever || widths[i] <= max(least, runewidth.StringWidth(c.Name)) {
				continue
			}
			if widest < 0 || widths[i] > widths[widest] {
				widest = i
			}
		}
		if widest < 0 {
			return widths, false
		}
		widths[widest]--
	}
	return widths, true
}

// line writes the cells of the columns that are side by side.
func (l *layout) line(b *strings.Builder, indent int, cell func(int) string) {
	var text strings.Builder
	for _, i := range l.shown {
		s := cell(i)
		if l.width > 0 {
			s = shorten(s, l.widths[i], l.columns[i].Cut)
		}
		if l.columns[i].Right {
			s = runewidth.FillLeft(s, l.widths[i])
		} else {
			s = runewidth.FillRight(s, l.widths[i])
		}
		text.WriteString(s + strings.Repeat(" ", columnGap))
	}
	l.whole(b, indent, text.String())
}

// whole writes a line, cut to the terminal.
func (l *layout) whole(b *strings.Builder, indent int, text string) {
	text = strings.TrimRight(strings.Repeat(" ", indent)+text, " ")
	if l.width > 0 {
		text = shorten(text, l.width, CutEnd)
	}
	b.WriteString(text + "\n")
}

func blank(cell string) bool { return cell == "" || cell == "-" }

// shorten returns s in at most so many columns of the terminal.
func shorten(s string, columns int, at cut) string {
	total := runewidth.StringWidth(s)
	if total <= columns {
		return s
	}
	if at != CutMiddle {
		return runewidth.Truncate(s, columns, ellipsis)
	}
	left := columns - runewidth.StringWidth(ellipsis)
	tail := left / 2
	head := runewidth.Truncate(s, left-tail, "")
	return head + ellipsis + strings.TrimLeft(runewidth.TruncateLeft(s, total-tail, ""), " ")
}

const ellipsis = "…"
