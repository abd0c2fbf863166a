package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// session is the state of a collector beyond what was durable at its beginning.
type session struct {
	*Collector
	follower *logs.Follower
	words    *count.Vocabulary
	repeats  *count.Repeats // locked guards it
	// The numbers of words that are durable.
	durablePages, durableAgents, durableReferrals int

	parser *logs.Parser // for a look at single lines

	workers []*worker
	jobs    chan job
	pending sync.WaitGroup

	taken int // bytes of lines, in this poll

	pushed   *pushedIDs // nil if no source is pushed
	group    []*push    // bodies that are being taken
	lastPush time.Time

	// The batch that workers add to.
	batch   facts.Batch
	changed map[int]bool // sources
	failed  error
	locked  sync.Mutex // guards batch, changed, failed and sources

	sources []facts.Source
	touched map[analytics.Date]time.Time // when a day last got views
	checked time.Time                    // when epochs were last checked
	future  time.Time                    // lines from this time on are not counted
	forget  bool                         // deleted rows must still be overwritten
	// Problems that were already logged.
	damaged  bool
	unparsed map[int]bool // by source
}

// job is a chunk to be parsed.
type job struct {
	source int
	key    string // of the file
	name   string
	chunk  logs.Lines
	push   *push // the body that has the lines; nil: a log has them
}

// worker makes views, for one goroutine.
type worker struct {
	*session
	viewer  *count.Viewer
	parser  *logs.Parser
	readers *facts.Identifier
}

func (c *Collector) newSession(ctx context.Context) (*session, error) {
	r, err := c.store.Resume(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{Collector: c, words: count.NewVocabulary(), repeats: count.NewRecentRepeats(), parser: c.rules.Parser(),
		changed: map[int]bool{}, unparsed: map[int]bool{}, touched: map[analytics.Date]time.Time{},
		sources: make([]facts.Source, len(c.sources)),
		forget:  true}
	s.words.Restore(r.Pages, r.Agents, r.Referrals, c.projects)
	s.durablePages, s.durableAgents, s.durableReferrals = len(r.Pages), len(r.Agents), len(r.Referrals)
	for i, src := range c.sources {
		s.sources[i] = facts.Source{Name: src.Where, Lines: map[string]int64{}}
		for _, known := range r.Sources {
			if known.Name == src.Where && known.Lines != nil {
				s.sources[i] = known
			}
		}
	}
	s.show()
	if s.hasPushed() {
		if s.pushed, err = s.newPushedIDs(ctx); err != nil {
			return nil, err
		}
	}
	s.follower, err = logs.NewFollower(c.sources, r.Positions, logs.FollowOptions{Stdin: c.Stdin, Now: c.Now})
	if err != nil {
		return nil, err
	}
	for range runtime.GOMAXPROCS(0) {
		v := count.NewViewer(s.rules, s.words, 0, 0)
		w := &worker{s, v, s.rules.Parser(), s.store.NewIdentifier(s.projects, s.Now)}
		v.Several, v.All, v.Sources = len(s.projects) > 1, true, true
		v.Identify, v.Repeats = w.inEpochs, s.repeats
		s.workers = append(s.workers, w)
	}
	return s, nil
}

// inEpochs gives a view its reader's ids in the two epochs that have its month.
func (w *worker) inEpochs(out *facts.View, who []byte) count.Reason {
	open, err := w.readers.Identify(out, who)
	if err != nil {
		w.locked.Lock()
		w.failed = cmp.Or(w.failed, err) // the batch is lost
		w.locked.Unlock()
	}
	if !open {
		return count.Late
	}
	return ""
}

// begin says which lines count from here on.
func (s *session) begin(ctx context.Context) error {
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
	s.future = (analytics.DateOf(now) + 2).Time() // clocks differ by less than a day
	for _, w := range s.workers {
		w.viewer.From, w.viewer.To, w.viewer.Future = from, s.future.Unix(), s.future.Unix()
		w.viewer.ShownFrom = from
	}
	return nil
}

// work runs do, which sends jobs to the workers.
func (s *session) work(do func()) {
	s.jobs = make(chan job)
	var running sync.WaitGroup
	for _, w := range s.workers {
		running.Go(func() {
			for j := range s.jobs {
				w.run(j)
				s.pending.Done()
			}
		})
	}
	do()
	close(s.jobs)
	running.Wait()
}

// poll reads what is new in the logs and makes it durable.
func (s *session) poll(ctx context.Context) error {
	err := s.begin(ctx)
	if err != nil {
		return err
	}
	var stopped error // the cause that ended the poll, if it was no log
	s.work(func() {
		err = s.follower.Poll(ctx, func(c logs.Chunk) error {
			err := s.take(ctx, c)
			if errors.Is(err, logs.ErrWait) {
				return err
			}
			stopped = cmp.Or(err, context.Cause(ctx))
			return stopped
		})
	})
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
			src.IsRead, src.complete = true, src.Watermark
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
	full, failed := len(s.batch.Views)+len(s.batch.Shown) >= viewsPerCommit, s.failed
	s.locked.Unlock()
	if failed != nil {
		return failed
	}
	if s.taken += len(c.Text); len(c.Text)+c.TooLong > 0 {
		s.pending.Add(1)
		s.jobs <- job{source: c.Source, key: c.Key, name: c.Name, chunk: c.Lines}
	}
	if s.pushed != nil && time.Since(s.lastPush) >= pushInterval {
		if p := s.waiting(); p != nil {
			s.pending.Wait()
			return s.takePushes(ctx, p)
		}
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
	w.viewer.Pushed = nil
	if j.push != nil {
		w.viewer.Pushed = func(id []byte, missed bool) bool {
			kind := viewID
			if missed {
				kind = missID
			}
			return w.pushed.add(w.pushed.id(j.key, kind, id))
		}
	}
	b := w.viewer.Batch(w.parser, j.chunk)
	j.chunk.Free()
	w.locked.Lock()
	defer w.locked.Unlock()
	w.batch.Views = append(append(w.batch.Views, b.Views...), b.Missed...)
	w.batch.Shown = append(w.batch.Shown, b.Shown...)
	w.tallies[j.source].AddRecent(b.Tally, recentLines)
	w.repeats.Add(j.source, j.key, j.name, b)
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
	shown := "masked"
	if p := j.push; p != nil {
		shown = "lengths"
		p.taken.Lines, p.taken.Views = p.taken.Lines+b.Lines, p.taken.Views+len(b.Views)
		p.taken.Unparsed, p.nameless = p.taken.Unparsed+b.LeftOut[count.Unparsed], p.nameless+b.Nameless
	}
	if b.Bad != nil && !w.unparsed[j.source] {
		w.unparsed[j.source] = true
		w.Logger.Warn("a line is not of the log's format; the next ones are only counted", "log", j.name,
			"line", b.Bad.Line,
			"rule", b.Bad.Rule, shown, b.Bad.Text)
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
	b.Pages, b.Agents, b.Referrals = s.words.After(s.durablePages, s.durableAgents, s.durableReferrals, s.projects)
	for i := range s.changed {
		b.Sources = append(b.Sources, s.sources[i])
	}
	now := s.Now()
	if s.pushed != nil {
		s.pushed.addTo(&b, now)
	}
	if len(b.Views)+len(b.Shown)+len(b.Positions)+len(b.Sources) == 0 && b.Forgotten == 0 {
		return nil
	}
	if err := s.store.Commit(ctx, b); err != nil {
		return err
	}
	if s.pushed != nil {
		s.pushed.kept()
	}
	for i := range b.Views {
		if i == 0 || b.Views[i].Day != b.Views[i-1].Day {
			s.touched[b.Views[i].Day] = now
		}
	}
	s.durablePages += len(b.Pages)
	s.durableAgents += len(b.Agents)
	s.durableReferrals += len(b.Referrals)
	s.batch = facts.Batch{Views: b.Views[:0], Shown: b.Shown[:0]}
	clear(s.changed)
	s.show()
	s.answer(nil) // after show: a sender that has a 200 finds its lines in the answers of the API
	return s.unlessDamaged(s.store.Merge(ctx))
}

// show makes what is durable visible.
func (s *session) show() {
	repeated := s.repeats.Findings()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, src := range s.sources {
		src.Lines = maps.Clone(src.Lines)
		s.status[i].Source = src
		before := s.status[i].Findings
		s.status[i].Findings = append(s.rules.Findings(s.tallies[i], leastLines), repeated[i]...)
		// Where claimed browsers count, none needs evidence.
		s.status[i].Findings = slices.DeleteFunc(s.status[i].Findings, func(f count.Finding) bool {
			return f.Name == count.NoEvidence && !f.Ruins
		})
		for _, f := range s.status[i].Findings {
			if !slices.ContainsFunc(before, func(old count.Finding) bool { return old.Name == f.Name }) {
				s.Logger.Warn("the numbers of a log may be wrong", "log", src.Name, "finding", f.Text)
			}
		}
	}
}

// unlessDamaged returns an error unless it says that a segment is damaged. Such a segment stays as it is, and answers that
// need it fail, but collecting continues.
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

// Run collects until ctx ends. After an error it tries again: the logs, and who pushes, keep their lines.
func (c *Collector) Run(ctx context.Context) error {
	defer c.stop()
	pause := c.Every
	for ctx.Err() == nil {
		err := c.session(ctx, func() { pause = c.Every })
		if errors.Is(err, facts.ErrUnusable) {
			return err
		}
		if ctx.Err() == nil {
			c.setResult(err)
			c.Logger.Error("logs not collected; docgauge tries again", "error", err)
		}
		_ = clock.Sleep(ctx, pause) // or until ctx ends
		pause = min(2*max(pause, time.Second), maxRetryPause)
	}
	return nil
}

// session collects until ctx ends or something cannot be written.
func (c *Collector) session(ctx context.Context, worked func()) (err error) {
	s, err := c.newSession(ctx)
	if err != nil {
		return err
	}
	defer s.follower.Close() //nolint:errcheck // it was only read
	defer func() {
		if err != nil && ctx.Err() == nil {
			s.setResult(err) // before a body is sent again
		}
		s.answer(err)
	}()
	for {
		if err := s.poll(ctx); err != nil {
			return err
		}
		if err := s.tidy(ctx); err != nil {
			return err
		}
		c.setResult(nil)
		worked()
		if s.taken < busyBytes {
			if err := s.rest(ctx); err != nil {
				return err
			}
		}
		s.taken = 0
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
}
