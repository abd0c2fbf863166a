package site

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// Scopes are what keys of a site can be for.
var Scopes = map[string]api.Scope{"admin": api.Read | api.Write, "read": api.Read, "write": api.Write}

// ServiceOptions are what an API of a site needs besides its facts.
type ServiceOptions struct {
	Projects   []string
	Now        func() time.Time
	Logger     *slog.Logger
	RequestLog slog.Handler // nil: none
	// CaughtUp reports whether what the logs had at the start has been read. Before that, a window that
	// is long over can lack readers, and clients would take it for settled.
	CaughtUp func() bool
	Jobs     api.Jobs // nil: none
}

// NewService returns the API over the facts of a site. Keys are looked up in the store for each
// request.
func NewService(s *facts.Store, a *Answers, o ServiceOptions) *api.Service {
	served := map[analytics.Report]api.Report{}
	for name, r := range reports {
		served[name] = func(c *api.Call, q api.Query) (any, error) {
			if !o.CaughtUp() {
				return nil, api.Fail(http.StatusServiceUnavailable, "the logs are still being read after the start: "+
					"ask again when /-/ready of the metrics address says ready").With("Retry-After", "5")
			}
			return a.page(c, q, name, r)
		}
	}
	return api.New(api.Options{
		FindKey: func(ctx context.Context, digest [sha256.Size]byte) (api.Credential, bool, error) {
			k, found, err := s.FindAPIKey(ctx, digest)
			return api.Credential{ID: k.ID, Project: k.Project, Scopes: Scopes[k.Scope]}, found, err
		},
		HasProject: func(name string) bool { return slices.Contains(o.Projects, name) },
		Reports:    served, Jobs: o.Jobs, Now: o.Now, Logger: o.Logger, RequestLog: o.RequestLog,
	})
}
