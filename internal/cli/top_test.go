package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestTopExact: CSV and JSON have any path unchanged, and a terminal obeys
// none of it.
func TestTopExact(t *testing.T) {
	var rows []analytics.Row
	for i, path := range []string{
		"", "/", "=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "/a,b;c\t", "/\"quoted\"", "/two\nlines",
		"/old\r\nlines", "/bell\x07\x1b[31m", "/文档/指南",
		"/e\u0301", "/\u202egnp.exe", " ", `\.`, "/" + strings.Repeat("long", 500),
	} {
		rows = append(rows, analytics.Row{Path: path, Totals: analytics.Totals{Human: int64(i), AI: 1, Total: int64(i + 1)}})
	}
	data := filepath.Join(t.TempDir(), "data")
	archive, err := app.OpenArchive(data)
	check(t, err)
	check(t, archive.Replace(t.Context(), sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", 1), 1),
		analytics.ByPath(slices.Clone(rows)))))
	slices.SortFunc(rows, func(a, b analytics.Row) int { return int(b.Total - a.Total) })
	top := func(flags ...string) []byte {
		var out, stderr bytes.Buffer
		args := append([]string{"top", "--window", "day", "--archive", data}, flags...)
		if code := newProgram(&out, &stderr, nil).Run(t.Context(), args); code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr.String())
		}
		return out.Bytes()
	}

	// encoding/csv reads \r\n in a cell as \n, so a cell with that is looked for.
	text := top("--csv")
	records, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(records) != len(rows)+1 || !bytes.Contains(text, []byte("\"/old\r\nlines\"")) {
		t.Fatalf("%v\n%s", err, text)
	}
	var reports []query.TopReport
	check(t, json.Unmarshal(top("--json"), &reports))
	for i, r := range rows {
		if got := records[i+1][5]; got != strings.ReplaceAll(r.Path, "\r\n", "\n") {
			t.Errorf("CSV has %q, want %q", got, r.Path)
		}
		if got := reports[0].Pages[i].Path; got != r.Path {
			t.Errorf("JSON has %q, want %q", got, r.Path)
		}
	}

	t.Setenv("COLUMNS", "80")
	table := string(top())
	if strings.ContainsFunc(table, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }) {
		t.Errorf("a terminal obeys some of\n%q", table)
	}
	if lines := strings.Count(table, "\n"); lines < len(rows) || lines > len(rows)+8 {
		t.Errorf("%d lines for %d pages\n%s", lines, len(rows), table)
	}
}

// TestStatusNamesSinksInOrder: the sinks that lack windows come in the order of the configuration.
func TestStatusNamesSinksInOrder(t *testing.T) {
	log := new(testbed.Log)
	a := newProgram(log, log, nil)
	r := coverage.Status{Sinks: config.Sinks{"h", "b", "e", "a", "g", "d", "c", "f"}, Owed: map[string]int{}}
	var want []string
	for i, name := range r.Sinks {
		r.Owed[name] = i % 4
		if i%4 > 0 {
			want = append(want, name)
		}
	}
	check(t, a.printStatus(r, render.Wording{}))
	var got []string
	for _, found := range regexp.MustCompile(`sink (\w) lacks`).FindAllStringSubmatch(log.String(), -1) {
		got = append(got, found[1])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
