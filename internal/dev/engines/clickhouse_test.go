package engines_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

func TestClickHouseKeepsItsData(t *testing.T) {
	server := engines.RunClickHouse(t)
	exec(t, server, "CREATE TABLE t (n Int64) ENGINE = MergeTree ORDER BY n")
	exec(t, server, "INSERT INTO t VALUES (41), (42)")
	for name, end := range map[string]func() error{"kill": server.Kill, "stop": server.Stop} {
		addr := server.Addr()
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Exec(t.Context(), "SELECT 1"); err == nil {
			t.Fatalf("after %s the server still answers", name)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		if got := exec(t, server, "SELECT sum(n) FROM t"); got != "83\n" || server.Addr() != addr {
			t.Errorf("after %s: sum %q at %s, want 83 at %s", name, got, server.Addr(), addr)
		}
	}
}

func TestClickHouseSaysWhatIsWrong(t *testing.T) {
	server := engines.RunClickHouse(t)
	_, err := server.Exec(t.Context(), "SELECT * FROM nowhere")
	if err == nil || !strings.Contains(err.Error(), "nowhere doesn't exist") {
		t.Errorf("Exec: %v, want the server's message", err)
	}
	if err := server.Restart(); err == nil {
		t.Error("Restart of a running server: no error")
	}
}

func exec(t *testing.T, server *engines.ClickHouse, sql string) string {
	t.Helper()
	body, err := server.Exec(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestClickHouseWithUsers(t *testing.T) {
	server := engines.RunClickHouse(t, engines.WithUsers(`
		<profiles><looking><readonly>1</readonly></looking></profiles>
		<users><reader>
			<password>secret</password>
			<networks><ip>127.0.0.1</ip></networks>
			<profile>looking</profile>
			<quota>default</quota>
		</reader></users>`))
	exec(t, server, "CREATE TABLE t (n Int64) ENGINE = Memory")
	for sql, want := range map[string]int{"SELECT 1": http.StatusOK,
		"INSERT INTO t VALUES (1)": http.StatusInternalServerError} {
		query := url.Values{"user": {"reader"}, "password": {"secret"}}
		response, err := http.Post("http://"+server.HTTPAddr()+"/?"+query.Encode(), "", strings.NewReader(sql))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s as a read-only user: status %d, want %d", sql, response.StatusCode, want)
		}
	}
}
