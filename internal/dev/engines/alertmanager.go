package engines

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Alertmanager is a running prometheus-alertmanager, alone (no cluster), which
// hands every alert to one webhook at once.
type Alertmanager struct {
	process
	URL string // http://127.0.0.1:PORT

	receiver string // a name only this server has, so that no other is taken for it
}

// StartAlertmanager starts a server that keeps what it writes in dir, and waits
// until it answers. It sends to webhook, a URL, what fires and what ends.
func StartAlertmanager(dir, webhook string) (*Alertmanager, error) {
	var server *Alertmanager
	err := withPorts(1, func(ports []int) (err error) {
		if server, err = newAlertmanager(dir, webhook, ports[0]); err != nil {
			return err
		}
		return server.Restart()
	})
	if err != nil {
		return nil, err
	}
	return server, nil
}

func newAlertmanager(dir, webhook string, port int) (*Alertmanager, error) {
	binary, err := program("prometheus-alertmanager")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "alertmanager.yml")
	a := &Alertmanager{URL: "http://" + loopback(port), receiver: rand.Text()}
	a.process = process{
		name: "alertmanager",
		argv: []string{binary, "--config.file=" + config, "--storage.path=" + filepath.Join(dir, "data"),
			"--web.listen-address=" + loopback(port), "--cluster.listen-address=", "--log.level=warn"},
		dir:   dir,
		ports: []int{port},
		ready: a.answers,
	}
	text, err := a.config(webhook)
	if err != nil {
		return nil, err
	}
	return a, write(config, text)
}

// config is JSON, which is YAML too. Nothing is waited for: each alert is a
// group of its own.
func (a *Alertmanager) config(webhook string) (string, error) {
	text, err := json.Marshal(map[string]any{
		"route": map[string]any{
			"receiver": a.receiver, "group_by": []string{"..."},
			"group_wait": "0s", "group_interval": "1s", "repeat_interval": "1h",
		},
		"receivers": []any{map[string]any{
			"name":            a.receiver,
			"webhook_configs": []any{map[string]any{"url": webhook}},
		}},
	})
	return string(text), err
}

// Addr is host:port, as a Prometheus server wants it.
func (a *Alertmanager) Addr() string { return strings.TrimPrefix(a.URL, "http://") }

func (a *Alertmanager) answers(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL+"/api/v2/receivers", nil)
	if err != nil {
		return false
	}
	_, body, err := send(request)
	var receivers []struct{ Name string }
	if err != nil || json.Unmarshal([]byte(body), &receivers) != nil {
		return false
	}
	return slices.Contains(receivers, struct{ Name string }{a.receiver})
}

// Amtool returns an amtool command that has not been started.
func Amtool(ctx context.Context, args ...string) (*exec.Cmd, error) {
	binary, err := program("amtool")
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, binary, args...), nil
}
