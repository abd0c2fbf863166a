package postgres

import (
	"strings"
	"sync"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestContract(t *testing.T) {
	each(t, func(t *testing.T, e *engines.Postgres) {
		run := sinktest.RunMixed
		if e == serverOf(t, debian) {
			run = sinktest.Run
		}
		run(t, func(t *testing.T, reports ...analytics.Report) (sinks.Sink, sinktest.Reader) {
			t.Parallel()
			return newSink(t, e, reports...)
		})
	})
}

// TestModes has the other modes of the driver without prepared statements that have names.
func TestModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			dsn := place(t, serverOf(t, debian))
			s, r := open(t, dsn+"&pool_max_conns=1&default_query_exec_mode="+mode), readerAt(t, dsn)
			shows(t, s, r, seal(1, 30))
			shows(t, s, r, seal(2, 10))
			if shown, fault := inspected(t, s, seal(2, 0).Rev.Key); !shown.Whole() || shown.Number != 2 ||
				fault != nil {
				t.Errorf("%+v, %v", shown, fault)
			}
			if pages, err := sinks.Top(t.Context(), s, seal(2, 0).Rev, 3, t.TempDir()); len(pages) != 3 || err != nil {
				t.Errorf("%v, %v", pages, err)
			}
		})
	}
}

// TestPooler: the contract for windows of both reports through PgBouncer with its default settings.
func TestPooler(t *testing.T) {
	t.Parallel()
	e := serverOf(t, debian)
	for _, mode := range []string{"session", "transaction"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			pooler := poolerOf(t, e, mode)
			sinktest.RunMixed(t, func(t *testing.T, reports ...analytics.Report) (sinks.Sink, sinktest.Reader) {
				dsn := place(t, e)
				return open(t, through(t, pooler, dsn), reports...), readerAt(t, dsn)
			})
		})
	}
}

// TestSmallPool: a pool with fewer connections than we would use serves windows one after the other, and one
// that stays exhausted is named.
func TestSmallPool(t *testing.T) {
	t.Parallel()
	e := serverOf(t, debian)
	pooler := poolerOf(t, e, "session", "default_pool_size = 1", "query_wait_timeout = 1")
	dsn := place(t, e)
	busy := connect(t, through(t, pooler, e.DSN("postgres"))+"&default_query_exec_mode=exec")
	conn, err := busy.Acquire(t.Context())
	check(t, err)
	_, err = conn.Exec(t.Context(), "SELECT 1") // in session mode it has the one connection of the server
	check(t, err)
	if err := open(t, through(t, pooler, dsn)).Check(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "default_pool_size") {
		t.Errorf("%v, want the pool named", err)
	}
	conn.Release()
	busy.Close()
	s := open(t, through(t, pooler, dsn))
	var all sync.WaitGroup
	for day := range connections {
		rev := sinktest.Revision(sinktest.Key("prj_a", day), 1)
		rev.Rows = 20
		w := sinktest.Seal(t, rev, sinktest.Pages(20))
		all.Go(func() {
			if err := s.Replace(t.Context(), w); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestPoolerRefuses: PgBouncer has one code for all of its errors; what each says has its remedy.
func TestPoolerRefuses(t *testing.T) {
	t.Parallel()
	e := serverOf(t, debian)
	pooler := poolerOf(t, e, "transaction", "server_login_retry = 0")
	for name, tc := range map[string]struct {
		pooler *engines.Pooler
		dsn    string
		want   string
	}{
		"missing database":  {pooler, e.DSN("none"), "CREATE DATABASE"},
		"unknown parameter": {pooler, e.DSN("postgres") + "&work_mem=10MB", "check those after ?"},
		"statement mode":    {poolerOf(t, e, "statement"), e.DSN("postgres"), "pool_mode"},
		"unknown user": {poolerOf(t, e, "transaction", "auth_type = scram-sha-256"), e.DSN("postgres"),
			"refuses user or password"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, through(t, tc.pooler, tc.dsn), tc.want, "08P01") })
	}
}

func poolerOf(t *testing.T, e *engines.Postgres, mode string, settings ...string) *engines.Pooler {
	t.Helper()
	p, err := engines.StartPooler(t.TempDir(), e, mode, settings...)
	engines.Need(t, err)
	t.Cleanup(func() { check(t, p.Stop()) })
	return p
}

// through is a DSN of a server by a pooler.
func through(t *testing.T, p *engines.Pooler, dsn string) string {
	t.Helper()
	dsn, err := p.Through(dsn)
	check(t, err)
	return dsn
}
