package state

import (
	"context"
	"database/sql"
	"iter"
	"strconv"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// SetOpen keeps the totals of a running window in place of the former reading of its project and granularity.
func (db *DB) SetOpen(ctx context.Context, w analytics.OpenWindow) error {
	values := days(w.Key, append(w.Totals.Values(), w.Humans, w.ReadAt.UnixMicro())...)
	return db.exec(ctx, `INSERT OR REPLACE INTO open_windows VALUES `+marks(values), values...)
}

// OpenWindows returns the readings of the running windows, in key order.
func (db *DB) OpenWindows(ctx context.Context) ([]analytics.OpenWindow, error) {
	return list(ctx, db, func(w *analytics.OpenWindow) []any {
		return daysColumns(&w.Key, append(w.Totals.Pointers(), &w.Humans, instant{&w.ReadAt})...)
	}, `SELECT * FROM open_windows ORDER BY project, granularity`)
}

// SetAside keeps a window that failed, in place of its former entry.
func (db *DB) SetAside(ctx context.Context, a analytics.Aside) error {
	return db.exec(ctx, `INSERT OR REPLACE INTO set_aside VALUES (?,?,?,?,?,?,?,?,?,?)`,
		window(a.Key, a.Reason, a.Detail, a.Failures, a.Since.UnixMicro(), a.Until.UnixMicro())...)
}

// Asides returns the windows that failed when they were last read, in key order: also those whose
// pause is over. Record removes a window.
func (db *DB) Asides(ctx context.Context) ([]analytics.Aside, error) {
	return list(ctx, db, func(a *analytics.Aside) []any {
		return windowColumns(&a.Key, &a.Reason, &a.Detail, &a.Failures, instant{&a.Since}, instant{&a.Until})
	}, `SELECT * FROM set_aside ORDER BY project, granularity, window_start, window_end, report`)
}

// Movement is how often in a row, and when last, windows of a report of a project and granularity moved
// in the way that kind names; or another fact about them, a number and a time.
type Movement struct {
	Project     string
	Granularity analytics.Granularity
	Report      analytics.Report
	Kind        string
	Times       int
	At          time.Time
}

// SetMovement keeps a movement in place of the former one of its kind.
func (db *DB) SetMovement(ctx context.Context, m Movement) error {
	return db.exec(ctx, `INSERT OR REPLACE INTO movements VALUES (?,?,?,?,?,?)`,
		m.Project, m.Granularity, m.Report, m.Kind, m.Times, m.At.UnixMicro())
}

// Movements returns every movement kept.
func (db *DB) Movements(ctx context.Context) ([]Movement, error) {
	return list(ctx, db, func(m *Movement) []any {
		return []any{&m.Project, &m.Granularity, &m.Report, &m.Kind, &m.Times, instant{&m.At}}
	}, `SELECT * FROM movements`)
}

// PageSize is how many rows the service puts on a page of a report of a project.
type PageSize struct {
	Project string
	Report  analytics.Report
	Rows    int
}

// SetPageSize keeps a page size in place of the former one.
func (db *DB) SetPageSize(ctx context.Context, s PageSize) error {
	return db.exec(ctx, `INSERT OR REPLACE INTO page_sizes VALUES (?,?,?)`, s.Project, s.Report, s.Rows)
}

// PageSizes returns every page size kept.
func (db *DB) PageSizes(ctx context.Context) ([]PageSize, error) {
	return list(ctx, db, func(s *PageSize) []any { return []any{&s.Project, &s.Report, &s.Rows} },
		`SELECT * FROM page_sizes`)
}

// TopRows are the first rows of a reading of a window, in the order of [analytics.Shape.Top], and how many others it
// has.
type TopRows struct {
	analytics.Key
	Revision int32
	Rows     []analytics.Record
	More     int
}

// SetTop keeps the first rows of a reading, for the gauges, in place of the rows of an older window of its report,
// project and granularity or of an older reading. If a newer one is kept it changes nothing.
func (db *DB) SetTop(ctx context.Context, l TopRows) error {
	return db.write(ctx, func(t *tx) { t.setTop(l) })
}

func (t *tx) setTop(l TopRows) {
	newest := t.exec(`INSERT INTO newest_windows VALUES (?1,?2,?3,?4,?5,?6,?7) ON CONFLICT DO UPDATE
		SET window_start = ?3, window_end = ?4, revision = ?6, more = ?7
		WHERE window_start < ?3 OR window_start = ?3 AND revision < ?6`, window(l.Key, l.Revision, l.More)...) > 0
	if !newest {
		return
	}
	t.exec(`DELETE FROM top_rows WHERE project = ? AND granularity = ? AND report = ?`, l.Project, l.Granularity,
		l.Report)
	for i, row := range l.Rows {
		values := append([]any{l.Project, l.Granularity, l.Report, i}, row.Fields().All()...)
		t.exec(`INSERT INTO top_rows VALUES `+marks(values), values...)
	}
}

// Top returns the rows kept, at most n of each report, project and granularity, in key order.
func (db *DB) Top(ctx context.Context, n int) (out []TopRows, err error) {
	type row struct {
		list   TopRows
		rank   sql.NullInt64
		record analytics.Record
	}
	columns := func(r *row) []any {
		return windowColumns(&r.list.Key, append([]any{&r.list.Revision, &r.list.More, &r.rank},
			r.record.Fields().All()...)...)
	}
	var values string
	for name, kind := range recordColumns() {
		values += ", ifnull(t." + name + ", " + map[string]string{"TEXT": "''", "INTEGER": "0"}[kind] + ")"
	}
	err = scan(ctx, db.reads, columns, func(r row) {
		if len(out) == 0 || out[len(out)-1].Key != r.list.Key {
			out = append(out, r.list)
		}
		if r.rank.Valid {
			last := &out[len(out)-1]
			last.Rows = append(last.Rows, r.record)
		}
	}, `
		SELECT w.*, t.place`+values+`
		FROM newest_windows w LEFT JOIN top_rows t
		  ON t.project = w.project AND t.granularity = w.granularity AND t.report = w.report AND t.place < ?
		ORDER BY w.report, w.project, w.granularity, t.place`, n)
	return out, db.wrap(ctx, err)
}

// recordColumns are the columns of a record, whatever its report, and their types.
func recordColumns() iter.Seq2[string, string] {
	return func(yield func(name, kind string) bool) {
		f := new(analytics.Record).Fields()
		for _, of := range []struct {
			name, kind string
			n          int
		}{{"text_", "TEXT", len(f.Texts)}, {"truth_", "INTEGER", len(f.Truths)}, {"count_", "INTEGER", len(f.Counts)}} {
			for i := range of.n {
				if !yield(of.name+strconv.Itoa(i), of.kind) {
					return
				}
			}
		}
	}
}

// Reading is a reading of windows that were named by their dates. It continues over several runs.
type Reading struct {
	// Name is the selection of its windows.
	Name  string    `json:"-"`
	Began time.Time `json:"began_at"`
	// Done is when a run found that every window was read since; zero before that.
	Done time.Time `json:"done_at,omitzero"`
}

// keptReadings bounds the history of readings.
const keptReadings = 1000

// FindReading returns the reading of that name, or the zero Reading.
func (db *DB) FindReading(ctx context.Context, name string) (r Reading, err error) {
	err = db.get(ctx, []any{&r.Name, instant{&r.Began}, instant{&r.Done}},
		`SELECT * FROM readings WHERE name = ?`, name)
	return r, err
}

// SetReading keeps a reading in place of the former one of its name.
func (db *DB) SetReading(ctx context.Context, r Reading) error {
	return db.write(ctx, func(t *tx) {
		t.exec(`INSERT OR REPLACE INTO readings VALUES (?,?,?)`, r.Name, r.Began.UnixMicro(), orNull(r.Done))
		t.exec(`DELETE FROM readings WHERE name NOT IN
			(SELECT name FROM readings ORDER BY began_at DESC, name LIMIT ?)`, keptReadings)
	})
}
