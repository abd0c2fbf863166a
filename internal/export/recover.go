package export

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
)

// recover takes up what earlier runs left in the spool, without a request: windows that a
// sink lacks are delivered from their page logs, and revisions of which neither the spool nor a
// sink has anything are forgotten, so that their windows are due again. Sinks that were down in
// an earlier run are tried again; their failures are in the summary, other errors end recover.
//
// ledger calls do with the newest revision of each window in the ledger, of which there can
// be millions: only those that a sink lacks, or that the spool has, are kept.
func (e *Exporter) recover(ctx context.Context, ledger func(do func(state.Entry)) error) error {
	e.down.Clear()
	for sink := range e.misplaced {
		e.down.Store(sink, true)
	}
	logs, err := e.app.Spool.Logs()
	if err != nil {
		return err
	}
	inSpool := map[analytics.Key]int32{} // the newest revision
	for _, u := range logs {
		if u.Pages > 0 {
			inSpool[u.Key] = max(inSpool[u.Key], u.Revision)
		}
	}
	owed := map[analytics.Key]state.Entry{}
	err = ledger(func(o state.Entry) {
		if o.Lost() {
			return // it is owed to no sink, and read again
		}
		if len(e.lacking(o)) > 0 || inSpool[o.Key] > 0 {
			owed[o.Key] = o
		}
	})
	if err != nil {
		return err
	}
	lost := losses{e: e, forgotten: map[analytics.Key]bool{}, elsewhere: map[string]int{}}
	for _, o := range owed {
		if len(e.lacking(o)) > 0 && inSpool[o.Key] < o.Number {
			err = errors.Join(err, lost.add(ctx, o))
		}
	}
	done := map[analytics.Key]bool{}
	for _, u := range logs {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		o, known := owed[u.Key]
		recorded := known && u.Revision <= o.Number
		switch {
		case u.Pages == 0:
			err = e.app.Spool.Remove(u)
		case lost.forgotten[u.Key]: // the ledger may owe the revision before: the next run delivers that
		case !recorded && u.Waiting: // the ledger is from an older backup
			err = e.app.Spool.Return(u)
		case !recorded && u.IsStale(e.app.Now()):
			err = e.app.Spool.Remove(u)
		case !recorded: // a reading that is not complete
		case u.Revision < o.Number || len(e.lacking(o)) == 0 || done[u.Key]:
			err = e.app.Spool.Remove(u)
		case u.Waiting && e.areDown(e.lacking(o)):
		default:
			w := &window{e: e, lacking: e.lacking(o)}
			if w.log, err = e.app.Spool.Resume(u); err != nil {
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
			var complete bool
			complete, err = w.commit(ctx, ctx)
			if done[u.Key] = true; complete {
				e.count(func(s *Summary) { s.Recovered++ })
				e.app.Log.With(o.Key.Attrs()).Info("window delivered from the spool", "revision", o.Number)
			}
		}
	}
	for sink, n := range lost.elsewhere {
		e.app.Log.Warn("sink lacks windows that are no longer in the spool: another sink has them",
			"sink", sink, "windows", n, "remedy", "docgauge verify --repair")
	}
	return err
}

// losses are revisions that a sink lacks and that are not in the spool.
type losses struct {
	e         *Exporter
	forgotten map[analytics.Key]bool
	elsewhere map[string]int // by sink, the windows that another sink has
}

// add forgets a revision that no sink has, so that its window is due again. Where a sink has it,
// the others can be filled from there.
func (l losses) add(ctx context.Context, o state.Entry) error {
	if slices.ContainsFunc(slices.Collect(maps.Values(o.Sinks)), func(at time.Time) bool { return !at.IsZero() }) {
		for _, sink := range l.e.lacking(o) {
			l.elsewhere[sink.Name()]++
		}
		return nil
	}
	l.forgotten[o.Key] = true
	l.e.app.Log.With(o.Key.Attrs()).Warn("window is in no sink and no longer in the spool: it will be read again")
	return l.e.ledger.Forget(ctx, o.Revision)
}

// lacking returns the sinks that do not have the revision, as far as the ledger knows.
func (e *Exporter) lacking(o state.Entry) []sinks.Sink {
	return slices.DeleteFunc(slices.Clone(e.app.Sinks), func(s sinks.Sink) bool { return !o.Sinks[s.Name()].IsZero() })
}

// areDown reports whether all of these sinks have failed in this run.
func (e *Exporter) areDown(all []sinks.Sink) bool {
	return !slices.ContainsFunc(all, func(s sinks.Sink) bool {
		_, down := e.down.Load(s.Name())
		return !down
	})
}
