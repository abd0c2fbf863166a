package sandbox

import (
	"reflect"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sandbox/traffic"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// report counts the events of a report that arrived up to horizon, people by the mode.
type report[T any, R analytics.RowType] func(
	t traffic.Traffic, w traffic.Interval, horizon int64, humans analytics.Humans,
) facts.Answer[T, R]

// The reports of the sandbox.
var (
	visitorsReport report[analytics.Totals, analytics.Row]            = traffic.CountVisitors
	agentsReport   report[[]analytics.AgentRow, analytics.AgentRow]   = traffic.CountAgents
	sourcesReport  report[[]analytics.SourceRow, analytics.SourceRow] = traffic.CountSources
	viewsReport    report[analytics.Totals, analytics.ViewRow]        = traffic.CountViews
)

// content is the answer of any report.
type content interface {
	weight() int // in bytes, without the paths
}

// answer is the answer of a report.
type answer[T any, R analytics.RowType] struct{ facts.Answer[T, R] }

func (a answer[T, R]) weight() int {
	return len(a.Rows)*int(reflect.TypeFor[R]().Size()) + answerOverhead
}

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
	// maxCachedBytes limits the cache of answers, without their paths.
	maxCachedBytes = 20 << 20
	// answerOverhead is the weight of an answer without its rows; it limits the number of
	// answers in the cache.
	answerOverhead = 10 << 10
)
