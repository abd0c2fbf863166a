// Package serve collects the views of a site's logs, answers the API from them, runs its agent jobs, and shows metrics.
package serve

import (
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

const (
	// viewsPerCommit is the number of views that are made durable at once; it bounds memory.
	viewsPerCommit = 1 << 19
	// epochGrace is the time after its end for which an epoch waits for the lines of a log that is behind. After
	// maxEpochWait its key is destroyed in any case.
	epochGrace   = 72 * time.Hour
	maxEpochWait = 14 * 24 * time.Hour
	// quietTime is the time without a view after which the segments of a day are merged into one.
	quietTime = time.Hour
	// busyBytes: a poll that read this much, as of a stream of old logs, is repeated without a pause.
	busyBytes = 4 << 20
	// maxRetryPause is the longest pause after an error.
	maxRetryPause = time.Minute
	// leastLines is the number of lines of a log before which nothing is found in it, and recentLines the number
	// after which older ones count half.
	leastLines, recentLines = 100, 10_000
)

// CollectOptions are the options of a collector.
type CollectOptions struct {
	Now       func() time.Time
	Running   func() time.Duration // time since the start, by a clock that cannot be set; nil: time.Since
	Logger    *slog.Logger
	Every     time.Duration // the pause between two polls
	Retention int           // months; 0: everything is kept
	Humans    analytics.Humans
	Stdin     io.Reader
}

// sourceStatus is the state of a log.
type sourceStatus struct {
	facts.Source
	Err string // why it cannot be read
	// Findings say what makes the numbers of its recent lines wrong.
	Findings []count.Finding
	IsRead   bool // once since the start, without an error
	// complete is the newest line when all its files could be read, in Unix seconds: of those that can, lines still come.
	complete int64
}

// Collector keeps the views of logs that grow and rotate, for months.
//
// A poll reads what is new. Its lines are parsed in parallel; when there are many views, or the poll
// has read all there is, they are made durable together with the positions of the logs. After an
// error it drops what is in memory and continues from what is durable.
type Collector struct {
	CollectOptions
	rules    *count.Rules
	sources  []logs.Source
	projects []string
	store    *facts.Store
	clock    *clockGuard

	mu     sync.Mutex
	status []sourceStatus
	failed error // of the last poll, or of making its views durable

	pushes  chan *push
	stopped chan struct{}  // closed when nothing is taken any more
	stop    func()         // closes it
	heard   []atomic.Int64 // when a body of each source was last taken, in Unix seconds
	// idsKnown and idsDropped count the ids of what was pushed.
	idsKnown, idsDropped atomic.Int64

	tallies []count.Tally // of each source; its session guards it
	warned  time.Time     // when logs without a line were last logged
}

// NewCollector returns a collector of sources into a store.
func NewCollector(r *count.Rules, sources []logs.Source, s *facts.Store, o CollectOptions) *Collector {
	c := &Collector{CollectOptions: o, rules: r, sources: sources, projects: r.Projects(sources), store: s,
		clock: newClockGuard(s, o), tallies: make([]count.Tally, len(sources)),
		pushes: make(chan *push, maxWaiting), stopped: make(chan struct{}), heard: make([]atomic.Int64, len(sources))}
	c.stop = sync.OnceFunc(func() { close(c.stopped) })
	for _, src := range sources {
		c.status = append(c.status, sourceStatus{Source: facts.Source{Name: src.Where}})
	}
	return c
}

// Sources returns the states of the logs, and whether each has been read once without an error.
func (c *Collector) Sources() (all []sourceStatus, caughtUp bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, caughtUp = slices.Clone(c.status), true
	for i := range all {
		all[i].Lines = maps.Clone(all[i].Lines)
		caughtUp = caughtUp && all[i].IsRead
	}
	return all, caughtUp
}

// Lacks returns the refusal of an answer about days of a project that end before to, if the answer could lack lines and
// clients would take it for settled: while nothing can be made durable; until each source of the project has been read
// once without an error; if a source cannot be read now, after the newest line that it had when it could; and more than
// a day after the newest line of a source that is pushed. It names no path.
func (c *Collector) Lacks(project string, to analytics.Date) error {
	const (
		soon, later = "5", "300" // seconds
		where       = "/-/ready of the metrics address and the log of docgauge site serve say why"
	)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return api.Fail(http.StatusServiceUnavailable, "what the logs have cannot be kept, and answers would lack it: "+
			where).With("Retry-After", later)
	}
	for i, s := range c.status {
		switch {
		case !c.feeds(i, project):
		case s.Err != "" && (!s.IsRead || to.Time().Unix() > s.complete):
			lacking := "which has not been read since the start"
			if s.IsRead {
				lacking = "which was read up to " + time.Unix(s.complete, 0).UTC().Format(time.RFC3339)
			}
			return api.Fail(http.StatusServiceUnavailable, "log %d of DOCGAUGE_SITE_LOGS, %s, cannot be read, and the answer "+
				"would lack its lines: "+where, i+1, lacking).With("Retry-After", later)
		case !s.IsRead:
			return api.Fail(http.StatusServiceUnavailable, "the logs are still being read after the start: "+
				"ask again when /-/ready of the metrics address says ready").With("Retry-After", soon)
		default:
			if err := c.lacksPushed(i, to.Time()); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasPushed reports whether a source is pushed.
func (c *Collector) hasPushed() bool {
	return slices.ContainsFunc(c.sources, func(s logs.Source) bool { _, ok := s.Pushed(); return ok })
}

// feeds reports whether a source can have lines of a project.
func (c *Collector) feeds(source int, project string) bool {
	fixed := c.sources[source].Project
	return fixed == "" || fixed == project
}

// ClockHeld reports whether nothing irreversible may follow the clock: it has jumped, or was not checked since the
// start.
func (c *Collector) ClockHeld() bool { return c.clock.isHeld.Load() }

// Failed returns why nothing is collected now; nil if it is.
func (c *Collector) Failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// setResult records the result of the last poll.
func (c *Collector) setResult(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = err
}
