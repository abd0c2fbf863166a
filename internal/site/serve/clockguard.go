package serve

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/facts"
)

const (
	// markInterval is the time between two durable marks of the clock, and how far it may fall back without having
	// jumped.
	markInterval = time.Hour
	// longestStop is how far the clock may be ahead of what it should show: the process or the machine was stopped.
	// Lines that bridge a longer stop are at most as far apart.
	longestStop = 72 * time.Hour
	// steadyAfter is how long the clock must have gone evenly after a jump, while this runs.
	steadyAfter = 24 * time.Hour
)

// clockGuard says whether the clock may decide what cannot be undone: closing an epoch, removing old facts, archiving
// jobs, passing over lines of the future. It may not after a jump, until it has gone evenly for steadyAfter.
//
// A jump is a clock that differs from the last mark and the running time since: it is behind by more than markInterval,
// or ahead by more than longestStop and no lines of files bridge the time between. Marks are durable, so that the guard
// also sees a jump across a restart. Without a mark, at the first start, nothing is a jump; but a file whose last lines
// are of the future says that the clock is behind. Only isHeld is safe for concurrent use.
type clockGuard struct {
	store   *facts.Store
	now     func() time.Time
	running func() time.Duration // a clock that nothing sets
	logger  *slog.Logger

	mark   facts.ClockMark // the last one; zero: not yet read
	ran    time.Duration   // what running said then
	isHeld atomic.Bool
}

// look returns the time, and whether nothing that cannot be undone may follow it.
func (g *clockGuard) look(ctx context.Context) (now time.Time, held bool, err error) {
	now, ran := g.now().Round(0), g.running() // without the monotonic time, which does not jump
	if g.mark.At.IsZero() {
		mark, err := g.store.ClockMark(ctx)
		if err != nil {
			return now, true, err
		}
		g.mark, g.ran = mark, ran
		g.isHeld.Store(g.mark.Jumped)
	}
	next, passed := g.mark, ran-g.ran
	due := g.mark.At.Add(passed)
	switch off := now.Sub(due); {
	case g.mark.At.IsZero(): // the first start
		next.At = now
	case off < -markInterval || off > longestStop:
		next = facts.ClockMark{At: now, Jumped: true}
		if off > 0 {
			next.Since = due
			if g.mark.Jumped && !g.mark.Since.IsZero() {
				next.Since = g.mark.Since
			}
		}
		g.logger.Warn("the clock has jumped, or docgauge was stopped for long: no key is destroyed and no facts are "+
			"removed until it has gone evenly for 24 hours", "clock", now.UTC(), "expected", due.UTC())
	case passed >= markInterval:
		next.At, next.Steady = now, min(next.Steady+passed, steadyAfter)
		if next.Jumped && next.Steady == steadyAfter {
			next.Jumped, next.Since = false, time.Time{}
			g.logger.Info("the clock has gone evenly for 24 hours: keys are destroyed and facts removed again when due")
		}
	default:
		return now, g.mark.Jumped, nil
	}
	return now, next.Jumped, g.save(ctx, next, ran)
}

// save makes a mark durable before anything follows from it.
func (g *clockGuard) save(ctx context.Context, next facts.ClockMark, ran time.Duration) error {
	if err := g.store.KeepClockMark(ctx, next); err != nil {
		return err
	}
	g.mark, g.ran = next, ran
	g.isHeld.Store(next.Jumped)
	return nil
}

// isSteady reports whether the clock has gone evenly for so long that lines of the future are wrong, and not the clock.
func (g *clockGuard) isSteady() bool { return g.mark.Steady >= steadyAfter }

// isBehind notes that a file ends with lines that are newer than the clock.
func (g *clockGuard) isBehind(ctx context.Context, name string, line time.Time) error {
	if g.mark.Jumped {
		return nil
	}
	g.logger.Warn("a log ends with lines of the future: is the clock right? The log is read once it is, or once the "+
		"clock has gone evenly for 24 hours", "log", name, "line", line.UTC(), "clock", g.now().UTC())
	next := g.mark
	next.Jumped = true
	return g.save(ctx, next, g.ran)
}

// bridge ends the hold after a stop if there are facts of the time between, of projects but some. All that the logs
// have was read.
func (g *clockGuard) bridge(ctx context.Context, but []string) error {
	if !g.mark.Jumped || g.mark.Since.IsZero() {
		return nil
	}
	from, to := analytics.DateOf(g.mark.Since), analytics.DateOf(g.mark.At)
	days, err := g.store.FactDays(ctx, from, to, but)
	if err != nil {
		return err
	}
	for _, day := range append(days, to) {
		if time.Duration(day-from)*24*time.Hour > longestStop {
			return nil
		}
		from = day
	}
	next := g.mark
	next.Jumped, next.Since = false, time.Time{}
	g.logger.Info("the logs have lines of the time in which docgauge was stopped: the clock is right")
	return g.save(ctx, next, g.ran)
}

// newClockGuard returns the guard of a collector.
func newClockGuard(s *facts.Store, o CollectOptions) *clockGuard {
	g := &clockGuard{store: s, now: o.Now, running: o.Running, logger: o.Logger}
	g.isHeld.Store(true) // until the first look
	if began := time.Now(); g.running == nil {
		g.running = func() time.Duration { return time.Since(began) }
	}
	g.logger = cmp.Or(g.logger, slog.New(slog.DiscardHandler))
	return g
}
