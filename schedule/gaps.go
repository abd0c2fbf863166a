package schedule

import "github.com/docgauge/docgauge/internal/analytics"

// Gaps returns the windows of one project and spec that [Due] calls missing,
// newest first.
func Gaps(in Input, project string, spec analytics.Spec) []analytics.Window {
	var gaps []analytics.Window
	p := newPlanner(in)
	for w := range p.windows(project, spec.Granularity) {
		if item, revision, known := p.item(project, spec, w); p.wants(item, revision, known) {
			gaps = append(gaps, w)
		}
	}
	return gaps
}
