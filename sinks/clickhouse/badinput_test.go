package clickhouse

import (
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
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
	sinktest.WrongDSNs(t, "ClickHouse", secret, newFrom, map[string]string{
		"":                                                   "want clickhouse://",
		"localhost:9000":                                     "want clickhouse://",
		"mysql://u:hunter2@h/db":                             "want clickhouse://",
		" clickhouse://h/db":                                 "want clickhouse://",
		"CLICKHOUSE://h/db":                                  "want clickhouse://",
		"clickhouse://":                                      "a host is missing",
		"clickhouse:///db":                                   "a host is missing",
		"clickhouse://u:hunter2@/db":                         "a host is missing",
		"clickhouse://u:hunter2@:9000/db":                    "a host is missing",
		"clickhouse://,/db":                                  "a host is missing",
		"clickhouse://h,/db":                                 "not a URL",
		"clickhouse://[::1/db":                               "not a URL",
		"clickhouse://h/db\n":                                "not a URL",
		"clickhouse://u:hunter2@h:port/db":                   "is the port a number",
		"clickhouse://u:hunter2/db":                          "is the port a number",
		"clickhouse://u:hunter2[@h/db":                       "special characters",
		"clickhouse://u:hunter2%@h/db":                       "special characters",
		"clickhouse://u:hunter2 @h/db":                       "special characters",
		"clickhouse://u:1hunter2/2@h:9000/db":                "%2F for /",
		"clickhouse://u:1/hunter2@h:9000/db":                 "%2F for /",
		"clickhouse://u:1?hunter2@h:9000/db":                 "%3F for ?",
		"clickhouse://u:1#hunter2@h:9000/db":                 "%23 for #",
		"clickhouse://h/db?password=#hunter2":                "%23 for #",
		"clickhouse://h/hunter2%40":                          "the database",
		"clickhouse://h/a/hunter2":                           "the database",
		"clickhouse://h/a`hunter2":                           "the database",
		"clickhouse://h/db?x;password=hunter2":               "the parameters after ?",
		"clickhouse://h/db?password=%hunter2":                "the parameters after ?",
		"clickhouse://h/db?secure=hunter2":                   "wrong value: secure",
		"clickhouse://h/db?dial_timeout=5s?password=hunter2": "wrong value: dial timeout",
		"clickhouse://h/db?compress_level=hunter2":           "wrong value: compress_level",
		"clickhouse://h/db?block_buffer_size=hunter2":        "wrong value: want a number",
		"clickhouse://h/db?http_proxy=://hunter2":            "not a URL",
		"clickhouse://h/db?tls_server_name=hunter2":          "tls_server_name requires secure=true",
		"http://h/db?secure=true":                            "leave the parameter secure out",
		"https://h/db?secure=false":                          "leave the parameter secure out",
	})
	_, err := New(Options{DSN: "clickhouse://h/db", Cluster: "a`b", Now: time.Now})
	if err == nil || !strings.Contains(err.Error(), "cluster") {
		t.Errorf("a wrong cluster name: %v", err)
	}
}

func TestDSNForms(t *testing.T) {
	sinktest.Locations(t, newFrom, map[string]string{
		"clickhouse://h":                               "h/default",
		"clickhouse://h:9000/db":                       "h:9000/db",
		"clickhouse://u:p%40%2F@h:9000/db":             "h:9000/db",
		"tcp://u:hunter2@h:9000,i:9000/db":             "h:9000,i:9000/db",
		"clickhouse://[::1]:9000/db":                   "[::1]:9000/db",
		"http://h:8123/db":                             "h:8123/db",
		"https://u:hunter2@h:8443/db?max_threads=2":    "h:8443/db",
		"clickhouse://h/?database=db&password=hunter2": "h/db",
	})
}

// TestNoSecretInErrors writes passwords of all characters into DSNs as people
// do: raw, at each place that takes one, and beside other mistakes.
func TestNoSecretInErrors(t *testing.T) {
	forms := []string{
		"S://u:P@h:9000/db", "S://u:P@h/db?Q", "S://h/db?password=P", "S://h/db?Q&password=P", "S://u:P@/db",
		"S://u:P@h:port/db",
		"S://u:P@h/d b", "u:P@h/db", "S:u:P@h", "S://u:P", "S://P@h/db?Q", "S://h/db?http_proxy=http://u:P@proxy:1",
	}
	sinktest.HidesPasswords(t, forms,
		[]string{"clickhouse", "https", "http", "tcp", "mysql"},
		[]string{"secure=x", "dial_timeout=x", "%", "max_open_conns=x", "compress=lz4"},
		newFrom)
}

// refused expects Check and Replace to fail at once, both naming the place and
// each of the words, and no secret.
func refused(t *testing.T, dsn string, words ...string) {
	t.Helper()
	sinktest.Refuses(t, open(t, dsn), analytics.VisitorsReport, secret, words...)
}

const users = `<profiles>
<ro1><readonly>1</readonly></ro1><ro2><readonly>2</readonly></ro2><noddl><allow_ddl>0</allow_ddl></noddl></profiles>
<users>USERS</users>`

// usersFragment makes users with the password hunter2.
func usersFragment() string {
	var all strings.Builder
	for _, u := range []struct{ name, profile, more string }{
		{"full", "default", ""}, {"ro1", "ro1", ""}, {"ro2", "ro2", ""}, {"noddl", "noddl", ""},
		{"elsewhere", "default", ""}, {"other", "default",
			"<allow_databases><database>other</database></allow_databases>"},
	} {
		network := "127.0.0.1"
		if u.name == "elsewhere" {
			network = "192.0.2.1"
		}
		all.WriteString("<" + u.name + "><password>" + secret + "</password><networks><ip>" + network +
			"</ip></networks><profile>" +
			u.profile + "</profile><quota>default</quota>" + u.more + "</" + u.name + ">")
	}
	return strings.Replace(users, "USERS", all.String(), 1)
}

func TestRights(t *testing.T) {
	t.Parallel()
	server := engines.RunClickHouse(t, engines.WithUsers(usersFragment()))
	for _, name := range []string{"bare", "done", "other"} {
		must(t, server, "CREATE DATABASE "+name)
	}
	as := func(user, database string) string {
		return "clickhouse://" + user + ":" + secret + "@" + server.Addr() + "/" + database
	}
	check(t, open(t, as("full", "done")).Check(t.Context()))
	for name, tc := range map[string]struct {
		dsn   string
		words []string
	}{
		"wrong password": {strings.Replace(as("full", "done"), secret, secret+"x", 1),
			[]string{"refuses user or password", "193"}},
		"unknown user":      {as("nobody", "done"), []string{"refuses user or password", "192"}},
		"wrong address":     {as("elsewhere", "done"), []string{"may not log in from this address", "195"}},
		"missing database":  {as("full", "none"), []string{"CREATE DATABASE", "none"}},
		"database withheld": {as("other", "done"), []string{"may have no right to the database"}},
		"readonly 1, bare":  {as("ro1", "bare"), []string{"may only read", "profile"}},
		"readonly 1":        {as("ro1", "done"), []string{"may only read", "profile"}},
		"readonly 2, bare":  {as("ro2", "bare"), []string{"may only read", "profile"}},
		"readonly 2":        {as("ro2", "done"), []string{"may only read", "profile"}},
		"no DDL, bare":      {as("noddl", "bare"), []string{"lacks a right", "docgauge check", "392"}},
	} {
		t.Run(name, func(t *testing.T) { refused(t, tc.dsn, tc.words...) })
	}
	t.Run("no DDL", func(t *testing.T) {
		s := open(t, as("noddl", "done"))
		shows(t, s, newReader(t, server.DSN("done")), seal(1, 10))
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := s.Collect(t.Context(), false); err != nil {
			t.Error(err)
		}
	})
	t.Run("only its database", func(t *testing.T) {
		shows(t, open(t, as("other", "other")), newReader(t, server.DSN("other")), seal(1, 10))
	})
}

func TestWrongPort(t *testing.T) {
	t.Parallel()
	server := old(t)
	name := database(t, server)
	silent := "/" + name + "?dial_timeout=500ms"
	// 18.16 may answer to TLS at its HTTP port, or wait for more.
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	for what, tc := range map[string]struct{ dsn, words string }{
		"native to HTTP":      {"clickhouse://" + server.HTTPAddr() + silent, "the port of the native protocol"},
		"HTTP to native":      {"http://" + server.Addr() + "/" + name, "not ClickHouse: is it the port of HTTP"},
		"HTTP to an old":      {"http://" + server.HTTPAddr() + "/" + name, "use clickhouse://host:9000"},
		"TLS to plain native": {"clickhouse://" + server.Addr() + "/" + name + "?secure=true", "does not speak TLS"},
		"TLS to plain HTTP":   {"https://" + web.Listener.Addr().String() + "/" + name, "does not speak TLS"},
		"nothing, native":     {"clickhouse://u:hunter2@127.0.0.1:1/db", "no server answers there"},
		"nothing, HTTP":       {"http://u:hunter2@127.0.0.1:1/db", "no server answers there"},
		"no such host":        {"clickhouse://u:hunter2@no-such-host.invalid/db", "no server answers there"},
		"unknown setting":     {server.DSN(name) + "?max_treads=2", "check the parameters of the DSN"},
	} {
		t.Run(what, func(t *testing.T) { refused(t, tc.dsn, tc.words) })
	}
}

// TestStrangeServers has other programs at the address.
func TestStrangeServers(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 100)
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	defer thief.Close()
	for what, tc := range map[string]struct {
		handler        http.HandlerFunc
		overHTTP, over string
	}{
		"a web server": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hunter2")) },
			"not ClickHouse", "the port of the native"},
		"an empty page": {func(http.ResponseWriter, *http.Request) {}, "HTTP (8123", "the port of the native"},
		"not found":     {http.NotFound, "not ClickHouse", "the port of the native"},
		"refuses": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) },
			"HTTP 403", "the port of the native"},
		"redirects": {http.RedirectHandler(thief.URL+"/x", http.StatusTemporaryRedirect).ServeHTTP,
			"redirects to another address", "the port of the native"},
		"redirects a GET": {http.RedirectHandler(thief.URL+"/x", http.StatusSeeOther).ServeHTTP,
			"redirects to another address", "the port of the native"},
	} {
		t.Run(what, func(t *testing.T) {
			server := httptest.NewServer(tc.handler)
			defer server.Close()
			at := "u:hunter2@" + server.Listener.Addr().String() + "/db"
			refused(t, "http://"+at, tc.overHTTP)
			refused(t, "clickhouse://"+at+"?dial_timeout=200ms", tc.over)
		})
	}
	if len(asked) > 0 {
		t.Errorf("the other server was asked for %s", <-asked)
	}
	t.Run("hangs up", func(t *testing.T) {
		at := faults.Listen(t, func(c net.Conn) { _ = c.Close() })
		refused(t, "clickhouse://u:hunter2@"+at+"/db", "hangs up at the login")
		refused(t, "http://u:hunter2@"+at+"/db", "hangs up at the login")
	})
	t.Run("says nothing", func(t *testing.T) {
		at := faults.Listen(t, func(net.Conn) {})
		const patience = "?dial_timeout=2s&read_timeout=2s" // longer than any connect, which a busy machine delays
		t.Run("native", func(t *testing.T) {
			t.Parallel()
			refused(t, "clickhouse://u:hunter2@"+at+"/db"+patience, "no answer in time")
		})
		t.Run("HTTP", func(t *testing.T) {
			t.Parallel()
			refused(t, "http://u:hunter2@"+at+"/db"+patience, "no answer in time")
		})
	})
	t.Run("babbles", func(t *testing.T) {
		at := faults.Listen(t, func(c net.Conn) { _, _ = c.Write([]byte("220 mail.example.org ESMTP\r\n")) })
		refused(t, "clickhouse://u:hunter2@"+at+"/db", "not ClickHouse")
		refused(t, "http://u:hunter2@"+at+"/db", "HTTP (8123")
	})
}

func TestTooOldServer(t *testing.T) {
	for _, s := range []server{{18, 15}, {1, 1}, {17, 99}} {
		if err := s.check(); err == nil ||
			!regexp.MustCompile(`server \d+\.\d+: too old, want 18\.16 or newer`).MatchString(err.Error()) {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []server{{18, 16}, {18, 17}, {19, 1}, {22, 3}, {26, 7}} {
		if err := s.check(); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for s, want := range map[server]bool{{18, 16}: false, {22, 2}: false, {21, 12}: false, {22, 3}: true,
		{23, 1}: true, {26, 7}: true} {
		if s.modern() != want {
			t.Errorf("%s is modern: %v", s, !want)
		}
	}
}
