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
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/report"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
)

// asking are the flags of report.
type asking struct {
	from, to, project, archive, out string
	pages                           int
}

func (a *Program) reportCommand() *cobra.Command {
	var q asking
	cmd := &cobra.Command{
		Use:   "report",
		Short: "write one HTML file that shows readers, pages and agent jobs",
		Long: `report writes one HTML file with interactive charts: how many readers, how many of
them AI, which pages rise and fall, how complete the data is, and what the agent
did. It opens from anywhere, asks for nothing from the network, and can be mailed.

It is made from the Parquet archive, DOCGAUGE_PARQUET_URL or --archive, and, where
there is one, from the state directory: no request is sent to the service, nothing
is changed, and it can run while an export does.

--from and --to keep the windows that lie wholly inside [from,to). What is newest,
rises and falls is then so as of --to.

` + exitCodes,
		Example: `  docgauge report
  docgauge report --project prj_a --from 2026-10-01 --to 2026-11-01 -o october.html
  docgauge report -o - | ssh web 'cat >/srv/www/docs-readers.html'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.report(cmd.Context(), q) },
	}
	f := cmd.Flags()
	f.StringVarP(&q.out, "output", "o", "report.html", "file to write; - is standard output")
	f.StringVar(&q.from, "from", "", "only windows that begin on or after this day, YYYY-MM-DD")
	f.StringVar(&q.to, "to", "", "only windows that end on or before this day (exclusive end, YYYY-MM-DD)")
	f.StringVar(&q.project, "project", "", "comma-separated projects (default: all that the archive has)")
	f.IntVar(&q.pages, "pages", 50, "pages shown of the newest window of each granularity")
	f.StringVar(&q.archive, "archive", "", "directory or s3://bucket/prefix to read (default DOCGAUGE_PARQUET_URL)")
	return cmd
}

func (a *Program) report(ctx context.Context, q asking) (err error) {
	c, err := a.config(config.NeedNothing)
	if err != nil {
		return err
	}
	from, err := app.OpenArchive(cmp.Or(q.archive, c.ParquetURL))
	if err != nil {
		return usageError{fmt.Errorf("--archive: %w", err)}
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	r, err := a.readReport(ctx, c, from, q)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := report.Write(&page, r); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if q.out == "-" {
		_, err = io.Copy(a.Out, &page)
		return err
	}
	if err := replaceFile(q.out, page.Bytes()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = fmt.Fprintf(a.Err, "docgauge: wrote %s, from %s\n", q.out, from.Location())
	return err
}

func (a *Program) readReport(ctx context.Context, c config.Config, from sinks.Sink, q asking) (r report.Report, err error) {
	r = report.Report{Made: a.now().UTC(), Version: a.Version, Archive: from.Location()}
	if r.From, r.To, err = q.dates(); err != nil {
		return r, err
	}
	if q.pages < 0 {
		return r, usageError{fmt.Errorf("--pages %d: want 0 or more", q.pages)}
	}
	s := shelf{Sink: from, now: r.Made, from: r.From, to: r.To, pages: q.pages}
	if err := s.read(ctx); err != nil {
		return r, err
	}
	names, err := s.choose(q.project, c.Projects)
	if err != nil {
		return r, err
	}
	for _, name := range names {
		p, err := s.project(ctx, name)
		if err != nil {
			return r, err
		}
		r.Projects = append(r.Projects, p)
	}
	r.State, err = a.reportState(ctx, c, r, names)
	return r, err
}

// dates reads the flags; nil is no limit.
func (q asking) dates() (from, to *analytics.Date, err error) {
	read := func(name, text string) (*analytics.Date, error) {
		if text == "" {
			return nil, nil
		}
		d, err := analytics.ParseDate(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--%s: %w", name, err)}
		}
		return &d, nil
	}
	if from, err = read("from", q.from); err != nil {
		return nil, nil, err
	}
	if to, err = read("to", q.to); err != nil {
		return nil, nil, err
	}
	if from != nil && to != nil && *from >= *to {
		return nil, nil, usageError{fmt.Errorf("--from %s, --to %s: nothing lies between; --to is the first day after the windows", from, to)}
	}
	return from, to, nil
}

// replaceFile writes a file beside path and renames it, so that readers see the
// former one or the new one, whole. A link stays a link, and what is no file, such
// as a pipe or /dev/stdout, is written to as it is.
func replaceFile(path string, data []byte) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory: name a file in it", path)
	}
	if err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, data, 0)
	}
	if err == nil {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	return durable.WriteFile(path, data, 0o644)
}

// reportState reads what the state directory knows, if there is one.
func (a *Program) reportState(ctx context.Context, c config.Config, r report.Report, projects []string) (_ *report.State, err error) {
	if _, err := os.Stat(filepath.Join(c.StateDir, state.FileName)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	db, err := state.OpenExisting(c.StateDir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s := &report.State{}
	runs, err := db.LastRuns(ctx, 1)
	if err != nil {
		return nil, err
	}
	if len(runs) > 0 {
		s.LastRun = &report.Run{Started: runs[0].Started, Outcome: runs[0].Outcome, Message: runs[0].Message}
	}
	if s.LastSuccess, err = db.LastSuccess(ctx); err != nil {
		return nil, err
	}
	all, err := db.Jobs(ctx)
	if err != nil || len(all) == 0 && c.PromptsDir == "" {
		return s, err
	}
	q, err := db.Queue(ctx)
	s.Queue = &report.Queue{}
	if q.Paused != "" {
		s.Queue.Paused = strings.TrimRight("The queue is paused since "+clock(q.Since)+": "+q.Detail, ": ")
	}
	for _, j := range slices.Backward(all) {
		if !slices.Contains(projects, j.Project) || !concerns(r, j) {
			continue
		}
		s.Queue.Jobs = append(s.Queue.Jobs, report.Job{
			Project: j.Project, Prompt: j.Prompt, Title: j.Title, State: string(j.State), Result: j.Result(), Reason: j.Reason,
			PRLink: j.PRLink, Begun: j.Begun, Created: j.Created, Ended: j.Ended, Stalled: j.Stalled(r.Made),
		})
	}
	return s, err
}
