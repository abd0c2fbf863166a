package dashboards

import (
	"fmt"
	"strings"

	"github.com/docgauge/docgauge/exporter"
)

// lookback is how far back the newest sample of a gauge may lie: history that
// was back-filled has one sample an hour, scrapes have one a minute.
const lookback = "1h"

// The matchers that queries share. The variables match everything where all
// values are chosen, series without the label included.
const (
	ofProject  = exporter.LabelProject + `=~"$project"`
	ofInstance = `instance=~"$instance"`
	// chosenWindow is the granularity that the variable names.
	chosenWindow = `$window`
)

// of selects the series of a metric.
func of(metric string, matchers ...string) string {
	return metric + "{" + strings.Join(matchers, ", ") + "}"
}

func is(label, value string) string { return fmt.Sprintf("%s=%q", label, value) }

// newest is the newest value of series, one for each set of values of labels: of
// several instances that show the same, the greatest.
func newest(series string, labels ...string) string {
	return fmt.Sprintf("max by (%s) (last_over_time(%s[%s]))", strings.Join(labels, ", "), series, lookback)
}

// live is as newest, for what is never back-filled.
func live(series string, labels ...string) string {
	return fmt.Sprintf("max by (%s) (%s)", strings.Join(labels, ", "), series)
}

// byInstance is the newest value of a metric of each instance and set of values of labels.
func byInstance(metric string, labels ...string) string {
	return live(of(metric, ofInstance), append([]string{"instance"}, labels...)...)
}

// grew is by how much counts grew in a span, added up over what labels leave out.
func grew(series, span string, labels ...string) string {
	return fmt.Sprintf("round(sum by (%s) (increase(%s[%s])))", strings.Join(labels, ", "), series, span)
}

// site is the number of the site's visitors in the newest window, by project.
func site(metric, window string, matchers ...string) string {
	return newest(of(metric, append([]string{ofProject, is(exporter.LabelWindow, window)}, matchers...)...),
		exporter.LabelProject)
}

// page is the number of visitors of each page in the newest window.
func page(metric, window string, matchers ...string) string {
	return newest(of(metric, append([]string{ofProject, is(exporter.LabelWindow, window)}, matchers...)...),
		exporter.LabelProject, exporter.LabelPath)
}

// audience matches the human or the AI visitors.
func audience(a string) string { return is(exporter.LabelAudience, a) }

// share is part / whole, without those whose whole is nothing.
func share(part, whole string) string { return part + " / (" + whole + " > 0)" }

// milliseconds turns a moment into what Grafana's units of dates want.
func milliseconds(expr string) string { return "1000 * " + expr }
