package postgres

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

const secret = "hunter2"

func newFrom(dsn string) (sinks.Sink, error) { return New(Options{DSN: dsn, Now: time.Now}) }

func TestWrongDSN(t *testing.T) {
	sinktest.WrongDSNs(t, "PostgreSQL", secret, newFrom, map[string]string{
		"":                                                         "want postgres://",
		"host=h user=u password=hunter2":                           "want postgres://",
		"mysql://u:hunter2@h/db":                                   "want postgres://",
		" postgres://h/db":                                         "want postgres://",
		"postgres://":                                              "a host is missing",
		"postgres:///db":                                           "a host is missing",
		"postgres://u:hunter2@/db":                                 "a host is missing",
		"postgres://u:hunter2@:5432/db":                            "a host is missing",
		"postgres://,h/db":                                         "a host is missing",
		"postgres://u:hunter2@h":                                   "the database, which follows",
		"postgres://u:hunter2@h/":                                  "the database, which follows",
		"postgres://h/a%2Fhunter2":                                 "the database, which follows",
		"postgres://h/hunter2%40":                                  "the database, which follows",
		"postgres://[::1/db":                                       "not a URL",
		"postgres://u:hunter2@h:port/db":                           "is the port a number",
		"postgres://u:hunter2/db":                                  "is the port a number",
		"postgres://u:hunter2%@h/db":                               "not a URL",
		"postgres://u:1hunter2/2@h:5432/db":                        "%2F for /",
		"postgres://u:1?hunter2@h:5432/db":                         "%3F for ?",
		"postgres://u:1#hunter2@h:5432/db":                         "%23 for #",
		"postgres://u:1@hunter2@h:5432/db":                         "%40 for @",
		"postgres://h/db?password=#hunter2":                        "%23 for #",
		"postgres://h/db?x;password=hunter2":                       "the parameters after ?",
		"postgres://h/db?password=%hunter2":                        "the parameters after ?",
		"postgres://h/db?sslmode=hunter2":                          "the parameter sslmode: wrong value",
		"postgres://h/db?connect_timeout=hunter2":                  "the parameter connect_timeout: wrong value",
		"postgres://h/db?pool_max_conns=hunter2":                   "the parameter pool_max_conns: wrong value",
		"postgres://h/db?target_session_attrs=hunter2":             "the parameter target_session_attrs: wrong value",
		"postgres://h/db?sslmode=verify-full&sslrootcert=/hunter2": "the parameter sslrootcert: no such file",
	})
}

func TestDSNForms(t *testing.T) {
	sinktest.Locations(t, newFrom, map[string]string{
		"postgres://h/db":                                     "h:5432/db",
		"postgresql://u:p%40%2F@h:6543/db":                    "h:6543/db",
		"postgres://u:hunter2@h,i:6543/db":                    "h:5432,i:6543/db",
		"postgres://[::1]:5432/my-db":                         "[::1]:5432/my-db",
		"postgres://h/db?password=hunter2&search_path=docs":   "h:5432/db (search_path docs)",
		"postgres:///db?host=/run/postgresql&user=u":          "/run/postgresql/.s.PGSQL.5432/db",
		"postgres://u:hunter2@h/db?sslmode=require":           "h:5432/db",
		"postgres://u:hunter2@h:5432/db?statement_timeout=1h": "h:5432/db",
	})
}

// TestNoSecretInErrors writes passwords of all characters into DSNs as people do: raw,
// at each place that takes one, and beside other mistakes.
func TestNoSecretInErrors(t *testing.T) {
	forms := []string{
		"S://u:P@h:5432/db", "S://u:P@h/db?Q", "S://h/db?password=P", "S://h/db?Q&password=P", "S://u:P@/db",
		"S://u:P@h:port/db",
		"S://u:P@h/d b", "u:P@h/db", "S:u:P@h", "S://u:P", "S://P@h/db?Q", "host=h password=P",
		"S://h/db?sslpassword=P&Q",
	}
	sinktest.HidesPasswords(t, forms,
		[]string{"postgres", "postgresql", "mysql"},
		[]string{"sslmode=x", "connect_timeout=x", "%", "pool_max_conns=x", "sslrootcert=/x"},
		newFrom)
}

// refused expects Check and Replace to fail at once, both naming the place and each of
// the words, and no secret.
func refused(t *testing.T, dsn string, words ...string) {
	t.Helper()
	sinktest.Refuses(t, open(t, dsn), analytics.VisitorsReport, secret, words...)
}

// as is a DSN of another user, with the password hunter2.
func as(user, dsn string) string {
	_, rest, _ := strings.Cut(dsn, "@")
	return "postgres://" + user + ":" + secret + "@" + rest
}

// TestGrants runs an export as a user that has only the rights which docs/postgres.md
// names, on a database whose tables are made already; each of them is needed.
func TestGrants(t *testing.T) {
	each(t, func(t *testing.T, e *engines.Postgres) {
		dsn := database(t, e)
		check(t, open(t, dsn, analytics.Reports...).Check(t.Context()))
		r := reader{connect(t, dsn)}
		r.must("DO $$ BEGIN CREATE USER docgauge PASSWORD 'hunter2'; EXCEPTION WHEN duplicate_object THEN END $$")
		grants := sinktest.DocumentedGrants(t, "../../docs/postgres.md", `(?m)^(GRANT .*);$`)
		for _, grant := range grants {
			r.must(grant)
		}
		s := open(t, as("docgauge", dsn), analytics.Reports...)
		check(t, s.Check(t.Context()))
		for _, report := range analytics.Reports {
			shows(t, s, r, seal(1, 30).For(report))
			shows(t, s, r, seal(2, 10).For(report))
			if _, fault := inspected(t, s, seal(1, 0).For(report).Rev.Key); fault != nil {
				t.Error(fault)
			}
		}
		for _, grant := range grants {
			if strings.Contains(grant, "SCHEMA") {
				continue // everybody may use the schema public
			}
			r.must(strings.NewReplacer("GRANT", "REVOKE", " TO ", " FROM ").Replace(grant))
			sinktest.Refuses(t, open(t, as("docgauge", dsn), analytics.Reports...), reportOf(grant), secret,
				"lacks a right: docs/postgres.md", "42501")
			r.must(grant)
		}
	})
}

func TestRights(t *testing.T) {
	t.Parallel()
	e := engines.RunPostgres(t, debian)
	dsn := e.DSN("postgres")
	check(t, open(t, dsn).Check(t.Context()))
	r := reader{connect(t, dsn)}
	r.must("CREATE USER reader PASSWORD 'hunter2'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
	r.must("CREATE USER limited PASSWORD 'hunter2' CONNECTION LIMIT 0; CREATE USER full PASSWORD 'hunter2' SUPERUSER")
	r.must("CREATE SCHEMA bare; CREATE SCHEMA usable; GRANT USAGE ON SCHEMA usable TO reader")
	latin := database(t, e, "ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0")
	only := database(t, e)
	r.must("ALTER DATABASE " + value[string](connect(t, only), "SELECT current_database()") +
		" SET default_transaction_read_only = on")
	for name, tc := range map[string]struct {
		dsn   string
		words []string
	}{
		"wrong password": {strings.Replace(as("full", dsn), secret, secret+"x", 1),
			[]string{"refuses user or password", "28P01"}},
		"unknown user":     {as("nobody", dsn), []string{"refuses user or password", "28P01"}},
		"missing database": {e.DSN("none"), []string{"CREATE DATABASE", "3D000"}},
		"may only read":    {as("reader", dsn), []string{"lacks a right", "42501"}},
		"may not create": {as("reader", dsn+"&search_path=usable"),
			[]string{"lacks a right", "docgauge check", "permission denied for schema usable"}},
		"no schema": {as("reader", dsn+"&search_path=bare"),
			[]string{"no schema of search_path", "GRANT USAGE"}},
		"no such schema":    {dsn + "&search_path=nowhere", []string{"no schema of search_path"}},
		"no connection":     {as("limited", dsn), []string{"no connection left", "53300"}},
		"other encoding":    {latin, []string{"encoding LATIN1", "ENCODING 'UTF8'"}},
		"read-only":         {only, []string{"only reads", "default_transaction_read_only"}},
		"read-only, asked":  {only + "&target_session_attrs=any", []string{"only reads", "25006"}},
		"unknown parameter": {dsn + "&no_such_setting=1s", []string{"does not know a parameter", "no_such_setting"}},
		"wrong setting":     {dsn + "&statement_timeout=soon", []string{"does not know a parameter", "22023"}},
		"no server":         {"postgres://u:hunter2@127.0.0.1:1/db", []string{"no server answers there"}},
		"no such host":      {"postgres://u:hunter2@no-such-host.invalid/db", []string{"no server answers there"}},
	} {
		t.Run(name, func(t *testing.T) { refused(t, tc.dsn, tc.words...) })
	}
	t.Run("schema", func(t *testing.T) {
		r.must(`CREATE SCHEMA "My ""docs"`)
		s := open(t, dsn+"&search_path="+`%22My%20%22%22docs%22`)
		replace(t, s, seal(7, 5))
		if n := value[int](r.client, `SELECT count(*) FROM "My ""docs".docgauge_visitors`); n != 5 {
			t.Errorf("%d rows", n)
		}
		if got := r.shown(seal(7, 5).Rev.Key); got != 0 {
			t.Errorf("the other schema shows revision %d", got)
		}
	})
}

// TestPrimary has a DSN that names a server which only reads, and then one that writes.
func TestPrimary(t *testing.T) {
	t.Parallel()
	servers := []*engines.Postgres{engines.RunPostgres(t, debian, "default_transaction_read_only = on"),
		engines.RunPostgres(t, debian)}
	for _, e := range servers {
		connect(t, e.DSN("postgres")+"&default_transaction_read_only=off").must("CREATE USER full PASSWORD " +
			"'hunter2' SUPERUSER")
	}
	dsn := as("full", servers[0].DSN("postgres"))
	refused(t, dsn, "only reads")
	both := strings.Replace(dsn, servers[0].Addr(), servers[0].Addr()+","+servers[1].Addr(), 1)
	shows(t, open(t, both), reader{connect(t, servers[1].DSN("postgres"))}, seal(1, 10))
}

// TestStrangeServers has other programs at the address.
func TestStrangeServers(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	for name, tc := range map[string]struct{ at, want string }{
		"web server": {web.Listener.Addr().String(), "no answer in time"},
		"hangs up":   {faults.Listen(t, func(c net.Conn) { _ = c.Close() }), "does not answer as PostgreSQL"},
		"babbles": {faults.Listen(t, func(c net.Conn) {
			_,
				_ = c.Write([]byte("220 mail.example.org ESMTP\r\n"))
			_ = c.Close()
		}), "PostgreSQL"},
		"says nothing": {faults.Listen(t, func(net.Conn) {}), "no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, "postgres://u:hunter2@"+tc.at+"/db?sslmode=disable&connect_timeout=2", tc.want)
		})
	}
}

func TestServerCheck(t *testing.T) {
	for is, want := range map[server]string{
		{version: 90624, encoding: "UTF8", schema: "s"}:       "version 9.624: too old",
		{version: 120020, encoding: "UTF8", schema: "s"}:      "version 12.20: too old, want 13",
		{version: 130000, encoding: "SQL_ASCII", schema: "s"}: "encoding SQL_ASCII",
		{version: 130000, encoding: "UTF8"}:                   "no schema",
		{version: 130000, encoding: "UTF8", schema: "s"}:      "",
		{version: 190001, encoding: "UTF8", schema: "s"}:      "",
	} {
		err := is.check()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", is, err, want)
		}
	}
}
