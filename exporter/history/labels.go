package history

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/exporter"
)

// labelName is what Prometheus takes for a label's name.
var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// taken are the labels that history has itself.
var taken = []string{exporter.LabelProject, exporter.LabelWindow, exporter.LabelAudience, exporter.LabelPath}

// ParseLabels reads name=value texts into name, value pairs for
// [Options.Labels]. An empty value is no label, as everywhere in Prometheus.
func ParseLabels(texts []string) ([]string, error) {
	var pairs []string
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		switch {
		case !ok || !labelName.MatchString(name) || strings.HasPrefix(name, "__"):
			return nil, fmt.Errorf("%q: want name=value, the name of letters, digits and _", text)
		case slices.Contains(taken, name):
			return nil, fmt.Errorf("%q: history has the label %s itself", text, name)
		case named(pairs, name):
			return nil, fmt.Errorf("%q: the label %s is given twice", text, name)
		}
		pairs = append(pairs, name, value)
	}
	return pairs, nil
}

func named(pairs []string, name string) bool {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[0] == name {
			return true
		}
	}
	return false
}
