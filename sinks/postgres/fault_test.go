package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// cutRows are the rows of a window whose connection is cut: several chunks.
const cutRows = 3000

// lengths is the number of bytes that a commit sends and gets, with the login before it.
func lengths(t *testing.T, dsn string, report analytics.Report) (up, down int64) {
	t.Helper()
	p := faults.NewProxy(t, dsn, faults.Never)
	s := open(t, p.DSN(dsn), report)
	// On a busy machine a connection is idle for a second now and then, and is pinged: more bytes than a commit has.
	s.config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	check(t, s.Replace(t.Context(), windowOf(1, 2, cutRows).For(report)))
	return p.Passed()
}

// made returns a database with the tables, and its readers.
func made(t *testing.T, e *engines.Postgres) (dsn string, r reader) {
	t.Helper()
	dsn = place(t, e)
	check(t, open(t, dsn, analytics.AgentsReport).Check(t.Context()))
	return dsn, readerAt(t, dsn)
}

// TestCut cuts the connection at many points of a commit and refuses new ones.
// Readers must see the former revision or the new one, and the next Replace must heal. The reports
// take turns.
func TestCut(t *testing.T) {
	each(t, func(t *testing.T, e *engines.Postgres) {
		dsn, r := made(t, e)
		limits := make([][]faults.Limit, len(analytics.Reports))
		for i, report := range analytics.Reports {
			up, down := lengths(t, dsn, report)
			for _, left := range []int64{up - 1, up * 2 / 3, up / 3, 30000, 300, 20, 12, 6, 5, 1} {
				limits[i] = append(limits[i], faults.Limit{Up: up - left, Down: -1})
			}
			for _, left := range []int64{down - 1, down * 2 / 3, down / 3, 120, 60, 40, 18, 17, 7, 6, 5, 1} {
				limits[i] = append(limits[i], faults.Limit{Up: -1, Down: down - left})
			}
		}
		all := slices.Clone(limits[0])
		for i := range all { // the reports take turns
			all[i] = limits[i%len(limits)][i]
		}
		outcomes := make([]string, len(all))
		t.Run("at", func(t *testing.T) {
			for i, at := range all {
				t.Run(fmt.Sprintf("up %d down %d", at.Up, at.Down), func(t *testing.T) {
					t.Parallel()
					outcomes[i] = cut(t, dsn, reader{client{r.Pool, t}}, at, 2+i, analytics.Reports[i%len(limits)])
				})
			}
		})
		ways := map[bool]string{}
		for i, at := range all {
			ways[at.Up < 0] += outcomes[i] + " "
		}
		t.Logf("up: %s\ndown: %s", ways[false], ways[true])
		if !strings.Contains(ways[false], "former+error") || !strings.Contains(ways[true], "new+error") {
			t.Error("the cuts are not where they should be")
		}
	})
}

// cut replaces a former revision by way of a proxy that fails.
func cut(
	t *testing.T, dsn string, r reader, at faults.Limit, day int, report analytics.Report,
) (outcome string) {
	replace(t, open(t, dsn, report), windowOf(day, 1, 10).For(report))
	p := faults.NewProxy(t, dsn, at)
	next := windowOf(day, 2, cutRows).For(report)
	return sinktest.CutOff(t, open(t, p.DSN(dsn), report), r, next, r.settled, p.Heal)
}

// settled waits until no transaction is under way whose client is gone.
func (r reader) settled() {
	r.t.Helper()
	r.until("SELECT count(*) = 0 FROM pg_stat_activity WHERE " + atPlace + " AND state = 'active'")
}

// until waits until a query answers true.
func (c client) until(query string) {
	c.t.Helper()
	sinktest.Eventually(c.t, query, func() bool { return value[bool](c, query) })
}

// TestCutOnce lets the connection after a cut one work: Replace heals by itself, even
// where the answer to COMMIT was lost.
func TestCutOnce(t *testing.T) {
	t.Parallel()
	dsn, r := made(t, serverOf(t, debian))
	for _, report := range analytics.Reports {
		up, down := lengths(t, dsn, report)
		for i, l := range []faults.Limit{
			{Up: up / 2, Down: -1, Once: true}, {Up: up - 20, Down: -1, Once: true},
			{Up: -1, Down: down - 60, Once: true}, {Up: -1, Down: down - 1, Once: true},
		} {
			t.Run(fmt.Sprintf("%s, up %d down %d", report, l.Up, l.Down), func(t *testing.T) {
				shows(t, open(t, faults.NewProxy(t, dsn, l).DSN(dsn), report), reader{client{r.Pool, t}},
					windowOf(2+i, 2, cutRows).For(report))
			})
		}
	}
}

// TestStall has a server stand still while it takes rows, and while it answers.
func TestStall(t *testing.T) {
	t.Parallel()
	dsn, _ := made(t, serverOf(t, debian))
	big := windowOf(0, 2, 40_000)
	big.Size = 400 // more than the buffers between hold
	_, down := lengths(t, dsn, analytics.VisitorsReport)
	for name, tc := range map[string]struct {
		at faults.Limit
		w  window
	}{
		"taking rows": {faults.Limit{Up: 1 << 20, Down: -1, Stall: true}, big},
		"answering":   {faults.Limit{Up: -1, Down: down - 6, Stall: true}, windowOf(1, 2, cutRows)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := faults.NewProxy(t, dsn, tc.at)
			s := open(t, p.DSN(dsn))
			ses, err := s.open(t.Context(), analytics.VisitorsReport)
			check(t, err)
			ses.patience, ses.committing = 700*time.Millisecond, 700*time.Millisecond
			if err := s.Replace(t.Context(), tc.w); err == nil || !strings.Contains(err.Error(), "stands still") {
				t.Errorf("Replace = %v", err)
			}
			p.Heal()
		})
	}
}

// TestTerminated has an administrator end the connection at each step.
func TestTerminated(t *testing.T) {
	each(t, func(t *testing.T, e *engines.Postgres) {
		for i, step := range steps {
			t.Run(step.name, func(t *testing.T) {
				t.Parallel()
				dsn, r := made(t, e)
				report := analytics.Reports[i%2]
				s := open(t, dsn, report)
				shows(t, s, r, seal(1, 10).For(report))
				terminate := func() {
					r.must("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE " + atPlace)
				}
				onStep(s, step.name, terminate)
				shows(t, s, r, seal(2, cutRows).For(report))
				terminate() // those that wait for the next use
				shows(t, s, r, seal(3, 10).For(report))
			})
		}
	})
}

// onStep calls f once, when a commit of s comes to a step.
func onStep(s *Sink, name string, f func()) { s.step = sinktest.OnStep(name, 1, f) }

// TestTimeouts: a statement that takes too long ends with an error that names the setting that
// ended it, and readers see the former revision.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	e := serverOf(t, debian)
	lockTable := "LOCK TABLE docgauge_visitors IN SHARE MODE"
	const lockWindow = "SELECT pg_advisory_xact_lock(%d, %d)"
	for name, tc := range map[string]struct{ parameter, lock, want string }{
		"lock of a table":  {"&lock_timeout=50ms", lockTable, "lock_timeout: see pg_locks"},
		"lock of a window": {"&lock_timeout=50ms", lockWindow, "lock_timeout: see pg_locks"},
		"statement":        {"&statement_timeout=200", lockTable, "statement_timeout, set a longer one"},
		"statement, in text": {"&statement_timeout=200ms&lock_timeout=0", lockWindow,
			"statement_timeout, set a longer one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, r := made(t, e)
			// Only what must not end in time is limited: on a busy machine the rest may not either.
			s, limited := open(t, dsn), open(t, dsn+tc.parameter)
			shows(t, s, r, seal(1, 10))
			lock := tc.lock
			if lock == lockWindow {
				at := layout{datasets[0], value[string](r.client, "SELECT current_schema()::text")}
				lock = fmt.Sprintf(lock, lockClass, at.lockOf(seal(1, 1).Rev.Key))
			}
			tx, err := r.Begin(t.Context())
			if err == nil {
				_, err = tx.Exec(t.Context(), lock)
			}
			check(t, err)
			if err := limited.Replace(t.Context(), seal(2, 20)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Replace = %v", err)
			}
			if err := tx.Rollback(t.Context()); err != nil || r.shown(seal(1, 1).Rev.Key) != 1 {
				t.Errorf("readers see revision %d, %v", r.shown(seal(1, 1).Rev.Key), err)
			}
			shows(t, s, r, seal(3, 20))
		})
	}
	t.Run("idle in a transaction", func(t *testing.T) {
		t.Parallel()
		dsn, r := made(t, e)
		s, patient := open(t, dsn+"&idle_in_transaction_session_timeout=1ms"), open(t, dsn)
		ses, err := patient.open(t.Context(), analytics.VisitorsReport)
		check(t, err)
		onStep(s, "begun", func() {
			r.until("SELECT count(*) = 0 FROM pg_stat_activity WHERE " + atPlace + " AND state LIKE 'idle in%'")
			// A busy machine could take longer than the limit at every try.
			s.sessions[analytics.VisitorsReport].Store(ses)
		})
		shows(t, s, r, seal(1, 10)) // by the second try
	})
}

// TestSettings: the server has our time-outs, unless the DSN has others, and a COMMIT is
// safe whatever the default of the database.
func TestSettings(t *testing.T) {
	t.Parallel()
	dsn := database(t, serverOf(t, debian))
	c := connect(t, dsn)
	for _, setting := range []string{"synchronous_commit = off", "quote_all_identifiers = on"} {
		c.must("ALTER DATABASE " + value[string](c, "SELECT current_database()") + " SET " + setting)
	}
	s := open(t, dsn+"&statement_timeout=7s&pool_max_conns=1&options=-c%20lock_timeout%3D3s")
	ses, err := s.open(t.Context(), analytics.VisitorsReport)
	check(t, err)
	conn, err := ses.pool.Acquire(t.Context())
	if err == nil {
		defer conn.Release()
		err = ses.begin(t.Context(), conn, seal(1, 1).Rev)
	}
	check(t, err)
	for name, want := range map[string]string{
		"synchronous_commit": "on", "statement_timeout": "7s", "lock_timeout": "3s",
		"idle_in_transaction_session_timeout": "2min", "application_name": "docgauge",
		"transaction_isolation": "read committed",
	} {
		var got string
		if err := conn.QueryRow(t.Context(), "SHOW "+name).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, want %q, %v", name, got, want, err)
		}
	}
	if ses.patience != 2*7*time.Second+time.Minute {
		t.Errorf("patience %s", ses.patience)
	}
}

// TestRowsMissing has a window file with fewer rows than its revision says.
func TestRowsMissing(t *testing.T) {
	t.Parallel()
	s, r := newSink(t, serverOf(t, debian))
	shows(t, s, r, seal(1, 10))
	w := seal(2, 20)
	w.Lacks = 3
	if err := s.Replace(t.Context(), w); err == nil || !strings.Contains(err.Error(), "has 20 rows, its file 17") {
		t.Errorf("Replace = %v", err)
	}
	sees(t, r, w.Rev.Key, 1)
}

// TestTransient: which errors are retried, and which are left to the next run.
func TestTransient(t *testing.T) {
	for err, want := range map[error]bool{
		&pgconn.PgError{Code: "40P01"}: true, &pgconn.PgError{Code: "57P03"}: true,
		&pgconn.PgError{Code: "53100"}: false, &pgconn.PgError{Code: "57014"}: false,
		&pgconn.PgError{Code: "42501"}: false,
		pgconn.ErrConnClosed:           true, errAltered{"t", "is gone"}: false, errors.New("x"): false,
		sinks.Fault{Key: analytics.Key{}}: false,
	} {
		if got := new(Sink).isTransient(fmt.Errorf("x: %w", err)); got != want {
			t.Errorf("%v is transient: %t", err, got)
		}
	}
}

// TestSwallowed: rules and triggers that keep a part of the window from the tables. It is
// refused, and readers see the former revision.
func TestSwallowed(t *testing.T) {
	const nothing = "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
	type swallowing struct{ do, mentions string }
	byTurns(t, map[string]swallowing{
		"totals by a trigger": {"CREATE TRIGGER x BEFORE INSERT OR UPDATE ON docgauge_totals FOR EACH ROW " +
			"EXECUTE FUNCTION nothing()", "took 0 rows of docgauge_totals"},
		"totals by an update": {"CREATE TRIGGER x BEFORE UPDATE ON docgauge_totals FOR EACH ROW EXECUTE " +
			"FUNCTION nothing()", "drop the rule or trigger on docgauge_totals"},
		"totals by a rule": {"CREATE RULE x AS ON UPDATE TO docgauge_totals DO INSTEAD NOTHING", "rules"},
		"rows by a trigger": {"CREATE TRIGGER x BEFORE INSERT ON docgauge_visitors FOR EACH ROW EXECUTE " +
			"FUNCTION nothing()", "the server took 0"},
		"their removal": {"CREATE TRIGGER x BEFORE DELETE ON docgauge_visitors FOR EACH ROW EXECUTE " +
			"FUNCTION nothing()", "7 rows of the former revision are still there"},
		"their removal by a rule": {"CREATE RULE x AS ON DELETE TO docgauge_visitors DO INSTEAD NOTHING",
			"drop the rule or trigger on docgauge_visitors"},
		"window of agents": {"CREATE TRIGGER x BEFORE UPDATE ON docgauge_agents_windows FOR EACH ROW EXECUTE " +
			"FUNCTION nothing()", "took 0 rows of docgauge_agents_windows"},
		"site of agents": {"CREATE TRIGGER x BEFORE INSERT ON docgauge_agents FOR EACH ROW WHEN (NEW.path = '') " +
			"EXECUTE FUNCTION nothing()", "has 5 rows, and the server took 3: drop the rule or trigger on docgauge_agents"},
	}, func(t *testing.T, e *engines.Postgres, c swallowing) {
		dsn, r := made(t, e)
		s, report := open(t, dsn, analytics.AgentsReport), reportOf(c.do)
		former := seal(1, 7).For(report)
		replace(t, s, former)
		r.must(nothing)
		r.must(c.do)
		if err := s.Replace(t.Context(), seal(2, 3).For(report)); err == nil || !strings.Contains(err.Error(), c.mentions) {
			t.Errorf("Replace = %v, want %q", err, c.mentions)
		}
		sees(t, r, former.Rev.Key, 1)
	})
}
