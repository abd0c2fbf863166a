package state

import (
	"context"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
)

// The outcomes of a run. The first two are good.
const (
	Success     = "success"
	Deferred    = "deferred" // the budget left something for the next runs
	Failed      = "failed"
	Interrupted = "interrupted"
)

const (
	// keptRuns bounds the history of runs.
	keptRuns = 1000
	// successDuty is the name under which the end of the last good run is kept.
	successDuty = "export"
)

// BeginRun enters a run that starts now and returns its id, which grows by one each run.
func (db *DB) BeginRun(ctx context.Context, now time.Time) (id int64, err error) {
	err = db.write(ctx, func(t *tx) {
		_, id = t.insert(`INSERT INTO runs (started_at) VALUES (?)`, now.UnixMicro())
		t.exec(`DELETE FROM runs WHERE id <= ?`, id-keptRuns)
	})
	return id, err
}

// EndRun enters the end of the run and whether it succeeded, and adds an observation of it. A
// repeated call changes nothing.
func (db *DB) EndRun(ctx context.Context, r analytics.Run, good bool, observed ...Observation) error {
	return db.write(ctx, func(t *tx) {
		first := t.exec(`UPDATE runs SET finished_at = ?, outcome = ?, message = ?, windows = ?, requests = ?
			WHERE id = ? AND finished_at IS NULL`,
			r.Finished.UnixMicro(), r.Outcome, r.Message, r.Windows, r.Requests, r.ID) > 0
		if !first {
			return
		}
		if good {
			t.exec(`INSERT OR REPLACE INTO duties VALUES (?,?)`, successDuty, r.Finished.UnixMicro())
		}
		t.observe(observed...)
		t.count(Count{"export_runs_total", Labels("outcome", r.Outcome), 1})
	})
}

// LastSuccess returns when the last good run ended; the zero time if none did, or if that is in the
// future.
func (db *DB) LastSuccess(ctx context.Context, now time.Time) (time.Time, error) {
	at, err := db.LastDone(ctx, successDuty)
	if clock.IsFuture(at, now) {
		at = time.Time{}
	}
	return at, err
}

// LastRuns returns the newest n runs, newest first.
func (db *DB) LastRuns(ctx context.Context, n int) ([]analytics.Run, error) {
	return list(ctx, db, func(r *analytics.Run) []any {
		return []any{&r.ID, instant{&r.Started}, instant{&r.Finished}, &r.Outcome, &r.Message, &r.Windows, &r.Requests}
	}, `SELECT * FROM runs ORDER BY id DESC LIMIT ?`, n)
}

// RunStarted returns when a run began, the zero time if that is not known.
func (db *DB) RunStarted(ctx context.Context, id int64) (at time.Time, err error) {
	err = db.get(ctx, []any{instant{&at}}, `SELECT started_at FROM runs WHERE id = ?`, id)
	return at, err
}

// LastDone returns when the duty was last done, the zero time if never.
func (db *DB) LastDone(ctx context.Context, duty string) (at time.Time, err error) {
	err = db.get(ctx, []any{instant{&at}}, `SELECT done_at FROM duties WHERE name = ?`, duty)
	return at, err
}

// SetDone keeps that the duty was done at the given time.
func (db *DB) SetDone(ctx context.Context, duty string, at time.Time) error {
	return db.exec(ctx, `INSERT OR REPLACE INTO duties VALUES (?,?)`, duty, at.UnixMicro())
}
