package exporter_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

var (
	update = flag.Bool("update", false, "write the golden files")
	must   = engines.Must
)

// buildLabels are the labels of docgauge_build_info that the program which runs decides, with the values of
// the golden text. The others come from the snapshot.
var buildLabels = map[string]string{
	"branch": "HEAD", "goarch": "amd64", "goos": "linux", "goversion": "go1.26.0", "tags": "unknown",
}

var (
	buildLine  = regexp.MustCompile(`(?m)^docgauge_build_info.*$`)
	labelValue = regexp.MustCompile(`(\w+)="[^"]*"`)
)

// golden returns the text of /metrics for the rich snapshot, as it must be.
func golden(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "metrics.txt"))
	must(t, err)
	return string(text)
}

func TestGolden(t *testing.T) {
	_, text := scrape(t, publish(rich()), acceptText, "")
	got := buildLine.ReplaceAllStringFunc(own(text), func(line string) string {
		return labelValue.ReplaceAllStringFunc(line, func(label string) string {
			name, _, _ := strings.Cut(label, "=")
			if value, fixed := buildLabels[name]; fixed {
				return name + `="` + value + `"`
			}
			return label
		})
	})
	if *update {
		must(t, os.WriteFile(filepath.Join("testdata", "metrics.txt"), []byte(got), 0o644))
	}
	if diff := cmp.Diff(golden(t), got); diff != "" {
		t.Error(diff)
	}
}

// The table, the golden text and the names' rules say the same.
func TestTable(t *testing.T) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(golden(t)))
	must(t, err)
	for _, m := range exporter.Metrics() {
		f := families[m.Name]
		if f == nil {
			t.Errorf("%s is in the table and not in the golden text", m.Name)
			continue
		}
		delete(families, m.Name)
		if got := strings.ToLower(f.GetType().String()); got != m.Type || f.GetHelp() != m.Help {
			t.Errorf("%s is shown as %s %q, the table says %s %q", m.Name, got, f.GetHelp(), m.Type, m.Help)
		}
		for _, series := range f.Metric {
			var names []string
			for _, l := range series.Label {
				names = append(names, l.GetName())
			}
			want := slices.Sorted(slices.Values(m.Labels))
			if slices.Sort(names); !slices.Equal(names, want) {
				t.Errorf("%s has the labels %q, the table says %q", m.Name, names, want)
			}
		}
	}
	for name := range families {
		t.Errorf("%s is shown and not in the table", name)
	}
}

func TestNames(t *testing.T) {
	name, label := regexp.MustCompile(`^docgauge_[a-z0-9_]+$`), regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	reserved := []string{"job", "instance", "le", "quantile"}
	seen := map[string]bool{}
	for _, m := range exporter.Metrics() {
		if !name.MatchString(m.Name) || seen[m.Name] {
			t.Errorf("%s is not a name, or is in the table twice", m.Name)
		}
		seen[m.Name] = true
		if total := strings.HasSuffix(m.Name, "_total"); total != (m.Type == "counter") {
			t.Errorf("%s is a %s: counters, and only they, end in _total", m.Name, m.Type)
		}
		if strings.HasSuffix(m.Name, "_count") || strings.HasSuffix(m.Name, "_sum") ||
			strings.HasSuffix(m.Name, "_bucket") {
			t.Errorf("%s ends like a part of a histogram", m.Name)
		}
		unit := strings.Contains(m.Name, "timestamp") || strings.Contains(m.Name, "duration") ||
			strings.Contains(m.Name, "_merge_")
		if unit != strings.HasSuffix(m.Name, "_seconds") {
			t.Errorf("%s: times, and only they, end in _seconds", m.Name)
		}
		for _, l := range m.Labels {
			if !label.MatchString(l) || slices.Contains(reserved, l) {
				t.Errorf("%s: label %s", m.Name, l)
			}
		}
		if strings.ContainsAny(m.Help, "\n\\") || !strings.HasSuffix(m.Help, ".") || m.Group == "" {
			t.Errorf("%s: help %q, group %q", m.Name, m.Help, m.Group)
		}
	}
}

func TestPromtool(t *testing.T) {
	check, err := engines.Tool(t.Context(), "promtool", "check", "metrics", "--extended")
	engines.Need(t, err)
	check.Stdin = strings.NewReader(golden(t))
	out, err := check.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%s", out)
}
