package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/prompts"
)

func (a *Program) jobsPlanCommand() *cobra.Command {
	var asJSON, text bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "show what would be sent, in which order, and why each prompt waits",
		Long: `plan shows every prompt file and its newest job: what would be sent next, and
what each of the others waits for. --text shows the text that would be sent,
with templates rendered as of their next firing, or why that cannot be done yet.
It sends nothing, changes nothing and works while the queue runs.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.jobsPlan(cmd.Context(), text, asJSON) },
	}
	cmd.Flags().BoolVar(&text, "text", false, "show the rendered prompts too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the plan as JSON")
	return cmd
}

func (a *Program) jobsPlan(ctx context.Context, text, asJSON bool) (err error) {
	c, err := a.config(config.NeedProjects | config.NeedPrompts)
	if err != nil {
		return err
	}
	folder, err := openPrompts(c)
	if err != nil {
		return err
	}
	opened, err := app.OpenReading(c, a.logger(c), a.now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	all, err := opened.PlanPrompts(ctx, folder)
	if err != nil {
		return err
	}
	return a.print(asJSON, append([]jobs.Planned{}, all...),
		func() error { return a.printPlanned(all, a.wording(c), text) })
}

func (a *Program) printPlanned(all []jobs.Planned, w wording, text bool) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(a.Out, "no prompts")
		return err
	}
	table := render.NewTable(render.Number("#"), promptColumn(), projectColumn(), render.Column{Name: "state"},
		render.Column{Name: "why", Below: true})
	for _, p := range all {
		place := "-"
		if p.Place > 0 {
			place = strconv.Itoa(p.Place)
		}
		state := string(p.State)
		if p.Drifted {
			state += ", edited"
		}
		table.Add(place, p.ID, w.project(p.Project), state, whyText(p))
	}
	if err := table.Print(a.Out); err != nil {
		return err
	}
	for _, p := range all {
		if text && p.Unrendered != "" {
			fmt.Fprintf(a.Out, "\n--- %s\nno text yet: %s\n", p.ID, render.Printable(p.Unrendered))
		}
		if text && p.Text != "" {
			fmt.Fprintf(a.Out, "\n--- %s\n%s\n", p.ID, strings.TrimRight(p.Text, "\n"))
			for i, f := range p.FollowUps {
				fmt.Fprintf(a.Out, "\n--- %s, follow-up %d\n%s\n", p.ID, i+1, strings.TrimRight(f, "\n"))
			}
		}
	}
	return nil
}

// whyText is the reason that a prompt waits.
func whyText(p jobs.Planned) string {
	if p.Ready() && p.Reason == "" {
		return "goes with the next pass"
	}
	return p.Reason
}

func (a *Program) jobsLintCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "lint",
		Short: "check every prompt file, and report everything that is wrong",
		Long: `lint reads DOCGAUGE_PROMPTS_DIR and checks every prompt file: front matter, ids,
dependencies, schedules and templates. It prints each finding as file:line:
text, and exits 1 if there is any. Nothing is sent and no state is needed: use
it in CI. With a state, a prompt may depend on one that was sent and whose file
is gone.`,
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
	found, err := lintPrompts(c)
	if err != nil {
		return err
	}
	err = a.print(asJSON, append([]prompts.Finding{}, found.Findings...), func() error {
		for _, f := range found.Findings {
			fmt.Fprintln(a.Out, f)
		}
		all := len(found.Prompts) + len(found.Invalid)
		_, err := fmt.Fprintf(a.Out, "%s, %d invalid\n", format.Plural(all, "prompt"), len(found.Invalid))
		return err
	})
	if err == nil && len(found.Findings) > 0 {
		return errReported
	}
	return err
}
