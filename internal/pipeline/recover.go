package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/sinks"
)

// Owed is a revision in the ledger that some sinks do not have yet.
type Owed struct {
	analytics.Revision
	// Has lists the sinks that committed it.
	Has []string
}

// Recover takes up what earlier runs left in the spool, without a request:
// sealed windows the ledger does not know are entered, windows a sink lacks are
// delivered, and revisions that are owed but whose file is gone are forgotten,
// so that their windows are due again. It returns how many windows it delivered
// everywhere, and the failures of single sinks; other errors end it.
//
// newest holds the newest revision of each window in the ledger.
func (p *Pipeline) Recover(ctx context.Context, newest map[analytics.Key]Owed) (delivered int, failures []error, err error) {
	p.mu.Lock()
	clear(p.down)
	p.mu.Unlock()
	waiting, damaged, err := p.spool.List(ctx)
	if err != nil {
		return 0, nil, err
	}
	for _, err := range damaged {
		p.cfg.Logger.Error("damaged window file put aside", "error", err)
	}
	held := map[analytics.Key]int32{}
	for _, w := range waiting {
		held[w.Revision().Key] = max(held[w.Revision().Key], w.Revision().Number)
	}
	if err := p.forgetLost(ctx, newest, held); err != nil {
		return 0, nil, err
	}
	for _, w := range waiting {
		done, failed, err := p.takeUp(ctx, w, newest[w.Revision().Key], held[w.Revision().Key])
		if err != nil {
			return delivered, failures, err
		}
		if done {
			delivered++
		}
		failures = append(failures, failed...)
	}
	return delivered, failures, nil
}

// takeUp delivers one window of the spool to the sinks that lack it.
func (p *Pipeline) takeUp(ctx context.Context, w *spool.Sealed, newest Owed, held int32) (done bool, failures []error, err error) {
	rev := w.Revision()
	if rev.Number < max(newest.Number, held) {
		return false, nil, p.spool.Remove(w) // a newer revision has taken its place
	}
	if newest.Number < rev.Number {
		if err := p.enterLate(ctx, rev); err != nil {
			return false, nil, err
		}
	}
	var lacking []sinks.Sink
	for _, s := range p.sinks {
		if newest.Number != rev.Number || !slices.Contains(newest.Has, s.Name()) {
			lacking = append(lacking, s)
		}
	}
	ctx, cancel := lingering(ctx)
	defer cancel()
	failures = p.deliver(ctx, w, lacking)
	for _, s := range lacking {
		if p.isDown(s.Name()) {
			return false, failures, nil
		}
	}
	p.cfg.Logger.Info("window delivered from the spool", "window", rev.Key.String(), "revision", rev.Number)
	return len(lacking) > 0, failures, p.spool.Remove(w)
}

// enterLate records a window whose process died between sealing and recording.
func (p *Pipeline) enterLate(ctx context.Context, rev analytics.Revision) error {
	requests, err := p.spool.Requests(rev)
	if err != nil {
		return err
	}
	return p.ledger.Record(ctx, rev, requests, p.sinkNames())
}

// forgetLost makes windows due again whose sealed file is gone although no sink
// has it. Where some sink has it, the others can be filled from there.
func (p *Pipeline) forgetLost(ctx context.Context, newest map[analytics.Key]Owed, held map[analytics.Key]int32) error {
	for k, o := range newest {
		if held[k] >= o.Number {
			continue
		}
		lacking := slices.DeleteFunc(p.sinkNames(), func(s string) bool { return slices.Contains(o.Has, s) })
		if len(lacking) == 0 {
			continue
		}
		if len(o.Has) > 0 {
			p.cfg.Logger.Warn("window is not in every sink and no longer in the spool", "window", k.String(), "lacking", lacking)
			continue
		}
		p.cfg.Logger.Warn("window is in no sink and no longer in the spool: it will be read again", "window", k.String())
		if err := p.ledger.Forget(ctx, o.Revision); err != nil {
			return fmt.Errorf("recover: %w", err)
		}
	}
	return nil
}
