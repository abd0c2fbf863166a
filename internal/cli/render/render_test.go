package render

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestPrintable: nothing that a terminal obeys, or that cannot be seen, is printed.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"as it is, Zürich 日本": "as it is, Zürich 日本", "two\r\nlines\t": "two  lines ", "\xff": "\uFFFD",
		"a\x1b[2Jb": "a\uFFFD[2Jb", "a\u009b2J": "a\uFFFD2J", "\u202eabc": "\uFFFDabc",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// columns is the width of a line of these tests: they have no other wide characters.
func columns(line string) (n int) {
	for _, r := range line {
		if n++; r >= 0x3000 {
			n++
		}
	}
	return n
}

// TestTableFits: whatever is in the cells, no line is wider than the terminal or ends
// with a blank, and each row is there.
func TestTableFits(t *testing.T) {
	cell := rapid.StringOfN(rapid.RuneFrom([]rune("ab/_- 日本語")), 0, 140, -1)
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(20, 130).Draw(t, "width")
		column := rapid.Custom(func(t *rapid.T) Column {
			return Column{
				Name:  rapid.SampledFrom([]string{"", "#", "project", "pull request", "名前"}).Draw(t, "name"),
				Right: rapid.Bool().Draw(t, "right"),
				Cut:   rapid.SampledFrom([]cut{cutNever, CutEnd, CutMiddle}).Draw(t, "cut"),
				Below: rapid.Bool().Draw(t, "below"),
			}
		})
		table := NewTable(rapid.SliceOfN(column, 1, 7).Draw(t, "columns")...)
		rows := rapid.IntRange(0, 4).Draw(t, "rows")
		for range rows {
			if rapid.Bool().Draw(t, "grouped") {
				table.Group("group " + cell.Draw(t, "title"))
			}
			cells := make([]string, len(table.columns))
			for i := range cells {
				cells[i] = cell.Draw(t, "cell")
			}
			table.Add(cells...)
		}
		var out bytes.Buffer
		if err := table.print(&out, width); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) < rows+1 {
			t.Fatalf("%d lines for %d rows", len(lines), rows)
		}
		for _, line := range lines {
			if columns(line) > width || strings.HasSuffix(line, " ") {
				t.Fatalf("%d columns, want at most %d: %q", columns(line), width, line)
			}
		}
	})
}

// TestTable: a table that fits is unchanged, empty columns are left out, cells
// is too long is shortened where that harms least, and a link is never cut.
func TestTable(t *testing.T) {
	table := NewTable(Column{Name: "#", Right: true}, Column{Name: "prompt", Cut: CutMiddle},
		Column{Name: "gaps", Optional: true}, Column{Name: "state"}, Column{Name: "link", Below: true})
	table.Group("Produkt 日本")
	table.Add("1", "guides/first/a.md", "-", "active", "-")
	table.Add("12", "日本/guides/2026/second.md", "", "completed", "https://example.com/pull/1")
	for _, tc := range []struct {
		width int
		want  string
	}{
		{0, `
   #  prompt                      state      link
Produkt 日本
   1  guides/first/a.md           active     -
  12  日本/guides/2026/second.md  completed  https://example.com/pull/1
`}, {70, `
   #  prompt                     state      link
Produkt 日本
   1  guides/first/a.md          active     -
  12  日本/guides/…26/second.md  completed  https://example.com/pull/1
`}, {40, `
   #  prompt                   state
Produkt 日本
   1  guides/first/a.md        active
  12  日本/guides…6/second.md  completed
      https://example.com/pull/1
`},
	} {
		var out strings.Builder
		if err := table.print(&out, tc.width); err != nil || "\n"+out.String() != tc.want {
			t.Errorf("%d columns: %v\n%s", tc.width, err, out.String())
		}
	}
}

// TestLongCell: in a pipe, a cell is whole, and does not make the other lines longer than they have to be.
func TestLongCell(t *testing.T) {
	table := NewTable(Column{Name: "path", Cut: CutMiddle}, Number("readers"))
	long := strings.Repeat("/日本", 1000)
	table.Add(long, "1")
	table.Add("/b", "2")
	var out strings.Builder
	err := table.print(&out, 0)
	lines := strings.Split(out.String(), "\n")
	if err != nil || !strings.HasPrefix(lines[1], long+"  ") || len(lines[0]) > 200 || len(lines[2]) != len(lines[0]) {
		t.Errorf("%v, lines of %d, %d and %d bytes", err, len(lines[0]), len(lines[1]), len(lines[2]))
	}
}

// TestWrap: lines are broken at blanks, and a word that is longer than a line is broken
// too; nothing is lost.
func TestWrap(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"as it is", "as it is"},
		{"ok    api   answered for a b c d", "ok    api   answered\n      for a b c d"},
		{"ok    https://example.com/a/very/long/path", "ok    https://exampl\n      e.com/a/very/l\n      ong/path"},
		{"日本語日本語日本語日本語 日本", "日本語日本語日本語日\n      本語 日本"},
	} {
		if got := strings.Join(Wrap(tc.text, 20, 6), "\n"); got != tc.want {
			t.Errorf("%q:\n%s", tc.text, got)
		}
	}
}

func TestRetries(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(Retries{slog.NewTextHandler(&out, nil), &out, "again"}).With("run", 1)
	log.Warn("again", "project", "prj_a", "attempt", 1, "attempts", 5, "reason", "nx.invalid: no such host")
	log.Warn("other", "attempt", 1)
	got := strings.SplitAfter(out.String(), "\n")
	if got[0] != "nx.invalid: no such host, trying again (2 of 5)\n" || len(got) != 3 ||
		!strings.Contains(got[1], "msg=other run=1 attempt=1") {
		t.Errorf("%q", got)
	}
}
