// Package pipeline is the export use case: it fetches due windows page by page,
// verifies them, seals each as one window file, enters it in the ledger and
// delivers it to every sink.
//
// The steps of a window, in order; a crash between any two is healed by the
// next run without a request for what was fetched already:
//
//  1. pages go to the page log            (crash: the log is gone on with)
//  2. the log is sealed as a window file  (crash: Recover goes on with step 3)
//  3. the page log is removed             (crash: Recover goes on with step 4)
//  4. the revision enters the ledger, owed to every sink
//  5. each sink replaces the window       (crash: Recover delivers again; Replace is idempotent)
//  6. the ledger notes each sink's commit (crash: as 5)
//  7. the window file leaves the spool    (crash: Recover removes it)
//
// It does not decide what is due (package schedule) or how many requests fit
// (the budget below the source refuses them).
package export

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/sinks"
)

// Source is the API client, with retries and below it the budget.
type Source interface {
	VisitorsPage(ctx context.Context, q docsapi.VisitorsQuery) (analytics.Page, error)
}

// Ledger keeps which revision of a window exists and which sinks have it, and what
// was learned of the service that bears on what is worth reading.
type Ledger interface {
	// Record enters a sealed revision, owed to sinks; again is harmless.
	Record(ctx context.Context, rev analytics.Revision, prov analytics.Provenance, sinks []string) error
	// Committed notes that a sink has it; again is harmless.
	Committed(ctx context.Context, rev analytics.Revision, sink string, at time.Time) error
	// Forget takes out a revision that no sink has.
	Forget(ctx context.Context, rev analytics.Revision) error
	// SetAside keeps a window that failed; Record takes it out.
	SetAside(ctx context.Context, a analytics.Aside) error
	// SetMovement keeps how often in a row windows moved (schedule.Movement).
	SetMovement(ctx context.Context, project string, g analytics.Granularity, kind string, times int, at time.Time) error
	// SetPageRows keeps how many rows the service puts on a page of the project.
	SetPageRows(ctx context.Context, project string, rows int) error
}

// Gauges keeps what is only shown.
type Gauges interface {
	// SetOpen keeps the totals of a running window.
	SetOpen(ctx context.Context, k analytics.Key, t analytics.Totals, at time.Time) error
	// SetPages keeps the pages with the most visitors of a reading; those of an
	// older window or reading than it has change nothing.
	SetPages(ctx context.Context, rev analytics.Revision, pages []analytics.Row) error
	// Count adds to a counter; labels are name, value pairs.
	Count(ctx context.Context, name string, n int64, labels ...string) error
}

// Config says how to export.
type Config struct {
	// Concurrency is how many windows are under way at once, and how many pages
	// of one window, as far as the order of requests lets them (see Run).
	Concurrency int
	// Settle is how long after its end a window can still change.
	Settle time.Duration
	// SpoolMax is the size of sealed windows at which fetching pauses; 0 is unlimited.
	SpoolMax int64
	Now      func() time.Time
	Logger   *slog.Logger
	// TopPages is how many pages of the newest windows are kept for the gauges.
	TopPages int
	// Observe is told each step, in the goroutine that took it; may be nil.
	Observe func(Event)
}

// Pipeline exports windows. One Run or Recover at a time.
type Pipeline struct {
	cfg    Config
	source Source
	ledger Ledger
	gauges Gauges
	spool  *spool.Spool
	sinks  []sinks.Sink

	// sealing lets one window at a time be sorted and compressed: that is what
	// takes memory.
	sealing sync.Mutex

	mu   sync.Mutex
	down map[string]bool // sinks that failed in this run
}

// New returns a pipeline. The spool is used by no other process.
func New(cfg Config, source Source, ledger Ledger, gauges Gauges, sp *spool.Spool, to []sinks.Sink) *Pipeline {
	cfg.Concurrency = max(cfg.Concurrency, 1)
	if cfg.Observe == nil {
		cfg.Observe = func(Event) {}
	}
	return &Pipeline{cfg: cfg, source: source, ledger: ledger, gauges: gauges, spool: sp, sinks: to, down: map[string]bool{}}
}

// Step is what just happened to a window.
type Step string

// The steps, in the order they are taken.
const (
	StepStarted      Step = "started"
	StepPage         Step = "page"         // Rows of one page are in the page log
	StepDrift        Step = "drift"        // the window changed while it was read
	StepMispredicted Step = "mispredicted" // a page was asked for that does not exist
	StepFetched      Step = "fetched"
	StepSealed       Step = "sealed"
	StepRecorded     Step = "recorded"
	StepReplaced     Step = "replaced" // a sink has it, the ledger does not know yet
	StepCommitted    Step = "committed"
	StepDone         Step = "done" // every sink has it
	StepOpen         Step = "open" // a running window was read
)

// Event is a step of one window.
type Event struct {
	Step Step
	Key  analytics.Key
	Rows int64
	Sink string
}

func (p *Pipeline) tell(step Step, k analytics.Key, rows int64) {
	p.cfg.Observe(Event{Step: step, Key: k, Rows: rows})
}

func (p *Pipeline) sinkNames() []string {
	names := make([]string, len(p.sinks))
	for i, s := range p.sinks {
		names[i] = s.Name()
	}
	return names
}
