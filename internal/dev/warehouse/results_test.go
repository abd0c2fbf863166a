package warehouse

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
)

// null stands for NULL in every result.
const null = "NULL"

// table is a result: every value as text.
type table struct {
	Columns   []string   `json:"columns"`
	Rows      [][]string `json:"rows"`
	Executors []string   `json:"executors"` // of Spark, that read files
}

// shown returns the results that the pages show, by the names of their recipes. Every
// engine must give them.
func shown(t *testing.T) map[string]table {
	t.Helper()
	results := map[string]table{}
	for _, b := range blocks(t) {
		if b.result == "" {
			continue
		}
		var result table
		for line := range strings.Lines(b.body) {
			result.Rows = append(result.Rows, regexp.MustCompile(`  +`).Split(strings.TrimSpace(line), -1))
		}
		result.Columns, result.Rows = result.Rows[0], result.Rows[1:]
		for _, row := range result.Rows {
			if len(row) != len(result.Columns) {
				t.Fatalf("result=%s has the row %q of the columns %q", b.result, row, result.Columns)
			}
		}
		if other, twice := results[b.result]; twice && !cmp.Equal(other, result) {
			t.Fatalf("the pages show two results of %s", b.result)
		}
		results[b.result] = result
	}
	return results
}

// check compares an engine's answer to a recipe with the answer that the page shows.
func check(t *testing.T, b block, got table) {
	t.Helper()
	want := shown(t)[b.name]
	if len(want.Rows) == 0 {
		t.Fatalf("the page shows no result of %s", b.name)
	}
	if diff := cmp.Diff(want, alike(want, got)); diff != "" {
		t.Errorf("%s (-shown +answered):\n%s\n%s", b.name, diff, b.body)
	}
}

// alike writes the values of got in the style of want: engines print booleans as
// 1, t or true, and 24.0 as 24.
func alike(want, got table) table {
	out := table{Columns: got.Columns}
	for i, row := range got.Rows {
		next := append([]string(nil), row...)
		for j := range next {
			if i < len(want.Rows) && j < len(want.Rows[i]) {
				next[j] = like(want.Rows[i][j], next[j])
			}
		}
		out.Rows = append(out.Rows, next)
	}
	return out
}

func like(want, got string) string {
	switch {
	case want == "true" && (got == "1" || got == "t"), want == "false" && (got == "0" || got == "f"):
		return want
	case strings.Contains(want, "."):
		if f, err := strconv.ParseFloat(got, 64); err == nil {
			return strconv.FormatFloat(f, 'f', 1, 64)
		}
	}
	return got
}

// TestSums checks what the page says about adding up unique visitors, and the visitors of
// a week against the event log.
func TestSums(t *testing.T) {
	rows := shown(t)["sums"].Rows
	for i, wrong := range rows[1:] {
		for column := 1; column < len(wrong); column++ {
			if number(t, wrong[column]) <= number(t, rows[0][column]) {
				t.Errorf("row %d does not show that adding up is wrong: %v", i+1, rows)
			}
		}
	}
	if n := distinct(t, analytics.Window{From: lastWeek, To: lastWeek + 7}); n != number(t, rows[0][3]) {
		t.Errorf("%d visitors came in the week by the log, and the page shows %v", n, rows[0])
	}
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
