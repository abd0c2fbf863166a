package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/jobs"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/cli/site"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/state"
)

var aboutProgram = `docgauge counts who reads your documentation: people and AI agents, on the site
and on each page, by day, week and month. It is three tools in one program:

  site       counts the readers in the access logs of any site
  numbers    copies them, from a documentation platform or from site, to
             ` + config.AnyOf(config.SinkTitles()) + `,
             and shows them as pages, a report, metrics and in the terminal
  jobs       turns each prompt file into exactly one agent job

Begin with one of these:
  docgauge site report access.log --open    a log, as one page in the browser
  docgauge init                             asks for settings, and writes them
  docgauge demo                             needs neither a log nor an account

docgauge is configured by environment variables, or by a file of them that
--env-file names: docgauge help configuration.`

// Exit codes.
const (
	exitDone   = 0 // done, nothing due, or the rest deferred by the budget
	exitFailed = 1
	exitUsage  = 2 // bad usage or configuration; nothing was done
	exitLocked = 3 // another process holds the state
)

// Run runs a command and returns the exit code.
func (a *Program) Run(ctx context.Context, args []string) int {
	if earlyFormat(args) == "json" { // for messages before there is a configuration
		a.SpeakJSON()
	}
	cobra.EnableCommandSorting = false // people need them in our order
	root := a.root()
	root.SetArgs(args)
	help := &firstErrorWriter{Writer: a.Out}
	root.SetOut(help)
	root.SetErr(a.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = help.err
	}
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, render.ErrReported):
	case a.SpeaksJSON():
		a.Logger(config.Config{}).Error("command failed", "error", err.Error())
	default:
		fmt.Fprintln(a.Err, "docgauge: "+err.Error())
	}
	return exitCode(err)
}

// firstErrorWriter keeps the first write error, because cobra drops the errors of writing its help.
type firstErrorWriter struct {
	io.Writer
	err error
}

func (k *firstErrorWriter) Write(p []byte) (int, error) {
	n, err := k.Writer.Write(p)
	if k.err == nil {
		k.err = err
	}
	return n, err
}

// earlyFormat is the log format as far as it is known before flags are read. It is used for
// errors about the flags.
func earlyFormat(args []string) string {
	const flag = "--log.format"
	format := os.Getenv("DOCGAUGE_LOG_FORMAT")
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, flag+"="); ok {
			format = value
		} else if arg == flag && i+1 < len(args) {
			format = args[i+1]
		}
	}
	return format
}

func exitCode(err error) int {
	_, bad := errors.AsType[config.Problems](err)
	_, usage := errors.AsType[input.UsageError](err)
	_, selection := errors.AsType[coverage.SelectionError](err)
	switch {
	case bad || usage || selection:
		return exitUsage
	case errors.Is(err, state.ErrLocked), errors.Is(err, site.ErrLocked):
		return exitLocked
	}
	return exitFailed
}

func (a *Program) root() *cobra.Command {
	envFile, version := "", false
	root := &cobra.Command{
		Use:           "docgauge",
		Short:         "keep the reader numbers of a documentation platform",
		Long:          aboutProgram + "\n\n" + console.ExitCodes,
		SilenceErrors: true,
		SilenceUsage:  true,
		// How many letters of a mistyped command may be wrong for a suggestion.
		SuggestionsMinimumDistance: 2,

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := input.CheckFlags(cmd.Flags()); err != nil {
				return err
			}
			return a.readSettings(cmd, envFile)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return a.printVersion()
			}
			return cmd.Help()
		},
	}
	f := root.PersistentFlags()
	f.Var(input.Once(&envFile, "all settings are in one file: give it once"), "env-file",
		"file of settings, KEY=VALUE lines; the environment wins (or DOCGAUGE_ENV_FILE)")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "only warnings and errors on standard error, and no progress bar")
	root.Flags().BoolVarP(&version, "version", "v", false, "print version, revision and Go version")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return input.Usagef("%w\n`%s --help` lists the flags", err, cmd.CommandPath())
	})
	group := func(title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
		for _, c := range commands {
			c.GroupID = title
		}
		root.AddCommand(commands...)
	}
	group("Site: the readers in access logs", site.Command(&a.Console))
	group("Numbers: set up", a.initCommand(), a.configCommand(), a.checkCommand())
	group("Numbers: export", a.planCommand(), a.exportCommand(), a.serveCommand(), a.loadCommand())
	group("Numbers: look at them", a.topCommand(), a.historyCommand(), a.statusCommand(), a.reportCommand(),
		a.outcomesCommand(), a.redirectsCommand(), a.openmetricsCommand(), a.mcpCommand())
	group("Jobs: prompts for an AI agent", jobs.Command(&a.Console))
	group("Try it without an account", a.demoCommand(), a.sandboxCommand())
	group(groupOperate, a.verifyCommand(), a.sinksCommand(), a.notifyCommand(), a.healthcheckCommand(),
		a.versionCommand())
	root.AddCommand(a.manCommand(), configurationTopic())
	walk(root, func(cmd *cobra.Command) {
		if cmd.Args == nil {
			cmd.Args = input.NoArgs
		}
	})
	helpTexts(root)
	root.SetHelpCommandGroupID(groupOperate)
	a.completions(root)
	return root
}
