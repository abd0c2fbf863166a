package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/jobs"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/mcp"
)

func (a *Program) mcpCommand() *cobra.Command {
	var allowJobs bool
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "answer assistants over the Model Context Protocol",
		Long: `mcp speaks the Model Context Protocol (MCP) on standard input and output, until
its input ends. Assistants start it themselves: register it with yours as

  {"mcpServers": {"docgauge": {"command": "docgauge",
    "args": ["--env-file", "/etc/docgauge/docgauge.env", "mcp"]}}}

Its tools only read: projects, window, compare, page_history, coverage, plan,
budget, jobs, outcomes. They answer from the archive and the state, and never
send a request to the service: no key is needed. It runs beside serve, and
without it. If something is not there yet, it names the command to run.

--allow-jobs adds the tool add_prompt, which writes a prompt file to
DOCGAUGE_PROMPTS_DIR as docgauge jobs add does. The queue sends it, and that
costs credits. No more prompts wait than DOCGAUGE_MAX_JOBS_PER_DAY.

serve answers the same at POST /mcp, on loopback or behind
DOCGAUGE_WEB_CONFIG_FILE, and never adds prompts. docs/assistants.md has
examples.

Unique visitors are not additive, and each answer with numbers says so.

` + console.ExitCodes,
		Example: `  docgauge --env-file docgauge.env mcp
  docgauge --env-file docgauge.env mcp --allow-jobs`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.mcp(cmd, allowJobs) },
	}
	cmd.Flags().BoolVar(&allowJobs, "allow-jobs", false, "offer the tool that writes prompt files, which cost credits")
	return cmd
}

func (a *Program) mcp(cmd *cobra.Command, allowJobs bool) error {
	need := config.NeedNothing
	if allowJobs {
		need = config.NeedProjects | config.NeedPrompts
	}
	c, err := a.Config(need)
	if err != nil {
		return err
	}
	if allowJobs {
		if _, err := jobs.OpenPrompts(c); err != nil {
			return err
		}
	}
	console.SurviveClosedPipes()
	in := cmd.InOrStdin()
	if f, ok := in.(*os.File); ok && render.IsTerminal(f) {
		a.Note("this is for assistants, which start it themselves (docgauge mcp --help); stop with Ctrl-D")
	}
	return mcp.Serve(cmd.Context(), in, a.Out, mcp.Options{Config: c, Log: a.Logger(c),
		Now: a.Now, AddPrompts: allowJobs})
}
