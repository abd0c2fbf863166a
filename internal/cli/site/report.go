package site

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
	"github.com/docgauge/docgauge/internal/web/server"
	"github.com/docgauge/docgauge/sinks"
)

type reportOptions struct {
	out, title  string
	open, serve bool
}

func (a commands) reportCommand() *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report FILE…",
		Short: "make a page of access logs: people, assistants, pages, sources",
		Long: `report reads access logs and writes one HTML file: how many people and AI agents
read the site, on each day, in each week and month of the log; which assistants,
what they read, whom they sent, and what they looked for and did not find; which
pages rise and fall; and where people came from. It makes no network requests,
so it can be mailed and opened anywhere.

It needs no settings, keeps nothing, and sends nothing. Its numbers are as in
docgauge site count with --from and --to of each window. Weeks and months that
the logs have only in part are left out, as is a last day that was cut. Names of
files, formats, directories and - are as in docgauge site count; a file that is
no access log is named and left out, and what makes the numbers doubtful stands
at the top of the page.

Facts are in a temporary directory (TMPDIR) while the command runs: about 30
bytes a view, without addresses.

--serve shows the pages of docgauge serve, with each page's and each agent's
history, on a free port of this machine until Ctrl-C.

To keep counting, docgauge init makes a site of the same logs.

` + console.ReadingExitCodes,
		Example: `  docgauge site report /var/log/nginx/access.log*
  docgauge site report --open access.log
  ssh web 'zcat -f /var/log/nginx/access.log*' | docgauge site report -
  docgauge site report --serve /var/log/caddy`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return input.Usage(errors.New("name the logs: docgauge site report FILE…, or - for standard input"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.serve && (cmd.Flags().Changed("output") || cmd.Flags().Changed("title")) {
				return input.Usagef("--output, --title: not with --serve, which writes no file")
			}
			return a.report(cmd.Context(), o, args, cmd.InOrStdin())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.out, "output", "o", "report.html", "`file`, or - for stdout")
	f.StringVar(&o.title, "title", "", "heading (default: the name of the log)")
	f.BoolVar(&o.open, "open", false, "open the page in the browser")
	f.BoolVar(&o.serve, "serve", false, "show the pages of a server, write no file")
	return cmd
}

func (a commands) report(ctx context.Context, o reportOptions, paths []string, stdin io.Reader) (err error) {
	if o.open && o.out == "-" {
		return input.Usage(errors.New("--open: needs a file, and -o - writes none"))
	}
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	rules, err := count.ParseRules(ruleSettings(c), a.Now)
	if err != nil {
		return input.Usage(err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(2 * gcPercent)) // facts are not in memory: see count
	dir, err := os.MkdirTemp("", "docgauge-report-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := facts.OpenTemporary(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	now := a.Now().UTC()
	kept, err := rules.Keep(ctx, paths, count.Options{Now: analytics.DateOf(now), Stdin: stdin}, store)
	if err != nil {
		return err
	}
	for _, warning := range kept.Warnings {
		a.Note("%s", warning)
	}
	shown, err := countWindows(ctx, kept, store, cmp.Or(c.SiteHumans, analytics.Claimed), now)
	if err != nil {
		return err
	}
	name, names := nameOf(kept), maps.Clone(c.ProjectNames)
	if len(kept.Projects) == 1 && names[kept.Projects[0]] == "" {
		names = map[string]string{kept.Projects[0]: name}
	}
	r := web.Report{}
	if o.serve && len(shown.all) == 0 {
		return fmt.Errorf("%s: there is nothing to show; `docgauge site count` says what the lines are", originOf(kept))
	}
	if len(shown.all) > 0 {
		// As of the end of the logs: no later window is missing.
		r, err = web.ReadReport(ctx, shown, web.ReportOptions{Now: shown.end.Time(), Names: names,
			Pages: reportPages, Reads: true})
		if err != nil {
			return err
		}
	}
	r.Made, r.Version, r.Title = now, a.Build.Version, cmp.Or(o.title, "Readers in "+name)
	r.Findings, r.Origin = kept.Warnings, originOf(kept)
	if o.serve {
		return a.serveReport(ctx, r, shown, o.open)
	}
	return a.writeReport(ctx, r, o)
}

// reportPages is the length of each list of pages.
const reportPages = 50

// nameOf names the logs.
func nameOf(k count.Kept) string {
	switch {
	case len(k.Files) != 1:
		return format.Plural(len(k.Files), "log")
	case k.Files[0] == "-":
		return "a log"
	}
	return filepath.Base(k.Files[0])
}

// originOf says what was read.
func originOf(k count.Kept) string {
	text := fmt.Sprintf("%s of %s", format.Plural(k.Lines, "line"), format.Plural(len(k.Files), "log"))
	if k.Views > 0 {
		text += fmt.Sprintf(", from %s to %s UTC: %s", k.From, k.Newest.Format("2006-01-02 15:04"),
			format.Plural(k.Views, "view"))
	} else {
		text += ", without a view"
	}
	return text
}

func (a commands) writeReport(ctx context.Context, r web.Report, o reportOptions) error {
	var page bytes.Buffer
	if err := r.Write(&page); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if o.out == "-" {
		_, err := io.Copy(a.Out, &page)
		return err
	}
	size := page.Len()
	if err := render.WriteFile(o.out, page.Bytes()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	a.Note("%s; nothing is kept", r.Origin)
	a.Note("wrote %s (%s)", o.out, format.Size(int64(size)))
	if !o.open {
		return nil
	}
	path, err := filepath.Abs(o.out)
	if err != nil {
		return err
	}
	a.openPage(ctx, path)
	return nil
}

// serveReport shows the windows as the pages of docgauge serve, until ctx ends.
func (a commands) serveReport(ctx context.Context, r web.Report, shown *windows, open bool) error {
	console.SurviveClosedPipes()
	values := &view.Snapshot{At: r.Made, Version: r.Version, Projects: r.Projects, LastSuccess: r.Made,
		Runs: []analytics.Run{{Started: r.Made, Finished: r.Made, Outcome: "success", Windows: len(shown.all)}}}
	for _, p := range r.Projects {
		for _, g := range p.Grids {
			values.Windows = append(values.Windows, g.NewestWindow())
		}
		for _, g := range p.Others {
			w, err := shown.top(ctx, *g.Newest, view.MaxRows)
			if err != nil {
				return err
			}
			values.Others = append(values.Others, w)
		}
	}
	pages := &web.Site{Current: func() *view.Snapshot { return values }, Version: r.Version,
		Archive: func(ask func(sinks.Sink) error) error { return ask(shown) }}
	if err := pages.Refresh(ctx, values, []sinks.Sink{shown}); err != nil {
		return err
	}
	listener, err := server.Listen(server.Options{Addresses: []string{"127.0.0.1:0"}, Handlers: pages.Handlers()})
	if err != nil {
		return err
	}
	a.Note("%s; nothing is kept", r.Origin)
	a.Note("%s/ shows them until Ctrl-C", listener.URL())
	if open {
		a.openPage(ctx, listener.URL()+"/")
	}
	return listener.Serve(ctx)
}

// openers are the programs that open a file or URL as its user does.
var openers = map[string][]string{
	"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"},
}

// openerPatience is the time within which an opener says that it cannot. Some run as long as what they open.
const openerPatience = 2 * time.Second

// openPage opens a file or URL, or says that its user must.
func (a commands) openPage(ctx context.Context, target string) {
	opener, known := openers[runtime.GOOS]
	if !known {
		opener = []string{"xdg-open"}
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), opener[0], append(slices.Clone(opener[1:]), target)...)
	err := cmd.Start()
	if err == nil {
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err = <-ended:
		case <-time.After(openerPatience):
		case <-ctx.Done():
		}
	}
	if err != nil {
		a.Note("no browser opened (%s: %v): open %s", opener[0], err, target)
	}
}
