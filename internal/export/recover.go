package export

import (
	"context"
	"maps"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/schedule"
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
// everywhere, and the failures of single sinks; other errors end it. Sinks that
// were down in an earlier run are tried again.
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
	newest, err = p.forgetLost(ctx, newest, held)
	if err != nil {
		return 0, nil, err
	}
	for _, w := range waiting {
		if err := ctx.Err(); err != nil {
			return delivered, failures, err
		}
		done, failed, err := p.takeUp(ctx, w, newest[w.Revision().Key], held[w.Revision().Key])
		failures = append(failures, failed...)
		if err != nil {
			return delivered, failures, err
		}
		if done {
			delivered++
		}
	}
	return delivered, failures, nil
}

// takeUp delivers one window of the spool to the sinks that lack it.
func (p *Pipeline) takeUp(ctx context.Context, w *spool.Sealed, newest Owed, held int32) (done bool, failures []error, err error) {
	rev := w.Revision()
	if rev.Number < max(newest.Number, held) {
		return false, nil, p.spool.Remove(w) // a newer revision has taken its place
	}
	ctx, cancel := clock.Outlive(ctx, grace, commitTimeout)
	defer cancel()
	if newest.Number < rev.Number {
		if err := p.enterLate(ctx, w); err != nil {
			return false, nil, err
		}
	}
	lacking := p.lacking(rev, newest)
	everywhere, failures, err := p.deliver(ctx, w, lacking)
	if err != nil || !everywhere {
		return false, failures, err
	}
	if len(lacking) > 0 {
		p.cfg.Logger.Info("window delivered from the spool", "window", rev.Key.String(), "revision", rev.Number)
	}
	return len(lacking) > 0, failures, p.spool.Remove(w)
}

// lacking returns the sinks that do not have the revision, as far as the ledger knows.
func (p *Pipeline) lacking(rev analytics.Revision, newest Owed) []sinks.Sink {
	return slices.DeleteFunc(slices.Clone(p.sinks), func(s sinks.Sink) bool {
		return newest.Number == rev.Number && slices.Contains(newest.Has, s.Name())
	})
}

// enterLate records a window whose process died between sealing and recording.
// Where its page log is gone it counts as the fewest requests it can have cost.
func (p *Pipeline) enterLate(ctx context.Context, w *spool.Sealed) error {
	rev := w.Revision()
	requests, err := p.spool.Requests(rev)
	if err != nil {
		return err
	}
	return p.ledger.Record(ctx, rev, analytics.Provenance{Requests: max(requests, schedule.Requests(rev.Rows, schedule.PageRows)), Checksum: w.Checksum()}, p.sinkNames())
}

// forgetLost makes windows due again whose sealed file is gone although no sink
// has it, and returns what is left of newest. Where some sink has it, the
// others can be filled from there.
func (p *Pipeline) forgetLost(ctx context.Context, newest map[analytics.Key]Owed, held map[analytics.Key]int32) (map[analytics.Key]Owed, error) {
	left := maps.Clone(newest)
	elsewhere := map[string]int{}
	for k, o := range newest {
		lacking := p.lacking(o.Revision, o)
		switch {
		case held[k] >= o.Number || len(lacking) == 0:
			continue
		case len(o.Has) > 0:
			for _, s := range lacking {
				elsewhere[s.Name()]++
			}
			continue
		}
		p.cfg.Logger.Warn("window is in no sink and no longer in the spool: it will be read again", "window", k.String())
		if err := p.ledger.Forget(ctx, o.Revision); err != nil {
			return nil, err
		}
		delete(left, k)
	}
	for sink, n := range elsewhere {
		p.cfg.Logger.Warn("sink lacks windows that are no longer in the spool: another sink has them", "sink", sink, "windows", n,
			"remedy", "docgauge load --sink "+sink+", or docgauge export --from --to")
	}
	return left, nil
}
