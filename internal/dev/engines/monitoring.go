package engines

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Pushgateway is a running prometheus-pushgateway. It keeps the pushed metrics
// over a Stop, not over a Kill.
type Pushgateway struct {
	process
	URL string // http://127.0.0.1:PORT, for pushes; /metrics below it serves them
}

// RunPushgateway starts a server for one test, as [StartPushgateway] does.
func RunPushgateway(t testing.TB) *Pushgateway {
	t.Helper()
	return run(t, StartPushgateway)
}

// StartPushgateway starts a server that keeps its data in dir, and waits
// until it answers.
func StartPushgateway(dir string) (*Pushgateway, error) { return start(dir, 1, newPushgateway) }

func newPushgateway(dir string, ports []int) (*Pushgateway, error) {
	binary, err := program("prometheus-pushgateway")
	if err != nil {
		return nil, err
	}
	address, store := loopback(ports[0]), filepath.Join(dir, "pushed")
	p := &Pushgateway{URL: "http://" + address}
	p.process = process{
		name:  "pushgateway",
		argv:  []string{binary, "--web.listen-address=" + address, "--persistence.file=" + store},
		dir:   dir,
		ports: ports,
		ready: func(ctx context.Context) bool { // its flags tell it from another server
			var status struct{ Flags map[string]string }
			err := getJSON(ctx, p.URL+"/api/v1/status", &status)
			return err == nil && status.Flags["persistence.file"] == store
		},
	}
	return p, nil
}

// Alertmanager is a running prometheus-alertmanager, alone (no cluster), which
// sends every alert to one webhook at once.
type Alertmanager struct {
	process
	URL string // http://127.0.0.1:PORT
}

// StartAlertmanager starts a server that keeps its data in dir, and waits
// until it answers. It notifies webhook, a URL, of each alert that begins or ends.
func StartAlertmanager(dir, webhook string) (*Alertmanager, error) {
	return start(dir, 1, func(dir string, ports []int) (*Alertmanager, error) {
		binary, err := program("prometheus-alertmanager")
		if err != nil {
			return nil, err
		}
		receiver := rand.Text() // a name that no other server has
		// The configuration is JSON, which is YAML too. Each alert has a separate group,
		// so that none waits for others.
		text, err := json.Marshal(map[string]any{
			"route": map[string]any{
				"receiver": receiver, "group_by": []string{"..."},
				"group_wait": "0s", "group_interval": "1s", "repeat_interval": "1h",
			},
			"receivers": []any{map[string]any{
				"name":            receiver,
				"webhook_configs": []any{map[string]any{"url": webhook}},
			}},
		})
		if err != nil {
			return nil, err
		}
		config, address := filepath.Join(dir, "alertmanager.yml"), loopback(ports[0])
		a := &Alertmanager{URL: "http://" + address}
		a.process = process{
			name: "alertmanager",
			argv: []string{binary, "--config.file=" + config, "--storage.path=" + filepath.Join(dir, "data"),
				"--web.listen-address=" + address, "--cluster.listen-address=", "--log.level=warn"},
			dir:   dir,
			ports: ports,
			ready: func(ctx context.Context) bool {
				var receivers []struct{ Name string }
				_, body, err := request(ctx, a.URL+"/api/v2/receivers", "")
				return err == nil && json.Unmarshal([]byte(body), &receivers) == nil &&
					slices.Contains(receivers, struct{ Name string }{receiver})
			},
		}
		return a, write(config, string(text))
	})
}

// nodeExporter is a running prometheus-node-exporter with only its textfile
// collector.
type nodeExporter struct {
	process
	URL string // of its metrics; the path is one that no other server has
	Dir string // of the *.prom files it serves
}

// RunNodeExporter starts a server for one test, as [StartNodeExporter] does.
func RunNodeExporter(t testing.TB) *nodeExporter {
	t.Helper()
	return run(t, StartNodeExporter)
}

// StartNodeExporter starts a server of the textfiles in Dir, a directory that
// it makes in dir, and waits until it answers.
func StartNodeExporter(dir string) (*nodeExporter, error) { return start(dir, 1, newNodeExporter) }

func newNodeExporter(dir string, ports []int) (*nodeExporter, error) {
	binary, err := program("prometheus-node-exporter")
	if err != nil {
		return nil, err
	}
	address, path := loopback(ports[0]), "/"+rand.Text()
	n := &nodeExporter{URL: "http://" + address + path, Dir: filepath.Join(dir, "textfiles")}
	n.process = process{
		name: "node_exporter",
		argv: []string{binary,
			"--web.listen-address=" + address, "--web.telemetry-path=" + path,
			"--collector.disable-defaults", "--collector.textfile", "--collector.textfile.directory=" + n.Dir},
		dir:   dir,
		ports: ports,
		ready: answers(n.URL, ""),
	}
	return n, os.MkdirAll(n.Dir, 0o700)
}

// Metrics returns what a scrape would get now.
func (n *nodeExporter) Metrics(ctx context.Context) (string, error) {
	_, body, err := request(ctx, n.URL, "")
	return body, err
}
