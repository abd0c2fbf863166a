package state

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// SetOpen keeps the totals of a running window, read at the given time, in place of the former
// reading of its project and granularity.
func (db *DB) SetOpen(ctx context.Context, k analytics.Key, t analytics.Totals, at time.Time) error {
	values := days(k, append(t.Values(), at.UnixMicro())...)
	return db.exec(ctx, `INSERT OR REPLACE INTO open_windows VALUES `+marks(values), values...)
}

// OpenWindows returns the readings of the running windows, in key order.
func (db *DB) OpenWindows(ctx context.Context) ([]analytics.OpenWindow, error) {
	return list(ctx, db, func(w *analytics.OpenWindow) []any {
		return daysColumns(&w.Key, append(w.Totals.Pointers(), instant{&w.ReadAt})...)
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

// PageList is the pages with the most visitors in one reading of a window, in order.
type PageList struct {
	analytics.Key
	Revision int32
	Pages    []analytics.Row
}

// SetPages keeps the pages with the most visitors of a reading, for the gauges, in place of those
// of an older window of its project and granularity or of an older reading. If a newer one is kept
// it changes nothing.
func (db *DB) SetPages(ctx context.Context, l PageList) error {
	return db.write(ctx, func(t *tx) {
		newest := t.exec(`INSERT INTO newest_pages VALUES (?1,?2,?3,?4,?5) ON CONFLICT DO UPDATE
			SET window_start = ?3, window_end = ?4, revision = ?5
			WHERE window_start < ?3 OR window_start = ?3 AND revision < ?5`, days(l.Key, l.Revision)...) > 0
		if !newest {
			return
		}
		t.exec(`DELETE FROM pages WHERE project = ? AND granularity = ?`, l.Project, l.Granularity)
		for i, p := range l.Pages {
			values := append([]any{l.Project, l.Granularity, i, p.Path}, p.Totals.Values()...)
			t.exec(`INSERT INTO pages VALUES `+marks(values), values...)
		}
	})
}

// Pages returns the pages kept, at most n of each project and granularity, in key order.
func (db *DB) Pages(ctx context.Context, n int) ([]PageList, error) {
	type row struct {
		list   PageList
		path   sql.NullString
		totals analytics.Totals
	}
	columns := func(r *row) []any {
		return daysColumns(&r.list.Key, append([]any{&r.list.Revision, &r.path}, r.totals.Pointers()...)...)
	}
	totals := "ifnull(p." + strings.Join(analytics.TotalsNames(), ", 0), ifnull(p.") + ", 0)"
	var out []PageList
	err := scan(ctx, db.sql, columns, func(r row) {
		if len(out) == 0 || out[len(out)-1].Key != r.list.Key {
			out = append(out, r.list)
		}
		if r.path.Valid {
			last := &out[len(out)-1]
			last.Pages = append(last.Pages, analytics.Row{Path: r.path.String, Totals: r.totals})
		}
	}, `
		SELECT w.*, p.path, `+totals+`
		FROM newest_pages w LEFT JOIN pages p
		  ON p.project = w.project AND p.granularity = w.granularity AND p.place < ?
		ORDER BY w.project, w.granularity, p.place`, n)
	return out, db.wrap(ctx, err)
}

// AgentList is the agents with the most readers in one reading of a window, in order, and how many it
// has besides.
type AgentList struct {
	analytics.Key
	Revision int32
	Agents   []analytics.AgentRow
	More     int
}

// SetAgents keeps the agents of a reading, for the gauges, as [DB.SetPages] keeps pages.
func (db *DB) SetAgents(ctx context.Context, l AgentList) error {
	return db.write(ctx, func(t *tx) {
		newest := t.exec(`INSERT INTO newest_agents VALUES (?1,?2,?3,?4,?5,?6) ON CONFLICT DO UPDATE
			SET window_start = ?3, window_end = ?4, revision = ?5, more = ?6
			WHERE window_start < ?3 OR window_start = ?3 AND revision < ?5`, days(l.Key, l.Revision, l.More)...) > 0
		if !newest {
			return
		}
		t.exec(`DELETE FROM agents WHERE project = ? AND granularity = ?`, l.Project, l.Granularity)
		for i, a := range l.Agents {
			t.exec(`INSERT INTO agents VALUES (?,?,?,?,?,?,?,?)`,
				l.Project, l.Granularity, i, a.Agent, a.Class, a.Audience, a.Visitors, a.Requests)
		}
	})
}

// Agents returns the agents kept, of each project and granularity, in key order.
func (db *DB) Agents(ctx context.Context) ([]AgentList, error) {
	type row struct {
		list                   AgentList
		agent, class, audience sql.NullString
		visitors, requests     sql.NullInt64
	}
	columns := func(r *row) []any {
		return daysColumns(&r.list.Key, &r.list.Revision, &r.list.More, &r.agent, &r.class, &r.audience, &r.visitors,
			&r.requests)
	}
	var out []AgentList
	err := scan(ctx, db.sql, columns, func(r row) {
		r.list.Report = analytics.AgentsReport
		if len(out) == 0 || out[len(out)-1].Key != r.list.Key {
			out = append(out, r.list)
		}
		if r.agent.Valid {
			last := &out[len(out)-1]
			last.Agents = append(last.Agents, analytics.AgentRow{Agent: r.agent.String, Class: r.class.String,
				Audience: analytics.Audience(r.audience.String), Found: true,
				Visitors: r.visitors.Int64, Requests: r.requests.Int64})
		}
	}, `
		SELECT w.*, a.agent, a.class, a.audience, a.visitors, a.requests
		FROM newest_agents w LEFT JOIN agents a USING (project, granularity)
		ORDER BY w.project, w.granularity, a.place`)
	return out, db.wrap(ctx, err)
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
