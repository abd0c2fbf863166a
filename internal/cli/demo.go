package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/jobs"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/daemon"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

func (a *Program) demoCommand() *cobra.Command {
	var dir string
	var stay bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "run a job and an export on a sandbox, and show the result",
		Long: `demo starts the sandbox on a free port of this machine and runs a prompt as an
agent job on it. The sandbox merges the pull request at once, dates it back 32
days, and gives the changed page more readers from then on. Then demo exports
the last 90 days over HTTP into Parquet files, and prints a summary that ends
with the outcome of the merge. Nothing else is needed.

Without --dir the files are written to a new temporary directory; the last line
says how to delete it. DOCGAUGE_SINKS chooses the sinks, such as parquet,delta:
files are written there too, rows to the server of the sink's DSN, as project
prj_sandbox. Except for these, the address of --serve and the log, settings have
no effect.

With --serve it keeps running: pages and metrics on
DOCGAUGE_LISTEN_ADDRESS, or on a free port if that is taken, and an export every
minute.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), dir, stay) },
	}
	cmd.Flags().BoolVar(&stay, "serve", false, "keep running, with pages and metrics")
	cmd.Flags().StringVar(&dir, "dir", "", "directory for data and state (default: a new temporary one)")
	return cmd
}

// demoSettings returns the variables that the demo takes from its user. No key, token, address or
// folder of a real setup may meet the sandbox, and no made-up number may leave for one.
func demoSettings() []string {
	names := []string{"DOCGAUGE_SINKS", "DOCGAUGE_LISTEN_ADDRESS", "DOCGAUGE_ALLOWED_HOSTS", "DOCGAUGE_WEB_CONFIG_FILE",
		"DOCGAUGE_LOG_LEVEL", "DOCGAUGE_LOG_FORMAT"}
	for _, k := range config.SinkKinds {
		if k.Place == config.Server {
			names = append(names, k.Settings...)
		}
	}
	return names
}

// demoPulls has the sandbox merge the pull request at once, dated back so far that the 28 days after
// it have settled, and that the 28 days before it are exported. The effect is large because the pages
// of a growing site rise and fall by themselves: the verdict must be clear on every date.
var demoPulls = sandbox.Pulls{
	MergeShare: 1, DaysAgo: 32,
	Effect: sandbox.Effect{Human: 0.8, AI: 1},
}

func (a *Program) demo(ctx context.Context, dir string, stay bool) (err error) {
	temporary := dir == ""
	if temporary {
		if dir, err = os.MkdirTemp("", "docgauge-demo-"); err != nil {
			return err
		}
	}
	// The sandbox keeps its pull request: the page has its readers when the demo runs there again.
	ofSandbox := filepath.Join(dir, "sandbox")
	if err := os.MkdirAll(ofSandbox, 0o700); err != nil {
		return err
	}
	s, err := sandbox.New(sandbox.Config{Seed: 1, Scenario: sandbox.Growth, Forged: 0.02, Now: a.Now, DataDir: ofSandbox,
		Agent: sandbox.Agent{Pulls: demoPulls}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ln, err := sandbox.Listen("127.0.0.1:0", false)
	if err != nil {
		return err
	}
	serveCtx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- s.Serve(serveCtx, ln) }()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	ours := *a
	ours.Source = a.Source.Only(demoSettings()...)
	a = &ours
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	c.BaseURL, c.APIKey = "http://"+ln.Addr().String(), sandbox.DefaultAPIKey
	c.GitHubURL, c.GitHubToken = c.BaseURL+sandbox.GitHubPath, sandbox.AnyToken
	c.Projects, c.Budget = config.Projects{sandbox.DefaultProject}, 0
	c.StateDir, c.PromptsDir = filepath.Join(dir, "state"), filepath.Join(dir, "prompts")
	c.MoveFiles(dir)
	if _, set := a.Source.Lookup("DOCGAUGE_LOG_LEVEL"); !set {
		c.LogLevel = slog.LevelWarn
	}
	fmt.Fprintf(a.Out, "sandbox  %s  (120 days of synthetic traffic, 640 pages)\n\n", c.BaseURL)
	if err := a.demoJob(ctx, c); err != nil {
		return err
	}
	before := len(s.Requests())
	labelled := *a
	labelled.Out = &label{a.Out, "export   "}
	if err := labelled.export(ctx, c, export.Options{KeepEmpty: true}, false); err != nil {
		return err
	}
	if err := a.demoSummary(ctx, c, len(s.Requests())-before); err != nil {
		return err
	}
	if temporary {
		fmt.Fprintf(a.Out, "\nThe files of this demo stay where they are. To delete them:\n\n  rm -r %s\n", render.ShellWord(dir))
	}
	if !stay {
		return nil
	}
	if c.Schedule, err = schedule.ParseCron("* * * * *"); err != nil {
		return err
	}
	for i, address := range c.ListenAddress {
		if ln, err := net.Listen("tcp", address); err != nil {
			c.ListenAddress[i] = "127.0.0.1:0"
		} else if err := ln.Close(); err != nil {
			return err
		}
	}
	return a.serve(ctx, c, daemon.Options{Listening: func(url string) {
		fmt.Fprintf(a.Out, `
Readers      %[1]s/
Status       %[1]s/status
Metrics      %[1]s/metrics
JSON, CSV    %[1]s/api/v1/pages
Exports every minute; Ctrl-C ends it.
`, url)
	}})
}

// The example prompt. The word in brackets tells the sandbox which page to change.
const (
	demoPrompt = "improve-the-introduction.md"
	demoTitle  = "Improve the introduction"
	demoText   = `Rewrite the first paragraph of the introduction: say what the product does, for
whom, and what to read next. [sandbox:page=/introduction]`
)

// demoJob writes the example prompt, and runs the queue until its job has ended and its pull request
// was read.
func (a *Program) demoJob(ctx context.Context, c config.Config) error {
	if err := os.MkdirAll(c.PromptsDir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(c.PromptsDir, demoPrompt)
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		folder, err := jobs.OpenPrompts(c)
		if err == nil {
			_, err = folder.Write(demoPrompt, prompts.Prompt{Title: demoTitle, Body: demoText})
		}
		if err == nil { // dated back: the queue waits while a file is new, which may be incomplete
			hourAgo := time.Now().Add(-time.Hour)
			err = os.Chtimes(file, hourAgo, hourAgo)
		}
		if err != nil {
			return err
		}
	}
	c.PollInterval = config.Duration(demoPoll)
	result, err := jobs.RunAll(ctx, &a.Console, c)
	if err != nil {
		return err
	}
	for _, p := range result.Planned {
		fmt.Fprintf(a.Out, "job      %s: %s\n", p.ID, p.State)
	}
	return nil
}

// demoPoll is the time between two polls of the job, which the sandbox completes at once.
const demoPoll = 10 * time.Millisecond

func (a *Program) demoOutcome(ctx context.Context, c config.Config) error {
	all, err := a.readOutcomes(ctx, c, "")
	if err != nil {
		return err
	}
	for _, o := range all.Merges {
		fmt.Fprintf(a.Out, "\noutcome  %s\n", outcomeTitle(o, false, a.Wording(c), a.Now()))
		if o.Problem != "" {
			fmt.Fprintf(a.Out, "         %s\n", o.Problem)
			continue
		}
		fmt.Fprintln(a.Out)
		if err := outcomeTable(o.Effects).Print(a.Out); err != nil {
			return err
		}
		fmt.Fprintf(a.Out, `
Here the truth is known: the sandbox gave %s %.0f%% more human and
%.0f%% more AI readers from the merge on. For merges of your own:

  %s outcomes
`, strings.Join(o.Pages, ", "), 100*demoPulls.Effect.Human, 100*demoPulls.Effect.AI, render.CommandName())
	}
	return nil
}

// label writes a text before the first output, which follows a progress bar on the line.
type label struct {
	to   io.Writer
	text string
}

func (l *label) Write(p []byte) (int, error) {
	if _, err := io.WriteString(l.to, l.text); err != nil {
		return 0, err
	}
	l.text = ""
	return l.to.Write(p)
}

func (a *Program) demoSummary(ctx context.Context, c config.Config, served int) error {
	fmt.Fprintln(a.Out)
	if err := a.status(ctx, c, coverage.Selection{}, false); err != nil {
		return err
	}
	fmt.Fprintln(a.Out)
	if err := a.demoSinks(ctx, c); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "\nservice  %s answered\n", format.Plural(served, "request"))
	if slices.Contains(c.Sinks, config.SinkParquet) {
		if err := a.demoFiles(ctx, c); err != nil {
			return err
		}
	}
	for _, k := range config.SinkKinds {
		if !c.Sinks.Has(k) {
			continue
		}
		where, reader := "", k.Title
		if k.Place == config.Files {
			var err error
			if where, err = filepath.Abs(k.Where(c)); err != nil {
				return err
			}
			reader += ", read by DuckDB"
		}
		fmt.Fprintf(a.Out, "\nThe newest week in %s:\n\n%s", reader,
			newestWeek(k.Table(where, "visitors"), k.Table(where, "totals")))
	}
	if err := a.demoOutcome(ctx, c); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "\nFor numbers of your own, which asks for URL, key and projects:\n\n  %s init\n", render.CommandName())
	return nil
}

// demoPages is the number of pages that the demo shows.
const demoPages = 10

func (a *Program) demoFiles(ctx context.Context, c config.Config) (err error) {
	root, err := filepath.Abs(c.ParquetURL)
	if err != nil {
		return err
	}
	files, size, err := measure(root)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "files    %s, %s:\n         visitors/v1/p=…/g=…/ym=…/<from>_<to>.parquet, totals/v1/… alike\n\n",
		format.Plural(files, "Parquet file"), humanize.IBytes(uint64(size)))
	archive, err := app.OpenArchive(root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	q := query.Choice{Selection: query.Selection{Granularity: analytics.Week}}
	top, err := query.Top(ctx, archive, q, query.Ranking{By: analytics.Everyone, N: demoPages})
	for _, p := range top {
		if err := printPages(a.Out, p, a.Wording(c)); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.Out, "\nAll of it, and the site day by day:\n\n  %[1]s top --archive %[2]s\n  %[1]s history "+
		"--archive %[2]s\n", render.CommandName(), render.ShellWord(root))
	return err
}

// newestWeek is a query for the most read pages of the newest week: of one window, as
// the tables have them all.
func newestWeek(visitors, totals string) string {
	const week = "project = '" + sandbox.DefaultProject + "' AND granularity = 'week'"
	return fmt.Sprintf(`  SELECT path, human, ai, total
  FROM %s
  WHERE %s AND window_start =
    (SELECT max(window_start)
     FROM %s
     WHERE %s)
  ORDER BY total DESC, path LIMIT %d;
`, visitors, week, totals, week, demoPages)
}

func (a *Program) demoSinks(ctx context.Context, c config.Config) (err error) {
	stores, err := app.NewSinks(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, app.CloseSinks(stores)) }()
	table := render.NewTable(render.Column{Name: "sink"}, render.Number("windows"), render.Number("rows"),
		render.Column{Name: "where", Below: true})
	for _, s := range stores {
		var windows, rows int64
		for shown, err := range s.Inspect(ctx, sinks.Scope{Projects: c.Projects, Rows: true}) {
			if err != nil {
				return err
			}
			windows++
			rows += shown.Sum.Rows
		}
		table.Add(s.Name(), format.Commas(windows), format.Commas(rows), s.Location())
	}
	return table.Print(a.Out)
}

func measure(root string) (files int, size int64, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".parquet") {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		files++
		size += info.Size()
		return nil
	})
	return files, size, err
}
