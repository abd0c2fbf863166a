package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/budget"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/clickhouse"
	"github.com/docgauge/docgauge/sinks/parquet"
)

// api is the client with the budgets below it, and what its requests came to.
type api struct {
	*docsapi.Client
	budget *budget.Budget
	agents *agentBudgets
	key    *keyring
	// writeKey is the key of POSTs: key itself where there is no other.
	writeKey *keyring
	meter    *meter
}

// runPatience is how long a run waits in all for slots that free soon: an hourly
// one begins a moment before those of the run before it are free. A command that a
// person waits for has none.
const runPatience = time.Minute

func newAPI(c config, db *state.DB, log *slog.Logger, now func() time.Time, patience time.Duration) (api, error) {
	transport := docsapi.NewTransport(int(c.Concurrency), time.Duration(c.Timeout))
	a := api{
		budget: budget.New(budget.Config{
			Name: analyticsBudget, Limit: int(c.Budget), MinInterval: time.Duration(c.MinInterval),
			Timeout: time.Duration(c.Timeout), InFlight: int(c.Concurrency), Patience: patience, RetryAfter: docsapi.RetryAfter, Now: now,
		}, db, transport),
		agents: newAgentBudgets(c, db, now),
		key:    newKeyring("DOCGAUGE_API_KEY", c.APIKey, c.APIKeyFile),
	}
	a.writeKey = a.key
	if c.WriteAPIKey != "" {
		a.writeKey = newKeyring("DOCGAUGE_WRITE_API_KEY", c.WriteAPIKey, c.WriteAPIKeyFile)
	}
	a.meter = newMeter(a.keyLabels)
	cfg := docsapi.Config{
		BaseURL: c.BaseURL, APIKey: a.key.get, Transport: a.budget, Observe: a.meter.observe,
		Timeout: time.Duration(c.Timeout), WriteTimeout: time.Duration(c.Timeout), UserAgent: "docgauge/" + version, Logger: log,
		JobPath: c.JobPath, WriteTransport: a.agents.of,
	}
	if a.writeKey != a.key {
		cfg.WriteAPIKey = a.writeKey.get
	}
	var err error
	if a.Client, err = docsapi.New(cfg); err != nil {
		return api{}, problems{err.Error()}
	}
	return a, nil
}

// flush writes to the state what was sent and what came of it.
func (a api) flush(ctx context.Context, db *state.DB) error {
	return errors.Join(a.budget.Flush(ctx), a.agents.flush(ctx), a.meter.flush(ctx, db))
}

// keyMark changes with the keys, and tells nothing of them.
func (a api) keyMark() string { return markOf(a.key.get() + "\n" + a.writeKey.get()) }

// keyLabels tell a key by its name and what it is now: that a former one was refused
// says nothing of it.
func (a api) keyLabels(name string) []string {
	key := a.key
	if name == docsapi.KeyWrite {
		key = a.writeKey
	}
	return []string{labelKey, name, "mark", markOf(key.get())}
}

func markOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// newStore makes a sink; it does not connect.
func newStore(c config, name string) (sinks.Sink, error) {
	switch name {
	case sinkParquet:
		return parquet.New(c.ParquetURL)
	case sinkClickHouse:
		return clickhouse.New(clickhouse.Config{
			DSN: string(c.ClickHouseDSN), Cluster: c.ClickHouseCluster, Version: version, Now: time.Now,
		})
	}
	return nil, fmt.Errorf("sink %q: want parquet or clickhouse", name)
}

func newSinks(c config) ([]sinks.Sink, error) {
	var out []sinks.Sink
	for _, name := range c.Sinks {
		s, err := newStore(c, name)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// closeStores gives up what the sinks hold open.
func closeStores(stores []sinks.Sink) error {
	var errs []error
	for _, s := range stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// runner is everything a run needs, held for this process alone.
type runner struct {
	config
	log      *slog.Logger
	now      func() time.Time
	db       *state.DB
	api      api
	stores   []sinks.Sink
	spool    *spool.Spool
	pipeline *export.Pipeline
	progress *progress
	read     readings
	opened
	// committed is told, if not nil, that the state has something new to show.
	committed func()
}

// openRunner takes the export lock and opens what a run needs, in order.
func (a *Program) openRunner(c config) (_ *runner, err error) {
	r := &runner{config: c, log: a.logger(c), now: a.now, progress: newProgress(a)}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	lock, err := state.LockExport(c.StateDir)
	if err != nil {
		return nil, err
	}
	r.opened = append(r.opened, lock.Release)
	if err := durable.SweepTemp(c.StateDir, tempPages, tempLoad, tempCopy); err != nil {
		r.log.Warn("files of a killed process not removed", "error", err)
	}
	if r.db, err = state.Open(c.StateDir); err != nil {
		return nil, err
	}
	r.opened = append(r.opened, r.db.Close)
	if r.stores, err = newSinks(c); err != nil {
		return nil, err
	}
	r.opened = append(r.opened, func() error { return closeStores(r.stores) })
	if r.api, err = newAPI(c, r.db, r.log, a.now, runPatience); err != nil {
		return nil, err
	}
	if r.spool, err = spool.Open(c.StateDir, a.now()); err != nil {
		return nil, err
	}
	r.pipeline = export.New(export.Config{
		Concurrency: int(c.Concurrency), Settle: time.Duration(c.Settle), SpoolMax: int64(c.SpoolMax),
		TopPages: keptPages, Now: a.now, Logger: r.log, Observe: observers(r.read.observe, r.progress.observe, r.note, a.observe),
	}, r.api, r.db, r.db, r.spool, r.stores)
	return r, nil
}

// note tells of what was committed, and writes what requests came to every now
// and then.
func (r *runner) note(ev export.Event) {
	switch ev.Step {
	case export.StepRecorded, export.StepOpen, export.StepCommitted:
	default:
		return
	}
	if r.committed != nil {
		r.committed()
		return
	}
	if !r.api.meter.due() {
		return
	}
	if err := r.api.meter.flush(context.Background(), r.db); err != nil {
		r.log.Error("requests not counted", "error", err)
	}
}

func observers(fs ...func(export.Event)) func(export.Event) {
	return func(ev export.Event) {
		for _, f := range fs {
			if f != nil {
				f(ev)
			}
		}
	}
}

// opened is what gives up each thing that was opened, in that order.
type opened []func() error

// Close gives everything up, once, in reverse order.
func (o *opened) Close() error {
	var errs []error
	for _, give := range slices.Backward(*o) {
		errs = append(errs, give())
	}
	*o = nil
	return errors.Join(errs...)
}

// restoreNew fills a ledger that knows nothing from what the sinks hold, so
// that a lost state directory costs no request. It returns how many windows.
func restoreNew(ctx context.Context, db *state.DB, stores []sinks.Sink, log *slog.Logger) (int, error) {
	entries, err := db.Entries(ctx)
	if err != nil || len(entries) > 0 {
		return 0, err
	}
	return restore(ctx, db, stores, log)
}

// restore reads the ledger back from every sink that can be listed. A sink is given
// every window from the day on which it is configured, so that one that holds some
// tells what was read before, as far as anybody can. Where those that can be listed
// hold nothing, the ones that cannot may hold everything, and all of it would be
// requested again: that is an error.
func restore(ctx context.Context, db *state.DB, stores []sinks.Sink, log *slog.Logger) (int, error) {
	var away []error
	total := 0
	for _, s := range stores {
		revs, err := held(ctx, s, log)
		if errors.Is(err, sinks.ErrNotListed) {
			away = append(away, err)
			continue
		}
		if err != nil {
			return total, err
		}
		if err := db.Restore(ctx, s.Name(), revs); err != nil {
			return total, err
		}
		total += len(revs)
		if len(revs) > 0 {
			log.Info("ledger restored from sink", "sink", s.Name(), "windows", len(revs))
		}
	}
	if len(away) > 0 && total == 0 {
		return 0, unknownError(away)
	}
	for _, err := range away {
		log.Warn("ledger not restored from sink: what it alone holds is requested again", "error", err)
	}
	return total, nil
}

// unknownError says of each sink why nobody knows what was read before.
type unknownError []error

func (e unknownError) Error() string {
	var all []string
	for _, err := range e {
		all = append(all, err.Error())
	}
	return "the ledger is read back from the sinks, and nobody can tell what was read before: " + strings.Join(all, "; ") +
		" (nothing is requested, as it may be there already: mend the sink, or take it out of DOCGAUGE_SINKS, then run again)"
}

func (e unknownError) Unwrap() []error { return e }

// held lists what a sink holds. Damaged files are reported and passed over:
// their windows are due again.
func held(ctx context.Context, s sinks.Sink, log *slog.Logger) (revs []analytics.Revision, err error) {
	for rev, err := range s.Revisions(ctx) {
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, sinks.ErrNotListed):
			return nil, err
		case err != nil:
			log.Warn("window not restored", "sink", s.Name(), "error", err)
		default:
			revs = append(revs, rev)
		}
	}
	return revs, nil
}
