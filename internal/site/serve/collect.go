// Package serve collects the views of a site's logs, answers the API from them, runs its agent jobs, and shows metrics.
package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

const (
	// perCommit is about how many views are made durable at once, and bounds memory.
	perCommit = 1 << 19
	// grace is how long after its end an epoch waits for the lines of a log that is behind, and
	// longest how long it waits at all: then its key is destroyed.
	grace   = 72 * time.Hour
	longest = 14 * 24 * time.Hour
	// quiet is how long a day must have had no view before its segments are merged into one.
	quiet = time.Hour
	// much is how many bytes of a poll say that there will be more at once: a stream of old logs.
	much = 4 << 20
	// again is the longest pause after an error.
	again = time.Minute
)

// CollectOptions are those of a collector.
type CollectOptions struct {
	Now       func() time.Time
	Running   func() time.Duration // how long this runs, by a clock that cannot be set; nil: time.Since
	Logger    *slog.Logger
	Every     time.Duration // the pause between two looks at the logs
	Retention int           // months; 0: everything is kept
	Stdin     io.Reader
}

// sourceStatus is what is known of a log.
type sourceStatus struct {
	facts.Source
	Err    string // why it cannot be read
	IsRead bool   // once since the start, without an error
}

// Collector keeps the views of logs that grow and rotate, for months.
//
// A poll reads what is new. Its lines are parsed in parallel; when there are many views, or the poll
// has read all there is, they are made durable together with the positions of the logs. After an
// error nothing that is in memory counts: the collector goes on from what is durable.
type Collector struct {
	CollectOptions
	rules    *count.Rules
	sources  []logs.Source
	projects []string
	store    *facts.Store
	clock    *clockGuard

	mu     sync.Mutex
	status []sourceStatus
	failed error // of the last look at the logs, or of keeping what they had

	warned time.Time // of logs without a line
}

// NewCollector returns a collector of sources into a store.
func NewCollector(r *count.Rules, sources []logs.Source, s *facts.Store, o CollectOptions) *Collector {
	c := &Collector{CollectOptions: o, rules: r, sources: sources, projects: r.Projects(sources), store: s,
		clock: newClockGuard(s, o)}
	for _, src := range sources {
		c.status = append(c.status, sourceStatus{Source: facts.Source{Name: src.Where}})
	}
	return c
}

// Sources returns what is known of the logs, and whether each has been read once without an error.
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

// Lacks returns the refusal of an answer about days of a project that end before to, if it could lack lines, which
// clients would take for settled: while nothing can be kept; until each source that can feed the project has been read
// once without an error; and after the newest line of one that cannot be read now. It names no path.
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
		case s.Err != "" && (!s.IsRead || to.Time().Unix() > s.Watermark):
			lacking := "which has not been read since the start"
			if s.IsRead {
				lacking = "whose newest line is of " + s.Newest().Format(time.RFC3339)
			}
			return api.Fail(http.StatusServiceUnavailable, "log %d of DOCGAUGE_SITE_LOGS, %s, cannot be read, and the answer "+
				"would lack its lines: "+where, i+1, lacking).With("Retry-After", later)
		case !s.IsRead:
			return api.Fail(http.StatusServiceUnavailable, "the logs are still being read after the start: "+
				"ask again when /-/ready of the metrics address says ready").With("Retry-After", soon)
		}
	}
	return nil
}

// feeds reports whether a source can have lines of a project.
func (c *Collector) feeds(source int, project string) bool {
	of := c.sources[source].Project
	return of == "" || of == project
}

// ClockHeld reports whether nothing that cannot be undone may follow the clock: it has jumped, or was not looked at
// since the start.
func (c *Collector) ClockHeld() bool { return c.clock.isHeld.Load() }

// Failed returns why nothing is collected now; nil if it is.
func (c *Collector) Failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// ended records how the last look at the logs ended.
func (c *Collector) ended(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = err
}

// Run collects until ctx ends. What cannot be written is tried again: the logs keep it.
func (c *Collector) Run(ctx context.Context) error {
	pause := c.Every
	for ctx.Err() == nil {
		err := c.session(ctx, func() { pause = c.Every })
		if errors.Is(err, facts.ErrUnusable) {
			return err
		}
		if ctx.Err() == nil {
			c.ended(err)
			c.Logger.Error("logs not collected; docgauge tries again", "error", err)
		}
		_ = clock.Sleep(ctx, pause) // or until ctx ends
		pause = min(2*max(pause, time.Second), again)
	}
	return nil
}

// session collects until ctx ends or something cannot be written.
func (c *Collector) session(ctx context.Context, worked func()) error {
	s, err := c.newSession(ctx)
	if err != nil {
		return err
	}
	defer s.follower.Close() //nolint:errcheck // it was only read
	for {
		if err := s.poll(ctx); err != nil {
			return err
		}
		if err := s.tidy(ctx); err != nil {
			return err
		}
		c.ended(nil)
		worked()
		if s.taken < much {
			_ = clock.Sleep(ctx, c.Every) // or until ctx ends
		}
		s.taken = 0
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
}

// session is the state of a collector since what was durable at its beginning.
type session struct {
	*Collector
	follower *logs.Follower
	words    *count.Vocabulary
	// durable is how many of the words are.
	durablePages, durableAgents int
	parser                      *logs.Parser // for a look at single lines

	workers []*worker
	jobs    chan job
	pending sync.WaitGroup

	taken int // bytes of lines, in this poll

	// The batch that grows: workers add to it.
	batch   facts.Batch
	changed map[int]bool // sources
	failed  error
	locked  sync.Mutex // guards them, and sources

	sources []facts.Source
	touched map[analytics.Date]time.Time // when a day last got views
	looked  time.Time                    // at the epochs
	future  time.Time                    // what the lines that are read now must be before
	forget  bool                         // what SQLite has deleted is still to be overwritten
	// What has been said.
	damaged  bool
	unparsed map[int]bool // of sources
}

// job is a chunk to be parsed.
type job struct {
	source int
	name   string // of the file
	chunk  logs.Lines
}

// worker makes views, for one goroutine.
type worker struct {
	*session
	viewer *count.Viewer
	parser *logs.Parser
	keys   map[monthOf]*epochKeys
}

type monthOf struct {
	project int32
	month   facts.Epoch
}

// epochKeys are the two of a month; nil once it is closed.
type epochKeys struct{ before, own *facts.Hash }

func (c *Collector) newSession(ctx context.Context) (*session, error) {
	r, err := c.store.Resume(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{Collector: c, words: count.NewVocabulary(), parser: c.rules.Parser(),
		changed: map[int]bool{}, unparsed: map[int]bool{}, touched: map[analytics.Date]time.Time{},
		sources: make([]facts.Source, len(c.sources)),
		forget:  true}
	s.words.Restore(r.Pages, r.Agents, c.projects)
	s.durablePages, s.durableAgents = len(r.Pages), len(r.Agents)
	for i, src := range c.sources {
		s.sources[i] = facts.Source{Name: src.Where, Lines: map[string]int64{}}
		for _, known := range r.Sources {
			if known.Name == src.Where && known.Lines != nil {
				s.sources[i] = known
			}
		}
	}
	s.show()
	s.follower, err = logs.NewFollower(c.sources, r.Positions, logs.FollowOptions{Stdin: c.Stdin, Now: c.Now})
	if err != nil {
		return nil, err
	}
	for range runtime.GOMAXPROCS(0) {
		v := count.NewViewer(s.rules, s.words, 0, 0)
		w := &worker{s, v, s.rules.Parser(), map[monthOf]*epochKeys{}}
		v.Several, v.All, v.Identify = len(s.projects) > 1, true, w.inEpochs
		s.workers = append(s.workers, w)
	}
	return s, nil
}

// inEpochs gives a view its reader's ids in the two epochs that have its month.
func (w *worker) inEpochs(out *facts.View, who []byte) count.Reason {
	of := monthOf{out.Project, facts.EpochOf(out.Day)}
	k, known := w.keys[of]
	if !known {
		keys, open, err := w.store.Keys(context.Background(), w.projects[of.project], of.month, w.Now())
		if err != nil {
			w.locked.Lock()
			w.failed = cmp.Or(w.failed, err) // the batch is lost
			w.locked.Unlock()
			return count.Late
		}
		if open {
			k = &epochKeys{facts.NewHash(keys[0]), facts.NewHash(keys[1])}
		}
		w.keys[of] = k
	}
	if k == nil {
		return count.Late
	}
	out.Readers = [2]uint64{k.before.ID(who), k.own.ID(who)}
	return ""
}

// poll reads what is new in the logs and makes it durable.
func (s *session) poll(ctx context.Context) error {
	// Keys that must not exist any more are destroyed before a line is read: the machine may have slept.
	if err := s.closeEpochs(ctx, false); err != nil {
		return err
	}
	now, held, err := s.clock.look(ctx)
	if err != nil {
		return err
	}
	from := int64(0)
	if s.Retention > 0 && !held && s.isConfirmed(now) {
		from = s.oldest(now).Time().Unix()
	}
	s.jobs = make(chan job)
	var running sync.WaitGroup
	s.future = (analytics.DateOf(now) + 2).Time() // clocks differ by less than a day
	for _, w := range s.workers {
		w.viewer.From, w.viewer.To = from, s.future.Unix()
		running.Go(func() {
			for j := range s.jobs {
				w.run(j)
				s.pending.Done()
			}
		})
	}
	var stopped error // what ended the poll, if that was not a log
	err = s.follower.Poll(ctx, func(c logs.Chunk) error {
		err := s.take(ctx, c)
		if errors.Is(err, logs.ErrWait) {
			return err
		}
		stopped = cmp.Or(err, context.Cause(ctx))
		return stopped
	})
	close(s.jobs)
	running.Wait()
	if s.failed != nil || stopped != nil && ctx.Err() == nil {
		return cmp.Or(s.failed, stopped)
	}
	if err := s.commit(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // not all was read
	}
	failed, ok := errors.AsType[logs.SourceErrors](err)
	if err != nil && !ok {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.status {
		src, before := &s.status[i], s.status[i].Err
		if src.Err = ""; failed[i] != nil {
			src.Err = failed[i].Error()
		} else if !s.follower.IsBehind(i) {
			src.IsRead = true
		}
		switch src.Err {
		case before:
		case "":
			s.Logger.Info("log can be read again", "log", src.Name)
		default:
			s.Logger.Error("log cannot be read; answers that need its lines are 503 until it can", "log", src.Name,
				"error", failed[i])
		}
	}
	return nil
}

// take gives a chunk to a worker, and commits when there is enough.
func (s *session) take(ctx context.Context, c logs.Chunk) error {
	if len(c.Text)+c.TooLong > 0 {
		if err := s.wait(ctx, c); err != nil {
			c.Free()
			return err
		}
	}
	s.locked.Lock()
	if s.batch.Positions == nil {
		s.batch.Positions = map[string][]byte{}
	}
	if c.Key != "" {
		s.batch.Positions[c.Key] = c.Position
	}
	if c.PossiblyLost {
		s.sources[c.Source].PossiblyLost++
		s.changed[c.Source] = true
		s.Logger.Warn("lines may have been lost: the log was emptied while it was written to (copytruncate), cut, or "+
			"replaced by another that begins alike; let logrotate rename and create it", "log", c.Name)
	}
	full, failed := len(s.batch.Views) >= perCommit, s.failed
	s.locked.Unlock()
	if failed != nil {
		return failed
	}
	if s.taken += len(c.Text); len(c.Text)+c.TooLong > 0 {
		s.pending.Add(1)
		s.jobs <- job{c.Source, c.Name, c.Lines}
	}
	if !full {
		return nil
	}
	s.pending.Wait()
	if err := s.commit(ctx); err != nil {
		return err
	}
	return s.closeEpochs(ctx, false)
}

// wait returns an error, so that the file waits, if the last line of its chunk is in the future and the clock may be
// wrong. A single line with a wrong date holds up nothing, because right ones follow it; standard input
// cannot wait.
func (s *session) wait(ctx context.Context, c logs.Chunk) error {
	if c.Key == "" || s.clock.isSteady() {
		return nil
	}
	s.parser.SetFields(c.Fields)
	var l logs.Line
	for text := bytes.TrimRight(c.Text, "\r\n"); len(text) > 0; text = bytes.TrimRight(text, "\r\n") {
		begin := bytes.LastIndexByte(text, '\n') + 1
		if ok, err := s.parser.Parse(text[begin:], &l); ok && err == nil {
			break
		}
		text = text[:begin]
	}
	if l.Time < s.future.Unix() {
		return nil
	}
	line := time.Unix(l.Time, 0).UTC()
	if err := s.clock.isBehind(ctx, c.Name, line); err != nil {
		return err
	}
	return fmt.Errorf("%s: its last line is of %s, but the clock says %s: set the clock, or the server's that writes "+
		"the log: %w", c.Name, line.Format(time.RFC3339), s.Now().UTC().Format(time.RFC3339), logs.ErrWait)
}

// run makes views of a chunk.
func (w *worker) run(j job) {
	w.viewer.Fixed = -1
	if project := w.Collector.sources[j.source].Project; project != "" {
		w.viewer.Fixed = int32(slices.Index(w.projects, project))
	}
	b := w.viewer.Batch(w.parser, j.chunk)
	j.chunk.Free()
	w.locked.Lock()
	defer w.locked.Unlock()
	w.batch.Views = append(append(w.batch.Views, b.Views...), b.Missed...)
	src := &w.sources[j.source]
	if n := b.LeftOut[count.Late]; n > 0 && src.Lines[string(count.Late)] == 0 {
		w.Logger.Warn("lines of months that are closed are not counted: the log was added, or got them, after that; "+
			"docgauge site count reads the log alone, and another DOCGAUGE_SITE_DIR reads all logs again", "log", j.name,
			"lines", n)
	}
	src.Watermark = max(src.Watermark, min(b.Newest, w.Now().Unix()))
	src.Lines["view"] += int64(len(b.Views))
	for why, n := range b.LeftOut {
		src.Lines[string(why)] += int64(n)
	}
	w.changed[j.source] = true
	if b.Bad != nil && !w.unparsed[j.source] {
		w.unparsed[j.source] = true
		w.Logger.Warn("a line is not of the log's format; the next ones are only counted", "log", j.name,
			"line", b.Bad.Line,
			"rule", b.Bad.Rule, "masked", b.Bad.Text)
	}
	b.Free()
}

// commit makes the batch durable. No worker has a chunk.
func (s *session) commit(ctx context.Context) error {
	if s.failed != nil {
		return s.failed
	}
	b := s.batch
	b.Projects = s.projects
	b.Pages, b.Agents = s.words.After(s.durablePages, s.durableAgents, s.projects)
	for i := range s.changed {
		b.Sources = append(b.Sources, s.sources[i])
	}
	if len(b.Views)+len(b.Positions)+len(b.Sources) == 0 {
		return nil
	}
	if err := s.store.Commit(ctx, b); err != nil {
		return err
	}
	now := s.Now()
	for i := range b.Views {
		if i == 0 || b.Views[i].Day != b.Views[i-1].Day {
			s.touched[b.Views[i].Day] = now
		}
	}
	s.durablePages += len(b.Pages)
	s.durableAgents += len(b.Agents)
	s.batch = facts.Batch{Views: b.Views[:0]}
	clear(s.changed)
	s.show()
	return s.unlessDamaged(s.store.Merge(ctx))
}

// show makes what is durable visible.
func (s *session) show() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, src := range s.sources {
		src.Lines = maps.Clone(src.Lines)
		s.status[i].Source = src
	}
}

// unlessDamaged passes errors on, but for those of a damaged segment: it stays as it is, says so when
// it is counted, and keeps nobody from collecting.
func (s *session) unlessDamaged(err error) error {
	if !errors.Is(err, facts.ErrDamaged) {
		return err
	}
	if !s.damaged {
		s.Logger.Error("facts are damaged; windows that have them are not answered", "error", err)
	}
	s.damaged = true
	return nil
}

// tidy does what is due once everything that there was has been read.
func (s *session) tidy(ctx context.Context) error {
	if err := s.clock.bridge(ctx); err != nil {
		return err
	}
	now, held, err := s.clock.look(ctx)
	if err != nil {
		return err
	}
	if err := s.closeEpochs(ctx, true); err != nil {
		return err
	}
	if now.Sub(s.warned) >= 24*time.Hour {
		s.warned = now
		sources, _ := s.Sources()
		for _, src := range sources {
			if src.Watermark == 0 && src.Err == "" {
				s.Logger.Warn("no line of a log was ever read: its days are answered as days without readers; "+
					"is the path right?", "log", src.Name)
			}
		}
	}
	several, err := s.store.Days(ctx)
	if err != nil {
		return err
	}
	for _, day := range several {
		if day < analytics.DateOf(now) && now.Sub(s.touched[day]) >= quiet {
			if err := s.unlessDamaged(s.store.MergeDay(ctx, day)); err != nil {
				return err
			}
		}
	}
	if s.Retention > 0 && !held && s.isConfirmed(now) {
		return s.store.DropBefore(ctx, s.oldest(now))
	}
	return nil
}

// isConfirmed reports whether something besides the clock says that the time is about now: the clock of a first start may
// be years ahead, and nothing shows that it has jumped.
func (s *session) isConfirmed(now time.Time) bool {
	return s.clock.isSteady() || slices.ContainsFunc(s.sources, func(src facts.Source) bool {
		return now.Unix()-src.Watermark <= int64(longestStop/time.Second)
	})
}

// oldest is the first day that is kept.
func (s *session) oldest(now time.Time) analytics.Date {
	return OldestDay(analytics.DateOf(now), s.Retention)
}

// closeEpochs closes those that are due: whose sources, if all of what they have was read, are past
// their end, and those that have waited too long. No worker has a chunk.
func (s *session) closeEpochs(ctx context.Context, caughtUp bool) error {
	now, held, err := s.clock.look(ctx)
	if err != nil {
		return err
	}
	if !caughtUp && now.Sub(s.looked) < time.Minute && !now.Before(s.looked) {
		return nil
	}
	s.looked = now
	open, err := s.store.OpenEpochs(ctx)
	if err != nil {
		return err
	}
	if held {
		open = nil
	}
	for _, e := range open {
		if e.Opened.After(now.Add(longestStop)) { // by a clock that was ahead
			if err := s.store.Reopen(ctx, now); err != nil {
				return err
			}
			e.Opened = now
		}
		if now.Before(latest(e)) && (!caughtUp || !s.past(e.Project, e.Epoch.To().Time().Add(grace))) {
			continue
		}
		if err := s.store.CloseEpoch(ctx, e.Project, e.Epoch); err != nil {
			if err = s.unlessDamaged(err); err != nil {
				return fmt.Errorf("close the epoch of %s that began on %s: %w", e.Project, e.Epoch.From(), err)
			}
		}
		s.Logger.Info("key destroyed", "project", e.Project, "epoch", e.Epoch.From(), "days_until", e.Epoch.To())
		s.forget = true
		for _, w := range s.workers {
			clear(w.keys)
		}
	}
	if s.forget {
		busy, err := s.store.Forget(ctx)
		s.forget = busy || err != nil
		return err
	}
	return nil
}

// latest is when the key of an epoch is destroyed at the latest.
func latest(e facts.OpenEpoch) time.Time {
	last := e.Epoch.To().Time()
	if e.Opened.After(last) { // for logs of the past
		last = e.Opened
	}
	return last.Add(longest)
}

// past reports whether every log of a project has a line of that time or later. A project may have none.
func (s *session) past(project string, t time.Time) bool {
	if s.Now().Before(t) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.sources {
		// A file of a glob that cannot be read is behind the others.
		if s.feeds(i, project) && (s.sources[i].Watermark < t.Unix() || s.status[i].Err != "") {
			return false
		}
	}
	return true
}
