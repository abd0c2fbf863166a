package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docgauge/docgauge/internal/config"
)

var about = `docgauge copies daily, weekly and monthly reader counts (people and AI agents,
per page) from your documentation platform, without exceeding its request limit,
to ` + config.AnyOf(config.SinkTitles()) + `.
It shows the newest numbers as Prometheus metrics, a status page and a report,
and runs the platform's agent jobs: each prompt file becomes exactly one job.

Try it without an account:
  docgauge demo                a local service, a job, an export, and a summary

Use it, as an hourly cron job or as a daemon:
  docgauge init                asks for the settings, and writes docgauge.env
  docgauge --env-file docgauge.env export
  docgauge --env-file docgauge.env serve

docgauge is configured by environment variables, or by a file of them that
--env-file names: docgauge help configuration.`

const exitCodes = `Exit codes: 0 done, nothing due, or the rest deferred by the budget; 1 failed;
2 bad usage or configuration, nothing done; 3 another process holds the state.`

// readingExitCodes are those of commands that request and change nothing.
const readingExitCodes = "Exit codes: 0 done; 1 failed; 2 bad usage or configuration, nothing done."

// groupOperate is the group of commands for operators.
const groupOperate = "Operate"

// helpWidth is the width that every help text fits, in columns.
const helpWidth = 80

func (a *Program) root() *cobra.Command {
	envFile, version := "", false
	root := &cobra.Command{
		Use:           "docgauge",
		Short:         "keep the reader numbers of a documentation platform",
		Long:          about + "\n\n" + exitCodes,
		SilenceErrors: true,
		SilenceUsage:  true,
		// How many letters of a mistyped command may be wrong for a suggestion.
		SuggestionsMinimumDistance: 2,

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseEmpty(cmd.Flags()); err != nil {
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
	f.Var(once(&envFile, "all settings are in one file: give it once"), "env-file",
		"file of settings, KEY=VALUE lines; the environment wins (or DOCGAUGE_ENV_FILE)")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "only warnings and errors on standard error, and no progress bar")
	root.Flags().BoolVarP(&version, "version", "v", false, "print version, revision and Go version")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w\n`%s --help` lists the flags", err, cmd.CommandPath())}
	})
	group := func(title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
		for _, c := range commands {
			c.GroupID = title
		}
		root.AddCommand(commands...)
	}
	group("Try it without an account", a.demoCommand(), a.sandboxCommand())
	group("Set it up", a.initCommand(), a.configCommand(), a.checkCommand())
	group("Export", a.planCommand(), a.exportCommand(), a.serveCommand(), a.loadCommand())
	group("Look at the numbers", a.topCommand(), a.historyCommand(), a.statusCommand(), a.reportCommand(),
		a.outcomesCommand(), a.openmetricsCommand(), a.mcpCommand())
	group("Agent jobs", a.jobsCommand())
	group("A site of your own, without a platform", a.siteCommand())
	group(groupOperate, a.verifyCommand(), a.sinksCommand(), a.notifyCommand(), a.healthcheckCommand(),
		a.versionCommand())
	root.AddCommand(a.manCommand(), configurationTopic())
	walk(root, func(cmd *cobra.Command) {
		if cmd.Args == nil {
			cmd.Args = noArgs
		}
	})
	helpTexts(root)
	root.SetHelpCommandGroupID(groupOperate)
	a.completions(root)
	return root
}

// readSettings reads the sources of settings: flags, the environment, and the file that the flag or
// the environment names. Problems of the file are reported together with those of the
// configuration; a command that needs no file goes without one that has problems.
func (a *Program) readSettings(cmd *cobra.Command, flag string) error {
	file := config.EnvFile{Path: flag, NamedBy: "--env-file"}
	if flag == "" {
		const variable = "DOCGAUGE_ENV_FILE"
		file = config.EnvFile{Path: os.Getenv(variable), NamedBy: variable}
	}
	a.source = config.ReadSource(file, variablesOf(cmd.Flags()))
	if needsNoFile(cmd) && len(a.source.Problems) > 0 {
		a.note("%s\n  %s needs no file of settings, and continues without this one",
			strings.Join(a.source.Problems, "\n  "), cmd.CommandPath())
		a.source = config.ReadSource(config.EnvFile{}, variablesOf(cmd.Flags()))
	}
	return a.source.Export()
}

// needsNoFile reports whether the command needs no settings, or its flags name all that it needs.
func needsNoFile(cmd *cobra.Command) bool {
	switch cmd.Name() {
	case "demo", "sandbox":
		return true
	case "load": // into a sink of the settings
		return false
	}
	return cmd.Flags().Changed("archive")
}

// onceFlag is the value of a flag that can have one value.
type onceFlag struct {
	value *string
	set   bool
	why   string // why it has one, and the remedy
}

func once(value *string, why string) *onceFlag { return &onceFlag{value, false, why} }

// archiveFlag names the archive that a command reads.
func archiveFlag(f *pflag.FlagSet, archive *string, usage string) {
	f.Var(once(archive, "an answer is about one archive: run the command for each, or load both into a database"),
		"archive", usage)
}

func (f *onceFlag) Set(value string) error {
	if f.set && value != *f.value { // completion parses the flags twice
		return fmt.Errorf("the flag is given twice (%s), and %s", *f.value, f.why)
	}
	*f.value, f.set = value, true
	return nil
}

func (f *onceFlag) String() string { return *f.value }
func (f *onceFlag) Type() string   { return "string" }

// refuseEmpty refuses flags with an empty value: an unset variable of a script must not select
// everything.
func refuseEmpty(flags *pflag.FlagSet) error {
	var errs []error
	flags.Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && strings.TrimSpace(f.Value.String()) == "" {
			errs = append(errs, fmt.Errorf("--%s: is empty: give it a value, or leave it out", f.Name))
		}
	})
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	return nil
}

// noArgs refuses arguments, and unknown commands, with exit code 2.
func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasAvailableSubCommands():
		return unknownCommand(cmd, args[0])
	}
	return usageError{fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args)}
}

// unknownCommand is the error of a command that parent does not have.
func unknownCommand(parent *cobra.Command, name string) error {
	path, hint := strings.TrimPrefix(parent.CommandPath()+" "+name, parent.Root().Name()+" "), ""
	if parent.SuggestionsMinimumDistance == 0 {
		parent.SuggestionsMinimumDistance = parent.Root().SuggestionsMinimumDistance
	}
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	}
	return usageError{fmt.Errorf("unknown command %q%s\n`%s --help` lists the commands", path,
		hint, parent.CommandPath())}
}
