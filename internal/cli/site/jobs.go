package site

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/runner"
	"github.com/docgauge/docgauge/internal/site/serve"
)

func (a commands) jobsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "show the agent jobs that site serve has carried out",
		Long:  "jobs reads the journal in DOCGAUGE_SITE_DIR, also while site serve runs.",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.jobsListCommand(), a.jobsShowCommand())
	return cmd
}

func (a commands) jobsListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "show the jobs, newest first",
		Long:  "list prints the jobs of all projects, newest first.\n\n" + console.ReadingExitCodes,
		RunE: func(*cobra.Command, []string) error {
			all, err := a.recorded()
			if err != nil {
				return err
			}
			slices.Reverse(all)
			return a.Print(asJSON, all, func() error { return a.printJobs(all) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// recorded returns the jobs of the site.
func (a commands) recorded() ([]runner.Recorded, error) {
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return nil, err
	}
	all, err := serve.ReadJobs(c.SiteDir)
	return append([]runner.Recorded{}, all...), err
}

func (a commands) printJobs(all []runner.Recorded) error {
	if len(all) == 0 {
		a.Note("there is no job in DOCGAUGE_SITE_DIR")
		return nil
	}
	t := render.NewTable(render.Column{Name: "job"}, render.Column{Name: "project"}, render.Column{Name: "status"},
		render.Column{Name: "created"}, render.Number("cost"), render.Column{Name: "prompt", Below: true})
	for _, j := range all {
		t.Add(j.ID, j.Project, string(j.Status), format.Clock(j.CreatedAt, a.Now()), cmp.Or(costText(j.Cost), "-"),
			runner.Subject(j.Prompts[0]))
	}
	return t.Print(a.Out)
}

// costText is a cost with its unit, empty if it is unknown.
func costText(cost *float64) string {
	if cost == nil {
		return ""
	}
	return fmt.Sprintf("%.4g USD", *cost)
}

func (a commands) jobsShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "show one job: prompts, cost, denied tools, refused hosts, output",
		Long: `show prints a job with what its last instruction came to: the failure, the tools
that the agent was denied, the hosts that it was refused, and the end of its
output, without the values of DOCGAUGE_SITE_AGENT_ENV.

` + console.ReadingExitCodes,
		Example: "  docgauge site jobs list\n  docgauge site jobs show job_k3vq7w2a5c6d7e8f9g0h",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return input.Usage(errors.New("name one job by its id: docgauge site jobs list shows them"))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := a.recorded()
			if err != nil {
				return err
			}
			i := slices.IndexFunc(all, func(j runner.Recorded) bool { return j.ID == args[0] })
			if i < 0 {
				return input.Usagef("no job has the id %.40q: docgauge site jobs list shows them", args[0])
			}
			return a.Print(asJSON, all[i], func() error { return a.printJob(all[i]) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a commands) printJob(j runner.Recorded) error {
	link, retry := "", ""
	if j.PRLink != nil {
		link = *j.PRLink
	}
	if j.RetryAt != nil {
		retry = format.Time(*j.RetryAt)
	}
	text := render.NewText(a.Out)
	text.Line(2, "%s of %s: %s", j.ID, j.Project, j.Status)
	rows := [][2]string{{"failure", j.Failure}, {"tried again", retry}, {"pull request", link}, {"branch", j.Branch},
		{"agent", j.Model}, {"created", format.Time(j.CreatedAt)}, {"cost", costText(j.Cost)}}
	for _, row := range append(rows, reportRows(j.Report)...) {
		if row[1] != "" {
			text.Line(16, "  %-13s %s", row[0], shownText(row[1]))
		}
	}
	if err := text.Err(); err != nil {
		return err
	}
	for _, prompt := range j.Prompts {
		printPart(a.Out, "prompt", prompt)
	}
	printPart(a.Out, "output", j.Output)
	return nil
}

// reportRows is what an agent's report says besides its cost.
func reportRows(r *runner.Report) (rows [][2]string) {
	if r == nil {
		return nil
	}
	if r.Tokens != nil {
		rows = append(rows, [2]string{"tokens", fmt.Sprint(*r.Tokens)})
	}
	return append(rows, [2]string{"denied tools", strings.Join(r.Denied, ", ")},
		[2]string{"refused hosts", strings.Join(r.Refused, ", ")}, [2]string{"says", r.Said})
}

// printPart prints a text that an agent or a person wrote below its name.
func printPart(out io.Writer, name, text string) {
	if text != "" {
		fmt.Fprintf(out, "\n%s\n  %s\n", name, strings.ReplaceAll(strings.TrimRight(shownText(text), "\n"), "\n", "\n  "))
	}
}

// shownText is what an agent wrote, without what a terminal would obey.
func shownText(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
