package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/sinks"
)

type archiveOptions struct {
	window, project, archive string
	print                    input.Formats
}

func (o *archiveOptions) flags(cmd *cobra.Command, window string) {
	f := cmd.Flags()
	f.StringVar(&o.window, "window", window, "`kind` of window: day, week, month or Nd")
	f.StringVar(&o.project, "project", "", "comma-separated `ids` (default: all in the archive)")
	input.ArchiveFlag(f, &o.archive, "directory or s3://… (default DOCGAUGE_PARQUET_URL)")
	o.print.Flags(f, "print JSON", input.PlainCSV)
}

// openedArchive is an archive and a selection from it.
type openedArchive struct {
	sinks.Sink
	config    config.Config
	selection query.Selection
}

// openArchive checks the flags and opens the archive, for visitors and the reports that are named; the caller
// closes it.
func (a *Program) openArchive(o archiveOptions, reports ...analytics.Report) (out openedArchive, err error) {
	if err := o.print.Check(); err != nil {
		return out, err
	}
	if out.config, err = a.Config(config.NeedNothing); err != nil {
		return out, err
	}
	if out.selection.Granularity, err = analytics.ParseGranularity(o.window); err != nil {
		return out, input.Usagef("--window: %w", err)
	}
	out.selection.Projects, out.selection.Order = format.List(o.project), out.config.Projects
	out.selection.Names = out.config.ProjectNames
	out.Sink, err = archiveAt(o.archive, out.config, reports...)
	return out, err
}

// archiveAt opens the archive that --archive names, or the configured one, for visitors and the reports
// that are named; the caller closes it.
func archiveAt(flag string, c config.Config, reports ...analytics.Report) (sinks.Sink, error) {
	archive, err := app.OpenArchive(cmp.Or(flag, c.ParquetURL), reports...)
	if err != nil {
		return nil, input.Usagef("--archive: %w", err)
	}
	return archive, nil
}

// neededArchive is an archive without the unreadable windows of projects that are neither
// selected nor configured: no export repairs them. Each causes a warning.
type neededArchive struct {
	sinks.Sink
	needed []string
	warn   func(format string, args ...any)
}

// withoutOthers returns from as [neededArchive], if projects are selected or configured.
func (a *Program) withoutOthers(from sinks.Sink, c config.Config, project string) sinks.Sink {
	needed := format.List(project)
	if len(needed) == 0 {
		needed = c.Projects
	}
	if len(needed) == 0 {
		return from
	}
	return neededArchive{from, needed, a.Note}
}

func (o neededArchive) Inspect(ctx context.Context, scope sinks.Scope) iter.Seq2[sinks.Shown, error] {
	return func(yield func(sinks.Shown, error) bool) {
		for shown, err := range o.Sink.Inspect(ctx, scope) {
			fault, ok := errors.AsType[sinks.Fault](err)
			if ok && fault.Kind == sinks.Unreadable && fault.Key.Project != "" &&
				!slices.Contains(o.needed, fault.Key.Project) {
				o.warn("left out: %v (`docgauge verify` says how to mend it)", err)
				continue
			}
			if !yield(shown, err) {
				return
			}
		}
	}
}

// show prints reports as one table after the other, or as JSON or CSV. err is the error of the
// reports that failed; it comes last.
func show[Report any](w io.Writer, o input.Formats, reports []Report, err error,
	csv func(io.Writer, []Report) error, table func(Report) error,
) error {
	if len(reports) == 0 {
		return err
	}
	return errors.Join(o.Write(w, reports, func() error { return csv(w, reports) }, func() error {
		for i, report := range reports {
			if i > 0 {
				fmt.Fprintln(w)
			}
			if err := table(report); err != nil {
				return err
			}
		}
		return nil
	}), err)
}

// csvOf writes the rows of reports; empty is a row without values.
func csvOf[Report any](empty any, rows func(Report) []any) func(io.Writer, []Report) error {
	return func(w io.Writer, all []Report) error {
		var out []any
		for _, r := range all {
			out = append(out, rows(r)...)
		}
		return query.WriteCSV(w, empty, out)
	}
}

func archiveProjects(ctx context.Context, flag string, from sinks.Sink) ([]string, error) {
	ids := format.List(flag)
	return ids, asUsageError(query.CheckProjects(ctx, from, ids))
}

// noWindows is the error that an archive is empty, or has no window inside dates.
func noWindows(from sinks.Sink, within analytics.Window) error {
	if within == (analytics.Window{}) {
		return query.NoWindows(from)
	}
	return input.Usagef("--from, --to: the archive %s has no window inside %s", from.Location(), within)
}

// asUsageError makes an unknown project a usage error.
func asUsageError(err error) error {
	if unknown, is := errors.AsType[query.UnknownProjectError](err); is {
		return input.Usagef("--%w", unknown)
	}
	return err
}
