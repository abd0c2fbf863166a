package site

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/site/serve"
)

func (a commands) tryCommand() *cobra.Command {
	var project string
	cmd := &cobra.Command{
		Use:   "try PROMPT",
		Short: "run an agent job, print its change, and push nothing",
		Long: `try carries out a prompt with the settings of site serve, also while that runs,
in a copy of the repository that is removed afterwards. The diff goes to
standard output; cost, denied tools and refused hosts to standard error. The
agent's model costs what it costs; nothing is pushed and no pull request opened.

Exit codes: 0 the change passes DOCGAUGE_SITE_CHECK_COMMAND, or there is none;
1 failed; 2 bad usage or configuration, nothing done.`,
		Example: "  docgauge site try 'Correct the spelling of docs/guide.md.'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || strings.TrimSpace(args[0]) == "" {
				return input.Usage(errors.New("give one prompt, in quotes"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.tryPrompt(cmd.Context(), project, args[0]) },
	}
	cmd.Flags().StringVar(&project, "project", "", "`project` of the repository (default: the only one)")
	return cmd
}

func (a commands) tryPrompt(ctx context.Context, project, prompt string) error {
	c, s, err := a.readConfig()
	if err != nil {
		return err
	}
	if project, err = a.project(c, project); err != nil {
		return err
	}
	if s.jobs == nil {
		return input.Usage(errors.New("DOCGAUGE_SITE_AGENT: missing; the agent to try"))
	}
	result, diff, err := serve.TryPrompt(ctx, s.jobs, project, prompt, a.Logger(c))
	if render.IsTerminal(a.Out) {
		diff = shownText(diff)
	}
	if err != nil {
		printPart(a.Err, "output", result.Output)
	} else if _, err = fmt.Fprint(a.Out, diff); err == nil && diff == "" {
		a.Note("the agent changed nothing")
	} else if err == nil && c.SiteCheckCommand != "" {
		a.Note("the change passes DOCGAUGE_SITE_CHECK_COMMAND")
	}
	if r := result.Report; r != nil && r.Cost != nil {
		a.Note("cost: %s", costText(r.Cost))
	}
	for _, row := range reportRows(result.Report) {
		if row[1] != "" {
			a.Note("%s: %s", row[0], shownText(row[1]))
		}
	}
	return err
}
