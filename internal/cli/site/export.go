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

type exportOptions struct{ day, from, to, epoch, project, output string }

func (a commands) exportCommand() *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export --day DAY | --from DAY --to DAY DIR|URL",
		Short: "write facts as Parquet, for questions of your own",
		Long: `export writes what site serve keeps of days as Parquet, to check a number or to
query it with ClickHouse, Spark or DuckDB: a row for each page that a reader
got, by audience, source, and as Markdown or not.

  project, day    as in the API
  path            the page
  agent, class    of the table of agents; empty for a browser
  audience        human, ai, or empty: counts nowhere
  source          where a person came from, as report sources names it
  shown           --day: first day of two months with evidence that a person's
                  reader is a browser, as far as the logs are read; empty: none
  reader          a number, no address: the same for all days of a month; it is
                  another one in other months and projects, and once the key of
                  the month is destroyed
  requests        views of this page by this reader
  markdown        views among them that were answered as Markdown
  bytes           bytes that were sent; -1 if the log does not say

--from and --to write a tree below a directory or a prefix of a bucket, with a
file for each day, of which later runs write only what changed. --epoch previous
writes the numbers that readers have for windows that begin in the month before:
with both, count(distinct reader) of a week or of 28 days is the API's number.
What counts in the tree is what manifest.jsonl names; docs/dev/large-sites.md
has the SQL. Epochs of the tree that were closed are written again. A site has
one export at a time.

` + console.ReadingExitCodes,
		Example: `  docgauge site export --day 2026-10-01 -o facts.parquet
  duckdb -c "FROM 'facts.parquet' LIMIT 9"
  docgauge site export --from 2026-10-01 --to 2026-11-01 s3://lake/site`,
		Args: input.OptionalArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.from == "" && o.to == "" {
				if o.epoch != "" || len(args) > 0 {
					return input.Usage(errors.New("a tree and --epoch want --from and --to"))
				}
				return a.export(cmd.Context(), o)
			}
			if o.day != "" || o.output != "" || len(args) != 1 || o.from == "" || o.to == "" {
				return input.Usage(errors.New("want --day, or --from, --to, and the directory or bucket of a tree"))
			}
			return a.exportTree(cmd.Context(), o, args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.day, "day", "", "`day`, YYYY-MM-DD, UTC")
	f.StringVar(&o.from, "from", "", "first `day` of a tree")
	f.StringVar(&o.to, "to", "", "first `day` after the last one of a tree")
	f.StringVar(&o.epoch, "epoch", "", "numbering of a tree: `current` (default), or previous")
	f.StringVar(&o.project, "project", "", "`project` (default: the only one)")
	f.StringVarP(&o.output, "output", "o", "", "new `file` of --day (default standard output)")
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
	n, err := store.Numbering(ctx, project, facts.EpochOf(day))
	if err != nil {
		return err
	}
	return writeFactsOf(ctx, store, n, project, day, true, to)
}

// writeFactsOf writes the facts of a day, with or without the column shown.
func writeFactsOf(ctx context.Context, store *facts.Store, n facts.Numbering, project string, day analytics.Date,
	withShown bool, to io.Writer,
) error {
	out := bufio.NewWriter(to)
	texts := []string{"project", "day", "path", "agent", "class", "audience", "source"}
	if withShown {
		texts = append(texts, "shown")
	}
	numbers := []string{"reader", "requests", "markdown", "bytes"}
	err := archive.WriteTable(out, texts, numbers, func(add func([]string, []int64) error) error {
		return store.Facts(ctx, n, day, withShown, func(f facts.Fact) error {
			markdown := int64(0)
			if f.Markdown {
				markdown = int64(f.Requests)
			}
			audience := map[uint8]string{facts.Human: "human", facts.AI: "ai"}[f.Kind]
			values := []string{project, day.String(), f.Path, f.Agent, f.Class, audience, f.Source}
			if withShown {
				shown := ""
				if f.Shown != nil && f.Kind == facts.Human {
					shown = f.Shown.String()
				}
				values = append(values, shown)
			}
			return add(values, []int64{int64(f.Reader), int64(f.Requests), markdown, f.Bytes})
		})
	})
	return errors.Join(err, out.Flush())
}
