package engines

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Pooler is a running PgBouncer before a PostgreSQL server. It wants no password, and makes everyone the
// superuser.
type Pooler struct{ process }

// StartPooler starts PgBouncer before a server, in pool_mode session or transaction, with everything in dir,
// and waits until it answers. The settings are lines of its section pgbouncer; the others are its defaults.
func StartPooler(dir string, server *Postgres, mode string, settings ...string) (*Pooler, error) {
	return start(dir, 1, func(dir string, ports []int) (*Pooler, error) {
		return newPooler(dir, server, mode, ports, settings)
	})
}

func newPooler(dir string, server *Postgres, mode string, ports []int, settings []string) (*Pooler, error) {
	path, err := program("pgbouncer")
	if err != nil {
		return nil, err
	}
	home := filepath.Join(dir, "pgbouncer")
	file := filepath.Join(home, "pgbouncer.ini")
	p := &Pooler{process{name: "pgbouncer", argv: []string{path, file}, dir: dir, ports: ports}}
	p.ready = func(ctx context.Context) bool {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", loopback(ports[0]))
		return err == nil && conn.Close() == nil
	}
	if os.Getuid() == 0 { // which it refuses
		p.user = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	text := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d user=postgres password=%s\n[pgbouncer]\n"+
		"listen_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\npool_mode = %s\n%s\n",
		server.ports[0], server.Password, ports[0], mode, strings.Join(settings, "\n"))
	if err := errors.Join(reachable(home, filepath.Dir(path), p.user), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		return nil, err
	}
	if p.user != nil {
		err = os.Chown(file, unprivileged, unprivileged)
	}
	return p, err
}

// Through is a DSN of the server with the address of the pooler.
func (p *Pooler) Through(dsn string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(p.ports[0]))
	return u.String(), nil
}

// Stop ends the pooler without waiting for its clients.
func (p *Pooler) Stop() error { return p.end(syscall.SIGTERM) }
