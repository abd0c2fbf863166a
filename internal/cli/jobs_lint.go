package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/prompts"
)

func (a *Program) jobsLintCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "lint",
		Short: "check every prompt file, and say all that is wrong",
		Long: `lint reads DOCGAUGE_PROMPTS_DIR and checks every prompt file: front matter, ids,
dependencies, schedules and templates. It prints each finding as file:line: text,
and exits 1 if there is any. Nothing is sent and no state is needed: use it in CI.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.jobsLint(asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return cmd
}

func (a *Program) jobsLint(asJSON bool) error {
	c, err := a.config(config.NeedPrompts)
	if err != nil {
		return err
	}
	folder, err := openPrompts(c)
	if err != nil {
		return err
	}
	scanned, err := folder.Lint()
	if err != nil {
		return err
	}
	if asJSON {
		err = writeJSON(a.Out, append([]prompts.Finding{}, scanned.Findings...))
	} else {
		err = printFindings(a.Out, scanned)
	}
	if err == nil && len(scanned.Findings) > 0 {
		return errSaid
	}
	return err
}

func printFindings(out io.Writer, s prompts.Scanned) error {
	for _, f := range s.Findings {
		fmt.Fprintln(out, f)
	}
	_, err := fmt.Fprintf(out, "%s, %d invalid\n", plural(len(s.Prompts)+len(s.Invalid), "prompt"), len(s.Invalid))
	return err
}
