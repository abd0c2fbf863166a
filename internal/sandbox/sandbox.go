package sandbox

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/sandbox/traffic"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// Sandbox is one service. Its methods are safe for concurrent use.
type Sandbox struct {
	config   Config
	service  *api.Service
	projects map[string]*project
	answers  *traffic.Cache[answerKey, content]
	counting chan struct{} // one slot for each answer being counted

	admitted                     atomic.Int64 // analytics requests that passed authentication
	hour                         *slidingHour
	admittedPosts, acceptedPosts atomic.Int64

	site       *traffic.Website
	log        *traffic.EventLog // nil without a data directory
	jobs       *runner.Queue
	repo       *runner.Repo // nil if jobs only pretend
	pulls      *pullStore
	github     *fake.Host
	publicHost string // of Config.Agent.PublicURL

	merges      *merges
	pageNumbers func() map[string]uint32 // of the synthetic site
}

// project is one served project and the drift that requests added to it.
type project struct {
	name      string
	synthetic *traffic.Synthetic
	postHour  *slidingHour

	mu    sync.Mutex
	drift traffic.Drift
}

// Close stops the work on agent jobs and waits for it. With a data directory the next New
// continues them. A sandbox without a repository that never had a job needs no Close.
func (s *Sandbox) Close() error { return errors.Join(s.jobs.Close(), s.closeRepo()) }

func (s *Sandbox) closeRepo() error {
	if s.repo == nil {
		return nil
	}
	return s.repo.Close()
}

// Jobs returns every agent job that was accepted, with its prompts, in order: the truth to
// compare a client's journal with. Links to pull requests on this sandbox are paths.
func (s *Sandbox) Jobs() []runner.Job { return s.jobs.All() }

// Requests returns the newest requests, at most 65,536, in the order they were answered.
func (s *Sandbox) Requests() []api.Request { return s.service.Requests.Newest() }
