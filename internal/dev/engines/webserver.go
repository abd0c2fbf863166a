package engines

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// WebServer is a running nginx or Caddy that serves the files of one directory. When it has been
// stopped, its access logs are complete.
type WebServer struct {
	process
	Addr string // host:port
}

// Log returns the path of an access log.
func (w *WebServer) Log(name string) string { return filepath.Join(w.dir, name+".log") }

// Reopen has nginx open its logs again, which were renamed. It does not wait for that.
func (w *WebServer) Reopen() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cmd.Process.Signal(syscall.SIGUSR1)
}

// RunNginx starts nginx for one test, as [StartNginx] does.
func RunNginx(t testing.TB, root string, formats map[string]string, more ...string) *WebServer {
	t.Helper()
	return run(t, func(dir string) (*WebServer, error) { return StartNginx(dir, root, formats, more...) })
}

// StartNginx starts nginx, which keeps its files in dir. It serves root and writes a log in each of the formats,
// which are log_formats by their names; an empty one is nginx's own of that name. Its variable $time is what the
// request says in X-Time, or now in ISO 8601: so nginx can log days of the past. Browsers keep what is below /immutable/.
// More is configuration of http, and then of its server.
func StartNginx(dir, root string, formats map[string]string, more ...string) (*WebServer, error) {
	more = append(more, "", "")
	return start(dir, 1, func(dir string, ports []int) (*WebServer, error) {
		return newNginx(dir, ports, root, formats, more[0], more[1])
	})
}

// newNginx writes the configuration of one process, which is the user that we are.
func newNginx(
	dir string, ports []int, root string, formats map[string]string, http, server string,
) (*WebServer, error) {
	binary, err := program("nginx")
	if err != nil {
		return nil, err
	}
	token := rand.Text()
	var c strings.Builder
	fmt.Fprintf(&c, "daemon off;\nmaster_process off;\npid %s/nginx.pid;\nevents {}\nhttp {\n"+
		"map $http_x_time $time { \"\" $time_iso8601; default $http_x_time; }\n", dir)
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&c, "%s_temp_path %s/%[1]s;\n", kind, dir)
	}
	for name, format := range formats {
		switch {
		case strings.HasPrefix(format, "escape="): // its texts have quotes
			fmt.Fprintf(&c, "log_format %s %s;\n", name, format)
		case format != "":
			fmt.Fprintf(&c, "log_format %s '%s';\n", name, format)
		}
		fmt.Fprintf(&c, "access_log %s/%s.log %[2]s;\n", dir, name)
	}
	fmt.Fprintf(&c, "%s\nserver {\nlisten %s;\nroot %s;\n%s\nlocation = /%s { access_log off; return 200 %[5]s; }\n"+
		"location /immutable/ { add_header Cache-Control \"public, max-age=31536000, immutable\"; }\n}\n}\n",
		http, loopback(ports[0]), root, server, token)
	config, errorLog := filepath.Join(dir, "nginx.conf"), filepath.Join(dir, "nginx.err")
	w := &WebServer{Addr: loopback(ports[0])}
	w.process = process{
		name: "nginx", argv: []string{binary, "-p", dir, "-c", config, "-e", errorLog},
		dir: dir, log: errorLog, ports: ports, ready: answers("http://"+w.Addr+"/"+token, token),
	}
	return w, write(config, c.String())
}

// Caddyfile is the Caddyfile of docs/site.md, which RunCaddy runs with other places.
const Caddyfile = `docs.example.com {
	root * /srv/docs
	file_server
	log {
		output file /var/log/caddy/access.log
	}
}
`

// RunCaddy starts Caddy for one test. It serves root; its access log is called access. If it
// rolls, it is renamed and compressed after each MiB, the least that Caddy can. Browsers keep what is below /immutable/.
func RunCaddy(t testing.TB, root string, rolls bool) *WebServer {
	t.Helper()
	return run(t, func(dir string) (*WebServer, error) {
		return start(dir, 1, func(dir string, ports []int) (*WebServer, error) {
			return newCaddy(dir, ports, root, rolls)
		})
	})
}

func newCaddy(dir string, ports []int, root string, rolls bool) (*WebServer, error) {
	binary, err := program("caddy")
	if err != nil {
		return nil, err
	}
	w, token := &WebServer{Addr: loopback(ports[0])}, rand.Text()
	config := filepath.Join(dir, "Caddyfile")
	w.process = process{
		name: "caddy", argv: []string{binary, "run", "--config", config},
		env: []string{"HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir},
		dir: dir, ports: ports, ready: answers("http://"+w.Addr+"/"+token, token),
	}
	roll := "roll_disabled"
	if rolls {
		roll = "roll_size 1MiB\nroll_keep 1000"
	}
	text := strings.NewReplacer(
		"docs.example.com {", fmt.Sprintf("http://:%d {\nbind 127.0.0.1", ports[0]), // whatever host is asked for
		"/srv/docs", root,
		"/var/log/caddy/access.log", fmt.Sprintf("%s/access.log {\n%s\n}", dir, roll),
		"\tfile_server\n", fmt.Sprintf("\tfile_server\n\thandle /%s {\nlog_skip\nrespond %[1]s\n}\n"+
			"header /immutable/* Cache-Control \"public, max-age=31536000, immutable\"\n", token),
	).Replace(Caddyfile)
	return w, write(config, "{\nadmin off\n}\n"+text)
}
