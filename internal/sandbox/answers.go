package sandbox

import (
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sandbox/traffic"
	"github.com/docgauge/docgauge/internal/site/api"
)

// report is how a report is counted.
type report[A content] struct {
	name  analytics.Report
	count func(t traffic.Traffic, w traffic.Interval, horizon int64, humans analytics.Humans) A
}

// The reports of the sandbox.
var (
	visitorsReport = report[visitorsAnswer]{analytics.VisitorsReport, countVisitors}
	agentsReport   = report[agentsAnswer]{analytics.AgentsReport, countAgents}
	sourcesReport  = report[sourcesAnswer]{analytics.SourcesReport, countSources}
	viewsReport    = report[viewsAnswer]{analytics.ViewsReport, countViews}
)

// content is the answer of a report.
type content interface {
	page(limit, offset int, dataFrom *analytics.Date) any
	weight() int // in rows of visitors
}

// visitorsAnswer is the answer about visitors.
type visitorsAnswer struct{ traffic.Visitors }

func countVisitors(t traffic.Traffic, w traffic.Interval, horizon int64, humans analytics.Humans) visitorsAnswer {
	return visitorsAnswer{traffic.CountVisitors(t, w, horizon, humans)}
}

func (a visitorsAnswer) page(limit, offset int, dataFrom *analytics.Date) any {
	return api.NewPage(a.Totals, a.Rows, limit, offset, dataFrom)
}

func (a visitorsAnswer) weight() int { return len(a.Rows) }

// agentsAnswer is the answer about agents.
type agentsAnswer struct{ traffic.Agents }

func countAgents(t traffic.Traffic, w traffic.Interval, horizon int64, humans analytics.Humans) agentsAnswer {
	return agentsAnswer{traffic.CountAgents(t, w, horizon, humans)}
}

func (a agentsAnswer) page(limit, offset int, dataFrom *analytics.Date) any {
	return api.NewAgentsPage(a.Totals, a.Rows, limit, offset, dataFrom)
}

func (a agentsAnswer) weight() int { return 2 * len(a.Rows) }

// sourcesAnswer is the answer about where people come from.
type sourcesAnswer struct{ traffic.Sources }

func countSources(t traffic.Traffic, w traffic.Interval, horizon int64, _ analytics.Humans) sourcesAnswer {
	return sourcesAnswer{traffic.CountSources(t, w, horizon)}
}

func (a sourcesAnswer) page(limit, offset int, dataFrom *analytics.Date) any {
	return api.NewSourcesPage(a.Totals, a.Rows, limit, offset, dataFrom)
}

func (a sourcesAnswer) weight() int { return 2 * len(a.Rows) }

// viewsAnswer is the answer about views.
type viewsAnswer struct{ traffic.Views }

func countViews(t traffic.Traffic, w traffic.Interval, horizon int64, _ analytics.Humans) viewsAnswer {
	return viewsAnswer{traffic.CountViews(t, w, horizon)}
}

func (a viewsAnswer) page(limit, offset int, dataFrom *analytics.Date) any {
	return api.NewViewsPage(a.Totals, a.Rows, limit, offset, dataFrom)
}

func (a viewsAnswer) weight() int { return len(a.Rows) }

// answerKey names one answer: the same key always has the same answer.
type answerKey struct {
	report  analytics.Report
	project string
	window  traffic.Interval
	// horizon is the newest arrival that counts, in Unix seconds.
	horizon int64
	// reading of the event log, 0 for synthetic traffic.
	reading uint64
	drift   int
	// reactions is the number of pages whose readers react: none ever stops.
	reactions int
}

const (
	// maxCachedRows limits the cache of answers: about 20 MiB, and the paths.
	maxCachedRows = 1 << 19
	// answerOverhead is the weight of an answer without its rows; it limits the number of
	// answers in the cache.
	answerOverhead = 256
)
