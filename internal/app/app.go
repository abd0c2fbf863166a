// Package app opens what commands work with, the state, the sinks, the API client and the spool, by
// the settings, and closes it in reverse order. It decides nothing and sends nothing by itself.
package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/parquet"
)

// The kinds of temporary directories in the state directory: for windows whose pages are read, that
// are loaded, and that are copied from one sink to another.
const (
	tempPages = "pages"
	TempLoad  = "load"
	TempCopy  = "copy"
)

// runPatience is the total time that a run waits for slots of the budget that free up soon: an
// hourly run begins a moment before the slots of the previous one are free. Other commands do not
// wait.
const runPatience = time.Minute

// App holds everything that a command has opened. API and Spool are nil if it did not request them.
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

// OpenLedger opens what a command needs that changes the ledger without a request, and takes the export
// lock first. If another process holds it, the error is [state.ErrLocked].
func OpenLedger(c config.Config, log *slog.Logger, now func() time.Time) (*App, error) {
	return open(c, log, now, lock(state.LockExport), (*App).openLedger)
}

// OpenExport opens everything that [OpenLedger] opens, and the API client.
func OpenExport(c config.Config, log *slog.Logger, now func() time.Time) (*App, error) {
	return open(c, log, now, lock(state.LockExport), (*App).openLedger, client(runPatience))
}

// OpenHeld is [OpenExport] for a caller that holds the export lock.
func OpenHeld(c config.Config, log *slog.Logger, now func() time.Time) (*App, error) {
	return open(c, log, now, (*App).openLedger, client(runPatience))
}

// OpenQueue opens what a run of the prompt queue needs, and takes the queue's lock first. If another
// process holds it, the error is [state.ErrLocked].
func OpenQueue(c config.Config, log *slog.Logger, now func() time.Time) (*App, error) {
	return open(c, log, now, lock(state.LockQueue), stores(state.Open), client(0))
}

// OpenReading opens a state that exists, and the sinks, for a command that changes nothing.
func OpenReading(c config.Config, log *slog.Logger, now func() time.Time) (*App, error) {
	return open(c, log, now, stores(state.OpenExisting))
}

// OpenCheck opens the state, unless another docgauge must migrate it, and the sinks, for a command that tries each.
// Those that cannot be opened are nil, and stateErr or sinkErr says why.
func OpenCheck(c config.Config, log *slog.Logger, now func() time.Time) (a *App, stateErr, sinkErr error) {
	a = &App{Config: c, Log: log, Now: now}
	stateErr = a.openState(state.OpenUnmigrated)
	return a, stateErr, a.openSinks()
}

// open does the steps, and undoes them if one fails.
func open(
	c config.Config, log *slog.Logger, now func() time.Time, steps ...func(*App) error,
) (*App, error) {
	a := &App{Config: c, Log: log, Now: now}
	for _, step := range steps {
		if err := step(a); err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	return a, nil
}

func lock(take func(dir string) (*state.Lock, error)) func(*App) error {
	return func(a *App) error {
		taken, err := take(a.Config.StateDir)
		if err == nil {
			a.closers = append(a.closers, taken.Release)
		}
		return err
	}
}

func stores(open func(dir string) (*state.DB, error)) func(*App) error {
	return func(a *App) error {
		if err := a.openState(open); err != nil {
			return err
		}
		return a.openSinks()
	}
}

func (a *App) openState(open func(dir string) (*state.DB, error)) (err error) {
	if a.State, err = open(a.Config.StateDir); err == nil {
		a.closers = append(a.closers, a.State.Close)
	}
	return err
}

func (a *App) openSinks() (err error) {
	c := a.Config
	if a.State != nil {
		// Reports in the ledger are read and verified, also when they are no longer exported.
		if c.Reports, err = a.State.Reports(context.Background(), c.Reports); err != nil {
			return err
		}
	}
	if a.Sinks, err = NewSinks(c); err == nil {
		a.closers = append(a.closers, func() error { return CloseSinks(a.Sinks) })
	}
	return err
}

func (a *App) openLedger() (err error) {
	if err := durable.SweepTemp(a.Config.StateDir, tempPages, TempLoad, TempCopy); err != nil {
		a.Log.Warn("files of a killed process not removed", "error", err)
	}
	if err := stores(state.Open)(a); err != nil {
		return err
	}
	a.Spool, err = spool.Open(a.Config.StateDir)
	return err
}

func client(patience time.Duration) func(*App) error {
	return func(a *App) (err error) {
		a.API, err = NewAPI(a.Config, a.State, a.Log, a.Now, patience, 0)
		return err
	}
}

// Close closes everything in reverse order. A second call does nothing.
func (a *App) Close() error {
	var errs []error
	for _, closer := range slices.Backward(a.closers) {
		errs = append(errs, closer())
	}
	a.closers = nil
	return errors.Join(errs...)
}

// NewSinks makes the sinks of DOCGAUGE_SINKS.
func NewSinks(c config.Config) ([]sinks.Sink, error) {
	var out []sinks.Sink
	for _, name := range c.Sinks {
		s, err := c.NewSink(name)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// CloseSinks closes their connections.
func CloseSinks(all []sinks.Sink) error {
	var errs []error
	for _, s := range all {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// NewArchive makes the sink that [App.Archive] reads, with windows of all reports; it does not connect.
func NewArchive(c config.Config) (sinks.Sink, error) {
	if slices.Contains(c.Sinks, config.SinkParquet) {
		c.Reports = analytics.Reports
		return c.NewSink(config.SinkParquet)
	}
	return c.NewSink(c.Sinks[0])
}

// Archive is the sink from which questions about windows of visitors are answered: the Parquet sink, or
// else the first one.
func (a *App) Archive() sinks.Sink { return a.ArchiveOf(analytics.VisitorsReport) }

// ArchiveOf is the same for another report.
func (a *App) ArchiveOf(report analytics.Report) sinks.Sink {
	isParquet := func(s sinks.Sink) bool { return s.Name() == config.SinkParquet }
	return sinks.ReportOf(a.Sinks[max(0, slices.IndexFunc(a.Sinks, isParquet))], report)
}

// WithCopies calls do with a temporary directory for windows that are copied out of a sink.
func (a *App) WithCopies(do func(dir string) error) (err error) {
	temp, err := durable.NewTemp(a.Config.StateDir, TempCopy)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, temp.Remove()) }()
	return do(temp.Path)
}

// InSpool reports whether the spool has the revision, whole.
func (a *App) InSpool(rev analytics.Revision) (bool, error) {
	return spool.Holds(a.Config.StateDir, rev)
}

// SamePlace reports whether two URLs, as OpenArchive takes them, are one place.
func SamePlace(a, b string) bool { return parquet.SamePlace(a, b) }

// OpenArchive makes a Parquet sink to read visitors from, and other reports if they are named; the URL is a
// directory or s3://bucket/prefix. It does not connect.
func OpenArchive(url string, reports ...analytics.Report) (sinks.Sink, error) {
	return parquet.New(url, reports...)
}
