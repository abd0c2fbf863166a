package engines

import (
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
)

// NodeExporter is a running prometheus-node-exporter with nothing but its
// textfile collector.
type NodeExporter struct {
	process
	URL string // of its metrics; its path is one that only this server has
	Dir string // where it looks for *.prom files
}

// StartNodeExporter starts a server that shows the textfiles of Dir, a
// directory it makes in dir, and waits until it answers.
func StartNodeExporter(dir string) (*NodeExporter, error) {
	var server *NodeExporter
	err := withPorts(1, func(ports []int) (err error) {
		if server, err = newNodeExporter(dir, ports[0]); err != nil {
			return err
		}
		return server.Restart()
	})
	if err != nil {
		return nil, err
	}
	return server, nil
}

func newNodeExporter(dir string, port int) (*NodeExporter, error) {
	binary, err := program("prometheus-node-exporter")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	path := "/" + rand.Text()
	n := &NodeExporter{URL: "http://" + loopback(port) + path, Dir: filepath.Join(dir, "textfiles")}
	n.process = process{
		name: "node_exporter",
		argv: []string{binary,
			"--web.listen-address=" + loopback(port), "--web.telemetry-path=" + path,
			"--collector.disable-defaults", "--collector.textfile", "--collector.textfile.directory=" + n.Dir},
		dir:   dir,
		ports: []int{port},
		ready: n.answers,
	}
	return n, os.MkdirAll(n.Dir, 0o700)
}

// Metrics returns what a scrape would see now.
func (n *NodeExporter) Metrics(ctx context.Context) (string, error) {
	_, body, err := n.scrape(ctx)
	return body, err
}

func (n *NodeExporter) answers(ctx context.Context) bool {
	status, _, err := n.scrape(ctx)
	return err == nil && status == http.StatusOK
}

func (n *NodeExporter) scrape(ctx context.Context) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL, nil)
	if err != nil {
		return 0, "", err
	}
	return send(request)
}
