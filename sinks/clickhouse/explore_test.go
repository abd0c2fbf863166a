package clickhouse

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/engines"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestExploreDSN(t *testing.T) {
	for _, dsn := range []string{
		"", "localhost", "localhost:9000", "mysql://u:hunter2@h/db", "clickhouse://", "clickhouse:///db", "clickhouse://u:hunter2@/db", "clickhouse://u:hunter2@h:port/db",
		"clickhouse://u:hunt/er2@h:9000/db", "clickhouse://u:hunt#er2@h:9000/db", "clickhouse://u:hunt?er2@h:9000/db", "clickhouse://u:hunt%er2@h:9000/db", "clickhouse://u:hunt er2@h/db",
		"clickhouse://h:9000/d b", "clickhouse://h:9000/a/b", "clickhouse://h:9000/a`b", "clickhouse://h:99999/db", "clickhouse://h:0/db",
		"clickhouse://h/db?password=hunter2&secure=maybe", "clickhouse://h/db?dial_timeout=hunter", "clickhouse://h/db?compress_level=x", "clickhouse://h/db?http_proxy=%zz",
		"http://h/db?secure=true", "https://h/db?secure=false", "https://h/db", "CLICKHOUSE://h/db", " clickhouse://h/db", "clickhouse://h/db\n", "clickhouse://h,/db", "clickhouse://h:9000/db?tls_server_name=x", "clickhouse://h/db?block_buffer_size=0","clickhouse://h/db?block_buffer_size=x",
		"clickhouse://u:hunter2[@h/db", "clickhouse://[::1/db", "clickhouse://u:p:hunter2@h/db",  "clickhouse://h/db?max_open_conns=0&read_timeout=-5s", "clickhouse://u:hun\x7fter2@h/db", "clickhouse://h/db?x;password=hunter2", "tcp://h/hunter2@h", "clickhouse://u:hunter2/x@h:9000/db",
	} {
		s, err := New(Config{DSN: dsn, Now: time.Now})
		if err == nil {
			t.Logf("%-45q ok %s user=%q pw=%q", dsn, s.Location(), s.options.Auth.Username, s.options.Auth.Password)
			continue
		}
		t.Logf("%-45q %v", dsn, err)
		_ = strings.Contains
	}
}

func say(t *testing.T, what, dsn string) {
	t.Helper()
	s, err := New(Config{DSN: dsn, Now: time.Now})
	if err != nil {
		t.Logf("%s: New %v", what, err)
		return
	}
	defer s.Close()
	b := time.Now()
	t.Logf("%s:\n  check   %v", what, s.Check(t.Context()))
	t.Logf("  replace %v (%v)", s.Replace(t.Context(), sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", 0), 1), sinktest.Pages(3))), time.Since(b).Round(time.Millisecond))
}

const exUsers = `<profiles><ro1><readonly>1</readonly></ro1><ro2><readonly>2</readonly></ro2><noddl><allow_ddl>0</allow_ddl></noddl></profiles>
<users>
<pw><password>right</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></pw>
<ro1><password>right</password><networks><ip>127.0.0.1</ip></networks><profile>ro1</profile><quota>default</quota></ro1>
<ro2><password>right</password><networks><ip>127.0.0.1</ip></networks><profile>ro2</profile><quota>default</quota></ro2>
<noddl><password>right</password><networks><ip>127.0.0.1</ip></networks><profile>noddl</profile><quota>default</quota></noddl>
<other><password>right</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota><allow_databases><database>other</database></allow_databases></other>
<elsewhere><password>right</password><networks><ip>10.9.8.7</ip></networks><profile>default</profile><quota>default</quota></elsewhere>
</users>`

func TestExploreServer(t *testing.T) {
	ch := engines.RunClickHouse(t, engines.WithUsers(exUsers))
	must(t, ch, "CREATE DATABASE empty")
	must(t, ch, "CREATE DATABASE done")
	must(t, ch, "CREATE DATABASE other")
	say(t, "fine", ch.DSN("done"))
	at := ch.Addr()
	say(t, "wrong pw", "clickhouse://pw:hunter2@"+at+"/done")
	say(t, "no user", "clickhouse://nobody:hunter2@"+at+"/done")
	say(t, "address not allowed", "clickhouse://elsewhere:right@"+at+"/done")
	say(t, "missing db", ch.DSN("missing"))
	for _, u := range []string{"ro1", "ro2", "noddl", "other"} {
		say(t, u+" empty", "clickhouse://"+u+":right@"+at+"/empty")
		say(t, u+" done", "clickhouse://"+u+":right@"+at+"/done")
	}
	say(t, "http dsn on 18.16", "http://"+ch.HTTPAddr()+"/done")
	say(t, "native dsn on http", "clickhouse://"+ch.HTTPAddr()+"/done")
	say(t, "http dsn on native", "http://"+at+"/done")
	say(t, "https dsn on http", "https://"+ch.HTTPAddr()+"/done")
	say(t, "secure native on native", "clickhouse://"+at+"/done?secure=true")
	say(t, "down", "clickhouse://pw:hunter2@127.0.0.1:1/done")
	say(t, "down http", "http://pw:hunter2@127.0.0.1:1/done")
	say(t, "no host", "clickhouse://pw:hunter2@no-such-host.invalid:9000/done")
	say(t, "no host http", "http://pw:hunter2@no-such-host.invalid:9000/done")
	say(t, "setting unknown", ch.DSN("done")+"?max_treads=5")
	say(t, "setting string", ch.DSN("done")+"?max_threads=hunter")
	red := httptest.NewServer(http.RedirectHandler("http://example.invalid/", 307))
	defer red.Close()
	say(t, "redirect", strings.Replace(red.URL, "http://", "http://pw:hunter2@", 1)+"/done")
	garbage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("<html>hello")) }))
	defer garbage.Close()
	say(t, "web server http", strings.Replace(garbage.URL, "http://", "http://pw:hunter2@", 1)+"/done")
	say(t, "web server native", strings.Replace(garbage.URL, "http://", "clickhouse://pw:hunter2@", 1)+"/done")
	notfound := httptest.NewServer(http.NotFoundHandler())
	defer notfound.Close()
	say(t, "web server 404", strings.Replace(notfound.URL, "http://", "http://pw:hunter2@", 1)+"/done")
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	say(t, "closes", "clickhouse://pw:hunter2@"+l.Addr().String()+"/done")
	say(t, "closes http", "http://pw:hunter2@"+l.Addr().String()+"/done")
	m, _ := net.Listen("tcp", "127.0.0.1:0")
	say(t, "mute", "clickhouse://pw:hunter2@"+m.Addr().String()+"/done?dial_timeout=1s&read_timeout=1s")
	say(t, "mute http", "http://pw:hunter2@"+m.Addr().String()+"/done?dial_timeout=1s&read_timeout=1s")
}
