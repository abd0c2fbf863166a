package warehouse

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const repository = "../../.."

// pages have the recipes. Tests of the sink and of the site run the blocks of the last two that have no words behind
// their language.
var pages = []string{"warehouse.md", "postgres.md", "site-serve.md"}

// block is a fenced block of a page. Its info string describes it:
//
//	sql duckdb setup                     what the recipes of an engine need first
//	sql duckdb clickhouse name=top-pages a recipe, for these engines
//	sql clickhouse name=sums wrong       a recipe that shows what is wrong
//	sql spark not-run                    for reading only
//	sh facts setup                       makes what other setups read
//	text result=top-pages                what every recipe of that name answers
type block struct {
	page     string
	language string
	words    []string // engines and marks
	name     string   // of a recipe
	result   string   // name of the recipe whose answer the block is
	body     string
	before   string // the text between the block before and this one
}

func (b block) has(word string) bool { return slices.Contains(b.words, word) }

// code reports whether b is to be executed.
func (b block) code() bool { return b.language != "text" }

var fence = regexp.MustCompile("(?ms)^```([^\n`]+)\n(.*?)^```$")

func blocks(t *testing.T) (all []block) {
	t.Helper()
	for i, page := range pages {
		for _, b := range blocksOf(t, filepath.Join(repository, "docs", page)) {
			if b.page = page; i == 0 || len(b.words) > 0 || b.result != "" {
				all = append(all, b)
			}
		}
	}
	return all
}

func blocksOf(t *testing.T, page string) (all []block) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	end := 0
	for _, m := range fence.FindAllSubmatchIndex(text, -1) {
		b := parse(string(text[m[2]:m[3]]))
		b.body, b.before = string(text[m[4]:m[5]]), string(text[end:m[0]])
		all, end = append(all, b), m[1]
	}
	if strings.Count(string(text), "\n```") != 2*len(all) {
		t.Fatalf("%s: a fence is not closed, indented, or has no info string", page)
	}
	return all
}

func parse(info string) (b block) {
	words := strings.Fields(info)
	b.language = words[0]
	for _, word := range words[1:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "name":
			b.name = value
		case "result":
			b.result = value
		default:
			b.words = append(b.words, word)
		}
	}
	return b
}

// recipes returns the setup and the recipes that are for one of the engines.
func recipes(t *testing.T, setup string, engines ...string) (first string, all []block) {
	t.Helper()
	for _, b := range blocks(t) {
		if b.has("setup") && b.has(setup) {
			first += b.body + b.otherTables()
		}
		if b.name != "" && slices.ContainsFunc(engines, b.has) {
			all = append(all, b)
		}
	}
	if len(all) == 0 || setup != "" && first == "" {
		t.Fatalf("%s have no recipe or no setup for %s%s", pages, setup, engines)
	}
	return first, all
}

// otherTables returns the lines of a setup that make docgauge_totals, or totals, for the tables that the page says need
// the same lines.
func (b block) otherTables() (lines string) {
	parts := strings.SplitAfter(b.body, ";\n")
	if b.language == "python" {
		parts = strings.SplitAfter(b.body, "\n")
	}
	for _, part := range parts {
		if strings.Contains(part, "docgauge_totals") || strings.HasPrefix(part, "totals =") {
			for _, table := range []string{"agents", "sources", "views", "views_totals"} {
				lines += strings.ReplaceAll(part, "totals", table)
			}
		}
	}
	return lines
}

// statements splits SQL at the semicolons that end a line.
func statements(sql string) (all []string) {
	for s := range strings.SplitSeq(sql, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all
}

var (
	runs = []string{
		"duckdb", "duckdb-files", "duckdb-delta", "clickhouse", "clickhouse-tables", "clickhouse-26", "clickhouse-file",
		"clickhouse-s3",
		"clickhouse-delta", "clickhouse-delta-s3", "postgres", "pyarrow", "pyarrow-s3", "pyarrow-delta",
		"pyarrow-delta-s3", "spark", "facts",
	}
	marks = []string{"setup", "wrong", "not-run"}
	// readOnly are the engines that no test runs.
	readOnly = []string{"duckdb-s3", "spark-files", "trino", "bigquery", "snowflake", "athena", "redshift"}
)

// fewer names the engines of questions that are not for every engine.
var fewer = map[string]string{
	"week-over-week": "duckdb clickhouse-26 spark",
	"restated":       "clickhouse-tables",
	"sums":           "duckdb clickhouse spark",
	"since":          "spark",
	"share":          "duckdb clickhouse spark",
	"newest":         "duckdb clickhouse spark",
	"pages-of-agent": "duckdb clickhouse spark", "misses": "duckdb clickhouse spark",
	"agent-history": "duckdb clickhouse spark",
	"page-history":  "postgres",
	"sources":       "duckdb clickhouse spark", "reads-and-visits": "duckdb clickhouse-26 spark",
	"views-of-week": "duckdb clickhouse spark", "views-per-reader": "duckdb clickhouse-26 spark",
	"facts-window": "duckdb-files clickhouse-file spark",
	"facts-agents": "duckdb-files clickhouse-file spark",
	"facts-also":   "duckdb-files clickhouse-file spark",
}

// TestPage: every block of the pages is run, is an answer, or is marked as neither.
func TestPage(t *testing.T) {
	have, results := map[string]bool{}, shown(t)
	for _, b := range blocks(t) {
		for _, problem := range b.problems(results) {
			t.Errorf("%s: block %q %s %s: %s", b.page, b.body[:min(40, len(b.body))], b.words, b.name+b.result, problem)
		}
		for _, engine := range b.words {
			have[b.name+" "+engine] = true
		}
	}
	for name := range results {
		for _, engine := range strings.Fields(cmp.Or(fewer[name], "duckdb clickhouse spark pyarrow")) {
			if !have[name+" "+engine] {
				t.Errorf("%s have no recipe %s for %s", pages, name, engine)
			}
		}
	}
}

// TestSparkVersion: the page names the package that the job is tested with.
func TestSparkVersion(t *testing.T) {
	installs, err := os.ReadFile(repository + "/internal/dev/engines/install-delta.sh")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^delta=(\S+)`).FindSubmatch(installs)
	text, err := os.ReadFile(filepath.Join(repository, "docs", pages[0]))
	if err != nil || version == nil {
		t.Fatal(version, err)
	}
	for _, named := range regexp.MustCompile(`io\.delta:delta-spark_2\.13:[\d.]+`).FindAllString(string(text), -1) {
		if want := "io.delta:delta-spark_2.13:" + string(version[1]); named != want {
			t.Errorf("%s names %s, and tests use %s", pages[0], named, want)
		}
	}
}

func (b block) problems(results map[string]table) (all []string) {
	known := slices.Concat(runs, marks, readOnly)
	for _, word := range b.words {
		if !slices.Contains(known, word) {
			all = append(all, fmt.Sprintf("%s is no engine and no mark: there are %s", word, known))
		}
	}
	if _, answered := results[b.name]; b.name != "" && !answered {
		all = append(all, "the page shows no result of that name")
	}
	if !b.code() {
		return all
	}
	runnable := slices.ContainsFunc(b.words, func(w string) bool { return slices.Contains(runs, w) })
	switch {
	case b.has("not-run") == runnable:
		all = append(all, "names an engine that tests have, or is marked not-run: one of the two")
	case b.has("not-run") && !strings.Contains(b.before, "Not run by our tests"):
		all = append(all, "the text above does not say: Not run by our tests")
	case runnable && b.name == "" && !b.has("setup"):
		all = append(all, "is neither a setup nor a recipe with a name")
	}
	ofViews := strings.Contains(b.body, "docgauge_views_totals") // they add up
	if summed := sumOfVisitors(b.body); summed != "" && !ofViews && !b.has("wrong") {
		all = append(all, "adds unique visitors up: "+summed)
	}
	return all
}

var (
	sumCall  = regexp.MustCompile(`(?i)\b(sum\w*|cumulative_sum)\s*\(`)
	sumNamed = regexp.MustCompile(`(?i)["'](human|ai|total|visitors)["']\s*,\s*["']sum["']`)
	counts   = regexp.MustCompile(`(?i)\b(human|ai|total|visitors)\b`)
)

// sumOfVisitors returns the first place in code that sums unique visitors.
func sumOfVisitors(code string) string {
	if m := sumNamed.FindString(code); m != "" {
		return m
	}
	for _, at := range sumCall.FindAllStringIndex(code, -1) {
		if inside := argument(code[at[1]:]); counts.MatchString(inside) {
			return code[at[0]:at[1]] + inside + ")"
		}
	}
	return ""
}

// argument returns s up to the bracket that closes the one opened before it.
func argument(s string) string {
	depth := 1
	for i, c := range s {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			return s[:i]
		}
	}
	return s
}

func TestSumOfVisitors(t *testing.T) {
	for code, want := range map[string]bool{
		"SELECT sum(human) FROM t":                          true,
		"SELECT SUM (CASE WHEN (a = 1) THEN total END)":     true,
		"SELECT sumIf(ai, a = 1)":                           true,
		"SELECT sum(visitors), sum(requests) FROM t":        true,
		"SELECT sum(requests) FROM docgauge_agents":         false,
		"SELECT sum(page_count), max(total) FROM t":         false,
		"SELECT max(human), sum(1)":                         false,
		`t.group_by("path").aggregate([("total", "sum")])`:  true,
		`t.group_by("path").aggregate([("total", "max")])`:  false,
		`pc.sum(days["ai"])`:                                true,
		"-- the sum of human visitors is\nSELECT ai FROM t": false,
	} {
		if got := sumOfVisitors(code); (got != "") != want {
			t.Errorf("%q: %q, want one: %t", code, got, want)
		}
	}
}
