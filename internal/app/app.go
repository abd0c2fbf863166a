// Package app opens what the commands work with, the state, the sinks, the API
// client and the spool, as the settings say, and closes it in reverse order. It
// decides nothing and sends nothing by itself.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/clickhouse"
	"github.com/docgauge/docgauge/sinks/delta"
	"github.com/docgauge/docgauge/sinks/parquet"
	"github.com/docgauge/docgauge/sinks/postgres"
)

// The kinds of temporary directories in the state directory: for windows whose pages
// are read, that are loaded, and that one sink is given from another.
const (
	TempPages = "pages"
	TempLoad  = "load"
	TempCopy  = "copy"
)

// runPatience is how long a run waits in all for slots of the budget that free up
// soon: an hourly run begins a moment before the slots of the run before it are
// free. A command that a person waits for has no patience.
const runPatience = time.Minute

// App is what a command has opened. Its API and Spool are nil where it did not ask
// for them.
type App struct {
	Config config.Config
	Log    *slog.Logger
	Now    func() time.Time

	State *state.DB
	Sinks []sinks.Sink
	API   *API
	Spool *spool.Spool

	closers []func() error
}

// OpenLedger opens what a command needs that changes the ledger without a request, and
// takes the export lock first: where another process holds it, the error is
// [state.ErrLocked].
func OpenLedger(c config.Config, log *slog.Logger, now func() time.Time) (*App, error) {
	lock, err := state.LockExport(c.StateDir)
	if err != nil {
		return nil, err
	}
	a := &App{Config: c, Log: log, Now: now, closers: []func() error{lock.Release}}
	if err := a.openLedger(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (a *App) openLedger() (err error) {
	if err := durable.SweepTemp(a.Config.StateDir, TempPages, TempLoad, TempCopy); err != nil {
		a.Log.Warn("files of a killed process not removed", "error", err)
	}
	if err := a.open(state.Open); err != nil {
		return err
	}
	a.Spool, err = spool.Open(a.Config.StateDir)
	return err
}

// OpenExport opens what an export needs: what [OpenLedger] opens, and the API client.
func OpenExport(c config.Config, log *slog.Logger, now func() time.Time) (*App, error) {
	a, err := OpenLedger(c, log, now)
	if err != nil {
		return nil, err
	}
	if a.API, err = NewAPI(c, a.State, log, now, runPatience, 0); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// OpenHeld is [OpenExport] for a caller that holds the export lock.
func OpenHeld(c config.Config, log *slog.Logger, now func() time.Time) (*App, error) {
	a := &App{Config: c, Log: log, Now: now}
	err := a.openLedger()
	if err == nil {
		a.API, err = NewAPI(c, a.State, log, now, runPatience, 0)
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// OpenQueue opens what a run of the prompt queue needs, and takes the queue's lock
// first: where another process holds it, the error is [state.ErrLocked].
func OpenQueue(c config.Config, log *slog.Logger, now func() time.Time) (_ *App, err error) {
	a := &App{Config: c, Log: log, Now: now}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	lock, err := state.LockQueue(c.StateDir)
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, lock.Release)
	if err := a.open(state.Open); err != nil {
		return nil, err
	}
	a.API, err = NewAPI(c, a.State, log, now, 0, 0)
	return a, err
}

// OpenReading opens a state that exists, and the sinks, for a command that changes
// nothing.
func OpenReading(c config.Config, log *slog.Logger, now func() time.Time) (*App, error) {
	a := &App{Config: c, Log: log, Now: now}
	if err := a.open(state.OpenExisting); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// open opens the state and the sinks.
func (a *App) open(open func(dir string) (*state.DB, error)) (err error) {
	if a.State, err = open(a.Config.StateDir); err != nil {
		return err
	}
	a.closers = append(a.closers, a.State.Close)
	if a.Sinks, err = NewSinks(a.Config); err != nil {
		return err
	}
	a.closers = append(a.closers, func() error { return CloseSinks(a.Sinks) })
	return nil
}

// Close gives everything up, in reverse order. A second call does nothing.
func (a *App) Close() error {
	var errs []error
	for _, give := range slices.Backward(a.closers) {
		errs = append(errs, give())
	}
	a.closers = nil
	return errors.Join(errs...)
}

// NewSink makes a sink; it does not connect.
func NewSink(c config.Config, name string) (sinks.Sink, error) {
	switch name {
	case config.SinkParquet:
		s, err := parquet.New(c.ParquetURL)
		return of("DOCGAUGE_PARQUET_URL", s, err)
	case config.SinkDelta:
		// Where both are chosen, a data file is a link to the file that the Parquet sink has
		// published for the window.
		d := delta.Options{URL: c.DeltaURL, Version: c.Build.Version, Now: time.Now}
		if files, err := parquet.New(c.ParquetURL); err == nil {
			d.Published = files.Published
		}
		s, err := delta.New(d)
		return of("DOCGAUGE_DELTA_URL", s, err)
	case config.SinkPostgres:
		return postgres.New(postgres.Options{DSN: string(c.PostgresDSN), Version: c.Build.Version, Now: time.Now})
	case config.SinkClickHouse:
		return clickhouse.New(clickhouse.Options{
			DSN: string(c.ClickHouseDSN), Cluster: c.ClickHouseCluster, Version: c.Build.Version, Now: time.Now,
		})
	}
	return nil, fmt.Errorf("sink %w", config.CheckSink(name))
}

// of names the variable that an error is about.
func of(variable string, s sinks.Sink, err error) (sinks.Sink, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	return s, nil
}

// NewSinks makes the sinks of DOCGAUGE_SINKS.
func NewSinks(c config.Config) ([]sinks.Sink, error) {
	var out []sinks.Sink
	for _, name := range c.Sinks {
		s, err := NewSink(c, name)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// CloseSinks gives up their connections.
func CloseSinks(all []sinks.Sink) error {
	var errs []error
	for _, s := range all {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// NewArchive makes the sink that [App.Archive] returns; it does not connect.
func NewArchive(c config.Config) (sinks.Sink, error) {
	if slices.Contains(c.Sinks, config.SinkParquet) {
		return NewSink(c, config.SinkParquet)
	}
	return NewSink(c, c.Sinks[0])
}

// Archive is the sink that questions about windows are asked: the Parquet sink, or else the
// first one.
func (a *App) Archive() sinks.Sink {
	for _, s := range a.Sinks {
		if s.Name() == config.SinkParquet {
			return s
		}
	}
	return a.Sinks[0]
}

// TopPages returns the n pages with the most visitors of rev, as readers of s see them.
func (a *App) TopPages(ctx context.Context, s sinks.Sink, rev analytics.Revision, n int) (pages []analytics.Row, err error) {
	temp, err := durable.NewTemp(a.Config.StateDir, TempCopy)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, temp.Remove()) }()
	return sinks.Top(ctx, s, rev, n, temp.Path)
}

// InSpool reports whether the spool has the revision, whole.
func (a *App) InSpool(rev analytics.Revision) (bool, error) {
	return spool.Holds(a.Config.StateDir, rev)
}

// SamePlace reports whether two URLs, as OpenArchive takes them, are one place.
func SamePlace(a, b string) bool { return parquet.SamePlace(a, b) }

// OpenArchive makes a Parquet sink to read from; the URL is a directory or
// s3://bucket/prefix. It does not connect.
func OpenArchive(url string) (sinks.Sink, error) { return parquet.New(url) }
