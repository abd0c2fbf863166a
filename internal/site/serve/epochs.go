package serve

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// tidy does what is due once the logs have been read to their ends.
func (s *session) tidy(ctx context.Context) error {
	if err := s.clock.bridge(ctx, s.pushedProjects()); err != nil {
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
				if _, isPushed := (logs.Source{Where: src.Name}).Pushed(); isPushed {
					s.Logger.Warn("no line was ever pushed to a source: answers of its projects are 503 until one comes; "+
						"does its host send them?", "log", src.Name)
					continue
				}
				s.Logger.Warn("no line of a log was ever read: its days are answered as days without readers; "+
					"is the path right?", "log", src.Name)
			}
		}
	}
	if s.pushed != nil && s.pushed.rotate(now, held) {
		s.forget = true
		if err := s.commit(ctx); err != nil {
			return err
		}
	}
	several, err := s.store.Days(ctx)
	if err != nil {
		return err
	}
	for _, day := range several {
		if day < analytics.DateOf(now) && now.Sub(s.touched[day]) >= quietTime {
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

// isConfirmed reports whether something besides the clock confirms the time: the clock of a first start may be years
// ahead, and nothing shows that it has jumped.
func (s *session) isConfirmed(now time.Time) bool {
	return s.clock.isSteady() || slices.ContainsFunc(s.sources, func(src facts.Source) bool {
		_, isPushed := (logs.Source{Where: src.Name}).Pushed()
		return !isPushed && now.Unix()-src.Watermark <= int64(longestStop/time.Second)
	})
}

// pushedProjects are the projects that have lines that were pushed: these say nothing of the clock.
func (s *session) pushedProjects() (all []string) {
	for _, project := range s.projects {
		for i, source := range s.Collector.sources {
			if _, isPushed := source.Pushed(); isPushed && s.feeds(i, project) {
				all = append(all, project)
				break
			}
		}
	}
	return all
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
	if !caughtUp && now.Sub(s.checked) < time.Minute && !now.Before(s.checked) {
		return nil
	}
	s.checked = now
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
		if now.Before(latest(e)) && (!caughtUp || !s.past(e.Project, e.Epoch.To().Time().Add(epochGrace))) {
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
			w.readers.Forget()
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
	return last.Add(maxEpochWait)
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
