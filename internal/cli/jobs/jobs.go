// Package jobs is docgauge jobs: the commands of the prompt queue.
package jobs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/prompts"
)

// commands are the commands below docgauge jobs.
type commands struct{ *console.Console }

// Command is docgauge jobs.
func Command(c *console.Console) *cobra.Command {
	a := commands{c}
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "the prompt queue: prompt files that become agent jobs",
		Long: `Each prompt file in DOCGAUGE_PROMPTS_DIR becomes exactly one agent job, which is
followed until it is completed, archived or failed. The texts sent, and their
outcomes, are in a journal in DOCGAUGE_STATE_DIR: a prompt is never sent twice
automatically, even if docgauge is killed in between.

  docgauge jobs lint      check the files
  docgauge jobs plan      show what would be sent, and why each prompt waits
  docgauge jobs run       one pass; with --wait, until all jobs have ended
  docgauge jobs list      show the jobs, with their pull requests
  docgauge jobs show      show one of them, with its history
docgauge serve runs the queue by itself.

A job is unknown if it is unclear whether the service accepted it: the answer
was lost, or docgauge was killed. It is not sent again automatically, because
most such jobs had been accepted. docgauge jobs list shows its number SEQ,
docgauge jobs show SEQ when it was sent. Look for it at the service, which shows
its jobs and pull requests to people, then run one of

  docgauge jobs resolve SEQ --job-id ID    it is there: follow it
  docgauge jobs resolve SEQ --resubmit     it is not: send it again
  docgauge jobs resolve SEQ --drop         give it up

Two in a row pause the queue until the service answers again, and either an hour
has passed or you run docgauge jobs release.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.planCommand(), a.runCommand(), a.listCommand(), a.showCommand())
	cmd.AddCommand(a.lintCommand(), a.addCommand())
	cmd.AddCommand(a.operatorCommands()...)
	return cmd
}

// OpenPrompts opens the folder. If that fails the configuration is wrong.
func OpenPrompts(c config.Config) (*prompts.Folder, error) {
	folder, err := app.OpenPrompts(c)
	if err != nil {
		return nil, config.Problems{err.Error()}
	}
	return folder, nil
}

func lintPrompts(c config.Config) (prompts.Scanned, error) {
	folder, err := OpenPrompts(c)
	if err != nil {
		return prompts.Scanned{}, err
	}
	return folder.Lint()
}

func (a commands) addCommand() *cobra.Command {
	var name string
	var p prompts.Prompt
	cmd := &cobra.Command{
		Use:   "add [TEXT...]",
		Short: "write a prompt file, from the arguments or from standard input",
		Long: `add writes a new prompt file to DOCGAUGE_PROMPTS_DIR, with the arguments as its
text, or with standard input if there are none. Both is an error. The file is
written whole or not at all, and never replaces another. The queue finds it in
its next scan.`,
		Example: `  docgauge jobs add --title "Fix typos" Fix all typos in the guides.
  docgauge jobs add --id changelog --follow-up "Keep it shorter." <prompt.md`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.add(name, p, args, cmd.InOrStdin()) },
	}
	f := cmd.Flags()
	f.StringVar(&name, "file", "", "name of the file, relative to the folder (default: made from id or title)")
	f.StringVar(&p.ID, "id", "", "id of the prompt (default: its path)")
	f.StringVar(&p.Title, "title", "", "title, for people")
	f.StringVar(&p.Project, "project", "", "one of DOCGAUGE_PROJECTS (needed if there are several)")
	f.StringVar(&p.ConcurrencyKey, "concurrency-key", "", "key; the prompt waits while a job with the same key is at work")
	f.StringArrayVar(&p.FollowUps, "follow-up", nil, "message for the job once it is completed (repeatable)")
	f.StringSliceVar(&p.DependsOn, "depends-on", nil, "ids of prompts that must be completed first")
	f.BoolVar(&p.Template, "template", false, "render the text as a template, with [[ ]]")
	return cmd
}

// maxInput is more than a prompt may have.
const maxInput = 2 * prompts.MaxBytes

func (a commands) add(name string, p prompts.Prompt, args []string, in io.Reader) error {
	c, err := a.Config(config.NeedProjects | config.NeedPrompts)
	if err != nil {
		return err
	}
	p.Body = strings.TrimSpace(strings.Join(args, " "))
	if len(args) > 0 && hasText(in) {
		return input.Usage(errors.New("docgauge jobs add: there is text as arguments and on standard input: give one of the " +
			"two; in a loop that reads standard input, add </dev/null"))
	}
	if len(args) == 0 {
		if f, ok := in.(*os.File); ok && render.IsTerminal(f) {
			return input.Usage(errors.New("docgauge jobs add: no text: give it as arguments or on standard input"))
		}
		read, err := io.ReadAll(io.LimitReader(in, maxInput))
		if err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
		p.Body = strings.TrimSpace(string(read))
	}
	folder, err := OpenPrompts(c)
	if err != nil {
		return err
	}
	name, err = folder.Write(name, p)
	if _, wrong := errors.AsType[prompts.Error](err); wrong {
		return input.Usage(err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Out, name)
	return err
}

// inputPatience is how long a pipe is waited for: one that stays open without text, as of ssh or a supervisor, has none.
const inputPatience = time.Second

// hasText reports whether a file or pipe on standard input has something besides spaces. A terminal has not, nor
// has a device such as /dev/null.
func hasText(in io.Reader) bool {
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err != nil || info.Mode()&(os.ModeDevice|os.ModeCharDevice) != 0 {
			return false
		}
	}
	found := make(chan bool, 1)
	go func() {
		text := bufio.NewReader(io.LimitReader(in, maxInput))
		next, _, err := text.ReadRune()
		for err == nil && unicode.IsSpace(next) {
			next, _, err = text.ReadRune()
		}
		found <- err == nil
	}()
	select {
	case has := <-found:
		return has
	case <-time.After(inputPatience):
		return false
	}
}

func (a commands) planCommand() *cobra.Command {
	var asJSON, text bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "show what would be sent, in which order, and why each prompt waits",
		Long: `plan shows every prompt file and its newest job: what would be sent next, and
what each of the others waits for. --text shows the text that would be sent,
with templates rendered as of their next firing, or why that cannot be done yet.
It sends nothing, changes nothing and works while the queue runs.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.plan(cmd.Context(), text, asJSON) },
	}
	cmd.Flags().BoolVar(&text, "text", false, "show the rendered prompts too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the plan as JSON")
	return cmd
}

func (a commands) plan(ctx context.Context, text, asJSON bool) (err error) {
	c, err := a.Config(config.NeedProjects | config.NeedPrompts)
	if err != nil {
		return err
	}
	folder, err := OpenPrompts(c)
	if err != nil {
		return err
	}
	opened, err := app.OpenReading(c, a.Logger(c), a.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	all, err := opened.PlanPrompts(ctx, folder)
	if err != nil {
		return err
	}
	return a.Print(asJSON, append([]jobs.Planned{}, all...),
		func() error { return a.printPlanned(all, a.Wording(c), text) })
}

func (a commands) printPlanned(all []jobs.Planned, w render.Wording, text bool) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(a.Out, "no prompts")
		return err
	}
	table := render.NewTable(render.Number("#"), promptColumn(), render.ProjectColumn(), render.Column{Name: "state"},
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
		table.Add(place, p.ID, w.Project(p.Project), state, whyText(p))
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

func whyText(p jobs.Planned) string {
	if p.Ready() && p.Reason == "" {
		return "goes with the next pass"
	}
	return p.Reason
}

func (a commands) lintCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "lint",
		Short: "check every prompt file, and report everything that is wrong",
		Long: `lint reads DOCGAUGE_PROMPTS_DIR and checks every prompt file: front matter, ids,
dependencies, schedules and templates. It prints each finding as file:line:
text, and exits 1 if there is any. Nothing is sent and no state is needed: use
it in CI. With a state, a prompt may depend on one that was sent and whose file
is gone.`,
		RunE: func(*cobra.Command, []string) error { return a.lint(asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return cmd
}

func (a commands) lint(asJSON bool) error {
	c, err := a.Config(config.NeedPrompts)
	if err != nil {
		return err
	}
	found, err := lintPrompts(c)
	if err != nil {
		return err
	}
	err = a.Print(asJSON, append([]prompts.Finding{}, found.Findings...), func() error {
		for _, f := range found.Findings {
			fmt.Fprintln(a.Out, f)
		}
		all := len(found.Prompts) + len(found.Invalid)
		_, err := fmt.Fprintf(a.Out, "%s, %d invalid\n", format.Plural(all, "prompt"), len(found.Invalid))
		return err
	})
	if err == nil && len(found.Findings) > 0 {
		return render.ErrReported
	}
	return err
}
