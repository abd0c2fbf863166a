package engines

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// ClickHouse is a running clickhouse-server. Its user "default" has no
// password and every right.
type ClickHouse struct{ process }

// option is a fragment of the configuration of a ClickHouse server, which it merges into its own.
type option struct{ dir, xml string }

// WithUsers adds the elements <users>, <profiles> and <quotas> of the fragment
// to users.xml. A user needs <password/>, <networks><ip>127.0.0.1</ip></networks>,
// <profile> and <quota>; a profile and a quota named "default" exist.
func WithUsers(xmlFragment string) option { return option{"users.d", xmlFragment} }

// WithConfig adds the elements of the fragment to config.xml.
func WithConfig(xmlFragment string) option { return option{"config.d", xmlFragment} }

// RunClickHouse starts a server for one test, as [StartClickHouse] does.
func RunClickHouse(t testing.TB, options ...option) *ClickHouse {
	t.Helper()
	return run(t, func(dir string) (*ClickHouse, error) { return StartClickHouse(dir, options...) })
}

// StartClickHouse starts a server that keeps everything in dir, which is made
// if it is absent, and waits until it answers.
func StartClickHouse(dir string, options ...option) (*ClickHouse, error) {
	return start(dir, portsPerServer, func(dir string, ports []int) (*ClickHouse, error) {
		return newClickHouse(dir, ports, options...)
	})
}

// portsPerServer is the number of ports of a server: native, HTTP and the one
// for other servers.
const portsPerServer = 3

// newClickHouse writes the configuration of a server and does not start it.
func newClickHouse(dir string, ports []int, options ...option) (*ClickHouse, error) {
	binary, err := program("clickhouse-server")
	if err != nil {
		return nil, err
	}
	token := rand.Text()
	c := &ClickHouse{process{
		name:  "clickhouse-server",
		argv:  []string{binary, "--config-file=" + filepath.Join(dir, "config.xml"), "--", "--path=" + dir + "/"},
		dir:   dir,
		log:   filepath.Join(dir, "error.log"),
		ports: ports,
		ready: answers("http://"+loopback(ports[1])+"/", token),
	}}
	err = errors.Join(
		write(filepath.Join(dir, "config.xml"), fmt.Sprintf(configXML, dir, ports[0], ports[1], ports[2], token)),
		write(filepath.Join(dir, "users.xml"), usersXML))
	for i, o := range options {
		err = errors.Join(err,
			write(filepath.Join(dir, o.dir, fmt.Sprintf("%02d.xml", i)), "<yandex>\n"+o.xml+"\n</yandex>\n"))
	}
	return c, err
}

// Addr is host:port of the native protocol.
func (c *ClickHouse) Addr() string { return loopback(c.ports[0]) }

// HTTPAddr is host:port of the HTTP interface.
func (c *ClickHouse) HTTPAddr() string { return loopback(c.ports[1]) }

// DSN is the address of a database over the native protocol, for the user
// "default".
func (c *ClickHouse) DSN(database string) string {
	return "clickhouse://" + c.Addr() + "/" + database
}

// Exec runs one statement as the user "default" and returns its result as
// tab-separated values, a newline after each row. Its error carries the
// server's message.
func (c *ClickHouse) Exec(ctx context.Context, sql string) (string, error) {
	return query(ctx, c.HTTPAddr(), sql)
}

func query(ctx context.Context, address, sql string) (string, error) {
	// With wait_end_of_query a query that fails half way answers with an error status.
	status, body, err := request(ctx, "http://"+address+"/?wait_end_of_query=1", sql)
	if err == nil && status != http.StatusOK {
		err = errors.New(strings.TrimSpace(body))
	}
	if err != nil {
		return "", fmt.Errorf("clickhouse %s: %w", address, err)
	}
	return body, nil
}

var (
	// configXML is the server's configuration. Its verbs are the directory, the
	// native, HTTP and interserver ports, and the answer to GET /. Caches are small
	// because several servers share a machine, and no system log table is kept.
	//
	//go:embed files/config.xml
	configXML string
	// usersXML has the user "default" without password, from loopback only. Its
	// pools are small, for the same reason.
	//
	//go:embed files/users.xml
	usersXML string
)
