package engines

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// ClickHouse is a running clickhouse-server. Its user "default" has no
// password and every right.
type ClickHouse struct {
	process
	tcp, http, interserver int
	token                  string // what the server answers to GET /, so that no other server is taken for it
}

// Option changes the configuration of a ClickHouse server.
type Option func(*settings)

type settings struct{ users, config []string }

// WithUsers adds to users.xml what the fragment holds: the elements <users>,
// <profiles> and <quotas>, each with the entries to add. A user needs
// <password/>, <networks><ip>127.0.0.1</ip></networks>, <profile> and <quota>;
// the profile "default" and the quota "default" exist.
func WithUsers(xmlFragment string) Option {
	return func(s *settings) { s.users = append(s.users, xmlFragment) }
}

// WithConfig adds to config.xml the elements that the fragment holds.
func WithConfig(xmlFragment string) Option {
	return func(s *settings) { s.config = append(s.config, xmlFragment) }
}

// StartClickHouse starts a server that keeps everything in dir, which is made
// if it is not there, and waits until it answers.
func StartClickHouse(dir string, options ...Option) (*ClickHouse, error) {
	var server *ClickHouse
	err := withPorts(portsPerServer, func(ports []int) (err error) {
		if server, err = newClickHouse(dir, ports, options...); err != nil {
			return err
		}
		return server.Restart()
	})
	if err != nil {
		return nil, err
	}
	return server, nil
}

// portsPerServer is how many ports a server listens on: native, HTTP and the
// one for other servers.
const portsPerServer = 3

// newClickHouse writes the configuration of a server and does not start it.
func newClickHouse(dir string, ports []int, options ...Option) (*ClickHouse, error) {
	binary, err := program("clickhouse-server")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	c := &ClickHouse{tcp: ports[0], http: ports[1], interserver: ports[2], token: rand.Text()}
	c.process = process{
		name:  "clickhouse-server",
		argv:  []string{binary, "--config-file=" + filepath.Join(dir, "config.xml"), "--", "--path=" + dir + "/"},
		dir:   dir,
		log:   filepath.Join(dir, "error.log"),
		ports: ports,
		ready: c.answers,
	}
	return c, c.configure(options)
}

// Addr is host:port of the native protocol.
func (c *ClickHouse) Addr() string { return loopback(c.tcp) }

// HTTPAddr is host:port of the HTTP interface.
func (c *ClickHouse) HTTPAddr() string { return loopback(c.http) }

// DSN is the address of a database over the native protocol, for the user
// "default".
func (c *ClickHouse) DSN(database string) string {
	return "clickhouse://" + c.Addr() + "/" + database
}

// Exec runs one statement as the user "default" and returns its result as
// tab-separated values, a newline after each row. Its error carries the
// server's message.
func (c *ClickHouse) Exec(ctx context.Context, sql string) (string, error) {
	// wait_end_of_query lets a query that fails half way answer with an error status.
	address := "http://" + c.HTTPAddr() + "/?wait_end_of_query=1"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(sql))
	if err != nil {
		return "", err
	}
	status, body, err := send(request)
	if err == nil && status != http.StatusOK {
		err = errors.New(strings.TrimSpace(body))
	}
	if err != nil {
		return "", fmt.Errorf("clickhouse %s: %w", c.Addr(), err)
	}
	return body, nil
}

func (c *ClickHouse) answers(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.HTTPAddr()+"/", nil)
	if err != nil {
		return false
	}
	_, body, err := send(request)
	return err == nil && strings.TrimSpace(body) == c.token
}

func (c *ClickHouse) configure(options []Option) error {
	var s settings
	for _, option := range options {
		option(&s)
	}
	for name, text := range map[string]string{
		"config.xml": fmt.Sprintf(configXML, c.dir, c.tcp, c.http, c.interserver, c.token),
		"users.xml":  usersXML,
	} {
		if err := write(filepath.Join(c.dir, name), text); err != nil {
			return err
		}
	}
	return errors.Join(addenda(c.dir, "config.d", s.config), addenda(c.dir, "users.d", s.users))
}

// addenda writes each fragment as a file of its own, which the server merges
// into its configuration.
func addenda(dir, sub string, fragments []string) error {
	for i, fragment := range fragments {
		name := filepath.Join(dir, sub, fmt.Sprintf("%02d.xml", i))
		if err := write(name, "<yandex>\n"+fragment+"\n</yandex>\n"); err != nil {
			return err
		}
	}
	return nil
}

// write makes a file and the directories above it.
func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// client keeps no connection open, so that a server that stops need not wait for us.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func send(request *http.Request) (status int, body string, err error) {
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}
