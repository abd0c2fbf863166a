package engines

import (
	"context"
	"path/filepath"
)

// Pushgateway is a running prometheus-pushgateway. What was pushed is kept over
// a Stop, not over a Kill.
type Pushgateway struct {
	process
	URL string // http://127.0.0.1:PORT, for pushes; the metrics are at /metrics below it

	store string
}

// StartPushgateway starts a server that keeps what it writes in dir, and waits
// until it answers.
func StartPushgateway(dir string) (*Pushgateway, error) {
	var server *Pushgateway
	err := withPorts(1, func(ports []int) (err error) {
		if server, err = newPushgateway(dir, ports[0]); err != nil {
			return err
		}
		return server.Restart()
	})
	if err != nil {
		return nil, err
	}
	return server, nil
}

func newPushgateway(dir string, port int) (*Pushgateway, error) {
	binary, err := program("prometheus-pushgateway")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	p := &Pushgateway{URL: "http://" + loopback(port), store: filepath.Join(dir, "pushed")}
	p.process = process{
		name:  "pushgateway",
		argv:  []string{binary, "--web.listen-address=" + loopback(port), "--persistence.file=" + p.store},
		dir:   dir,
		ports: []int{port},
		ready: p.answers,
	}
	return p, nil
}

// answers asks for the flags, which tell ours from a stranger.
func (p *Pushgateway) answers(ctx context.Context) bool {
	var status struct{ Flags map[string]string }
	err := getJSON(ctx, p.URL+"/api/v1/status", &status)
	return err == nil && status.Flags["persistence.file"] == p.store
}
