package prometheus

import (
	"embed"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Files are the rules and the example configuration, by their names.
//
//go:embed alerts.yaml recording.yaml prometheus.yml
var Files embed.FS

// RuleFiles are the names of the rules in Files. The alerts need the recording rules.
var RuleFiles = []string{"recording.yaml", "alerts.yaml"}

// Expression is the query of one rule.
type Expression struct {
	File, Group string
	// Name is of the alert or of the recorded metric.
	Name string
	// Alert: it has a result only while something is wrong.
	Alert bool
	// Expr is PromQL, as in the file.
	Expr string
}

// Selectors returns what the expression reads, for asking a server whether there
// is such data at all.
func (e Expression) Selectors() []Selector { return parse(e.Expr).selectors }

// Expressions returns the queries of all rules, in the order of the files. An
// error names the file that is not as Prometheus wants it.
func Expressions() ([]Expression, error) {
	rules, err := read()
	var all []Expression
	for _, r := range rules {
		all = append(all, Expression{r.file, r.group, r.Alert + r.Record, r.Alert != "", r.Expr})
	}
	return all, err
}

// rule is a rule as it is written.
type rule struct {
	file, group string

	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

func read() ([]rule, error) {
	var all []rule
	for _, file := range RuleFiles {
		text, err := Files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var doc struct {
			Groups []struct {
				Name  string
				Rules []rule
			}
		}
		if err := yaml.Unmarshal(text, &doc); err != nil {
			return nil, fmt.Errorf("deploy/prometheus/%s: %w", file, err)
		}
		for _, g := range doc.Groups {
			for _, r := range g.Rules {
				r.file, r.group = file, g.Name
				all = append(all, r)
			}
		}
	}
	return all, nil
}
