package export

import (
	"context"
	"errors"
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

// Recover takes up what earlier runs left in the spool, without a request: windows that a
// sink lacks are delivered from their page logs, and revisions of which neither the spool nor a
// sink has anything are forgotten, so that their windows are due again. It returns how many
// windows it delivered to all sinks that lacked them, and the failures of single sinks; other
// errors end it. Sinks that were down in an earlier run are tried again.
//
// ledger calls do with the newest revision of each window in the ledger, of which there can
// be millions: only those that a sink lacks, or that the spool has, are kept.
func (p *Pipeline) Recover(ctx context.Context, ledger func(do func(Owed)) error) (
	delivered int, failures []error, err error,
) {
	p.down.Clear()
	for sink := range p.withheld {
		p.down.Store(sink, true)
	}
	logs, err := p.spool.Logs()
	if err != nil {
		return 0, nil, err
	}
	inSpool := map[analytics.Key]int32{} // the newest revision
	for _, u := range logs {
		if u.Pages > 0 {
			inSpool[u.Key] = max(inSpool[u.Key], u.Revision)
		}
	}
	owed := map[analytics.Key]Owed{}
	err = ledger(func(o Owed) {
		if len(p.lacking(o)) > 0 || inSpool[o.Key] > 0 {
			owed[o.Key] = o
		}
	})
	if err != nil {
		return 0, nil, err
	}
	lost := losses{p: p, forgotten: map[analytics.Key]bool{}, elsewhere: map[string]int{}}
	for _, o := range owed {
		if len(p.lacking(o)) > 0 && inSpool[o.Key] < o.Number {
			err = errors.Join(err, lost.add(ctx, o))
		}
	}
	done := map[analytics.Key]bool{}
	for _, u := range logs {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return delivered, failures, err
		}
		o, known := owed[u.Key]
		recorded := known && u.Revision <= o.Number
		switch {
		case u.Pages == 0:
			err = p.spool.Remove(u)
		case lost.forgotten[u.Key]: // the ledger may owe the revision before: the next run delivers that
		case !recorded && u.Waiting: // the ledger is from an older backup
			err = p.spool.Return(u)
		case !recorded && u.IsStale(p.cfg.Now()):
			err = p.spool.Remove(u)
		case !recorded: // a reading that is not complete
		case u.Revision < o.Number || len(p.lacking(o)) == 0 || done[u.Key]:
			err = p.spool.Remove(u)
		case u.Waiting && p.areDown(p.lacking(o)):
		default:
			w := &window{p: p, lacking: p.lacking(o)}
			if w.log, err = p.spool.Resume(u); err != nil {
				break
			}
			w.file, err = w.log.Seal(ctx, o.Revision)
			if errors.Is(err, spool.ErrDamaged) || err == nil && w.file.Revision().Rows != o.Rows {
				// A power cut or a faulty disk has taken pages of the log.
				if err = w.log.Discard(); w.file != nil {
					err = errors.Join(err, w.file.Remove())
				}
				err = errors.Join(err, lost.add(ctx, o))
				break
			}
			if err != nil {
				err = w.leave(err)
				break
			}
			var result Result
			result, err = w.commit(ctx, ctx)
			failures = append(failures, result.Errors...)
			if done[u.Key] = true; result.Committed > 0 {
				delivered++
				p.cfg.Logger.With(o.Key.Attrs()).Info("window delivered from the spool", "revision", o.Number)
			}
		}
	}
	for sink, n := range lost.elsewhere {
		p.cfg.Logger.Warn("sink lacks windows that are no longer in the spool: another sink has them",
			"sink", sink, "windows", n, "remedy", "docgauge verify --repair")
	}
	return delivered, failures, err
}

// losses are revisions that a sink lacks and that are not in the spool.
type losses struct {
	p         *Pipeline
	forgotten map[analytics.Key]bool
	elsewhere map[string]int // by sink, the windows that another sink has
}

// add forgets a revision that no sink has, so that its window is due again. Where a sink has it,
// the others can be filled from there.
func (l losses) add(ctx context.Context, o Owed) error {
	if len(o.Has) > 0 {
		for _, sink := range l.p.lacking(o) {
			l.elsewhere[sink.Name()]++
		}
		return nil
	}
	l.forgotten[o.Key] = true
	l.p.cfg.Logger.With(o.Key.Attrs()).Warn("window is in no sink and no longer in the spool: it will be read again")
	return l.p.ledger.Forget(ctx, o.Revision)
}

// lacking returns the sinks that do not have the revision, as far as the ledger knows.
func (p *Pipeline) lacking(o Owed) []sinks.Sink {
	return slices.DeleteFunc(slices.Clone(p.sinks), func(s sinks.Sink) bool { return slices.Contains(o.Has, s.Name()) })
}

// areDown reports whether all of these sinks have failed in this run.
func (p *Pipeline) areDown(all []sinks.Sink) bool {
	return !slices.ContainsFunc(all, func(s sinks.Sink) bool {
		_, down := p.down.Load(s.Name())
		return !down
	})
}
