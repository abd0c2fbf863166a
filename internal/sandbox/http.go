package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/site/api"
)

// Listen opens a TCP address. Beyond loopback it needs allowRemote: the key of
// a sandbox is printed and often the well-known default.
func Listen(address string, allowRemote bool) (net.Listener, error) {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: want host:port, such as 127.0.0.1:8787: %w", address, err)
	}
	if !resolved.IP.IsLoopback() && !allowRemote {
		return nil, fmt.Errorf("listen on %s: other machines could reach the sandbox there; "+
			"use a loopback address such as 127.0.0.1:%d, or allow it with --allow-remote", address, resolved.Port)
	}
	ln, err := net.ListenTCP("tcp", resolved)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: another program, perhaps another sandbox, uses this port; "+
			"stop it, or let the system choose a free port with --listen 127.0.0.1:0", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return ln, nil
}

// Serve answers on ln until ctx ends, then finishes the requests in flight, for
// at most five seconds, and closes ln. An injected latency is cut short then.
func (s *Sandbox) Serve(ctx context.Context, ln net.Listener) error {
	agent := s.config.Agent.Faults
	return s.service.Serve(ctx, ln, s.config.Faults.Latency+agent.Latency+agent.Stall)
}

// newService returns the service over the sandbox, with its faults.
func (s *Sandbox) newService() *api.Service {
	return api.NewService(api.Options{
		FindKey: newKeyring(s.config).Find, Remember: true,
		HasProject: func(name string) bool { return s.projects[name] != nil },
		Reports: map[analytics.Report]api.Reporter{
			analytics.VisitorsReport: serve(s, visitorsReport), analytics.AgentsReport: serve(s, agentsReport),
			analytics.SourcesReport: serve(s, sourcesReport), analytics.ViewsReport: serve(s, viewsReport),
		},
		Jobs: jobAPI{s}, Now: s.config.Now, Logger: s.config.Logger,
		RequestLog: s.config.RequestLog, Beside: s.beside,
		Faults: api.Faults{
			Wait:   func(c *api.Call) { _ = clock.Sleep(c.Context(), s.config.Faults.Latency) }, // or until the client has gone
			Refuse: s.refuse,
			Cut:    func(c *api.Call) bool { return every(s.config.Faults.CutEvery, c.Number) },
		},
	})
}

// beside answers requests for pages and for the API about pull requests.
func (s *Sandbox) beside(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case strings.HasPrefix(r.URL.Path, GitHubPath+"/"):
		s.serveBeside(w, r, s.serveGitHub)
	case isPage(r):
		s.serveBeside(w, r, s.servePage)
	default:
		return false
	}
	return true
}

func newKeyring(c Config) api.Keyring {
	keys := api.Keyring{}
	for key, credential := range map[string]api.Credential{
		c.APIKey: {Scope: api.ScopeAdmin}, c.ReadOnlyKey: {Scope: api.ScopeRead},
		c.WriteOnlyKey: {Scope: api.ScopeWrite}, c.ExpiredKey: {Expired: true},
	} {
		if key != "" {
			keys.Add(key, credential)
		}
	}
	return keys
}
