package site

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/site/facts"
)

type exportOptions struct{ day, project, output string }

func (a commands) exportCommand() *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export --day DAY",
		Short: "write a day's facts as Parquet, for questions of your own",
		Long: `export writes what site serve keeps of a day as a Parquet file, to check a
number or to query it with ClickHouse, Spark or DuckDB: a row for each page that
a reader got, by audience, source, and as Markdown or not.

  project, day    as in the API
  path            the page
  agent, class    of the table of agents; empty for a browser
  audience        human, ai, or empty: counts nowhere
  source          where a person came from, as report sources names it
  shown           first day of two months with evidence that a person's reader
                  is a browser, as far as the logs are read; empty: none
  reader          a number, no address: the same for all days of a month; it is
                  another one in other months and projects, and once the key of
                  the month is destroyed
  requests        views of this page by this reader
  markdown        those of them that were answered as Markdown
  bytes           bytes that were sent; -1 if the log does not say

` + console.ReadingExitCodes,
		Example: `  docgauge site export --day 2026-10-01 -o facts.parquet
  duckdb -c "FROM 'facts.parquet' LIMIT 9"`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.export(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.day, "day", "", "`day`, YYYY-MM-DD, UTC")
	f.StringVar(&o.project, "project", "", "`project` (default: the only one)")
	f.StringVarP(&o.output, "output", "o", "", "new `file` (default standard output)")
	return cmd
}

func (a commands) export(ctx context.Context, o exportOptions) error {
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	day, err := analytics.ParseDate(o.day)
	if err != nil {
		return input.Usagef("--day: %w", err)
	}
	if o.output == "" && render.IsTerminal(a.Out) {
		return input.Usage(errors.New("a Parquet file is not for a terminal: name a file with -o"))
	}
	if o.project, err = a.project(c, o.project); err != nil {
		return err
	}
	return a.withStore(func(store *facts.Store) (err error) {
		if o.output == "" {
			return writeFacts(ctx, store, o.project, day, a.Out)
		}
		file, err := os.OpenFile(o.output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		if err = errors.Join(writeFacts(ctx, store, o.project, day, file), file.Close()); err != nil {
			err = errors.Join(err, os.Remove(o.output))
		}
		return err
	})
}

func writeFacts(ctx context.Context, store *facts.Store, project string, day analytics.Date, to io.Writer) error {
	out := bufio.NewWriter(to)
	texts := []string{"project", "day", "path", "agent", "class", "audience", "source", "shown"}
	numbers := []string{"reader", "requests", "markdown", "bytes"}
	err := archive.WriteTable(out, texts, numbers, func(add func([]string, []int64) error) error {
		return store.Facts(ctx, project, day, func(f facts.Fact) error {
			audience := map[uint8]string{facts.Human: "human", facts.AI: "ai"}[f.Kind]
			shown, markdown := "", int64(0)
			if f.Shown != nil && f.Kind == facts.Human {
				shown = f.Shown.String()
			}
			if f.Markdown {
				markdown = int64(f.Requests)
			}
			return add([]string{project, day.String(), f.Path, f.Agent, f.Class, audience, f.Source, shown},
				[]int64{int64(f.Reader), int64(f.Requests), markdown, f.Bytes})
		})
	})
	return errors.Join(err, out.Flush())
}
