package serve

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/ingest"
	"github.com/docgauge/docgauge/internal/site/logs"
)

const (
	// maxWaiting is the number of bodies that wait for the next commit, and takeTimeout how long one waits at most.
	maxWaiting  = 128
	takeTimeout = 20 * time.Second
	// pushInterval is the least time between two commits of bodies while logs are read.
	pushInterval = 200 * time.Millisecond
	// silence is the time after the newest line that was pushed, or an empty body, after which lines are missing.
	silence = 24 * time.Hour
)

// push is a body on its way to a commit.
type push struct {
	*ingest.Body
	taken ingest.Taken
	// nameless are the lines to which the host has given no id.
	nameless int
	// isTaken is set by the session that takes it, or by its request that waits no longer.
	isTaken atomic.Bool
	done    chan error
}

// Take makes the lines of a body durable, together with other requests' of the moment. After an error nothing
// of it was taken, or it cannot be known: the same body may be sent again in any case.
func (c *Collector) Take(ctx context.Context, b *ingest.Body) (ingest.Taken, error) {
	if err := c.Failed(); err != nil {
		return ingest.Taken{}, ingest.Unavailable("lines cannot be kept now: the log of docgauge site serve says why")
	}
	p := &push{Body: b, done: make(chan error, 1)}
	select {
	case c.pushes <- p:
	default:
		return p.taken, ingest.Unavailable("too many bodies wait to be kept")
	}
	timeout := time.NewTimer(takeTimeout)
	defer timeout.Stop()
	why := "what was sent could not be kept in time"
	select {
	case err := <-p.done:
		return p.taken, err
	case <-timeout.C:
	case <-ctx.Done():
	case <-c.stopped:
		why = "docgauge stops"
	}
	if p.isTaken.CompareAndSwap(false, true) {
		return ingest.Taken{}, ingest.Unavailable(why)
	}
	err := <-p.done // the memory of the body is in use until then
	return p.taken, err
}

// takePushes takes the bodies that wait, first before them, in one commit. Workers are running, and have no chunk.
func (s *session) takePushes(ctx context.Context, first *push) error {
	s.forget = s.pushed.rotate(s.Now(), s.clock.isHeld.Load()) || s.forget
	inGroup := map[uint64]bool{}
	for p := first; p != nil; p = s.waiting() {
		if !p.isTaken.CompareAndSwap(false, true) {
			continue
		}
		s.group = append(s.group, p)
		source := &s.sources[p.Source]
		if p.IsEmpty() {
			s.locked.Lock()
			source.Watermark = max(source.Watermark, s.Now().Unix())
			s.changed[p.Source] = true
			s.locked.Unlock()
			continue
		}
		id := s.idOf(p)
		if p.taken.Again = inGroup[id] || s.pushed.has(id); p.taken.Again {
			continue
		}
		inGroup[id] = true
		err := logs.ReadLines(p.Reader(), logs.Part{First: 1}, func(lines logs.Lines) error {
			s.pending.Add(1)
			s.jobs <- job{source: p.Source, key: source.Name, name: source.Name, chunk: lines, push: p}
			return nil
		})
		if err != nil {
			return err
		}
	}
	s.pending.Wait()
	for _, p := range s.group {
		if p.nameless > 0 {
			s.pushed.add(s.idOf(p))
		}
	}
	s.lastPush = time.Now()
	if err := s.commit(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	s.answer(nil) // of bodies that were known, nothing was to be committed
	return nil
}

// idOf returns the id of a body.
func (s *session) idOf(p *push) uint64 {
	return s.pushed.id(s.sources[p.Source].Name, bodyID, p.Digest[:])
}

// waiting returns a body that waits; nil without one.
func (s *session) waiting() *push {
	select {
	case p := <-s.pushes:
		return p
	default:
		return nil
	}
}

// answer ends the requests whose bodies were taken.
func (s *session) answer(err error) {
	if err != nil {
		err = ingest.Unavailable("what was sent could not be kept: the log of docgauge site serve says why")
	}
	now := s.Now().Unix()
	for _, p := range s.group {
		if err == nil {
			s.heard[p.Source].Store(now)
		}
		p.done <- err
	}
	s.group = s.group[:0]
}

// rest waits until the next poll is due, and takes bodies.
func (s *session) rest(ctx context.Context) error {
	due := time.NewTimer(s.Every)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-due.C:
			return nil
		case p := <-s.pushes:
			if err := s.begin(ctx); err != nil {
				p.done <- ingest.Unavailable("lines cannot be kept now: the log of docgauge site serve says why")
				return err
			}
			var err error
			s.work(func() { err = s.takePushes(ctx, p) })
			if err != nil {
				return err
			}
		}
	}
}

// lacksPushed returns the refusal of an answer about days that end before to, if nothing came to a source for so long
// that lines of these days may be missing.
func (c *Collector) lacksPushed(i int, to time.Time) error {
	s := &c.status[i]
	if _, isPushed := c.sources[i].Pushed(); !isPushed {
		return nil
	}
	if now := c.Now(); to.After(now) {
		to = now // no line of what has not happened is missing
	}
	if s.Watermark > 0 && !to.After(s.Newest().Add(silence)) {
		return nil
	}
	what := "no line was ever pushed to it"
	if s.Watermark > 0 {
		what = "no line was pushed to it since " + s.Newest().Format(time.RFC3339)
	}
	return api.Fail(http.StatusServiceUnavailable, "log %d of DOCGAUGE_SITE_LOGS: %s, and the answer could lack lines: "+
		"does its host send them? An empty body says that there are none", i+1, what).
		With("Retry-After", "300")
}
