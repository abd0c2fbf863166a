package prometheus

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/exporter"
)

var (
	shells  = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	queries = regexp.MustCompile("(?ms)^```promql\n(.*?)^```$")
	inline  = regexp.MustCompile("`(docgauge [^`]+)`")
	usage   = regexp.MustCompile(`Usage:\n  docgauge((?: [a-z]+)*)`)
	flag    = regexp.MustCompile(`^--[a-z-]+`)
)

func readRunbook(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each command of the runbook is one of the program, and so is each of its flags.
func TestRunbook(t *testing.T) {
	program := filepath.Join(t.TempDir(), "docgauge")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/docgauge").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := readRunbook(t)
	var lines []string
	for _, block := range shells.FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.Split(block[1], "\n")...)
	}
	for _, m := range inline.FindAllStringSubmatch(text, -1) {
		lines = append(lines, m[1])
	}
	seen := map[string]string{}
	for _, line := range lines {
		words := strings.Fields(strings.Split(line, " #")[0])
		if len(words) > 1 && words[0] == "docgauge" {
			if problem := checkCommand(t, program, words[1:], seen); problem != "" {
				t.Errorf("%s: %s", line, problem)
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d commands were found", len(seen))
	}
}

// checkCommand says what is wrong with the words after docgauge; help keeps what
// each command says of itself.
func checkCommand(t *testing.T, program string, words []string, help map[string]string) string {
	t.Helper()
	end := slices.IndexFunc(words, func(w string) bool { return !regexp.MustCompile(`^[a-z]+$`).MatchString(w) })
	if end < 0 {
		end = len(words)
	}
	path := strings.Join(words[:end], " ")
	if _, ok := help[path]; !ok {
		out, err := exec.CommandContext(t.Context(), program, append(words[:end:end], "--help")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", words, err, out)
		}
		help[path] = string(out)
	}
	if got := usage.FindStringSubmatch(help[path]); got == nil || strings.TrimSpace(got[1]) != path {
		return "there is no such command"
	}
	for _, w := range words[end:] {
		if f := flag.FindString(w); f != "" && !regexp.MustCompile(regexp.QuoteMeta(f)+`\b`).MatchString(help[path]) {
			return "there is no flag " + f
		}
	}
	return ""
}

// Prometheus understands each query of the runbook, and docgauge has what it names.
func TestRunbookQueries(t *testing.T) {
	var values exporter.Values
	values.Publish(healthy(time.Now()))
	target := httptest.NewServer(values.Handler())
	t.Cleanup(target.Close)
	server := serve(t, target.URL, nil)
	all := rules(t)
	metrics := known(all)
	found := 0
	for _, block := range queries.FindAllStringSubmatch(readRunbook(t), -1) {
		for line := range strings.SplitSeq(strings.TrimSpace(block[1]), "\n") {
			found++
			asked := rule{Record: line, Expr: line}
			for _, s := range parse(line).selectors {
				own, ok := metrics[s.Metric]
				if !ok {
					t.Errorf("%s: %s is no metric", line, s.Metric)
				}
				mustHave(t, asked, slices.Concat(scraped, own), s.Labels)
			}
			mustHave(t, asked, labels(asked, metrics), parse(line).grouped)
			if _, err := server.Query(t.Context(), line, time.Time{}); err != nil {
				t.Error(err)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d queries were found", found)
	}
}
