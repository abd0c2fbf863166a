package export

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
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
// sealed windows that the ledger does not know are recorded, windows that a sink lacks are
// delivered, those that were in memory from their page logs, and revisions that are owed
// but of which nothing is left are forgotten, so that their windows are due again. It
// returns how many windows it delivered to all sinks that lacked them, and the failures of
// single sinks; other errors end it. Sinks that were down in an earlier run are tried again.
//
// newest holds the newest revision of each window in the ledger.
func (p *Pipeline) Recover(ctx context.Context, newest map[analytics.Key]Owed) (
	delivered int, failures []error, err error,
) {
	p.down.Clear()
	for sink := range p.withheld {
		p.down.Store(sink, true)
	}
	defer func() { err = errors.Join(err, p.spool.RemoveIdle()) }()
	waiting, damaged, err := p.spool.List(ctx)
	if err != nil {
		return 0, nil, err
	}
	for _, err := range damaged {
		p.cfg.Logger.Error("damaged window file put aside", "error", err)
	}
	held := map[analytics.Key]int32{} // the newest revision in the spool
	for _, sealed := range waiting {
		held[sealed.Revision().Key] = max(held[sealed.Revision().Key], sealed.Revision().Number)
	}
	resealed, err := p.takeLogs(ctx, newest, held)
	if err != nil {
		return 0, nil, err
	}
	waiting = append(waiting, resealed...)
	if newest, err = p.forgetLost(ctx, newest, held); err != nil {
		return 0, nil, err
	}
	for _, sealed := range waiting {
		if err := ctx.Err(); err != nil {
			return delivered, failures, err
		}
		rev := sealed.Revision()
		known := newest[rev.Key]
		if rev.Number < max(known.Number, held[rev.Key]) {
			// A newer revision has taken its place.
			if err := p.spool.Remove(sealed); err != nil {
				return delivered, failures, err
			}
			continue
		}
		w := &window{p: p, sealed: sealed, recorded: known.Number == rev.Number, lacking: p.lacking(rev, known)}
		if !w.recorded {
			// The process died after step 2. The page log knows what the reading cost; where
			// a power cut took it, the fewest requests are assumed.
			if w.log, err = p.spool.Begin(rev.Key, rev.Number, rev.ExportedAt, time.Time{}); err != nil {
				return delivered, failures, err
			}
			w.provenance.Requests = max(w.log.Requests(), schedule.Requests(rev.Rows, analytics.PageRows))
			w.provenance.Checksum = sealed.Checksum()
		}
		done, err := w.commit(ctx, ctx)
		failures = append(failures, done.Errors...)
		if err != nil {
			return delivered, failures, err
		}
		if done.Committed > 0 && len(w.lacking) > 0 {
			delivered++
			p.cfg.Logger.With(rev.Key.Attrs()).Info("window delivered from the spool", "revision", rev.Number)
		}
	}
	return delivered, failures, nil
}

// takeLogs takes up the page logs of revisions that are in the ledger: windows that were in
// memory when the process died, which are sealed now where a sink lacks them, and logs that
// it had no time to remove. It adds to held what it returns.
func (p *Pipeline) takeLogs(ctx context.Context, newest map[analytics.Key]Owed, held map[analytics.Key]int32) (
	resealed []*spool.Sealed, err error,
) {
	recorded := map[string]Owed{}
	for k, owed := range newest {
		recorded[k.String()] = owed
	}
	logs, err := p.spool.Logs()
	if err != nil {
		return nil, err
	}
	for _, u := range logs {
		owed, known := recorded[u.Key]
		if !known || u.Revision > owed.Number {
			continue // a reading that is not complete
		}
		log, err := p.spool.Begin(owed.Key, u.Revision, owed.ExportedAt, time.Time{})
		if err != nil {
			return nil, err
		}
		if u.Revision == owed.Number && held[owed.Key] < owed.Number && len(p.lacking(owed.Revision, owed)) > 0 {
			sealed, err := p.spool.Seal(ctx, log, owed.Revision)
			if err != nil {
				return nil, errors.Join(err, log.Close())
			}
			// A power cut may have taken pages of the log.
			if sealed.Revision().Rows == owed.Rows {
				resealed, held[owed.Key] = append(resealed, sealed), owed.Number
			} else if err := p.spool.Remove(sealed); err != nil {
				return nil, errors.Join(err, log.Close())
			}
		}
		if err := log.Discard(); err != nil {
			return nil, err
		}
	}
	return resealed, nil
}

// lacking returns the sinks that do not have the revision, as far as the ledger knows.
func (p *Pipeline) lacking(rev analytics.Revision, newest Owed) []sinks.Sink {
	return slices.DeleteFunc(slices.Clone(p.sinks), func(s sinks.Sink) bool {
		return newest.Number == rev.Number && slices.Contains(newest.Has, s.Name())
	})
}

// forgetLost makes windows due again whose sealed file is gone although no sink
// has it, and returns what is left of newest. Where one sink has it, the
// others can be filled from there.
func (p *Pipeline) forgetLost(
	ctx context.Context, newest map[analytics.Key]Owed, held map[analytics.Key]int32,
) (map[analytics.Key]Owed, error) {
	left := maps.Clone(newest)
	elsewhere := map[string]int{}
	for k, owed := range newest {
		lacking := p.lacking(owed.Revision, owed)
		switch {
		case held[k] >= owed.Number || len(lacking) == 0:
			continue
		case len(owed.Has) > 0:
			for _, sink := range lacking {
				elsewhere[sink.Name()]++
			}
			continue
		}
		p.cfg.Logger.With(k.Attrs()).Warn("window is in no sink and no longer in the spool: it will be read again")
		if err := p.ledger.Forget(ctx, owed.Revision); err != nil {
			return nil, err
		}
		delete(left, k)
	}
	for sink, n := range elsewhere {
		p.cfg.Logger.Warn("sink lacks windows that are no longer in the spool: another sink has them",
			"sink", sink, "windows", n, "remedy", "docgauge load --sink "+sink+", or docgauge export --from --to")
	}
	return left, nil
}
