package site

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/follow"
)

// DefaultProject is the project of a site whose settings name none.
const DefaultProject = "prj_site"

// CollectOptions are those of a collector.
type CollectOptions struct {
	Now       func() time.Time
	Logger    *slog.Logger
	Every     time.Duration // the pause between two looks at the logs
	Retention int           // months; 0: everything is kept
	Stdin     io.Reader
}

// SourceStatus is what is known of a log.
type SourceStatus struct {
	facts.Source
	Err string // why it cannot be read
}

// Projects are the ids of the projects of a site: those of the settings, then those that sources name.
func (r *Rules) Projects(sources []follow.Source) (all []string) {
	for _, h := range r.projects {
		if !slices.Contains(all, h.project) {
			all = append(all, h.project)
		}
	}
	lines := len(all) == 0 // lines that are of no source with a project have one of their own
	for _, s := range sources {
		if s.Project != "" && !slices.Contains(all, s.Project) {
			all = append(all, s.Project)
		}
	}
	if lines && slices.ContainsFunc(sources, func(s follow.Source) bool { return s.Project == "" }) {
		all = slices.Insert(all, 0, DefaultProject)
	}
	return all
}

// Collector keeps the views of logs that grow and rotate, for months.
//
// A poll reads what is new. Its lines are parsed in parallel; when there are many views, or the poll
// has read all there is, they are made durable together with the positions of the logs. After an
// error nothing that is in memory counts: the collector goes on from what is durable.
type Collector struct {
	CollectOptions
	rules    *Rules
	sources  []follow.Source
	projects []string
	store    *facts.Store

	mu     sync.Mutex
	status []SourceStatus
	ready  bool
}

// NewCollector returns a collector of sources into a store.
func NewCollector(r *Rules, sources []follow.Source, s *facts.Store, o CollectOptions) *Collector {
	c := &Collector{CollectOptions: o, rules: r, sources: sources, projects: r.Projects(sources), store: s}
	for _, src := range sources {
		c.status = append(c.status, SourceStatus{Source: facts.Source{Name: src.Where}})
	}
	return c
}

// Sources returns what is known of the logs, and whether all that there was has been read once.
func (c *Collector) Sources() (all []SourceStatus, caughtUp bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all = slices.Clone(c.status)
	for i := range all {
		_ = i
	}
	return all, c.ready
}

func (c *Collector) Run(ctx context.Context) error { <-ctx.Done(); return nil }
