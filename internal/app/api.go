package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/budget"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
)

const (
	// keyRejected is the flag in the state that says that a key was refused, keyAnswered
	// the duty that says when one was last answered.
	keyRejected = "api_key_rejected"
	keyAnswered = "api_key_answered"
	labelKey    = "key"
)

// API is the client, the budgets its requests go through, and the keys it sends.
type API struct {
	Client *docsapi.Client
	// Budget is the budget of analytics requests.
	Budget *budget.Budget
	// Meter counts requests until they are written to the state.
	Meter *meter

	// keys are by name; without a write key the admin key serves for both.
	keys   map[string]*keyring
	now    func() time.Time
	state  *state.DB
	log    *slog.Logger
	agents *agentBudgets
}

// NewAPI makes the client; it sends nothing. Requests wait up to patience in all for slots of the
// budget that free up soon, and are tried so often at most; 0 attempts: as often as usual.
func NewAPI(
	c config.Config, db *state.DB, log *slog.Logger, now func() time.Time, patience time.Duration, attempts int,
) (*API, error) {
	timeout := time.Duration(c.Timeout)
	transport := docsapi.NewTransport(int(c.Concurrency), timeout)
	a := &API{now: now, state: db, log: log}
	a.Budget = a.newBudget(transport, budget.Options{
		Name: coverage.AnalyticsBudget, Limit: int(c.Budget), MinInterval: time.Duration(c.MinInterval),
		Timeout: timeout, InFlight: int(c.Concurrency), Patience: patience,
	})
	a.agents = &agentBudgets{
		opts: budget.Options{Limit: int(c.AgentBudget), Timeout: timeout, InFlight: 1},
		api:  a, base: docsapi.NewWriteTransport(timeout), all: map[string]*budget.Budget{},
	}
	a.keys = map[string]*keyring{docsapi.KeyAdmin: newKeyring("DOCGAUGE_API_KEY", c.APIKey, c.SecretFiles, isKey)}
	a.Meter = newMeter(a.keyLabels)
	cfg := docsapi.ClientOptions{
		BaseURL: c.BaseURL, APIKey: a.keys[docsapi.KeyAdmin].get, Transport: a.Budget, Observe: a.Meter.Observe,
		Timeout: timeout, UserAgent: "docgauge/" + c.Build.Version, Logger: log, Now: now,
		JobPath: c.JobPath, WriteTransport: a.agents.transport, Attempts: attempts,
	}
	if c.WriteAPIKey != "" {
		key := newKeyring("DOCGAUGE_WRITE_API_KEY", c.WriteAPIKey, c.SecretFiles, isKey)
		a.keys[docsapi.KeyWrite], cfg.WriteAPIKey = key, key.get
	}
	var err error
	if a.Client, err = docsapi.New(cfg); err != nil {
		return nil, config.Problems{err.Error()}
	}
	return a, nil
}

func isKey(text string) bool { return docsapi.CheckKey(text) == nil }

func (a *API) newBudget(base http.RoundTripper, opts budget.Options) *budget.Budget {
	opts.RetryAfter, opts.Now = docsapi.RetryAfter, a.now
	opts.Confirm = func(ctx context.Context) error {
		_, err := a.ConfirmClock(ctx)
		return err
	}
	return budget.New(opts, state.BudgetLog{
		DB: a.state, Name: opts.Name, Span: budget.Span, Unanswered: opts.Timeout, Now: a.now,
		Confirmed: func() bool { return a.Client.ClockConfirmed() },
		SetBack: func() {
			a.log.Warn("the clock was ahead until it was set back: requests from the future count as sent now",
				"budget", opts.Name)
		},
	}, base)
}

// ConfirmClock reports whether the service confirms this machine's clock, and asks it if need be. The
// error is a [*docsapi.ClockError]. A service that cannot be asked confirms nothing.
func (a *API) ConfirmClock(ctx context.Context) (confirmed bool, err error) {
	err = a.Client.ConfirmClock(ctx)
	if wrong, ok := errors.AsType[*docsapi.ClockError](err); ok {
		return false, wrong
	}
	if err != nil {
		a.log.Debug("clock not confirmed", "reason", err)
	}
	return err == nil, nil
}

// ConfirmClock is [API.ConfirmClock]. A command that sends no requests trusts the clock.
func (a *App) ConfirmClock(ctx context.Context) (confirmed bool, err error) {
	if a.API == nil {
		return true, nil
	}
	return a.API.ConfirmClock(ctx)
}

// Flush writes the requests and their results to the state, and returns its first error: a full disk refuses all alike.
func (a *API) Flush(ctx context.Context) error {
	err := cmp.Or(a.Budget.Flush(ctx), a.FlushAgents(ctx), a.Meter.Flush(ctx, a.state))
	for labels := range a.Meter.takeAnswered() {
		err = cmp.Or(err, a.state.SetDone(ctx, keyAnswered+labels, a.now()))
	}
	return err
}

// LastAnswer returns when a run or a check last ended in which the present value of the
// admin key had got an answer, the zero time if that is not known.
func (a *API) LastAnswer(ctx context.Context) (time.Time, error) {
	return a.state.LastDone(ctx, keyAnswered+state.Labels(a.keyLabels(docsapi.KeyAdmin)...))
}

// FlushAgents writes to the state which prompts and follow-ups were answered.
func (a *API) FlushAgents(ctx context.Context) error { return a.agents.flush(ctx) }

// Keys returns the keys.
func (a *API) Keys() iter.Seq[*keyring] { return maps.Values(a.keys) }

// RefuseKey notes that the service refuses the present value of the admin key, not only a project or a report.
func (a *API) RefuseKey() { a.Meter.refuse(docsapi.KeyAdmin) }

// KeyRejected reports whether the service refused the present value of the named key.
func (a *API) KeyRejected(ctx context.Context, name string) (bool, error) {
	return a.state.FlagOn(ctx, keyRejected, a.keyLabels(name)...)
}

// keyLabels identify a key by its name and its present value: that a former value was
// refused says nothing about the present one.
func (a *API) keyLabels(name string) []string {
	return []string{labelKey, name, "mark", a.MarkOf(name)}
}

// MarkOf changes with the named key, and reveals nothing of it.
func (a *API) MarkOf(name string) string {
	key := a.keys[name]
	if key == nil {
		key = a.keys[docsapi.KeyAdmin]
	}
	sum := sha256.Sum256([]byte(key.get()))
	return hex.EncodeToString(sum[:8])
}

// agentBudgets are the budgets of agent POSTs, one for each project.
type agentBudgets struct {
	opts budget.Options
	api  *API
	base http.RoundTripper

	mu  sync.Mutex
	all map[string]*budget.Budget
}

// transport returns what sends a project's POSTs.
func (b *agentBudgets) transport(project string) http.RoundTripper {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[project] == nil {
		opts := b.opts
		opts.Name = coverage.AgentBudget(project)
		b.all[project] = b.api.newBudget(b.base, opts)
	}
	return b.all[project]
}

func (b *agentBudgets) flush(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, one := range b.all {
		errs = append(errs, one.Flush(ctx))
	}
	return errors.Join(errs...)
}
