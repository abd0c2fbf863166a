package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/config"
)

const about = `docgauge exports unique-visitor analytics of a documentation platform: it reads
half-open date windows page by page, verifies them, and writes each complete
window to Parquet and ClickHouse, inside an hourly request budget, and shows the
newest numbers as Prometheus metrics. Nothing is lost, nothing is written twice,
no request is wasted. It also runs prompt files as agent jobs, each exactly once.

Try it without an account:
  docgauge demo                 a local service, an export from it, and a summary
  docgauge demo --serve         the same, then a status page and metrics
  docgauge sandbox              the local service alone; prints the environment variables to set

Use it, as an hourly cron job or as a daemon:
  export DOCGAUGE_BASE_URL=https://api.example.com
  export DOCGAUGE_API_KEY_FILE=/etc/docgauge/key DOCGAUGE_PROJECTS=prj_a
  docgauge check && docgauge plan && docgauge export && docgauge status
  docgauge serve`

const exitCodes = `Exit codes: 0 done, nothing due, or the rest deferred by the budget; 1 failed;
2 bad usage or configuration, nothing done; 3 another process holds the state.`

func (a *Program) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "docgauge",
		Short:         "export documentation analytics, whole windows inside a request budget",
		Long:          about + "\n\nConfiguration (environment variables):\n" + variableHelp() + "\n" + exitCodes,
		SilenceErrors: true,
		SilenceUsage:  true,
		// How many letters of a mistyped command may be wrong for a suggestion.
		SuggestionsMinimumDistance: 2,

		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w\n`%s --help` lists the flags", err, cmd.CommandPath())}
	})
	root.AddCommand(a.exportCommand(), a.serveCommand(), a.healthcheckCommand(), a.planCommand(), a.statusCommand(), a.checkCommand(), a.loadCommand(), a.jobsCommand(), a.openmetricsCommand(), a.reportCommand(), a.topCommand(), a.historyCommand(), a.sinksCommand(), a.verifyCommand(),
		a.sandboxCommand(), a.demoCommand(), a.versionCommand(), a.manCommand())
	completions(root)
	return root
}

// noArgs refuses arguments with exit code 2.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasParent() {
		return usageError{fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args)}
	}
	hint := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	}
	return usageError{fmt.Errorf("unknown command %q%s\n`docgauge --help` lists the commands", args[0], hint)}
}

func variableHelp() string {
	var b strings.Builder
	wide := 0
	for _, v := range config.Variables() {
		if v.Meaning != "" {
			wide = max(wide, len(v.Name))
		}
	}
	for _, v := range config.Variables() {
		if v.Meaning == "" {
			continue
		}
		fmt.Fprintf(&b, "  %-*s  %s", wide, v.Name, v.Meaning)
		if v.Default != "" {
			fmt.Fprintf(&b, " [%s]", v.Default)
		}
		b.WriteString("\n")
	}
	return b.String()
}
