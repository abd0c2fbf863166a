package cli

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/budget"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
)

// agentBudget is the name of the budget of a project's prompts and follow-ups.
func agentBudget(project string) string { return "agent:" + project }

// agentBudgets are the budgets of agent POSTs, one for each project.
type agentBudgets struct {
	cfg  budget.Config
	db   *state.DB
	base http.RoundTripper

	mu  sync.Mutex
	all map[string]*budget.Budget
}

func newAgentBudgets(c config, db *state.DB, now func() time.Time) *agentBudgets {
	timeout := time.Duration(c.Timeout)
	return &agentBudgets{
		cfg: budget.Config{Limit: int(c.AgentBudget), Timeout: timeout, InFlight: 1, RetryAfter: docsapi.RetryAfter, Now: now},
		db:  db, base: docsapi.NewWriteTransport(timeout), all: map[string]*budget.Budget{},
	}
}

// of returns what sends a project's POSTs.
func (a *agentBudgets) of(project string) http.RoundTripper {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all[project] == nil {
		cfg := a.cfg
		cfg.Name = agentBudget(project)
		a.all[project] = budget.New(cfg, a.db, a.base)
	}
	return a.all[project]
}

func (a *agentBudgets) flush(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, b := range a.all {
		errs = append(errs, b.Flush(ctx))
	}
	return errors.Join(errs...)
}
