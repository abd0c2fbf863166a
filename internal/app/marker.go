package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// markerTimeout limits reading or writing a marker.
	markerTimeout = 15 * time.Second
	// markedDuty has when a sink's marker was last written, restoredDuty the time of the newest reading
	// that showed that the state comes from an older backup.
	markedDuty   = "marker/"
	restoredDuty = "restored"
	// recentDays is the number of days for which the sinks are searched for readings that the
	// ledger lacks.
	recentDays = 14
	// sampled is the number of windows that are searched for in a sink that may be the wrong place.
	sampled = 3
)

// marker is a file that a state leaves beside its archive. A backup of the state does not include it,
// so it reveals that a state comes from an older backup.
type marker struct {
	Run     int64     `json:"run"`
	Started time.Time `json:"run_started_at,omitzero"`
	// Begun counts the creates and follow-ups that were begun.
	Begun int64 `json:"agent_requests_begun"`
}

// atMarker calls do with the place of a sink's marker, unless the sink is not a file sink.
func (a *App) atMarker(
	ctx context.Context, sink, id string, do func(ctx context.Context, store filestore.Store, name string) error,
) (err error) {
	kind, _ := config.SinkNamed(sink)
	if kind.Place != config.Files {
		return nil
	}
	store, err := filestore.New(kind.Where(a.Config))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	return do(ctx, store, "_docgauge_"+id+".json")
}

// readMarker returns a sink's marker, or nil if the sink has no marker.
func (a *App) readMarker(ctx context.Context, sink, id string) (m *marker, err error) {
	err = a.atMarker(ctx, sink, id, func(ctx context.Context, store filestore.Store, name string) error {
		f, err := store.OpenWhole(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			defer f.Close()
			var text []byte
			if text, err = io.ReadAll(io.NewSectionReader(f, 0, f.Size())); err == nil {
				m = new(marker)
				err = json.Unmarshal(text, m)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", store.Describe(name), err)
		}
		return nil
	})
	return m, err
}

// writeMarker replaces a sink's marker. A failure is only logged.
func (a *App) writeMarker(ctx context.Context, sink, id string, m marker) {
	err := a.atMarker(ctx, sink, id, func(ctx context.Context, store filestore.Store, name string) error {
		text, err := json.Marshal(m)
		if err == nil {
			err = store.Prepare(ctx)
		}
		if err != nil {
			return err
		}
		staged := store.StagingFile()
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(append(text, '\n'))), nil }
		if err := filestore.Stage(ctx, staged, open, func(io.ReaderAt, int64) error { return nil }); err != nil {
			return errors.Join(err, os.Remove(staged))
		}
		if err := store.Publish(ctx, staged, name); err != nil {
			return err
		}
		return a.State.SetDone(ctx, markedDuty+sink, a.Now())
	})
	a.logMarker(ctx, sink, err)
}

// traces are the findings of [App.FindTraces].
type traces struct {
	// Older: the state comes from an older backup.
	Older bool
	// Misplaced are the sinks, by name, that lack what the ledger says they have.
	Misplaced map[string]error

	id state.Identity
}

// FindTraces compares the state, at the beginning of a run (0: outside of runs), with the
// records that outlive it: the markers beside the file sinks or, without markers, the newest
// readings in the sinks. If something was sent that the state does not know, the queue will ask
// the operator. entries are the entries of the ledger.
func (a *App) FindTraces(ctx context.Context, run int64, entries iter.Seq[*state.Entry]) (t traces, err error) {
	t.Misplaced = map[string]error{}
	if t.id, err = a.State.Identity(ctx); err != nil {
		return t, err
	}
	before := run - 1
	if run == 0 {
		newest, err := a.State.LastRuns(ctx, 1)
		if err != nil {
			return t, err
		}
		if len(newest) > 0 {
			before = newest[0].ID
		}
	}
	marked := false
	for _, s := range a.Sinks {
		m, err := a.readMarker(ctx, s.Name(), t.id.ID)
		switch {
		case ctx.Err() != nil:
			return t, context.Cause(ctx)
		case err != nil && run == 0:
			// Something may have been sent that the state does not know.
			return t, fmt.Errorf("%s sink: the marker of this state cannot be read: %w (if the file is damaged: "+
				"`docgauge export` writes it again)", s.Name(), err)
		case err != nil:
			a.Log.Warn("marker of the state not read", "sink", s.Name(), "error", err)
		case m == nil:
			wrong, err := a.misplacement(ctx, s, entries)
			if err != nil {
				return t, err
			}
			if wrong != nil {
				t.Misplaced[s.Name()] = wrong
			}
		default:
			marked = true
			started, err := a.State.RunStarted(ctx, m.Run)
			if err != nil {
				return t, err
			}
			t.Older = t.Older || m.Begun > t.id.Begun || m.Run > max(before, 0) ||
				!started.IsZero() && !started.Equal(m.Started)
			if m.Begun > t.id.Begun {
				if err := a.State.SetRestored(ctx, m.Begun); err != nil {
					return t, err
				}
			}
		}
	}
	if !marked {
		if err := a.findNewer(ctx, &t, before, entries); err != nil {
			return t, err
		}
	}
	if t.Older {
		a.Log.Warn("this state comes from a backup older than the data in the sinks")
	}
	t.id, err = a.State.Identity(ctx)
	return t, err
}

// findNewer searches the sinks for readings of recent windows that are newer than the newest run in the
// state and that the ledger lacks.
func (a *App) findNewer(ctx context.Context, t *traces, run int64, entries iter.Seq[*state.Entry]) error {
	started, err := a.State.RunStarted(ctx, run)
	if err != nil || started.IsZero() {
		return err // a new state
	}
	since, err := a.State.LastDone(ctx, restoredDuty)
	if err != nil {
		return err
	}
	known := map[analytics.Key]time.Time{}
	for e := range entries {
		known[e.Key] = e.ExportedAt
		if e.ExportedAt.Equal(analytics.Unbelieved) { // a wrong clock read what the sinks show of it
			known[e.Key] = a.Now()
		}
	}
	today := analytics.DateOf(a.Now())
	scope := sinks.Scope{Projects: a.Config.Projects, Within: analytics.Window{From: today - recentDays, To: today + 1}}
	newest := time.Time{}
	for _, s := range a.Sinks {
		if t.Misplaced[s.Name()] != nil {
			continue
		}
		for rev, err := range sinks.ListIn(ctx, s, scope) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			at := rev.ExportedAt
			if err == nil && at.After(known[rev.Key]) && at.After(started) && !clock.IsFuture(at, a.Now()) {
				newest = clock.Later(newest, at)
			}
		}
	}
	if !newest.After(since) {
		return nil
	}
	t.Older = true
	if t.id.Adopted {
		if err := a.State.SetRestored(ctx, 0); err != nil {
			return err
		}
	}
	return a.State.SetDone(ctx, restoredDuty, newest)
}

// Misplaced returns why exports would refuse a sink: it is considered the wrong place. A sink or a state that cannot
// be read is not a reason.
func (a *App) Misplaced(ctx context.Context, s sinks.Sink) error {
	if a.State == nil {
		return nil
	}
	id, err := a.State.Identity(ctx)
	if err != nil {
		return nil //nolint:nilerr // not a reason
	}
	if m, err := a.readMarker(ctx, s.Name(), id.ID); err != nil || m != nil {
		return nil //nolint:nilerr // not a reason
	}
	ledger, err := coverage.Read(ctx, a.State, a.Now())
	if err != nil {
		return nil //nolint:nilerr // not a reason
	}
	wrong, _ := a.misplacement(ctx, s, ledger.All())
	return wrong
}

// misplacement returns why a sink without a marker of this state is considered the wrong place: of a
// sample of the windows that the ledger says it has it lacks all, or one although it had the marker.
func (a *App) misplacement(
	ctx context.Context, s sinks.Sink, entries iter.Seq[*state.Entry],
) (wrong, err error) {
	var claimed []analytics.Key
	for e := range entries {
		if !e.Sinks[s.Name()].IsZero() {
			claimed = append(claimed, e.Key)
		}
	}
	if len(claimed) == 0 {
		return nil, nil
	}
	slices.SortFunc(claimed, func(a, b analytics.Key) int { return int(a.To - b.To) })
	sample := map[analytics.Key]bool{}
	for i := range sampled {
		sample[claimed[i*(len(claimed)-1)/(sampled-1)]] = true
	}
	there := 0
	for shown, err := range s.Inspect(ctx, sinks.Scope{Keys: sample}) {
		fault, ofWindow := errors.AsType[sinks.Fault](err)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && (!ofWindow || fault.Kind == sinks.Unavailable):
			return nil, nil // it is down: the run reports that
		case sample[shown.Key] || ofWindow && sample[fault.Key]:
			there++
		}
	}
	marked, err := a.State.LastDone(ctx, markedDuty+s.Name())
	if err != nil || there == len(sample) || there > 0 && marked.IsZero() {
		return nil, err
	}
	newest := claimed[len(claimed)-1]
	return fmt.Errorf("%s sink: %s lacks windows that the ledger says it has, such as %s: is it the right place, "+
		"and mounted? Nothing is written there, and windows wait in the spool. If the place is new: "+
		"`docgauge verify --repair` copies them from another sink; without one, `docgauge status --rebuild` takes "+
		"them out of the ledger, and they are requested again", s.Name(), s.Location(), newest), nil
}

// MarkRun leaves the marker of a run beside the sinks that are in their place.
func (a *App) MarkRun(ctx context.Context, run int64, t traces) {
	started, err := a.State.RunStarted(ctx, run)
	for _, s := range a.Sinks {
		if err != nil {
			a.logMarker(ctx, s.Name(), err)
		} else if t.Misplaced[s.Name()] == nil {
			a.writeMarker(ctx, s.Name(), t.id.ID, marker{Run: run, Started: started, Begun: t.id.Begun})
		}
	}
}

// markBegun enters in the markers that a create or a follow-up begins.
func (a *App) markBegun(ctx context.Context) {
	id, unknown := a.State.Identity(ctx)
	for _, s := range a.Sinks {
		m, err := a.readMarker(ctx, s.Name(), id.ID)
		if err = errors.Join(unknown, err); err != nil {
			a.logMarker(ctx, s.Name(), err)
			continue
		}
		if m == nil {
			if marked, _ := a.State.LastDone(ctx, markedDuty+s.Name()); !marked.IsZero() {
				continue // the place is in question: the next run reports it
			}
			m = &marker{}
		}
		m.Begun = id.Begun
		a.writeMarker(ctx, s.Name(), id.ID, *m)
	}
}

func (a *App) logMarker(ctx context.Context, sink string, err error) {
	if err != nil && ctx.Err() == nil {
		a.Log.Warn("marker of the state not written: a restored older state may not be noticed",
			"sink", sink, "error", err)
	}
}

// isRestored is called before the first pass of the queue.
func (a *App) isRestored(ctx context.Context) error {
	l, err := coverage.Read(ctx, a.State, a.Now())
	if err == nil {
		_, err = a.FindTraces(ctx, 0, l.All())
	}
	return err
}
