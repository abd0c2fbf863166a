// Package export is the export use case: it reads due windows page by page, verifies
// them, seals each as one window file, records it in the ledger and delivers it to every
// sink.
//
// These are the steps of a window, in order; window.commit is their code. The next run
// heals a crash between any two of them, and requests no page again that was fetched:
//
//  1. pages are appended to the page log  (crash: the next run continues the log)
//  2. a window file is made from the log  (crash: the next run makes it again)
//  3. the revision enters the ledger, owed to every sink
//  4. each sink replaces the window       (crash: Recover delivers from the log; Replace is idempotent)
//  5. the ledger notes each sink's commit (crash: as in step 4)
//  6. the log is removed, or moved to those that wait for a sink (crash: Recover does it)
//
// The package does not decide what is due (package schedule does) or how many requests
// fit (the budget below the source refuses those that do not).
package export

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// Source is the API client, with its retries and the budget below it.
type Source interface {
	VisitorsPage(ctx context.Context, q docsapi.VisitorsQuery) (analytics.Page, error)
}

// Ledger keeps which revisions of a window exist and which sinks have them, and what the
// runs learned about the service that decides what is worth reading.
type Ledger interface {
	// Record enters a sealed revision, owed to sinks; repeating it is harmless.
	Record(ctx context.Context, rev analytics.Revision, prov analytics.Provenance, sinks []string) error
	// Committed notes that a sink has the revision; repeating it is harmless.
	Committed(ctx context.Context, rev analytics.Revision, sink string, at time.Time) error
	// Forget removes a revision that no sink has.
	Forget(ctx context.Context, rev analytics.Revision) error
	// SetAside keeps a window that failed; Record ends that.
	SetAside(ctx context.Context, a analytics.Aside) error
	// SetMovement keeps how often in a row windows moved (schedule.Movement).
	SetMovement(ctx context.Context, project string, g analytics.Granularity, kind string, times int, at time.Time) error
	// SetPageRows keeps how many rows the service puts on a page of the project.
	SetPageRows(ctx context.Context, project string, rows int) error
}

// Gauges keeps values that are only displayed.
type Gauges interface {
	// SetOpen keeps the totals of a running window.
	SetOpen(ctx context.Context, k analytics.Key, t analytics.Totals, at time.Time) error
	// SetPages keeps the pages with the most visitors of a revision. An older window or
	// revision than the one it has changes nothing.
	SetPages(ctx context.Context, rev analytics.Revision, pages []analytics.Row) error
	// Count adds to a counter; labels are pairs of name and value.
	Count(ctx context.Context, name string, n int64, labels ...string) error
}

// Config says how to export.
type Config struct {
	// Concurrency is how many windows, and how many pages of one window, may be read at
	// once. The order of requests can allow fewer (see Run).
	Concurrency int
	// Settle is how long after its end a window can still change.
	Settle time.Duration
	// SpoolMax is the size of sealed windows at which fetching pauses; 0 is unlimited.
	SpoolMax int64
	Now      func() time.Time
	Logger   *slog.Logger
	// TopPages is how many pages of the newest windows are kept for the gauges.
	TopPages int
	// Observe is called at each step, in the goroutine that took it; may be nil.
	Observe func(Event)
}

// Pipeline exports windows. One Run or Recover at a time.
type Pipeline struct {
	cfg       Config
	source    Source
	ledger    Ledger
	gauges    Gauges
	spool     *spool.Spool
	sinks     []sinks.Sink
	sinkNames []string

	commits *semaphore.Weighted
	// withheld are sinks, by name, that are given nothing, and why.
	withheld map[string]error
	// down has the names of the sinks that failed since the last Recover.
	down sync.Map
}

// New returns a pipeline. No other process may use the spool.
func New(cfg Config, source Source, ledger Ledger, gauges Gauges, sp *spool.Spool, to []sinks.Sink) *Pipeline {
	cfg.Concurrency = max(cfg.Concurrency, 1)
	if cfg.Observe == nil {
		cfg.Observe = func(Event) {}
	}
	p := &Pipeline{cfg: cfg, source: source, ledger: ledger, gauges: gauges, spool: sp, sinks: to, commits: semaphore.NewWeighted(commitUnits)}
	for _, sink := range to {
		p.sinkNames = append(p.sinkNames, sink.Name())
	}
	return p
}

// Step is what just happened to a window.
type Step string

// The steps, in the order they are taken.
const (
	StepStarted      Step = "started"
	StepPage         Step = "page"         // one page is in the page log; Event.Rows are its rows
	StepDrift        Step = "drift"        // the window changed while it was read
	StepMispredicted Step = "mispredicted" // a page was requested that does not exist
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

// Work is what a run is to do.
type Work struct {
	// Items are the windows to read, in the order of the plan.
	Items []schedule.Item
	// Known returns the newest revision of a window in the ledger.
	Known func(analytics.Key) (analytics.Revision, bool)
	// Sizes estimates how many pages windows have, and learns from what is read; nil
	// knows nothing. A wrong estimate wastes at most one request per window.
	Sizes *schedule.Sizes
	// Room returns how many requests the budget lets through now, if it limits them at
	// all; nil means no limit. It is called before each request.
	Room func(context.Context) (free int, limited bool, err error)
	// Policy decides which windows should not be started now. Its Moved is replaced by
	// a look into Movements, to which the run adds what it sees; Movements may be nil.
	Policy    schedule.Policy
	Movements map[schedule.MovementKey]schedule.Movement
	// Asides are the windows that failed in earlier runs and are due again.
	Asides map[analytics.Key]analytics.Aside
}

// Result says what a run did.
type Result struct {
	// Committed counts windows that every sink has; Waiting those that are
	// sealed but that a sink still lacks.
	Committed, Waiting int
	// Open counts running windows that were read.
	Open int
	Rows int64
	// Drifted counts readings that started over, Mispredicted pages that were requested
	// although they do not exist.
	Drifted, Mispredicted int
	// Unverified counts windows that were committed unverified, MovedRows and
	// RepeatedRows their suspect rows (analytics.Provenance).
	Unverified              int
	MovedRows, RepeatedRows int64
	// Suspect counts windows that were committed although their pages add up to fewer
	// visitors than the site has.
	Suspect int
	// SetAside counts windows that failed alone and are read again later.
	SetAside int
	// Left counts windows that are still due; BudgetSpent reports whether the
	// budget is why. Wanted is how many requests must be free for the first of
	// them; 0 is one.
	Left        int
	BudgetSpent bool
	Wanted      int
	// Errors are the failures, one message each. Warnings are those of windows that were
	// set aside: the run did what it could.
	Errors, Warnings []error
}
