package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/jobs"
	"github.com/docgauge/docgauge/internal/cli/site"
	"github.com/docgauge/docgauge/internal/config"
)

const about = `docgauge copies daily, weekly and monthly reader counts (people and AI agents,
per page) from your documentation platform to Parquet files, Delta Lake,
ClickHouse or PostgreSQL, without exceeding the platform's request limit. It
shows the newest numbers as Prometheus metrics, a status page and a report, and
runs the platform's agent jobs: each prompt file becomes exactly one job.

Try it without an account:
  docgauge demo                a local service, a job, an export, and a summary

Use it, as an hourly cron job or as a daemon:
  docgauge init                asks for the settings, and writes docgauge.env
  docgauge --env-file docgauge.env export
  docgauge --env-file docgauge.env serve

docgauge is configured by environment variables, or by a file of them that
--env-file names: docgauge help configuration.`

// groupOperate is the group of commands for operators.
const groupOperate = "Operate"

func (a *Program) root() *cobra.Command {
	envFile, version := "", false
	root := &cobra.Command{
		Use:           "docgauge",
		Short:         "keep the reader numbers of a documentation platform",
		Long:          about + "\n\n" + console.ExitCodes,
		SilenceErrors: true,
		SilenceUsage:  true,
		// How many letters of a mistyped command may be wrong for a suggestion.
		SuggestionsMinimumDistance: 2,

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := input.RefuseEmpty(cmd.Flags()); err != nil {
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
	group("Try it without an account", a.demoCommand(), a.sandboxCommand())
	group("Set it up", a.initCommand(), a.configCommand(), a.checkCommand())
	group("Export", a.planCommand(), a.exportCommand(), a.serveCommand(), a.loadCommand())
	group("Look at the numbers", a.topCommand(), a.historyCommand(), a.statusCommand(), a.reportCommand(),
		a.outcomesCommand(), a.openmetricsCommand(), a.mcpCommand())
	group("Agent jobs", jobs.Command(&a.Console))
	group("A site of your own, without a platform", site.Command(&a.Console))
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

// readSettings reads the sources of settings: flags, the environment, and the file that the flag or
// the environment names. Problems of the file are reported together with those of the
// configuration; a command that needs no file goes without one that has problems.
func (a *Program) readSettings(cmd *cobra.Command, flag string) error {
	file := config.EnvFile{Path: flag, NamedBy: "--env-file"}
	if flag == "" {
		const variable = "DOCGAUGE_ENV_FILE"
		file = config.EnvFile{Path: os.Getenv(variable), NamedBy: variable}
	}
	a.Source = config.ReadSource(file, variablesOf(cmd.Flags()))
	if needsNoFile(cmd) && len(a.Source.Problems) > 0 {
		a.Note("%s\n  %s needs no file of settings, and continues without this one",
			strings.Join(a.Source.Problems, "\n  "), cmd.CommandPath())
		a.Source = config.ReadSource(config.EnvFile{}, variablesOf(cmd.Flags()))
	}
	return a.Source.Export()
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
