package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/outcomes"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
	"github.com/docgauge/docgauge/sinks"
)

type reportOptions struct {
	from, to, project, archive, out, title, compare string
	pages                                           int
}

func (a *Program) reportCommand() *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report",
		Short: "write one HTML file that shows readers, pages and agent jobs",
		Long: `report writes one HTML file with interactive charts: how many readers, how many
of them AI, which pages rise and fall, which assistants read and what they miss
(with DOCGAUGE_REPORTS=visitors,agents), how complete the data is, what the
agent did, and the readers before and after each merge. It makes no network
requests, so it can be mailed and opened anywhere.

It is made from the Parquet archive, DOCGAUGE_PARQUET_URL or --archive, and, if
there is one, the state directory: no request is sent to the service, nothing is
changed, and it can run during an export.

--from and --to keep the windows that are entirely inside [from,to); the newest
window and the pages that rise and fall are then those as of --to.

The newest windows are compared with those before them, a day with the same
weekday first. --compare year compares them with those a year before (52 weeks,
or the same month), --compare N with those N windows before.

` + console.ReadingExitCodes,
		Example: `  docgauge report
  docgauge report --from 2026-10-01 --to 2026-11-01 -o october.html
  docgauge report --title 'Readers of our docs' --compare year
  docgauge report -o - | ssh web 'cat >/srv/www/docs-readers.html'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.report(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.out, "output", "o", "report.html", "`file`, or - for stdout")
	f.StringVar(&o.from, "from", "", "first day of the windows, YYYY-MM-DD")
	f.StringVar(&o.to, "to", "", "first day after the windows, YYYY-MM-DD")
	f.StringVar(&o.project, "project", "", "comma-separated projects (default: all)")
	f.IntVar(&o.pages, "pages", 50, "pages in each list")
	f.StringVar(&o.title, "title", "", "heading (default: the names of the projects)")
	f.StringVar(&o.compare, "compare", "previous", "earlier `window`: year, or N")
	input.ArchiveFlag(f, &o.archive, "`directory` or s3://… (default DOCGAUGE_PARQUET_URL)")
	return cmd
}

func (a *Program) report(ctx context.Context, o reportOptions) (err error) {
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	from, err := archiveAt(o.archive, c, analytics.Reports...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	q := web.ReportOptions{
		Now: a.Now(), Order: c.Projects, Names: c.ProjectNames, Pages: o.pages, Projects: format.List(o.project), Missed: true,
	}
	if q.From, q.To, err = input.DateFlags(o.from, o.to, "windows"); err != nil {
		return err
	}
	if o.pages < 0 {
		return input.Usagef("--pages %d: want 0 or more", o.pages)
	}
	if q.Against, err = web.ParseComparison(o.compare); err != nil {
		return input.Usagef("--%v", err)
	}
	r, err := web.ReadReport(ctx, a.withoutOthers(from, c, o.project), q)
	if err != nil {
		return asUsageError(err)
	}
	r.Version, r.Title = a.Build.Version, o.title
	if err := a.reportState(ctx, c, sinks.VisitorsOf(from), &r); err != nil {
		return err
	}
	var page bytes.Buffer
	if err := r.Write(&page); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if o.out == "-" {
		_, err = io.Copy(a.Out, &page)
		return err
	}
	if err := render.WriteFile(o.out, page.Bytes()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	a.Note("wrote %s, from %s", o.out, from.Location())
	return nil
}

// reportState adds the content of the state directory, if there is one.
func (a *Program) reportState(ctx context.Context, c config.Config, from sinks.Sink, r *web.Report) (err error) {
	if _, err := os.Stat(filepath.Join(c.StateDir, state.FileName)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	db, err := state.OpenExisting(c.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if r.State, err = readState(ctx, c, db, *r); err != nil {
		return err
	}
	var projects []string
	for _, p := range r.Projects {
		projects = append(projects, p.ID)
	}
	wanted := outcomes.Selection{Projects: projects}
	if r.From != nil {
		wanted.Since = r.From.Time()
	}
	if r.To != nil {
		wanted.Until = r.To.Time()
	}
	r.State.Outcomes, err = outcomes.Estimate(ctx, db, from, wanted)
	return err
}

// readState returns the runs of a state, and the jobs of a report.
func readState(ctx context.Context, c config.Config, db *state.DB, r web.Report) (*view.Snapshot, error) {
	s := &view.Snapshot{}
	var err error
	if s.Runs, err = db.LastRuns(ctx, 1); err != nil {
		return nil, err
	}
	if s.LastSuccess, err = db.LastSuccess(ctx, r.Made); err != nil {
		return nil, err
	}
	all, err := db.Jobs(ctx)
	if err != nil || len(all) == 0 && c.PromptsDir == "" {
		return s, err
	}
	q, err := db.Queue(ctx)
	known, failed := db.PullStates(ctx)
	pulls := jobs.PullsByLink(all, known)
	s.Queue = &view.Queue{Paused: string(q.Paused), PausedSince: q.Since}
	for _, j := range slices.Backward(all) {
		shown := slices.ContainsFunc(r.Projects, func(p view.Project) bool { return p.ID == j.Project })
		begun, ended := cmp.Or(j.Begun, j.Created, r.Made), cmp.Or(j.Ended, r.Made)
		if shown && (r.To == nil || analytics.DateOf(begun) < *r.To) &&
			(r.From == nil || analytics.DateOf(ended) >= *r.From) {
			s.Queue.Jobs = append(s.Queue.Jobs, view.NewJob(j, pulls, r.Made))
		}
	}
	return s, errors.Join(err, failed)
}
