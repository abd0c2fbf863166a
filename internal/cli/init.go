package cli

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/cli/setup"
	"github.com/docgauge/docgauge/internal/cli/site"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/state"
)

func (a *Program) initCommand() *cobra.Command {
	var o setup.Options
	cmd := &cobra.Command{
		Use:   "init",
		Short: "write a file of settings: asks for URL, key and projects",
		Long: `init writes the file of settings that --env-file names (default docgauge.env in
this directory) with mode 0600, and never over a file that exists. It replaces
the unchanged template of a package, though, and keeps its owner and mode; the
key must then be in a file that --api-key-file names, and --dir is the service's
own: /var/lib/docgauge for docgauge.env, /var/lib/docgauge-NAME for NAME.env.

It asks for settings without a flag: the base URL, the admin key (which is not
shown), the projects, and their names for people. If standard input is not a
terminal, the flags are needed, but for the names.

Each project is then tried with one request, which counts against the quota. On
a terminal, init asks again for what failed. Until all is well nothing is
written, and a state that has other projects only is refused. At the end init
prints the lines for cron and systemd that use the file, and the extent of the
first export; on a terminal, or with --export, it reads the first numbers.

Your own site has no platform, but access logs. With --site-logs, or the answer
"site" to the question for the base URL, init reads the beginning and the end of
the logs, says which format they have, and writes two files: for docgauge
site serve, and for the export with a key that it makes. The export begins
with the first day of the logs, and has all reports. init asks for the hosts of
the site, if the log has several, or proposes one that its links show, for the
directory of the facts, for how people are counted, and for a name. With
--no-check it reads the logs, but writes the files whatever is in them.
Variables DOCGAUGE_SITE_… of the environment are written too.`,
		Example: `  docgauge init
  docgauge init --base-url https://api.example.com --projects prj_a,prj_b \
    --api-key-file /etc/docgauge/key --env-file /etc/docgauge/docgauge.env
  docgauge init --site-logs '/var/log/nginx/access.log*'`,
		// The file that --env-file names is written here, not read.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := input.CheckFlags(cmd.Flags()); err != nil {
				return err
			}
			flag := cmd.Flags().Lookup("env-file")
			for _, path := range []string{"docgauge.env", os.Getenv("DOCGAUGE_ENV_FILE"), flag.Value.String()} {
				if path != "" {
					o.Path = path
				}
			}
			return os.Unsetenv("DOCGAUGE_ENV_FILE")
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.init(cmd.Context(), o, cmd.InOrStdin()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.BaseURL, "base-url", "", "base URL of the service, like https://api.example.com")
	f.StringVar(&o.Projects, "projects", "", "comma-separated project ids")
	f.StringVar(&o.Names, "project-names", "", "comma-separated `names` for people, like prj_a=Product docs")
	f.StringVar(&o.KeyFile, "api-key-file", "", "file that holds the admin key; the settings name it")
	f.BoolVar(&o.KeyOnStdin, "api-key-stdin", false, "read the admin key from standard input")
	f.StringVar(&o.Dir, "dir", "", "directory for state and data (default: this directory)")
	f.BoolVar(&o.NoCheck, "no-check", false, "send nothing: write the file without trying the projects")
	f.StringVar(&o.Site.Logs, "site-logs", "", "access `logs` of your own site, as DOCGAUGE_SITE_LOGS has them")
	f.StringVar(&o.Site.Hosts, "site-hosts", "", "comma-separated `hosts` of your own site; the log's others are left out")
	f.StringVar(&o.Site.Humans, "site-humans", "", "`mode` of counting people of your own site: claimed or confirmed")
	f.StringVar(&o.Site.Dir, "site-dir", "", "`directory` for the facts of your own site (default: site in --dir)")
	f.StringVar(&o.Site.Path, "site-env-file", "",
		"`file` for the settings of site serve (default: site.env beside the file of --env-file)")
	f.BoolVar(&o.Export, "export", false, "at the end, export once and show the most read pages")
	return cmd
}

func (a *Program) init(ctx context.Context, o setup.Options, in io.Reader) (err error) {
	if o.NoCheck && o.Export {
		return input.Usagef("--no-check, --export: give one of them: one sends nothing, the other exports")
	}
	if err := o.CheckFile(); err != nil {
		return err
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return err
	}
	terminal, err := a.complete(ctx, &o, in)
	if err != nil {
		return err
	}
	if o.IsSite() {
		return site.Init(ctx, &a.Console, o, terminal)
	}
	if o.Site != (setup.SiteOptions{}) {
		return input.Usagef("--site-hosts, --site-humans, --site-dir, --site-env-file: want --site-logs with them")
	}
	t := &trial{program: a, options: &o, terminal: terminal, works: map[string]bool{}}
	defer func() { err = errors.Join(err, t.close()) }()
	text, c, err := t.run(ctx)
	if err != nil {
		return err
	}
	if terminal != nil && o.Names == "" {
		err := setup.Prompt(&a.Console, terminal, func(p *setup.Prompter) error {
			return o.AskNames(ctx, p, "", c.Projects...)
		})
		if err != nil {
			return err
		}
		if text, err = o.Text(); err != nil {
			return err
		}
		if c, err = o.Adopt(&a.Console, text); err != nil {
			return err
		}
	}
	write := func() error { return durable.CreateFile(o.Path, []byte(text), 0o600) }
	if o.Unit != "" {
		write = func() error { return durable.RewriteFile(o.Path, []byte(text)) }
	}
	if err := write(); errors.Is(err, fs.ErrExist) {
		return input.Usagef("--env-file: %s exists now, and init replaces no file", o.Path)
	} else if err != nil {
		return err
	}
	plan, err := a.printNext(ctx, t.db, c, o)
	if err != nil || len(plan.Windows) == 0 {
		return err
	}
	if wants, err := a.wantsNumbers(ctx, o, terminal); err != nil || !wants {
		return err
	}
	return a.firstNumbers(ctx, c, t.sent)
}

// complete asks for settings without a flag or variable, or names all of them if standard input
// is not a terminal. It returns the terminal, or nil.
func (a *Program) complete(ctx context.Context, o *setup.Options, in io.Reader) (*os.File, error) {
	if o.KeyOnStdin && o.KeyFile != "" {
		return nil, input.Usage(errors.New("--api-key-file, --api-key-stdin: give one of them"))
	}
	terminal, _ := in.(*os.File)
	if o.KeyOnStdin {
		text, err := io.ReadAll(io.LimitReader(in, 64<<10))
		if err != nil {
			return nil, fmt.Errorf("--api-key-stdin: %w", err)
		}
		o.Key, terminal = strings.TrimSpace(string(text)), nil
	}
	if o.IsSite() {
		if terminal != nil && !render.IsTerminal(terminal) {
			terminal = nil
		}
		if terminal == nil && o.Site.Logs == "" {
			return nil, input.Usage(errors.New("--site-logs: missing; the access logs of the site, like " + site.WellKnownLogs[0]))
		}
		return terminal, nil
	}
	noKey := o.KeyFile == "" && !o.KeyOnStdin
	if terminal != nil && render.IsTerminal(terminal) {
		if err := a.announce(o, noKey); err != nil {
			return nil, err
		}
		return terminal, setup.Prompt(&a.Console, terminal, func(p *setup.Prompter) error { return askMissing(ctx, p, o, noKey) })
	}
	var missing []string
	for _, m := range []struct {
		is   bool
		flag string
	}{
		{o.BaseURL == "", "--base-url URL: the base URL of the service, like https://api.example.com; for your own site " +
			"--site-logs LOGS instead of all"},
		{noKey, "--api-key-file FILE or --api-key-stdin: an admin key from the API keys page of the dashboard"},
		{o.Projects == "", "--projects IDS: comma-separated project ids, from the same page"},
	} {
		if m.is {
			missing = append(missing, m.flag)
		}
	}
	if len(missing) > 0 {
		return nil, input.Usage(errors.New("init: standard input is not a terminal, so these flags are needed:\n  " +
			strings.Join(missing, "\n  ")))
	}
	return nil, nil
}

// printNext prints how to use the file, the extent of the first export, and how long the budget
// makes it take.
func (a *Program) printNext(
	ctx context.Context, db *state.DB, c config.Config, o setup.Options,
) (r coverage.PlanReport, err error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return r, err
	}
	if err := setup.PrintWritten(&a.Console, path); err != nil {
		return r, err
	}
	fmt.Fprintln(a.Out)
	if o.Unit != "" {
		remark := "   # or, for a run every hour, docgauge-export.timer"
		if o.Unit != "docgauge.service" {
			remark = "   # with a DOCGAUGE_LISTEN_ADDRESS of its own"
		}
		fmt.Fprintf(a.Out, `Start the service:
  systemctl enable --now %s%s

Run any command as the service does, so that both share the state and the budget:
  sudo -u docgauge docgauge --env-file %s status

`, render.ShellWord(o.Unit), remark, render.ShellWord(path))
	} else if err := setup.PrintUses(&a.Console, path); err != nil {
		return r, err
	}
	p, err := coverage.Selection{}.Plan(ctx, db, c, a.Now())
	if err != nil {
		return r, err
	}
	r = coverage.NewPlanReport(p)
	when, about, more := "one run", "about ", ""
	if hours := r.Finish.Sub(a.Now()).Hours(); hours > 0 {
		when = format.Plural(int(math.Ceil(hours)), "hour")
	}
	if r.Unknown > 0 {
		about, more = "at least ", " or more"
	}
	_, err = fmt.Fprintf(a.Out, "The first export: %s, %s%s, in %s%s.\nThe budget: %s.\n",
		format.Plural(len(r.Windows), "window"), about, format.Plural(r.Requests, "request"), when, more, r.Budget)
	return r, err
}
