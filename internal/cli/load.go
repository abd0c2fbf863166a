package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/load"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/parquet"
)

// loading are the flags of load.
type loading struct {
	sink, archive, from, to, project string
	dryRun, json                     bool
}

func (a *Program) loadCommand() *cobra.Command {
	var l loading
	cmd := &cobra.Command{
		Use:   "load --sink S",
		Short: "fill a sink from the Parquet archive, without a request to the service",
		Long: `load copies windows from the Parquet archive, DOCGAUGE_PARQUET_URL or --archive,
into a sink: a new ClickHouse server, or with --sink parquet another directory or
bucket. No request is sent to the service. Windows the sink has, or has a later
reading of, are passed over: load can be run again at any time, and goes on where
it was cut. Each window is committed whole.

  docgauge load --sink clickhouse
  docgauge load --sink clickhouse --from 2026-01-01 --to 2026-07-01
  DOCGAUGE_PARQUET_URL=s3://bucket/docs docgauge load --sink parquet --archive ./data

` + exitCodes,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.load(cmd.Context(), l) },
	}
	f := cmd.Flags()
	f.StringVar(&l.sink, "sink", "", "sink to fill: clickhouse or parquet")
	f.StringVar(&l.archive, "archive", "", "directory or s3://bucket/prefix to read (default DOCGAUGE_PARQUET_URL)")
	f.StringVar(&l.from, "from", "", "load only windows inside [from,to): YYYY-MM-DD")
	f.StringVar(&l.to, "to", "", "the first day after them")
	f.StringVar(&l.project, "project", "", "comma-separated projects (default: all that the archive has)")
	f.BoolVar(&l.dryRun, "dry-run", false, "only say what would be loaded; changes nothing, and works beside serve")
	f.BoolVar(&l.json, "json", false, "print the summary as JSON")
	// It fails only for a flag that is not there.
	_ = cmd.RegisterFlagCompletionFunc("sink", cobra.FixedCompletions([]string{sinkClickHouse, sinkParquet}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// loadSummary is what load reports; its JSON keys are stable.
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

func (a *Program) load(ctx context.Context, l loading) (err error) {
	c, err := loadConfig(needNothing, a.now())
	if err != nil {
		return err
	}
	want, err := l.selects()
	if err != nil {
		return err
	}
	to, from, err := l.open(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStores([]sinks.Sink{to, from})) }()
	var s loadSummary
	if l.dryRun {
		s, err = wouldLoad(ctx, to, from, want)
	} else {
		s, err = a.loadInto(ctx, c, to, from, want)
	}
	if err != nil {
		return err
	}
	if l.json {
		err = writeJSON(a.Out, s)
	} else {
		err = a.printLoad(s, l.dryRun)
	}
	if err == nil && len(s.Errors) > 0 {
		return errSaid
	}
	return err
}

// open makes both ends. They must be different places.
func (l loading) open(c config) (to sinks.Sink, from *parquet.Sink, err error) {
	if l.sink != sinkParquet && l.sink != sinkClickHouse {
		return nil, nil, usageError{fmt.Errorf("--sink %.40q: want clickhouse or parquet", l.sink)}
	}
	if l.sink == sinkClickHouse && c.ClickHouseDSN == "" {
		return nil, nil, problems{"DOCGAUGE_CLICKHOUSE_DSN: missing; where the sink clickhouse writes, like clickhouse://localhost:9000/default (or DOCGAUGE_CLICKHOUSE_DSN_FILE)"}
	}
	if from, err = parquet.New(cmp.Or(l.archive, c.ParquetURL)); err != nil {
		return nil, nil, usageError{fmt.Errorf("--archive: %w", err)}
	}
	if to, err = newStore(c, l.sink); err != nil {
		return nil, nil, err
	}
	if to.Location() == from.Location() {
		return nil, nil, usageError{fmt.Errorf("archive and sink are the same place, %s: name another one with --archive", from.Location())}
	}
	return to, from, nil
}

// selects returns which windows are wanted.
func (l loading) selects() (func(analytics.Key) bool, error) {
	var all analytics.Window
	if (l.from == "") != (l.to == "") {
		return nil, usageError{errors.New("--from and --to go together: the windows inside [from,to) are loaded")}
	}
	if l.from != "" {
		from, err := analytics.ParseDate(l.from)
		if err != nil {
			return nil, usageError{fmt.Errorf("--from: %w", err)}
		}
		to, err := analytics.ParseDate(l.to)
		if err != nil {
			return nil, usageError{fmt.Errorf("--to: %w", err)}
		}
		if all = (analytics.Window{From: from, To: to}); from >= to {
			return nil, usageError{fmt.Errorf("--from, --to: %s is empty; --to is the first day after the windows", all)}
		}
	}
	var projects []string
	if l.project != "" {
		projects = strings.Split(l.project, ",")
	}
	return func(k analytics.Key) bool {
		inside := l.from == "" || k.From >= all.From && k.To <= all.To
		return inside && (projects == nil || slices.Contains(projects, k.Project))
	}, nil
}

// wouldLoad compares, beside whoever uses the state, and changes nothing anywhere.
func wouldLoad(ctx context.Context, to sinks.Sink, from *parquet.Sink, want func(analytics.Key) bool) (loadSummary, error) {
	plan, err := load.NewPlan(ctx, sinks.List(ctx, from), sinks.List(ctx, to), want)
	if err != nil {
		return loadSummary{}, fmt.Errorf("%s sink: %w", to.Name(), err)
	}
	s := newLoadSummary(to, from, plan)
	s.Rows = plan.Rows()
	return s, nil
}

// loadInto compares, and loads what the sink lacks.
func (a *Program) loadInto(ctx context.Context, c config, to sinks.Sink, from *parquet.Sink, want func(analytics.Key) bool) (s loadSummary, err error) {
	started := a.now()
	lock, err := state.LockExport(c.StateDir)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	temp, err := durable.NewTemp(c.StateDir, tempLoad)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, temp.Remove()) }()
	archive := archiveOf{from, temp.Path}
	plan, err := load.NewPlan(ctx, from.Revisions(ctx), to.Revisions(ctx), want)
	if err != nil {
		return s, fmt.Errorf("%s sink: %w", to.Name(), err)
	}
	s = newLoadSummary(to, from, plan)
	if err := a.loadPlan(ctx, c, to, archive, plan, &s); err != nil {
		s.Errors = append(s.Errors, err.Error())
	}
	s.seconds = a.now().Sub(started).Seconds()
	return s, nil
}

func newLoadSummary(to sinks.Sink, from *parquet.Sink, plan load.Plan) loadSummary {
	s := loadSummary{Sink: to.Name(), Archive: from.Location(), Present: plan.Present, Left: len(plan.Lacking), Errors: []string{}}
	for _, err := range plan.Errors {
		s.Errors = append(s.Errors, err.Error())
	}
	return s
}

// loadPlan loads, and enters each window in the ledger.
func (a *Program) loadPlan(ctx context.Context, c config, to sinks.Sink, from load.Archive, plan load.Plan, s *loadSummary) (err error) {
	db, err := state.Open(c.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := a.restoreForLoad(ctx, c, db); err != nil {
		return err
	}
	if err := db.Restore(ctx, to.Name(), plan.Shown); err != nil {
		return err
	}
	p := newProgress(a)
	p.beginLoad(len(plan.Lacking))
	defer p.end()
	return load.Run(ctx, from, to, plan, func(rev analytics.Revision) error {
		s.Loaded, s.Left, s.Rows = s.Loaded+1, s.Left-1, s.Rows+max(rev.Rows, 0)
		p.loaded(rev.Rows)
		if err := db.Record(ctx, rev, analytics.Provenance{}, nil); err != nil {
			return err
		}
		return db.Committed(ctx, rev, to.Name(), a.now())
	})
}

// restoreForLoad fills a ledger that knows nothing from the sinks, so that it
// does not afterwards know only what was loaded.
func (a *Program) restoreForLoad(ctx context.Context, c config, db *state.DB) (err error) {
	stores, err := newSinks(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStores(stores)) }()
	_, err = restoreNew(ctx, db, stores, a.logger(c))
	return err
}

// archiveOf is a Parquet sink as a source of windows.
type archiveOf struct {
	*parquet.Sink
	dir string // for windows fetched from a bucket
}

func (f archiveOf) Window(ctx context.Context, rev analytics.Revision) (sinks.Sealed, func() error, error) {
	return f.Sink.Window(ctx, rev, f.dir)
}

func (a *Program) printLoad(s loadSummary, dryRun bool) error {
	for _, text := range s.Errors {
		fmt.Fprintln(a.Err, "docgauge: "+text)
	}
	if dryRun {
		_, err := fmt.Fprintf(a.Out, "would load %s, %s rows, from %s into %s; %s there already\n",
			plural(s.Left, "window"), commas(s.Rows), s.Archive, s.Sink, plural(s.Present, "window"))
		return err
	}
	fmt.Fprintf(a.Out, "loaded %s, %s rows, from %s into %s in %.1f s; %s there already\n",
		plural(s.Loaded, "window"), commas(s.Rows), s.Archive, s.Sink, s.seconds, plural(s.Present, "window"))
	if s.Left > 0 {
		fmt.Fprintf(a.Out, "left: %s; run it again to go on\n", plural(s.Left, "window"))
	}
	return nil
}
