package sandbox

import (
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/sandbox/agent"
	"github.com/docgauge/docgauge/internal/sandbox/codehost"
	"github.com/docgauge/docgauge/internal/sandbox/worktree"
)

// Sandbox is one service. Its methods may be used by many goroutines at once.
type Sandbox struct {
	config   Config
	routes   []route
	keys     keyring
	projects map[string]*project
	log      *eventLog // nil without a data directory
	answers  *lru[answerKey, answer]
	counting chan struct{} // one slot for each answer being counted
	inFlight chan struct{} // one slot for each request
	admitted atomic.Int64  // analytics requests that passed authentication
	hour     *slidingHour
	journal  journal

	jobs       *agent.Jobs
	pulls      *codehost.Local
	repo       *worktree.Repo // nil where jobs pretend
	posts      posts
	publicHost string // of Config.Agent.PublicURL
}

// maxInFlight bounds the requests being answered; one more gets 503.
const maxInFlight = 1024

// New returns a service as c describes it. The error lists every problem of c,
// or names file, line and rule of a bad line in the event log. No traffic is
// made before it is asked for.
func New(c Config) (*Sandbox, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Sandbox{
		config: c, keys: newKeyring(c), projects: newProjects(c), answers: newAnswers(),
		counting: make(chan struct{}, runtime.GOMAXPROCS(0)), inFlight: make(chan struct{}, maxInFlight),
		hour:    newSlidingHour(c.Faults.RateLimit),
		journal: journal{out: c.RequestLog, logger: c.Logger},
		posts:   posts{hours: newPostHours(c)},
	}
	s.routes = s.table()
	var err error
	if c.DataDir != "" {
		s.log, err = openEventLog(c)
	}
	if err == nil {
		err = s.openAgent()
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Close stops the work on agent jobs and waits for it. With a data directory
// the next New goes on with them. A sandbox without a repository that never had
// a job needs no Close.
func (s *Sandbox) Close() error { return errors.Join(s.jobs.Close(), s.closeRepo()) }

// Jobs returns every agent job that was accepted, with its prompts, in order:
// the truth to compare a client's journal with. Links of pull requests on this
// sandbox are paths.
func (s *Sandbox) Jobs() []agent.Record { return s.jobs.All() }

func newProjects(c Config) map[string]*project {
	shared := newSite(c.Pages, c.Faults.LateDays)
	first := analytics.DateOf(c.Now()) - analytics.Date(c.Days)
	projects := map[string]*project{}
	for _, name := range c.Projects {
		projects[name] = &project{name: name, synthetic: &synthetic{site: shared, seed: c.Seed, project: name, first: first}}
	}
	return projects
}

// Handler serves the API below the root path: the base URL has no path.
func (s *Sandbox) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Requests returns the newest requests, at most 65,536, in the order they were answered.
func (s *Sandbox) Requests() []Request { return s.journal.newest() }

// Visitors returns what the service would answer for window w of project now,
// all rows by total, then path, without a request: the truth to compare an
// export with.
func (s *Sandbox) Visitors(project string, w analytics.Window) (analytics.Totals, []analytics.Row, error) {
	p, ok := s.projects[project]
	if !ok {
		return analytics.Totals{}, nil, unknownProject(project)
	}
	a, err := s.answer(p, interval{w.From.Time().Unix(), w.To.Time().Unix()}, s.config.Now())
	return a.totals, append([]analytics.Row(nil), a.rows...), err
}

// call is one request on its way to an answer.
type call struct {
	*http.Request
	now    time.Time
	params map[string]string
	number int64 // of analytics requests, 0 before authentication
	// accepted agent POST
	accepted bool
}

func (s *Sandbox) serve(w http.ResponseWriter, r *http.Request) {
	select {
	case s.inFlight <- struct{}{}:
		defer func() { <-s.inFlight }()
	default:
		s.finish(w, &call{Request: r, now: s.config.Now()}, 0, nil, fail(http.StatusServiceUnavailable, "more than %d requests at once", maxInFlight))
		return
	}
	if strings.HasPrefix(r.URL.Path, codehost.Path) {
		s.servePage(w, r)
		return
	}
	_ = clock.Sleep(r.Context(), s.config.Faults.Latency) // or until nobody waits for the answer
	c := &call{Request: r, now: s.config.Now()}
	status, value, err := s.dispatch(c)
	s.finish(w, c, status, value, err)
}

// dispatch runs the operation that c asks for, once c may have it, and returns
// what to answer: status goes with value.
func (s *Sandbox) dispatch(c *call) (status int, value any, err error) {
	rt, err := find(s.routes, c)
	if err != nil {
		return 0, nil, err
	}
	if err := s.keys.check(c.Header.Values("Authorization"), rt.scope); err != nil {
		return 0, nil, err
	}
	if err := rt.refuse(c); err != nil {
		return 0, nil, err
	}
	p, ok := s.projects[c.params["projectId"]]
	if !ok {
		return 0, nil, unknownProject(c.params["projectId"])
	}
	value, err = rt.run(c, p)
	return rt.success, value, err
}

func unknownProject(name string) error {
	return fail(http.StatusNotFound, "project %.140q: not found", name)
}

// finish writes status and value, or err, as JSON, after the request is in the
// journal, so that whoever has the answer finds it there.
func (s *Sandbox) finish(w http.ResponseWriter, c *call, status int, value any, err error) {
	header := w.Header()
	if errors.Is(err, errDropped) {
		s.journal.add(newRequest(c, 0))
		panic(http.ErrAbortHandler) // net/http's way to close the connection, without a trace in the log
	}
	if err != nil {
		refusal := s.refusal(err)
		status, value = refusal.status, refusal
		for name, values := range refusal.header {
			header[name] = values
		}
	}
	body, err := json.Marshal(value)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"answer cannot be written as JSON"}`)
	}
	s.journal.add(newRequest(c, status))
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if every(s.config.Faults.CutEvery, c.number) {
		body = body[:len(body)/2] // net/http closes the connection after too short a body
	}
	_, _ = w.Write(body) // a client that went away cannot be told
}

func (s *Sandbox) refusal(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	s.config.Logger.Error("request not answered", "error", err)
	return fail(http.StatusInternalServerError, "%v", err)
}
