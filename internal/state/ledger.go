package state

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	// ofWindow selects the rows of a window, ofRevision the rows of a revision; the arguments are
	// the arguments of [window].
	ofWindow = ` WHERE project = ?1 AND granularity = ?2 AND window_start = ?3 AND window_end = ?4
		AND report = ?5`
	ofRevision = ofWindow + ` AND revision = ?6`
)

// window returns the arguments that name a window, and more.
func window(k analytics.Key, more ...any) []any {
	return days(k, append([]any{k.Report}, more...)...)
}

// windowColumns are the fields that such columns are read into, and more.
func windowColumns(k *analytics.Key, more ...any) []any {
	return daysColumns(k, append([]any{&k.Report}, more...)...)
}

// days is window for a table of one report, which has no column for it.
func days(k analytics.Key, more ...any) []any {
	return append([]any{k.Project, k.Granularity, k.From, k.To}, more...)
}

// daysColumns is windowColumns for a table of one report.
func daysColumns(k *analytics.Key, more ...any) []any {
	return append([]any{&k.Project, &k.Granularity, &k.From, &k.To}, more...)
}

// marks has a place for each of the values.
func marks(values []any) string { return "(?" + strings.Repeat(",?", len(values)-1) + ")" }

// Entry is the ledger's record of one window: its newest revision, and which sinks have it.
type Entry struct {
	analytics.Revision
	analytics.Provenance
	// Sinks maps each sink that is owed the revision or has it to the time of its commit; the zero
	// time while it is owed. It is empty if the window is lost.
	Sinks map[string]time.Time `json:"sinks"`
}

// Lost reports whether no sink has the revision and none will be given it: the window must be read
// again.
func (e Entry) Lost() bool { return len(e.Sinks) == 0 }

// Has reports whether the sink has the revision.
func (e Entry) Has(sink string) bool { return !e.Sinks[sink].IsZero() }

// Owes reports whether the sink is still to be given the revision.
func (e Entry) Owes(sink string) bool {
	at, mentioned := e.Sinks[sink]
	return mentioned && at.IsZero()
}

// Entries returns the newest revision of every window, in key order.
func (db *DB) Entries(ctx context.Context) ([]Entry, error) {
	var out []Entry
	err := db.EachEntry(ctx, func(e Entry) { out = append(out, e) })
	return out, err
}

// EachEntry calls do with the newest revision of every window, in key order. do must not use the state.
func (db *DB) EachEntry(ctx context.Context, do func(Entry)) error {
	type row struct {
		entry Entry
		sink  sql.NullString
		at    time.Time
	}
	columns := func(r *row) []any {
		e := &r.entry
		return append(windowColumns(&e.Key, &e.Number, &e.Settled, &e.Verified, &e.Rows),
			append(e.Totals.Pointers(), &e.Humans, instant{&e.ExportedAt},
				&e.Requests, &e.Checksum, &e.MovedRows, &e.RepeatedRows, &r.sink, instant{&r.at})...)
	}
	var e Entry
	names := map[string]string{} // millions of entries share a few names
	name := func(s string) string {
		if _, known := names[s]; !known {
			names[s] = s
		}
		return names[s]
	}
	err := scan(ctx, db.reads, columns, func(r row) {
		if e.Sinks == nil || e.Key != r.entry.Key {
			if e.Sinks != nil {
				do(e)
			}
			e = r.entry
			e.Project, e.Granularity = name(e.Project), analytics.Granularity(name(string(e.Granularity)))
			e.Sinks = map[string]time.Time{}
		}
		if r.sink.Valid {
			e.Sinks[name(r.sink.String)] = r.at
		}
	}, `
		SELECT r.*, d.sink, d.committed_at FROM revisions r
		LEFT JOIN deliveries d USING (project, granularity, window_start, window_end, report, revision)
		WHERE r.revision = (SELECT max(m.revision) FROM revisions m
		  WHERE m.project = r.project AND m.granularity = r.granularity
		    AND m.window_start = r.window_start AND m.window_end = r.window_end
		    AND m.report = r.report)
		ORDER BY r.project, r.granularity, r.window_start, r.window_end, r.report, d.sink`)
	if err == nil && e.Sinks != nil {
		do(e)
	}
	return db.wrap(ctx, err)
}

// Reports returns those given and those that the ledger has a window of.
func (db *DB) Reports(ctx context.Context, given []analytics.Report) ([]analytics.Report, error) {
	all := slices.Clone(given)
	for _, report := range analytics.Reports {
		if slices.Contains(all, report) {
			continue
		}
		var known bool
		err := db.get(ctx, []any{&known}, `SELECT EXISTS (SELECT 1 FROM revisions WHERE report = ?)`, report)
		if err != nil {
			return nil, err
		}
		if known {
			all = append(all, report)
		}
	}
	return all, nil
}

// Record enters a sealed revision and owes it to the given sinks. Recording a revision again changes
// nothing, so it can be repeated after a crash. A window that was read is not skipped any more. Top are the first rows
// of a newest window, as for SetTop: no reader sees the revision without them.
func (db *DB) Record(
	ctx context.Context, rev analytics.Revision, prov analytics.Provenance, sinks []string, top ...TopRows,
) error {
	return db.write(ctx, func(t *tx) {
		t.insertRevision(rev, prov)
		t.exec(`DELETE FROM set_aside`+ofWindow, window(rev.Key)...)
		for _, sink := range sinks {
			t.owe(rev, sink)
		}
		for _, l := range top {
			t.setTop(l)
		}
	})
}

func (t *tx) insertRevision(r analytics.Revision, p analytics.Provenance) {
	values := slices.Concat(window(r.Key, r.Number, r.Settled, r.Verified, r.Rows), r.Totals.Values(),
		[]any{r.Humans, r.ExportedAt.UnixMicro(), p.Requests, p.Checksum, p.MovedRows, p.RepeatedRows})
	t.exec(`INSERT INTO revisions VALUES `+marks(values)+` ON CONFLICT DO NOTHING`, values...)
}

func (t *tx) owe(r analytics.Revision, sink string) {
	t.exec(`INSERT INTO deliveries VALUES (?,?,?,?,?,?,?,NULL) ON CONFLICT DO NOTHING`, window(r.Key, r.Number, sink)...)
}

// Committed enters that sink has the revision since at, and counts the window and its rows; a
// repetition is not counted twice.
func (db *DB) Committed(ctx context.Context, rev analytics.Revision, sink string, at time.Time) error {
	return db.write(ctx, func(t *tx) {
		t.owe(rev, sink)
		first := t.exec(`UPDATE deliveries SET committed_at = ?8`+ofRevision+` AND sink = ?7 AND committed_at IS NULL`,
			window(rev.Key, rev.Number, sink, at.UnixMicro())...) > 0
		if first {
			t.count(Count{"windows_committed_total", Labels("project", rev.Project, "sink", sink), 1},
				Count{"rows_written_total", Labels("sink", sink), max(rev.Rows, 0)})
		}
	})
}

// Forget takes back a revision that no sink has: the former one is the newest again, or, without
// one, the window is lost, and so due again. It refuses to forget one that a sink committed.
func (db *DB) Forget(ctx context.Context, rev analytics.Revision) error {
	return db.write(ctx, func(t *tx) {
		revision := window(rev.Key, rev.Number)
		if t.get([]any{new(int)}, `SELECT 1 FROM deliveries`+ofRevision+` AND committed_at IS NOT NULL`, revision...) {
			t.fail(fmt.Errorf("forget %s revision %d: a sink has committed it", rev.Key, rev.Number))
		}
		t.exec(`DELETE FROM deliveries`+ofRevision, revision...)
		t.exec(`DELETE FROM revisions`+ofRevision+` AND EXISTS (SELECT 1 FROM revisions`+ofWindow+` AND revision < ?6)`,
			revision...)
	})
}

// Restore enters the revisions that a sink shows, for a ledger that was lost. Revisions that the
// ledger already has stay unchanged.
func (db *DB) Restore(ctx context.Context, sink string, revs []analytics.Revision) error {
	return db.write(ctx, func(t *tx) {
		for _, r := range revs {
			t.insertRevision(r, analytics.Provenance{})
			t.exec(`INSERT INTO deliveries VALUES (?,?,?,?,?,?,?,?)
				ON CONFLICT DO UPDATE SET committed_at = coalesce(committed_at, excluded.committed_at)`,
				window(r.Key, r.Number, sink, r.ExportedAt.UnixMicro())...)
		}
	})
}

// Amend replaces the entry of the window of e: the newest revision, and which sinks have it or are
// owed it. Without sinks the window is due again. The caller has checked the sinks.
func (db *DB) Amend(ctx context.Context, e Entry) error {
	return db.write(ctx, func(t *tx) {
		t.exec(`DELETE FROM deliveries`+ofWindow, window(e.Key)...)
		t.exec(`DELETE FROM revisions`+ofWindow, window(e.Key)...)
		t.insertEntry(e)
	})
}

// ReplaceLedger replaces the whole ledger by entries.
func (db *DB) ReplaceLedger(ctx context.Context, entries []Entry) error {
	return db.write(ctx, func(t *tx) {
		t.exec(`DELETE FROM deliveries`)
		t.exec(`DELETE FROM revisions`)
		for _, e := range entries {
			t.insertEntry(e)
		}
	})
}

func (t *tx) insertEntry(e Entry) {
	t.insertRevision(e.Revision, e.Provenance)
	for sink, at := range e.Sinks {
		t.exec(`INSERT INTO deliveries VALUES (?,?,?,?,?,?,?,?)`, window(e.Key, e.Number, sink, orNull(at))...)
	}
}

// Disbelieve takes the time and the settling from readings that were made after latest, or of
// windows that end after it: a clock that was ahead made them. Their numbers stay. It returns how
// many there were.
func (db *DB) Disbelieve(ctx context.Context, latest time.Time) (n int64, err error) {
	day := analytics.DateOf(latest)
	err = db.write(ctx, func(t *tx) {
		n = t.exec(`UPDATE revisions SET exported_at = ?1, settled = 0, verified = 0
			WHERE exported_at <> ?1 AND (exported_at > ?2 OR window_end > ?3)`,
			analytics.Unbelieved.UnixMicro(), latest.UnixMicro(), day)
		if n > 0 {
			t.exec(`DELETE FROM newest_windows WHERE window_end > ?`, day)
		}
	})
	return n, err
}
