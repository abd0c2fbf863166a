// Package export is the export use case: it reads due windows page by page, verifies
// them, records each in the ledger and delivers it to every sink, and does the work after a run.
//
// These are the steps of a window, in order; window.commit is their code. The next run
// heals a crash between any two of them, and requests no page again that was fetched:
//
//  1. pages are appended to the page log  (crash: the next run continues the log)
//  2. a window file is made from the log  (crash: the next run makes it again)
//  3. the revision enters the ledger, owed to every sink
//  4. each sink replaces the window       (crash: recover delivers from the log; Replace is idempotent)
//  5. the ledger notes each sink's commit (crash: as in step 4)
//  6. the log is removed, or moved to those that wait for a sink (crash: recover does it)
//
// The package does not decide what is due (package schedule does) or how many requests
// fit (the budget below the service refuses those that do not).
package export

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
)

// pageReader is the API client, with its retries and the budget below it.
type pageReader interface {
	Page(ctx context.Context, q docsapi.PageQuery) (analytics.Page, error)
}

// windowLedger is the state's record of the windows: which revisions exist and which sinks have
// them, facts that the runs learned about the service, and values that are only displayed.
type windowLedger interface {
	// Record enters a revision, owed to sinks, and the first rows of a newest window; repeating it is harmless.
	Record(ctx context.Context, rev analytics.Revision, prov analytics.Provenance, sinks []string,
		top ...state.TopRows) error
	// Committed notes that a sink has the revision; repeating it is harmless.
	Committed(ctx context.Context, rev analytics.Revision, sink string, at time.Time) error
	// Forget removes a revision that no sink has.
	Forget(ctx context.Context, rev analytics.Revision) error
	// SetAside keeps a window that failed; Record ends that.
	SetAside(ctx context.Context, a analytics.Aside) error
	// SetMovement keeps a number that was learned about a series (schedule.Learned).
	SetMovement(ctx context.Context, m state.Movement) error
	// SetPageSize keeps how many rows the service puts on a page.
	SetPageSize(ctx context.Context, s state.PageSize) error

	// SetOpen keeps the totals of a running window.
	SetOpen(ctx context.Context, w analytics.OpenWindow) error
	// SetTop keeps the first rows of a revision. An older window or revision than the one it has changes nothing.
	SetTop(ctx context.Context, l state.TopRows) error
	// Count adds to a counter; labels are pairs of name and value.
	Count(ctx context.Context, name string, n int64, labels ...string) error
}

// Progress shows how a run proceeds. Nothing depends on it.
type Progress interface {
	// Reset begins another run.
	Reset()
	// Begin announces the number of windows. The budget allows the last of them by
	// finish, the zero time if that is unknown.
	Begin(windows int, finish time.Time)
	// Pause announces that nothing is sent until a time, and the number of windows left.
	Pause(until time.Time, windows int)
	// Observe is called at each step, from many goroutines.
	Observe(Event)
	End()
}

// Exporter runs exports: all due windows, or as many as the budget allows, and the work after a
// run. No other process may use the spool.
type Exporter struct {
	// Committed, if not nil, is called when the state has something new to show.
	Committed func()

	app      *app.App
	service  pageReader
	ledger   windowLedger
	metrics  func(context.Context) (view.Snapshot, error)
	progress Progress
	observed func(Event)

	// sinkNames are the sinks to which the ledger owes each revision.
	sinkNames []string
	// commits bounds the windows that are committed at once.
	commits *semaphore.Weighted
	// misplaced are sinks, by name, that get nothing in this run, and why.
	misplaced map[string]error
	// down has the names of the sinks that failed since recover was called last.
	down sync.Map

	mu      sync.Mutex
	summary Summary
	// done are the windows that the present run has read so far.
	done map[analytics.Key]bool
	// left is the number of windows of the present pass that are not read yet; said is when the log last said how far
	// the run is.
	left int
	said time.Time
}

// sayEvery is how often a long run says in the log how far it is.
const sayEvery = time.Minute

// New returns an exporter over an app opened for an export. It delivers the metrics to the
// textfile and the Pushgateway. Observed, if not nil, is called at each step, in the goroutine
// that took it.
func New(
	a *app.App, metrics func(context.Context) (view.Snapshot, error), p Progress, observed func(Event),
) *Exporter {
	e := &Exporter{
		app: a, ledger: a.State, metrics: metrics, progress: p, observed: observed,
		commits: semaphore.NewWeighted(commitUnits), done: map[analytics.Key]bool{},
	}
	if a.API != nil {
		e.service = a.API.Client
	}
	for _, sink := range a.Sinks {
		e.sinkNames = append(e.sinkNames, sink.Name())
	}
	return e
}

// count changes the summary.
func (e *Exporter) count(change func(*Summary)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(&e.summary)
}

// The steps, in the order they are taken.
const (
	stepStarted      = "started"
	StepPage         = "page"         // one page is in the page log; Event.Rows are its rows
	stepDrift        = "drift"        // the window changed while it was read
	StepMispredicted = "mispredicted" // a page was requested that does not exist
	stepFetched      = "fetched"
	stepSealed       = "sealed" // the window file is made
	StepRecorded     = "recorded"
	stepReplaced     = "replaced" // a sink has it, the ledger does not have that yet
	stepCommitted    = "committed"
	stepDone         = "done" // every sink has it
	StepOpen         = "open" // a running window was read
)

// Event is a step of one window.
type Event struct {
	Step string
	Key  analytics.Key
	Rows int64
	Sink string
}

// observe reports a step. Now and then it writes the counts of responses to the state, and says how far the run is.
func (e *Exporter) observe(ev Event) {
	now := e.app.Now()
	e.mu.Lock()
	if ev.Step == StepOpen || ev.Step == StepRecorded {
		e.done[ev.Key] = true
		e.left--
	}
	s, left, isDue := e.summary, e.left, now.Sub(e.said) >= sayEvery
	if isDue {
		e.said = now
	}
	e.mu.Unlock()
	if isDue {
		e.app.Log.Info("export under way", "windows", s.Committed, "open_windows", s.Open, "rows", s.Rows,
			"windows_left", max(0, left))
	}
	e.progress.Observe(ev)
	if ev.Step == StepRecorded || ev.Step == StepOpen || ev.Step == stepCommitted {
		if e.Committed != nil {
			e.Committed()
		} else if e.app.API != nil && e.app.API.Meter.Due() {
			if err := e.app.API.Meter.Flush(context.Background(), e.app.State); err != nil {
				e.app.Log.Error("requests not counted", "error", err)
			}
		}
	}
	if e.observed != nil {
		e.observed(ev)
	}
}

// work lists the windows to read, with the facts that decide about their order.
type work struct {
	// Items are the windows to read, in the order of the plan.
	Items []schedule.Item
	// Known returns the newest revision of a window in the ledger.
	Known func(analytics.Key) (analytics.Revision, bool)
	// Sizes estimates how many pages windows have, and learns from each reading. A wrong
	// estimate wastes at most one request per window.
	Sizes *schedule.Sizes
	// Free returns how many requests the budget allows now, if it limits them at
	// all; nil means no limit. It is called before each request.
	Free func(context.Context) (free int, limited bool, err error)
	// Policy decides which windows should not be started now, by Learned, to which the run
	// adds its observations.
	Policy  schedule.Policy
	Learned schedule.Learned
	// KeyRefused: the service refused the present key in the run before.
	KeyRefused bool
	// Asides are the windows that failed in earlier runs and are due again.
	Asides map[analytics.Key]analytics.Aside
}
