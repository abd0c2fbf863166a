package prometheus

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

func TestPromtoolChecks(t *testing.T) {
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", "recording.yaml", "alerts.yaml"},
		{"check", "config", "prometheus.yml"},
	} {
		cmd, err := engines.Tool(t.Context(), "promtool", args...)
		engines.Need(t, err)
		succeed(t, cmd)
	}
}

func TestPromtoolRuleTests(t *testing.T) {
	for _, file := range testFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			cmd, err := engines.Tool(t.Context(), "promtool", "test", "rules", file)
			engines.Need(t, err)
			succeed(t, cmd)
		})
	}
}

func succeed(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", cmd.Args, err, out)
	}
}

func testFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("tests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	return files
}

// Every alert is seen to fire and not to fire, and every recorded metric has a
// test that names it.
func TestEveryRuleIsTested(t *testing.T) {
	fires, silent, recorded := map[string]bool{}, map[string]bool{}, ""
	for _, file := range testFiles(t) {
		for _, c := range cases(t, file) {
			if len(c.Alerts) > 0 {
				fires[c.Name] = true
			} else {
				silent[c.Name] = true
			}
			recorded += c.Expr + "\n"
		}
	}
	for _, r := range rules(t) {
		if r.Alert != "" && (!fires[r.Alert] || !silent[r.Alert]) {
			t.Errorf("%s: seen to fire %v, not to fire %v", r.Alert, fires[r.Alert], silent[r.Alert])
		}
		if r.Record != "" && !strings.Contains(recorded, r.Record) {
			t.Errorf("%s has no test", r.Record)
		}
	}
}

// one is what is expected at one moment of a test.
type one struct {
	Name   string `yaml:"alertname"`
	Alerts []any  `yaml:"exp_alerts"`
	Expr   string
}

func cases(t *testing.T, file string) (all []one) {
	t.Helper()
	var doc struct {
		Tests []struct {
			Alerts []one `yaml:"alert_rule_test"`
			Exprs  []one `yaml:"promql_expr_test"`
		}
	}
	load(t, file, &doc)
	for _, test := range doc.Tests {
		all = append(append(all, test.Alerts...), test.Exprs...)
	}
	return all
}

func load(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

const exampleAlertmanager = "../alertmanager/alertmanager.yml"

func TestAlertmanagerExample(t *testing.T) {
	cmd, err := engines.Tool(t.Context(), "amtool", "check-config", exampleAlertmanager)
	engines.Need(t, err)
	succeed(t, cmd)
}

// The example holds back alerts by their names.
func TestAlertmanagerKnowsItsAlerts(t *testing.T) {
	text, err := os.ReadFile(exampleAlertmanager)
	if err != nil {
		t.Fatal(err)
	}
	alerts := map[string]bool{}
	for _, r := range rules(t) {
		alerts[r.Alert] = true
	}
	for _, name := range regexp.MustCompile(`Docgauge\w+`).FindAllString(string(text), -1) {
		if !alerts[name] {
			t.Errorf("%s is no alert", name)
		}
	}
}
