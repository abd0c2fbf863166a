package warehouse

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
)

var update = flag.Bool("update", false, "write the results into docs/warehouse.md and docs/postgres.md")

// TestResults compares the results that the pages show with the true answers.
func TestResults(t *testing.T) {
	for _, page := range []string{page, postgresPage} {
		resultsOf(t, exported(t), page)
	}
}

func resultsOf(t *testing.T, h history, page string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, answer := range answers {
		shown := regexp.MustCompile("(?ms)(^```text result=" + name + "\n)(.*?)(^```$)")
		want = shown.ReplaceAllString(want, "${1}"+render(answer(h))+"${3}")
	}
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s shows results that are not true: go test ./internal/dev/warehouse -run TestResults -update", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func render(result table) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{result.Columns}, result.Rows...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	return out.String()
}

// TestSums checks what the page says about adding up unique visitors.
func TestSums(t *testing.T) {
	h := exported(t)
	rows := sums(h).Rows
	for i, wrong := range rows[1:] {
		for column := 1; column < len(wrong); column++ {
			if number(t, wrong[column]) <= number(t, rows[0][column]) {
				t.Errorf("row %d does not show that adding up is wrong: %v", i+1, rows)
			}
		}
	}
	week := h.week(lastWeek)
	if n := distinct(t, week.Window); n != week.Totals.Total {
		t.Errorf("%d visitors came in %s by the log, and the service says %d", n, week.Window, week.Totals.Total)
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
