package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/jobs"
)

func (a *Program) jobsPlanCommand() *cobra.Command {
	var asJSON, text bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "show what would be sent, in which order, and why each prompt waits",
		Long: `plan shows every prompt file and its newest job: what would be submitted next, and
what each of the others waits for. --text shows what would be sent, with templates
filled in. It sends nothing, changes nothing and works while the queue runs.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.jobsPlan(cmd.Context(), text, asJSON) },
	}
	cmd.Flags().BoolVar(&text, "text", false, "show the rendered prompts too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the plan as JSON")
	return cmd
}

func (a *Program) jobsPlan(ctx context.Context, text, asJSON bool) (err error) {
	r, err := a.openReading(config.NeedProjects | config.NeedPrompts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	all, err := r.PlanPrompts(ctx, r.folder)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(a.Out, append([]jobs.Planned{}, all...))
	}
	return a.printPlanned(all, text)
}

func (a *Program) printPlanned(all []jobs.Planned, text bool) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(a.Out, "no prompts")
		return err
	}
	var rows [][]string
	for _, p := range all {
		place := "-"
		if p.Place > 0 {
			place = strconv.Itoa(p.Place)
		}
		state := string(p.State)
		if p.Drifted {
			state += ", edited"
		}
		rows = append(rows, []string{place, p.ID, p.Project, state, orNext(p)})
	}
	if err := jobTable(a.Out, []string{"#", "prompt", "project", "state", "why"}, rows, 0); err != nil {
		return err
	}
	for _, p := range all {
		if text && p.Text != "" {
			fmt.Fprintf(a.Out, "\n--- %s\n%s\n", p.ID, strings.TrimRight(p.Text, "\n"))
			for i, f := range p.FollowUps {
				fmt.Fprintf(a.Out, "\n--- %s, follow-up %d\n%s\n", p.ID, i+1, strings.TrimRight(f, "\n"))
			}
		}
	}
	return nil
}

func orNext(p jobs.Planned) string {
	if p.Ready() && p.Reason == "" {
		return "goes with the next pass"
	}
	return p.Reason
}
