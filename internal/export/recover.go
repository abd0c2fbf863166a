package export

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
)

// recover completes the work that earlier runs left in the spool, without a request: windows that a
// sink lacks are delivered from their page logs, and revisions that neither the spool nor a sink
// has are forgotten, so that their windows are due again. Sinks that were down in an earlier run
// are tried again; their failures are in the summary, other errors end recover.
//
// entries are the newest revisions of all windows in the ledger; there can be millions.
// changed means that recover has changed the ledger.
func (e *Exporter) recover(ctx context.Context, entries iter.Seq[*state.Entry]) (changed bool, err error) {
	e.down.Clear()
	for sink := range e.misplaced {
		e.down.Store(sink, true)
	}
	logs, err := e.app.Spool.Logs()
	if err != nil {
		return changed, err
	}
	inSpool := map[analytics.Key]int32{} // the newest revision
	for _, u := range logs {
		if u.Pages > 0 {
			inSpool[u.Key] = max(inSpool[u.Key], u.Revision)
		}
	}
	owed := map[analytics.Key]*state.Entry{}
	for o := range entries {
		// A lost window is owed to no sink, and one that is not believed is read again.
		counts := !o.Lost() && o.ExportedAt != analytics.Unbelieved
		if counts && (inSpool[o.Key] > 0 || len(e.lacking(o)) > 0) {
			owed[o.Key] = o
		}
	}
	forgotten, elsewhere := map[analytics.Key]bool{}, map[string]int{}
	// lost handles a revision that is owed and not in the spool. If a sink has it, the others can
	// be filled from there; otherwise the revision is forgotten, so that its window is due again.
	lost := func(o *state.Entry) error {
		for _, at := range o.Sinks {
			if !at.IsZero() {
				for _, sink := range e.lacking(o) {
					elsewhere[sink.Name()]++
				}
				return nil
			}
		}
		changed, forgotten[o.Key] = true, true
		e.app.Log.With(o.Key.Attrs()).Warn("window is in no sink and no longer in the spool: it will be read again")
		return e.ledger.Forget(ctx, o.Revision)
	}
	for _, o := range owed {
		if inSpool[o.Key] < o.Number && len(e.lacking(o)) > 0 {
			err = errors.Join(err, lost(o))
		}
	}
	done := map[analytics.Key]bool{}
	for _, u := range logs {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return changed, err
		}
		o, known := owed[u.Key]
		recorded := known && u.Revision <= o.Number
		w := &window{e: e}
		if recorded {
			w.lacking = e.lacking(o)
		}
		switch {
		case u.Pages == 0:
			err = e.app.Spool.Remove(u)
		case forgotten[u.Key]: // the ledger may owe the revision before: the next run delivers that
		case !recorded && u.Waiting: // the ledger is from an older backup
			err = e.app.Spool.Return(u)
		case !recorded && u.IsStale(e.app.Now()):
			err = e.app.Spool.Remove(u)
		case !recorded: // a reading that is not complete
		case u.Revision < o.Number || len(w.lacking) == 0 || done[u.Key]:
			err = e.app.Spool.Remove(u)
		case u.Waiting && e.areDown(w.lacking):
		default:
			if w.log, err = e.app.Spool.Resume(u); err != nil {
				break
			}
			w.file, err = w.log.Seal(ctx, o.Revision)
			if errors.Is(err, spool.ErrDamaged) || err == nil && w.file.Revision().Rows != o.Rows {
				// A power cut or a faulty disk has taken pages of the log.
				if err = w.log.Discard(); w.file != nil {
					err = errors.Join(err, w.file.Remove())
				}
				err = errors.Join(err, lost(o))
				break
			}
			if err != nil {
				err = w.leave(err)
				break
			}
			complete := false
			complete, err = w.commit(ctx, ctx)
			if changed, done[u.Key] = true, true; complete {
				e.count(func(s *Summary) { s.Recovered++ })
				e.app.Log.With(o.Key.Attrs()).Debug("window delivered from the spool", "revision", o.Number)
			}
		}
	}
	for sink, n := range elsewhere {
		e.app.Log.Warn("sink lacks windows that are no longer in the spool: another sink has them",
			"sink", sink, "windows", n, "remedy", "docgauge verify --repair")
	}
	return changed, err
}

// lacking returns the sinks that do not have the revision, as far as the ledger knows.
func (e *Exporter) lacking(o *state.Entry) []sinks.Sink {
	return slices.DeleteFunc(slices.Clone(e.app.Sinks), func(s sinks.Sink) bool { return !o.Sinks[s.Name()].IsZero() })
}

// areDown reports whether all of these sinks have failed in this run.
func (e *Exporter) areDown(all []sinks.Sink) bool {
	return !slices.ContainsFunc(all, func(s sinks.Sink) bool {
		_, down := e.down.Load(s.Name())
		return !down
	})
}
