package cli

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/state"
)

// initOptions are the flags of init; a terminal is asked for missing ones.
type initOptions struct {
	path, dir           string
	baseURL, projects   string
	key, keyFile        string
	keyOnStdin, noCheck bool
	export              bool
	site                initSiteOptions
	more                [][2]string // settings besides
	// unit is the service that reads the file, which exists and is a package's unchanged template.
	unit string
}

// template is what packages and install.sh install as the file of settings.
//
//go:embed template.env
var template string

// optional are settings that init does not ask for, as comments of its file.
const optional = `
#DOCGAUGE_API_KEY_EXPIRES=2027-01-31
#DOCGAUGE_SINCE=2026-01-01
` + notified

const notified = `#DOCGAUGE_NOTIFY_FORMAT=slack
#DOCGAUGE_NOTIFY_URL=https://hooks.slack.com/services/…
`

func (a *Program) initCommand() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init",
		Short: "write a file of settings: asks for URL, key and projects",
		Long: `init writes the file of settings that --env-file names (default docgauge.env in
this directory) with mode 0600, and never over a file that exists. It replaces
the unchanged template of a package, though, and keeps its owner and mode; the
key must then be in a file that --api-key-file names, and --dir is the service's
own: /var/lib/docgauge for docgauge.env, /var/lib/docgauge-NAME for NAME.env.

It asks for settings without a flag: the base URL, the admin key (which is not
shown), and the projects. If standard input is not a terminal, all flags are
needed.

Each project is then tried with one request, which counts against the quota. On
a terminal, init asks again for what failed. Until all is well nothing is
written, and a state that has other projects only is refused. At the end init
prints the lines for cron and systemd that use the file, and the extent of the
first export; on a terminal, or with --export, it reads the first numbers.

Your own site has no platform, but access logs. With --site-logs, or the answer
"site" to the question for the base URL, init reads the beginning and the end of
the logs, says which format they have, and writes two files: that of docgauge
site serve, and that of the export with a key that it makes. It asks for the
hosts of the site, if the log has several, and for the directory of the facts.
Variables DOCGAUGE_SITE_… of the environment are written too.`,
		Example: `  docgauge init
  docgauge init --base-url https://api.example.com --projects prj_a,prj_b \
    --api-key-file /etc/docgauge/key --env-file /etc/docgauge/docgauge.env
  docgauge init --site-logs '/var/log/nginx/access.log*'`,
		// The file that --env-file names is written here, not read.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := input.RefuseEmpty(cmd.Flags()); err != nil {
				return err
			}
			flag := cmd.Flags().Lookup("env-file")
			for _, path := range []string{"docgauge.env", os.Getenv("DOCGAUGE_ENV_FILE"), flag.Value.String()} {
				if path != "" {
					o.path = path
				}
			}
			return os.Unsetenv("DOCGAUGE_ENV_FILE")
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.init(cmd.Context(), o, cmd.InOrStdin()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.baseURL, "base-url", "", "base URL of the service, like https://api.example.com")
	f.StringVar(&o.projects, "projects", "", "comma-separated project ids")
	f.StringVar(&o.keyFile, "api-key-file", "", "file that holds the admin key; the settings name it")
	f.BoolVar(&o.keyOnStdin, "api-key-stdin", false, "read the admin key from standard input")
	f.StringVar(&o.dir, "dir", "", "directory for state and data (default: this directory)")
	f.BoolVar(&o.noCheck, "no-check", false, "send nothing: write the file without trying the projects")
	f.StringVar(&o.site.logs, "site-logs", "", "access `logs` of your own site, as DOCGAUGE_SITE_LOGS has them")
	f.StringVar(&o.site.hosts, "site-hosts", "", "comma-separated `hosts` of your own site; the log's others are left out")
	f.StringVar(&o.site.dir, "site-dir", "", "`directory` for the facts of your own site (default: site in --dir)")
	f.StringVar(&o.site.path, "site-env-file", "",
		"`file` for the settings of site serve (default: site.env beside that of --env-file)")
	f.BoolVar(&o.export, "export", false, "at the end, export once and show the most read pages")
	return cmd
}

func (a *Program) init(ctx context.Context, o initOptions, in io.Reader) (err error) {
	if err := o.checkFile(); err != nil {
		return err
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	terminal, err := a.complete(ctx, &o, in)
	if err != nil {
		return err
	}
	if o.site.logs != "" || o.baseURL == ownSiteAnswer {
		return a.initSite(ctx, o, terminal)
	}
	t := &trial{program: a, options: &o, terminal: terminal, works: map[string]bool{}}
	defer func() { err = errors.Join(err, t.close()) }()
	text, c, err := t.run(ctx)
	if err != nil {
		return err
	}
	write := func() error { return durable.CreateFile(o.path, []byte(text), 0o600) }
	if o.unit != "" {
		write = func() error { return durable.RewriteFile(o.path, []byte(text)) }
	}
	if err := write(); errors.Is(err, fs.ErrExist) {
		return input.Usagef("--env-file: %s exists now, and init replaces no file", o.path)
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

// checkFile refuses a file that exists, unless it is the unchanged template of a package.
func (o *initOptions) checkFile() error {
	if _, err := os.Lstat(o.path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if text, err := os.ReadFile(o.path); err != nil || string(text) != template {
		return input.Usagef("--env-file: %s exists, and init replaces no file: name another, or edit this one",
			o.path)
	}
	// The units are docgauge.service, and docgauge@NAME.service with NAME.env.
	unit, dir := "docgauge", "/var/lib/docgauge"
	if name := strings.TrimSuffix(filepath.Base(o.path), ".env"); name != unit {
		unit, dir = unit+"@"+name, dir+"-"+name
	}
	if o.keyFile == "" && o.site.logs == "" {
		return input.Usagef("--api-key-file: missing: %s belongs to a service, which reads the key "+
			"from a file; put it into %s", o.path, filepath.Join(filepath.Dir(o.path), unitKey(o.path)))
	}
	o.unit, o.dir = unit+".service", cmp.Or(o.dir, dir)
	return nil
}

// unitKey is the name of the key's file that a unit reads beside its settings.
func unitKey(path string) string {
	if name := strings.TrimSuffix(filepath.Base(path), ".env"); name != "docgauge" {
		return name + ".key"
	}
	return "key"
}

// complete asks for settings without a flag or variable, or names all of them if standard input
// is not a terminal. It returns the terminal, or nil.
func (a *Program) complete(ctx context.Context, o *initOptions, in io.Reader) (*os.File, error) {
	if o.keyOnStdin && o.keyFile != "" {
		return nil, input.Usage(errors.New("--api-key-file, --api-key-stdin: give one of them"))
	}
	terminal, _ := in.(*os.File)
	if o.keyOnStdin {
		text, err := io.ReadAll(io.LimitReader(in, 64<<10))
		if err != nil {
			return nil, fmt.Errorf("--api-key-stdin: %w", err)
		}
		o.key, terminal = strings.TrimSpace(string(text)), nil
	}
	if o.site.logs != "" || o.baseURL == ownSiteAnswer {
		if terminal != nil && !render.IsTerminal(terminal) {
			terminal = nil
		}
		if terminal == nil && o.site.logs == "" {
			return nil, input.Usage(errors.New("--site-logs: missing; the access logs of the site, like " + wellKnownLogs[0]))
		}
		return terminal, nil
	}
	noKey := o.keyFile == "" && !o.keyOnStdin
	if terminal != nil && render.IsTerminal(terminal) {
		if err := a.announce(o, noKey); err != nil {
			return nil, err
		}
		return terminal, a.prompt(terminal, func(p *prompter) error { return o.ask(ctx, p, noKey) })
	}
	var missing []string
	for _, m := range []struct {
		is   bool
		flag string
	}{
		{o.baseURL == "", "--base-url URL: the base URL of the service, like https://api.example.com; for your own site " +
			"--site-logs LOGS instead of all"},
		{noKey, "--api-key-file FILE or --api-key-stdin: an admin key from the API keys page of the dashboard"},
		{o.projects == "", "--projects IDS: comma-separated project ids, from the same page"},
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

// text is the file of settings. Its paths are absolute, so that it works from anywhere.
func (o *initOptions) text() (string, error) {
	var err error
	key, value := "DOCGAUGE_API_KEY", o.key
	if o.keyFile != "" {
		key = "DOCGAUGE_API_KEY_FILE"
		if value, err = filepath.Abs(o.keyFile); err != nil {
			return "", err
		}
	}
	values := append([][2]string{
		{"DOCGAUGE_BASE_URL", o.baseURL}, {key, value}, {"DOCGAUGE_PROJECTS", o.projects},
		{"DOCGAUGE_STATE_DIR", filepath.Join(o.dir, "state")}, {"DOCGAUGE_PARQUET_URL", filepath.Join(o.dir, "data")},
	}, o.more...)
	if len(o.more) > 0 {
		return envText(values, "\n"+notified), nil
	}
	return envText(values, optional), nil
}

// envText is a file of settings, with further ones as comments.
func envText(values [][2]string, comments string) string {
	var b strings.Builder
	b.WriteString("# Settings of docgauge, for --env-file, systemd and containers; nothing in it is\n# executed. " +
		"`docgauge help configuration` lists all of them.\n")
	for _, v := range values {
		b.WriteString(v[0] + "=" + config.QuoteEnv(strings.TrimSpace(v[1])) + "\n")
	}
	return b.String() + comments
}

// adopt makes the text the settings of this process, in place of its environment, and
// checks them. More are the names of further settings of the text.
func (a *Program) adopt(o initOptions, text string, more ...string) (config.Config, error) {
	for _, name := range append([]string{"BASE_URL", "API_KEY", "API_KEY_FILE", "PROJECTS", "STATE_DIR", "PARQUET_URL"},
		more...) {
		if value, set := os.LookupEnv("DOCGAUGE_" + name); set && value != "" {
			a.Note("DOCGAUGE_%s is set in the environment too, and wins over the file: unset it", name)
		}
		if err := os.Unsetenv("DOCGAUGE_" + name); err != nil {
			return config.Config{}, err
		}
	}
	a.Source = config.ParseSource(o.path, text)
	return a.Config(config.NeedProjects | config.NeedAPI)
}

// printNext prints how to use the file, the extent of the first export, and how long the budget
// makes it take.
func (a *Program) printNext(
	ctx context.Context, db *state.DB, c config.Config, o initOptions,
) (r coverage.PlanReport, err error) {
	path, err := filepath.Abs(o.path)
	if err != nil {
		return r, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return r, err
	}
	fmt.Fprintf(a.Out, "wrote %s (mode %04o)\n\n", path, info.Mode().Perm())
	if o.unit != "" {
		remark := "   # or, for a run every hour, docgauge-export.timer"
		if o.unit != "docgauge.service" {
			remark = "   # with a DOCGAUGE_LISTEN_ADDRESS of its own"
		}
		fmt.Fprintf(a.Out, `Start the service:
  systemctl enable --now %s%s

Run any command as the service does, so that both share the state and the budget:
  sudo -u docgauge docgauge --env-file %s status

`, render.ShellWord(o.unit), remark, render.ShellWord(path))
	} else if err := a.printUses(path); err != nil {
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

// printUses prints commands, and the lines for cron and systemd, that use the file.
func (a *Program) printUses(path string) error {
	self, remark, err := programPath()
	if err != nil {
		return err
	}
	me, err := user.Current()
	if err != nil {
		return err
	}
	if remark != "" {
		fmt.Fprintf(a.Out, "This program %s. To keep it, install it, and write\nits new path in the lines below:\n"+
			"  sudo install %s /usr/local/bin/\n\n", remark, render.ShellWord(self))
	}
	_, err = fmt.Fprintf(a.Out, `Try it, from any directory:
  docgauge --env-file %[1]s export
  docgauge --env-file %[1]s top
  docgauge --env-file %[1]s status

Every hour, with cron (crontab -e):
  17 * * * *  %[2]s --quiet --env-file %[3]s export >/dev/null

Or as a daemon, with systemd (/etc/systemd/system/docgauge.service):
  [Service]
  ExecStart=%[4]s --env-file %[5]s serve
  User=%[6]s
  Restart=on-failure
  RestartPreventExitStatus=2 3
  [Install]
  WantedBy=multi-user.target

`, render.ShellWord(path), render.CronWord(self), render.CronWord(path), render.SystemdWord(self), render.SystemdWord(path), me.Username)
	return err
}

// programPath is the path of this program, as PATH has it if it does: a link outlives an upgrade. The
// remark says why that path may not last.
func programPath() (path, remark string, err error) {
	if path, err = os.Executable(); err != nil {
		return "", "", err
	}
	self, err := os.Stat(path)
	if err != nil {
		return "", "", err
	}
	found, err := exec.LookPath("docgauge")
	if info, statErr := os.Stat(found); err != nil || statErr != nil || !os.SameFile(info, self) {
		remark = "is not in a directory of your PATH"
	} else if path, err = filepath.Abs(found); err != nil {
		return "", "", err
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), "..", "go.mod")); err == nil {
		remark = "is in the folder of a build"
	}
	return path, remark, nil
}
