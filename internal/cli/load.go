package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/semaphore"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/sinks"
)

type loadOptions struct {
	sink, archive, from, to, project string
	dryRun, json                     bool
}

func (a *Program) loadCommand() *cobra.Command {
	var l loadOptions
	cmd := &cobra.Command{
		Use:   "load --sink S",
		Short: "fill a sink from the Parquet archive, without a request",
		Long: `load copies windows from the Parquet archive, DOCGAUGE_PARQUET_URL or --archive,
into another sink, such as a new server, or with --sink parquet into another
directory or bucket. No request is sent to the service. Windows that the sink
has, in this or a later reading, are skipped: load can be run again at any time,
and continues where it was interrupted. Each window is committed whole.

  docgauge load --sink clickhouse
  docgauge load --sink clickhouse --from 2026-01-01 --to 2026-07-01
  export DOCGAUGE_PARQUET_URL=s3://bucket/docs
  docgauge load --sink parquet --archive ./data

` + console.ExitCodes,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.load(cmd.Context(), l) },
	}
	f := cmd.Flags()
	f.StringVar(&l.sink, "sink", "", "sink to fill: "+config.AnyOf(config.SinkNames()))
	input.ArchiveFlag(f, &l.archive, "directory or s3://bucket/prefix to read (default DOCGAUGE_PARQUET_URL)")
	f.StringVar(&l.from, "from", "", "load only windows inside [from,to): YYYY-MM-DD")
	f.StringVar(&l.to, "to", "", "the first day after those windows")
	f.StringVar(&l.project, "project", "", "comma-separated projects (default: all that the archive has)")
	f.BoolVar(&l.dryRun, "dry-run", false, "only say what would be loaded; changes nothing, and works beside serve")
	f.BoolVar(&l.json, "json", false, "print the summary as JSON")
	return cmd
}

// loadSummary is the output of load; its JSON keys are stable.
type loadSummary struct {
	Sink    string   `json:"sink"`
	Archive string   `json:"archive"`
	Loaded  int      `json:"windows_loaded"`
	Rows    int64    `json:"rows"`
	Present int      `json:"windows_present"`
	Left    int      `json:"windows_left"`
	Errors  []string `json:"errors"`
	seconds float64
}

func (a *Program) load(ctx context.Context, l loadOptions) (err error) {
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	scope := sinks.Scope{}
	if scope.Within, err = coverage.ParseDates(l.from, l.to); err != nil {
		return input.Usage(err)
	}
	to, from, err := l.open(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, app.CloseSinks([]sinks.Sink{to, from})) }()
	if scope.Projects, err = archiveProjects(ctx, l.project, from); err != nil {
		return err
	}
	run := a.loadWindows
	if l.dryRun {
		run = a.planLoad
	}
	s, err := run(ctx, c, to, from, scope)
	if err == nil && s.Loaded+s.Left+s.Present+len(s.Errors) == 0 {
		err = noWindows(from, scope.Within)
	}
	if err != nil {
		return err
	}
	if l.json {
		err = render.JSON(a.Out, s)
	} else {
		for _, text := range s.Errors {
			fmt.Fprintln(a.Err, "docgauge: "+text)
		}
		verb, n, took := "loaded", s.Loaded, fmt.Sprintf(" in %.1f s", s.seconds)
		if l.dryRun {
			verb, n, took = "would load", s.Left, ""
		}
		text := render.NewText(a.Out)
		text.Line(2, "%s %s, %s rows, from %s into %s%s; %s there already", verb, format.Plural(n, "window"),
			format.Commas(s.Rows), s.Archive, s.Sink, took, format.Plural(s.Present, "window"))
		if s.Left > 0 && !l.dryRun {
			text.Line(2, "left: %s; run it again to continue", format.Plural(s.Left, "window"))
		}
		err = text.Err()
	}
	if err == nil && len(s.Errors) > 0 {
		return render.ErrReported
	}
	return err
}

// open makes both ends. They must be different places.
func (l loadOptions) open(c config.Config) (to, from sinks.Sink, err error) {
	if l.sink == "" {
		return nil, nil, input.Usagef("which sink? --sink %s (parquet with another --archive)",
			config.AnyOf(config.SinkNames()))
	}
	kind, err := config.SinkNamed(l.sink)
	if err != nil {
		return nil, nil, input.Usagef("--sink %w", err)
	}
	if err := kind.CheckSet(c); err != nil {
		return nil, nil, config.Problems{err.Error()}
	}
	if from, err = archiveAt(l.archive, c, analytics.Reports...); err != nil {
		return nil, nil, err
	}
	c.Reports = analytics.Reports
	if to, err = c.NewSink(l.sink); err != nil {
		return nil, nil, err
	}
	if l.sink == config.SinkParquet && app.SamePlace(cmp.Or(l.archive, c.ParquetURL), c.ParquetURL) {
		return nil, nil, input.Usagef("archive and sink are the same place, %s: name another one with "+
			"--archive, or let `docgauge verify --repair` copy from another sink", from.Location())
	}
	return to, from, nil
}

// planLoad compares both ends and changes nothing; another process may use the state.
func (a *Program) planLoad(
	ctx context.Context, _ config.Config, to, from sinks.Sink, scope sinks.Scope,
) (loadSummary, error) {
	plan, err := newLoadPlan(ctx, sinks.List(ctx, from), sinks.List(ctx, to), scope.Has)
	if err != nil {
		return loadSummary{}, err
	}
	s := newLoadSummary(to, from, plan)
	for _, rev := range plan.lacking {
		s.Rows += max(rev.Rows, 0)
	}
	return s, nil
}

// loadWindows loads the windows that the sink lacks, and enters each window in the ledger.
func (a *Program) loadWindows(
	ctx context.Context, c config.Config, to, from sinks.Sink, scope sinks.Scope,
) (s loadSummary, err error) {
	started := a.Now()
	kind, err := config.SinkNamed(to.Name())
	if err != nil {
		return s, err
	}
	opened, err := app.OpenLedger(c, a.Logger(c), a.Now)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	temp, err := durable.NewTemp(c.StateDir, app.TempLoad)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, temp.Remove()) }()
	plan, err := newLoadPlan(ctx, sinks.List(ctx, from), to.Revisions(ctx), scope.Has)
	if err != nil {
		return s, err
	}
	s = newLoadSummary(to, from, plan)
	db := opened.State
	// An empty ledger is filled from the sinks first, so that afterwards it knows more
	// than the loaded windows.
	err = coverage.RestoreEmpty(ctx, db, opened.Sinks, opened.Log)
	if err == nil {
		err = db.Restore(ctx, to.Name(), plan.shown)
	}
	if err == nil {
		p := a.Progress
		p.BeginCount(len(plan.lacking), "windows", "rows")
		var counting sync.Mutex
		loader := loader{to: to}
		loader.open = func(ctx context.Context, rev analytics.Revision) (sinks.Sealed, func() error, error) {
			return from.Window(ctx, rev, temp.Path)
		}
		loader.committed = func(rev analytics.Revision) error {
			counting.Lock()
			s.Loaded, s.Left, s.Rows = s.Loaded+1, s.Left-1, s.Rows+max(rev.Rows, 0)
			p.Count(s.Loaded, s.Rows)
			counting.Unlock()
			if err := db.Record(ctx, rev, analytics.Provenance{}, []string{to.Name()}); err != nil {
				return err
			}
			return db.Committed(ctx, rev, to.Name(), a.Now())
		}
		err = loader.run(ctx, plan.lacking, kind.AtOnce)
		p.End()
	}
	if err != nil {
		s.Errors = append(s.Errors, err.Error())
	}
	s.seconds = a.Now().Sub(started).Seconds()
	return s, nil
}

func newLoadSummary(to, from sinks.Sink, plan loadPlan) loadSummary {
	s := loadSummary{Sink: to.Name(), Archive: from.Location(), Present: plan.present,
		Left: len(plan.lacking), Errors: []string{}}
	for _, err := range plan.errors {
		s.Errors = append(s.Errors, err.Error())
	}
	return s
}

const (
	// rowsAtOnce bounds the rows of the windows that are loaded at the same time, and
	// so the files that are made of them.
	rowsAtOnce = 1_500_000
	// openAtOnce bounds the windows that are opened at the same time.
	openAtOnce = 8
	// loadTimeout bounds the loading of one window.
	loadTimeout = 10 * time.Minute
)

// loadPlan is the plan of a load.
type loadPlan struct {
	// lacking lists the windows that the sink does not have, by project, granularity
	// and window.
	lacking []analytics.Revision
	// present is the number of windows that the sink has in this revision or a later one.
	present int
	// shown lists everything the sink shows.
	shown []analytics.Revision
	// errors are the errors of windows of the archive that cannot be read.
	errors []error
}

// newLoadPlan compares the wanted windows of the archive with what the sink shows; both are listed as [sinks.Sink]
// describes it. The first error of the sink is returned; the errors of the archive are in the plan.
func newLoadPlan(
	ctx context.Context, archive, sink iter.Seq2[analytics.Revision, error], wanted func(analytics.Key) bool,
) (p loadPlan, err error) {
	shown := map[analytics.Key]time.Time{}
	for rev, err := range sink {
		if fault, ok := errors.AsType[sinks.Fault](err); ok && fault.Key != (analytics.Key{}) {
			// A damaged window may be newer than the archive's.
			return loadPlan{}, fmt.Errorf("%w (`docgauge verify --repair` repairs it)", err)
		}
		if err != nil {
			return loadPlan{}, err
		}
		shown[rev.Key] = rev.ExportedAt
		p.shown = append(p.shown, rev)
	}
	for rev, err := range archive {
		at, there := shown[rev.Key]
		switch {
		case err != nil:
			p.errors = append(p.errors, err)
		case !wanted(rev.Key):
		case there && !rev.ExportedAt.After(at):
			p.present++
		default:
			p.lacking = append(p.lacking, rev)
		}
	}
	slices.SortFunc(p.lacking, func(a, b analytics.Revision) int {
		return strings.Compare(a.Key.String(), b.Key.String())
	})
	return p, ctx.Err()
}

// loader fills a sink from the archive. It does not use the ledger.
type loader struct {
	// open opens a window of the archive; done ends its use.
	open func(context.Context, analytics.Revision) (w sinks.Sealed, done func() error, err error)
	to   sinks.Sink
	// committed is called for each window, from many goroutines, so that it can write
	// several windows together.
	committed func(analytics.Revision) error
}

// run loads the windows, atOnce of them at the same time. The first error of committed or of
// the sink ends the run; the next run loads the rest. Windows that the archive cannot give are
// passed over, and their errors returned with the others, joined.
func (l loader) run(ctx context.Context, windows []analytics.Revision, atOnce int) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	var damaged []error
	load := func(rev analytics.Revision, opening *semaphore.Weighted) {
		if opening.Acquire(ctx, 1) != nil {
			return
		}
		w, done, err := l.open(ctx, rev)
		opening.Release(1)
		if end := ctx.Err(); end != nil && errors.Is(err, end) {
			return // the window is not damaged; run returns once why it ended
		}
		if err != nil {
			mu.Lock()
			damaged = append(damaged, fmt.Errorf("%s: %w", rev.Key, err))
			mu.Unlock()
			return
		}
		within, cancel := context.WithTimeout(ctx, loadTimeout)
		defer cancel()
		if err = l.to.Replace(within, w); err == nil {
			err = l.committed(w.Revision())
		}
		if err = errors.Join(err, done()); err != nil {
			stop(fmt.Errorf("%s sink: %s: %w", l.to.Name(), rev.Key, err))
		}
	}
	opening, loading := semaphore.NewWeighted(openAtOnce), semaphore.NewWeighted(rowsAtOnce)
	var wait sync.WaitGroup
	for _, rev := range windows {
		weight := min(max(rev.Rows, rowsAtOnce/int64(atOnce)), rowsAtOnce)
		if loading.Acquire(ctx, weight) != nil {
			break
		}
		wait.Go(func() {
			defer loading.Release(weight)
			load(rev, opening)
		})
	}
	wait.Wait()
	return errors.Join(append(damaged, context.Cause(ctx))...)
}
