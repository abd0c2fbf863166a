package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/jobs/journal"
)

func (a *Program) jobsListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "show the agent jobs, newest first, with their pull requests",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.jobsList(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the jobs as JSON")
	return cmd
}

// jobList is what list reports; its JSON keys are stable.
type jobList struct {
	Queue journal.Queue `json:"queue"`
	Jobs  []journal.Job `json:"jobs"`
}

func (a *Program) jobsList(ctx context.Context, asJSON bool) (err error) {
	r, err := a.openReading(config.NeedNothing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	list := jobList{Jobs: []journal.Job{}}
	all, err := r.State.Jobs(ctx)
	if err != nil {
		return err
	}
	if list.Queue, err = r.State.Queue(ctx); err != nil {
		return err
	}
	slices.Reverse(all)
	list.Jobs = append(list.Jobs, all...)
	if asJSON {
		return writeJSON(a.Out, list)
	}
	return a.printJobs(list)
}

func (a *Program) printJobs(list jobList) error {
	if list.Queue.Paused != "" {
		fmt.Fprintf(a.Out, "paused since %s: %s\n\n", clock(list.Queue.Since), plain(list.Queue.Detail))
	}
	if len(list.Jobs) == 0 {
		_, err := fmt.Fprintln(a.Out, "no jobs yet")
		return err
	}
	var rows [][]string
	for _, j := range list.Jobs {
		rows = append(rows, []string{strconv.FormatInt(j.Seq, 10), j.Prompt, j.Project, stateOfJob(j, a.now()), orMinus(whenever(j.Begun)), orMinus(j.JobID), orMinus(j.PRLink)})
	}
	if err := jobTable(a.Out, []string{"#", "prompt", "project", "state", "begun", "job", "pull request"}, rows, 0); err != nil {
		return err
	}
	for _, j := range list.Jobs {
		remedy := jobs.Remedy(j)
		if remedy == "" {
			continue
		}
		if j.State == journal.Held {
			remedy = j.Reason + "; " + remedy
		}
		fmt.Fprintf(a.Out, "\n%d %s is %s: %s\n", j.Seq, plain(j.Prompt), j.State, plain(remedy))
	}
	return nil
}

func stateOfJob(j journal.Job, now time.Time) string {
	if j.Stalled(now) {
		return string(j.State) + ", stalled"
	}
	return string(j.State)
}

func orMinus(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (a *Program) jobsShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show SEQ|PROMPT",
		Short: "show one job: what was sent, what became of it, and its history",
		Args:  oneJob,
		RunE:  func(cmd *cobra.Command, args []string) error { return a.jobsShow(cmd.Context(), args[0], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the job as JSON")
	return cmd
}

// jobHistory is what show reports; its JSON keys are stable.
type jobHistory struct {
	journal.Job
	Events []journal.Event `json:"events"`
}

func (a *Program) jobsShow(ctx context.Context, name string, asJSON bool) (err error) {
	r, err := a.openReading(config.NeedNothing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var h jobHistory
	if h.Job, err = jobs.Find(ctx, r.State, name); errors.Is(err, journal.ErrNoJob) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	if h.Events, err = r.State.Events(ctx, h.Seq); err != nil {
		return err
	}
	if asJSON {
		return writeJSON(a.Out, h)
	}
	return a.printJob(h)
}

func (a *Program) printJob(h jobHistory) error {
	fmt.Fprintf(a.Out, "job %d of prompt %s (%s), attempt %d\n", h.Seq, h.Prompt, h.Project, h.Attempt)
	for _, row := range [][2]string{
		{"title", h.Title}, {"renamed from", h.RenamedFrom}, {"state", stateOfJob(h.Job, a.now())}, {"reason", h.Reason}, {"what to do", jobs.Remedy(h.Job)}, {"job", h.JobID}, {"status", h.Status},
		{"pull request", h.PRLink}, {"repository", h.Repository}, {"ref", h.Ref}, {"model", h.Model},
		{"begun", whenever(h.Begun)}, {"created", whenever(h.Created)}, {"ended", whenever(h.Ended)},
	} {
		if row[1] != "" {
			fmt.Fprintf(a.Out, "  %-13s %s\n", row[0], plain(row[1]))
		}
	}
	fmt.Fprintln(a.Out, "\nhistory")
	for _, e := range h.Events {
		fmt.Fprintf(a.Out, "  %s  %-10s %s\n", e.At.UTC().Format(time.RFC3339), e.To, plain(e.Cause))
	}
	if h.Text == "" {
		return nil
	}
	fmt.Fprintf(a.Out, "\nprompt\n%s\n", indent(h.Text))
	for i, text := range h.FollowUps {
		fmt.Fprintf(a.Out, "\nfollow-up %d\n%s\n", i+1, indent(text))
	}
	return nil
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ")
}

func whenever(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return clock(t)
}
