package engines

import (
	"crypto/rand"
	"encoding/json"
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

// RunNginx starts nginx for one test. It serves root and writes a log in each of the formats, which
// are log_formats by their names; an empty one is nginx's own of that name.
func RunNginx(t testing.TB, root string, formats map[string]string) *WebServer {
	t.Helper()
	return run(t, func(dir string) (*WebServer, error) {
		return start(dir, 1, func(dir string, ports []int) (*WebServer, error) {
			return newNginx(dir, ports, root, formats)
		})
	})
}

// newNginx writes the configuration of one process, which is the user that we are.
func newNginx(dir string, ports []int, root string, formats map[string]string) (*WebServer, error) {
	binary, err := program("nginx")
	if err != nil {
		return nil, err
	}
	token := rand.Text()
	var c strings.Builder
	fmt.Fprintf(&c, "daemon off;\nmaster_process off;\npid %s/nginx.pid;\nevents {}\nhttp {\n", dir)
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&c, "%s_temp_path %s/%[1]s;\n", kind, dir)
	}
	for name, format := range formats {
		if format != "" {
			fmt.Fprintf(&c, "log_format %s '%s';\n", name, format)
		}
		fmt.Fprintf(&c, "access_log %s/%s.log %[2]s;\n", dir, name)
	}
	fmt.Fprintf(&c, "server {\nlisten %s;\nroot %s;\nlocation = /%s { access_log off; return 200 %[3]s; }\n}\n}\n",
		loopback(ports[0]), root, token)
	config, errorLog := filepath.Join(dir, "nginx.conf"), filepath.Join(dir, "nginx.err")
	w := &WebServer{Addr: loopback(ports[0])}
	w.process = process{
		name: "nginx", argv: []string{binary, "-p", dir, "-c", config, "-e", errorLog},
		dir: dir, log: errorLog, ports: ports, ready: answers("http://"+w.Addr+"/"+token, token),
	}
	return w, write(config, c.String())
}

// RunCaddy starts Caddy for one test. It serves root; its access log is called access. If it
// rolls, it is renamed and compressed after each MiB, the least that Caddy can.
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
	config := filepath.Join(dir, "caddy.json")
	w.process = process{
		name: "caddy", argv: []string{binary, "run", "--config", config},
		env: []string{"HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir},
		dir: dir, ports: ports, ready: answers("http://"+w.Addr+"/"+token, token),
	}
	type object = map[string]any
	probe := object{"match": []object{{"path": []string{"/" + token}}}, "terminal": true, "handle": []object{
		{"handler": "vars", "log_skip": true}, {"handler": "static_response", "body": token},
	}}
	files := object{"handle": []object{{"handler": "file_server", "root": root}}}
	text, err := json.Marshal(object{
		"admin": object{"disabled": true},
		"logging": object{"logs": object{"access": object{
			"include": []string{"http.log.access"}, "encoder": object{"format": "json"},
			"writer": object{"output": "file", "filename": filepath.Join(dir, "access.log"), "roll": rolls,
				"roll_size_mb": 1, "roll_keep": 1000},
		}}},
		"apps": object{"http": object{"servers": object{"site": object{
			"listen": []string{w.Addr}, "automatic_https": object{"disable": true}, "logs": object{},
			"routes": []object{probe, files},
		}}}},
	})
	if err != nil {
		return nil, err
	}
	return w, write(config, string(text))
}
