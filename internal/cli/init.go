package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/docsapi"
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
}

func (a *Program) initCommand() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init",
		Short: "write a file of settings: asks for URL, key and projects",
		Long: `init writes the file of settings that --env-file names (default docgauge.env),
with mode 0600, and never over a file that exists. It asks for settings without
a flag: the base URL, the admin key (which is not shown), and the projects. If
standard input is not a terminal, all flags are needed.

Each project is then tried with one request, which counts against the budget. If
one fails, nothing is written. At the end init prints the lines for cron and
systemd that use the file, and the extent of the first export.`,
		Example: `  docgauge init
  docgauge init --base-url https://api.example.com --projects prj_a,prj_b \
    --api-key-file /etc/docgauge/key --env-file /etc/docgauge/docgauge.env`,
		// The file that --env-file names is written here, not read.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseEmpty(cmd.Flags()); err != nil {
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
	f.StringVar(&o.dir, "dir", ".", "directory for state and data")
	f.BoolVar(&o.noCheck, "no-check", false, "send nothing: write the file without trying the projects")
	return cmd
}

func (a *Program) init(ctx context.Context, o initOptions, in io.Reader) error {
	if _, err := os.Lstat(o.path); err == nil {
		return usageError{fmt.Errorf("--env-file: %s exists, and init replaces no file: name another, or edit this one",
			o.path)}
	}
	if err := a.complete(ctx, &o, in); err != nil {
		return err
	}
	text, err := o.text()
	if err != nil {
		return err
	}
	c, err := a.adopt(o, text)
	if err != nil {
		return err
	}
	if !o.noCheck {
		check := &checker{program: a, config: c} // a budget that is used up does not count as a failure
		err := check.tryService(ctx)
		if err == nil && check.failed() {
			err = errReported
		}
		if err != nil {
			fmt.Fprintf(a.Err, "docgauge: %s is not written; correct what failed and run init again, or add "+
				"--no-check\n", o.path)
			return err
		}
	}
	if err := durable.CreateFile(o.path, []byte(text), 0o600); errors.Is(err, fs.ErrExist) {
		return usageError{fmt.Errorf("--env-file: %s exists now, and init replaces no file", o.path)}
	} else if err != nil {
		return err
	}
	return a.printNext(ctx, c, o)
}

// complete asks for settings without a flag or variable, or names all of them if standard input
// is not a terminal.
func (a *Program) complete(ctx context.Context, o *initOptions, in io.Reader) error {
	if o.keyOnStdin && o.keyFile != "" {
		return usageError{errors.New("--api-key-file, --api-key-stdin: give one of them")}
	}
	terminal, _ := in.(*os.File)
	if o.keyOnStdin {
		text, err := io.ReadAll(io.LimitReader(in, 64<<10))
		if err != nil {
			return fmt.Errorf("--api-key-stdin: %w", err)
		}
		o.key, terminal = strings.TrimSpace(string(text)), nil
	}
	noKey := o.keyFile == "" && !o.keyOnStdin
	if terminal != nil && render.IsTerminal(terminal) {
		p, err := newPrompter(terminal)
		if err != nil {
			return err
		}
		if err = errors.Join(o.ask(ctx, p, noKey), p.restore()); err != nil {
			fmt.Fprintln(a.Err) // ends the line of the question
		}
		return err
	}
	var missing []string
	for _, m := range []struct {
		is   bool
		flag string
	}{
		{o.baseURL == "", "--base-url URL: the base URL of the service, like https://api.example.com"},
		{noKey, "--api-key-file FILE or --api-key-stdin: an admin key from the API keys page of the dashboard"},
		{o.projects == "", "--projects IDS: comma-separated project ids, from the same page"},
	} {
		if m.is {
			missing = append(missing, m.flag)
		}
	}
	if len(missing) > 0 {
		return usageError{errors.New("init: standard input is not a terminal, so these flags are needed:\n  " +
			strings.Join(missing, "\n  "))}
	}
	return nil
}

// ask asks for missing settings until each answer is valid.
func (o *initOptions) ask(ctx context.Context, p *prompter, needKey bool) (err error) {
	if o.baseURL == "" {
		if o.baseURL, err = p.line(ctx, "Base URL of the service", os.Getenv("DOCGAUGE_BASE_URL"),
			config.CheckBaseURL); err != nil {
			return err
		}
	}
	if needKey {
		if o.key, err = p.secret(ctx, "Admin key, from the API keys page (not shown)", docsapi.CheckKey); err != nil {
			return err
		}
	}
	if o.projects == "" {
		o.projects, err = p.line(ctx, "Project ids, comma-separated", os.Getenv("DOCGAUGE_PROJECTS"),
			new(config.Projects).Decode)
	}
	return err
}

// text is the file of settings. Its paths are absolute, so that it works from anywhere.
func (o *initOptions) text() (string, error) {
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return "", err
	}
	key, value := "DOCGAUGE_API_KEY", o.key
	if o.keyFile != "" {
		key = "DOCGAUGE_API_KEY_FILE"
		if value, err = filepath.Abs(o.keyFile); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	b.WriteString("# Settings of docgauge, for --env-file, systemd and containers; nothing in it is\n# executed. " +
		"`docgauge help configuration` lists all of them.\n")
	for _, v := range [][2]string{
		{"DOCGAUGE_BASE_URL", o.baseURL}, {key, value}, {"DOCGAUGE_PROJECTS", o.projects},
		{"DOCGAUGE_STATE_DIR", filepath.Join(dir, "state")}, {"DOCGAUGE_PARQUET_URL", filepath.Join(dir, "data")},
	} {
		b.WriteString(v[0] + "=" + config.QuoteEnv(strings.TrimSpace(v[1])) + "\n")
	}
	return b.String(), nil
}

// adopt makes the text the settings of this process, in place of its environment, and
// checks them.
func (a *Program) adopt(o initOptions, text string) (config.Config, error) {
	for _, name := range []string{"BASE_URL", "API_KEY", "API_KEY_FILE", "PROJECTS", "STATE_DIR", "PARQUET_URL"} {
		if value, set := os.LookupEnv("DOCGAUGE_" + name); set && value != "" {
			a.note("DOCGAUGE_%s is set in the environment too, and wins over the file: unset it", name)
		}
		if err := os.Unsetenv("DOCGAUGE_" + name); err != nil {
			return config.Config{}, err
		}
	}
	a.source = config.ParseSource(o.path, text)
	return a.config(config.NeedProjects | config.NeedAPI)
}

// printNext prints how to use the file, the extent of the first export, and how long the budget
// makes it take.
func (a *Program) printNext(ctx context.Context, c config.Config, o initOptions) (err error) {
	path, err := filepath.Abs(o.path)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	me, err := user.Current()
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, `wrote %s (mode 0600)

Try it:
  docgauge --env-file %[2]s export
  docgauge --env-file %[2]s top
  docgauge --env-file %[2]s status

Every hour, with cron (crontab -e):
  17 * * * *  %s --quiet --env-file %s export >/dev/null

Or as a daemon, with systemd (/etc/systemd/system/docgauge.service):
  [Service]
  ExecStart=%s --env-file %s serve
  User=%s
  Restart=on-failure
  RestartPreventExitStatus=2 3
  [Install]
  WantedBy=multi-user.target

`, o.path, shellWord(o.path), cronWord(self), cronWord(path), systemdWord(self), systemdWord(path), me.Username)
	db, err := state.OpenExisting(c.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	p, err := coverage.Selection{}.Plan(ctx, db, c, a.now(), 0)
	if err != nil {
		return err
	}
	r := coverage.NewPlanReport(p)
	when, about, more := "one run", "about ", ""
	if hours := r.Finish.Sub(a.now()).Hours(); hours > 0 {
		when = format.Plural(int(math.Ceil(hours)), "hour")
	}
	if r.Unknown > 0 {
		about, more = "at least ", " or more"
	}
	_, err = fmt.Fprintf(a.Out, "The first export: %s, %s%s, in %s%s.\nThe budget: %s.\n",
		format.Plural(len(r.Windows), "window"), about, format.Plural(r.Requests, "request"), when, more, r.Budget)
	return err
}

// cronWord quotes a word for a crontab, where % ends the command.
func cronWord(word string) string { return strings.ReplaceAll(shellWord(word), "%", `\%`) }

// systemdWord quotes a word of ExecStart.
func systemdWord(word string) string {
	word = strings.NewReplacer("%", "%%", "$", "$$").Replace(word)
	if plainWord.MatchString(word) {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}
