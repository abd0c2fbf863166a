package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// markerTimeout bounds reading or writing a marker.
	markerTimeout = 15 * time.Second
	// markedDuty says when a sink's marker was last written, and restoredDuty of when the newest
	// reading was by which a state was last found to come from an older backup.
	markedDuty   = "marker/"
	restoredDuty = "restored"
	// recentDays is how far back readings are looked for that the ledger does not know.
	recentDays = 14
	// sampled is how many windows are looked for where a sink may be the wrong place.
	sampled = 3
)

// marker is what a state leaves beside its archive, in a file of its own, and what a backup
// of the state does not have: by it a state knows that it comes from an older backup.
type marker struct {
	Run     int64     `json:"run"`
	Started time.Time `json:"run_started_at,omitzero"`
	// Begun counts the creates and follow-ups that were begun.
	Begun int64 `json:"agent_requests_begun"`
}

// markerOf opens the place of a sink's marker; nil if the sink is no file sink.
func (a *App) markerOf(sink string, id string) (store filestore.Store, name string, err error) {
	url := map[string]string{config.SinkParquet: a.Config.ParquetURL, config.SinkDelta: a.Config.DeltaURL}[sink]
	if url == "" {
		return nil, "", nil
	}
	store, err = filestore.New(url)
	return store, "_docgauge_" + id + ".json", err
}

// readMarker returns a sink's marker; there is none where it is nil.
func (a *App) readMarker(ctx context.Context, sink, id string) (m *marker, err error) {
	store, name, err := a.markerOf(sink, id)
	if store == nil || err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	f, err := store.OpenWhole(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", store.Describe(name), err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
	m = new(marker)
	if err == nil {
		err = json.Unmarshal(text, m)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", store.Describe(name), err)
	}
	return m, nil
}

// writeMarker replaces a sink's marker.
func (a *App) writeMarker(ctx context.Context, sink, id string, m marker) (err error) {
	store, name, err := a.markerOf(sink, id)
	if store == nil || err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	text, err := json.Marshal(m)
	if err == nil {
		err = store.Prepare(ctx)
	}
	if err != nil {
		return err
	}
	staged := store.StagingFile()
	open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(text) + "\n")), nil }
	if err := filestore.Stage(ctx, staged, open, func(io.ReaderAt, int64) error { return nil }); err != nil {
		return errors.Join(err, os.Remove(staged))
	}
	if err := store.Publish(ctx, staged, name); err != nil {
		return err
	}
	return a.State.SetDone(ctx, markedDuty+sink, a.Now())
}

// Traces are what the sinks say of a state.
type Traces struct {
	// Older: the state comes from an older backup.
	Older bool
	// Misplaced are the sinks, by name, that do not show what the ledger says they have.
	Misplaced map[string]error

	id state.Identity
}

// FindTraces compares the state, at the beginning of a run (0: beside runs), with what
// outlives it: the markers beside the file sinks, and without any of those, the newest
// readings in the others. Where something was sent that the state does not know of, its
// queue is to ask the operator. entries are those of the ledger.
func (a *App) FindTraces(ctx context.Context, run int64, entries iter.Seq[*state.Entry]) (t Traces, err error) {
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
			// Whether something was sent that the state does not know of cannot be told.
			return t, fmt.Errorf("%s sink: the marker of this state cannot be read: %w", s.Name(), err)
		case err != nil:
			a.Log.Warn("marker of the state not read", "sink", s.Name(), "error", err)
		case m == nil:
			if t.Misplaced[s.Name()], err = a.isMisplaced(ctx, s, entries); err != nil {
				return t, err
			}
			if t.Misplaced[s.Name()] == nil {
				delete(t.Misplaced, s.Name())
			}
		default:
			marked = true
			started, err := a.State.RunStarted(ctx, m.Run)
			if err != nil {
				return t, err
			}
			t.Older = t.Older || m.Begun > t.id.Begun || m.Run > max(before, 0) || !started.IsZero() && !started.Equal(m.Started)
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
		a.Log.Warn("this state comes from an older backup than what the sinks hold")
	}
	t.id, err = a.State.Identity(ctx)
	return t, err
}

// findNewer looks for readings of recent windows that were made after the newest run that the
// state knows, and that the ledger lacks.
func (a *App) findNewer(ctx context.Context, t *Traces, run int64, entries iter.Seq[*state.Entry]) error {
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
		if e.ExportedAt.Equal(analytics.Unbelieved) { // what the sinks show of it was read by a wrong clock
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
			if err == nil && rev.ExportedAt.After(known[rev.Key]) && rev.ExportedAt.After(started) && !clock.IsFuture(rev.ExportedAt, a.Now()) {
				newest = clock.Later(newest, rev.ExportedAt)
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

// isMisplaced returns why a sink without a marker of this state is taken for the wrong place:
// it shows none of some windows that the ledger says it has, or lacks one of them although
// the marker was there.
func (a *App) isMisplaced(ctx context.Context, s sinks.Sink, entries iter.Seq[*state.Entry]) (wrong, err error) {
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
			return nil, nil // it is down, which the run meets
		case sample[shown.Key] || ofWindow && sample[fault.Key]:
			there++
		}
	}
	marked, err := a.State.LastDone(ctx, markedDuty+s.Name())
	if err != nil || there == len(sample) || there > 0 && marked.IsZero() {
		return nil, err
	}
	newest := claimed[len(claimed)-1]
	return fmt.Errorf("%s sink: %s lacks windows that the ledger says it has, such as %s: is it the right place, and mounted? "+
		"Nothing is written there, and windows wait in the spool. If the place is new: `docgauge verify --repair` copies them from another sink; "+
		"without one, `docgauge status --rebuild` takes them out of the ledger, and they are requested again", s.Name(), s.Location(), newest), nil
}

// MarkRun leaves the marker of a run beside the sinks that are in their place. One that cannot
// be written is only logged.
func (a *App) MarkRun(ctx context.Context, run int64, t Traces) {
	started, err := a.State.RunStarted(ctx, run)
	for _, s := range a.Sinks {
		if t.Misplaced[s.Name()] == nil && err == nil {
			err = a.writeMarker(ctx, s.Name(), t.id.ID, marker{Run: run, Started: started, Begun: t.id.Begun})
		}
		a.logMarker(ctx, s.Name(), err)
		err = nil
	}
}

// markBegun enters in the markers that a create or a follow-up begins.
func (a *App) markBegun(ctx context.Context) {
	id, err := a.State.Identity(ctx)
	for _, s := range a.Sinks {
		var m *marker
		if err == nil {
			m, err = a.readMarker(ctx, s.Name(), id.ID)
		}
		if err == nil && m == nil {
			if wrong, _ := a.State.LastDone(ctx, markedDuty+s.Name()); !wrong.IsZero() {
				continue // the place is in question: the next run says so
			}
			m = &marker{}
		}
		if err == nil {
			m.Begun = id.Begun
			err = a.writeMarker(ctx, s.Name(), id.ID, *m)
		}
		a.logMarker(ctx, s.Name(), err)
		err = nil
	}
}

func (a *App) logMarker(ctx context.Context, sink string, err error) {
	if err != nil && ctx.Err() == nil {
		a.Log.Warn("marker of the state not written: a restored older state may not be noticed", "sink", sink, "error", err)
	}
}

// isRestored is what the queue asks before its first pass.
func (a *App) isRestored(ctx context.Context) error {
	entries, err := a.State.Entries(ctx)
	if err == nil {
		_, err = a.FindTraces(ctx, 0, func(yield func(*state.Entry) bool) {
			for i := range entries {
				if !yield(&entries[i]) {
					return
				}
			}
		})
	}
	return err
}
