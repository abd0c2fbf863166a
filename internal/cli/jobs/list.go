package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
)

func (a commands) listCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "show the agent jobs, newest first, with their pull requests",
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.list(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the jobs as JSON")
	return cmd
}

// List is the output of jobs list; its JSON keys are stable.
type List struct {
	Queue journal.Queue `json:"queue"`
	Jobs  []Listed      `json:"jobs"`
}

// Listed is a job in it, and the output of jobs show; its JSON keys are stable.
type Listed struct {
	journal.Job
	// Pull is the pull request as last read; nil for a job without a pull request.
	Pull *journal.PullRequest `json:"pull_request,omitempty"`
	// Events are the history of the job that show prints.
	Events []journal.Transition `json:"events,omitempty"`
}

func withPulls(ctx context.Context, db *state.DB, all []journal.Job) ([]Listed, error) {
	known, err := db.PullStates(ctx)
	pulls := jobs.PullsByLink(all, known)
	out := make([]Listed, len(all))
	for i, j := range all {
		out[i].Job = j
		if p, ok := pulls[j.PRLink]; ok {
			out[i].Pull = &p
		}
	}
	return out, err
}

func (a commands) list(ctx context.Context, asJSON bool) (err error) {
	c, db, err := a.OpenState(config.NeedNothing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var list List
	if list.Queue, err = db.Queue(ctx); err != nil {
		return err
	}
	all, err := db.Jobs(ctx)
	if err != nil {
		return err
	}
	slices.Reverse(all)
	if list.Jobs, err = withPulls(ctx, db, all); err != nil {
		return err
	}
	return a.Print(asJSON, list, func() error { return a.printJobs(list, a.Wording(c)) })
}

func (a commands) printJobs(list List, w render.Wording) error {
	text := render.NewText(a.Out)
	if list.Queue.Paused != "" {
		text.Line(2, "paused since %s: %s", format.Clock(list.Queue.Since, a.Now()), list.Queue.Detail)
		text.Line(0, "")
	}
	if len(list.Jobs) == 0 {
		text.Line(0, "no jobs yet")
		return text.Err()
	}
	costs := false
	for _, j := range list.Jobs {
		w.Several = w.Several || j.Project != list.Jobs[0].Project
		costs = costs || costText(j.Job) != "-"
	}
	columns := []render.Column{render.Number("#"), promptColumn(), render.ProjectColumn(), {Name: "state"},
		{Name: "begun"}, {Name: "review"}}
	if costs {
		columns = append(columns, render.Number("cost"))
	}
	table := render.NewTable(append(columns, render.Column{Name: "pull request", Below: true})...)
	for _, j := range list.Jobs {
		begun, link := "-", cmp.Or(j.PRLink, "-")
		if !j.Begun.IsZero() {
			begun = format.Clock(j.Begun, a.Now())
		}
		if j.Result() == "no_pr" {
			link = "no pull request"
		}
		cells := []string{strconv.FormatInt(j.Seq, 10), j.Prompt, w.Project(j.Project), stateText(j.Job, a.Now()),
			begun, reviewText(j.Pull, a.Now())}
		if costs {
			cells = append(cells, costText(j.Job))
		}
		table.Add(append(cells, link)...)
	}
	if err := table.Print(a.Out); err != nil {
		return err
	}
	var problems []string // most often one, which all of them share
	for _, j := range list.Jobs {
		if p := j.Pull; p != nil && p.State == journal.PullUnknown && p.Problem != "" &&
			!slices.Contains(problems, p.Problem) {
			problems = append(problems, p.Problem)
			text.Line(0, "")
			text.Line(2, "review unknown: %s", p.Problem)
		}
	}
	for _, j := range list.Jobs {
		remedy := jobs.Remedy(j.Job)
		if remedy == "" {
			continue
		}
		if j.State == journal.Held {
			remedy = j.Reason + "; " + remedy
		}
		text.Line(0, "")
		text.Line(2, "%d %s is %s: %s", j.Seq, j.Prompt, j.State, remedy)
	}
	return text.Err()
}

// reviewText is the state of a pull request, and how long it waits, or did.
func reviewText(p *journal.PullRequest, now time.Time) string {
	if p == nil {
		return "-"
	}
	return view.PullRequest{State: string(p.State), Opened: p.Opened(), Ended: p.Ended()}.ReviewText(now)
}

// costText is the cost of a job, or a dash if it is unknown.
func costText(j journal.Job) string {
	return cmp.Or(view.NewJob(j, nil, time.Time{}).CostText(), "-")
}

// promptColumn names a prompt by its id, which may be a long path.
func promptColumn() render.Column { return render.Column{Name: "prompt", Cut: render.CutMiddle} }

// stateText is the state of a job, and whether it is at work for very long.
func stateText(j journal.Job, now time.Time) string {
	if j.Stalled(now) {
		return string(j.State) + ", stalled"
	}
	return string(j.State)
}

func (a commands) showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show SEQ|PROMPT",
		Short: "show one job: its text, its state and its history",
		Args:  oneJob,
		RunE:  func(cmd *cobra.Command, args []string) error { return a.show(cmd.Context(), args[0], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the job as JSON")
	return cmd
}

func (a commands) show(ctx context.Context, name string, asJSON bool) (err error) {
	c, db, err := a.OpenState(config.NeedNothing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	found, err := jobs.Find(ctx, db, name)
	if errors.Is(err, journal.ErrNoJob) {
		return input.Usage(err)
	} else if err != nil {
		return err
	}
	all, err := withPulls(ctx, db, []journal.Job{found})
	if err != nil {
		return err
	}
	if all[0].Events, err = db.History(ctx, found.Seq); err != nil {
		return err
	}
	return a.Print(asJSON, all[0], func() error { return a.printJob(all[0], a.Wording(c)) })
}

func (a commands) printJob(h Listed, w render.Wording) error {
	state := stateText(h.Job, a.Now())
	if h.Result() == "no_pr" {
		state = view.Job{Result: h.Result()}.StateText()
	}
	text := render.NewText(a.Out)
	text.Line(2, "job %d of prompt %s (%s), try %d", h.Seq, h.Prompt, w.Names.Of(h.Project), h.Try)
	shown := view.NewJob(h.Job, nil, a.Now())
	rows := [][2]string{
		{"title", h.Title}, {"renamed from", h.RenamedFrom}, {"state", state}, {"reason", h.Reason},
		{"what to do", jobs.Remedy(h.Job)}, {"job", h.JobID}, {"status", h.Status},
		{"pull request", h.PRLink}, {"repository", h.Repository}, {"ref", h.Ref}, {"model", h.Model},
		{"cost", shown.CostText()}, {"tokens", shown.TokensText()},
		{"begun", timeText(h.Begun)}, {"created", timeText(h.Created)}, {"ended", timeText(h.Ended)},
	}
	for _, row := range append(rows, pullRows(h.Pull, a.Now())...) {
		if row[1] != "" {
			text.Line(16, "  %-13s %s", row[0], row[1])
		}
	}
	text.Line(0, "")
	text.Line(0, "history")
	for _, e := range h.Events {
		text.Line(35, "  %s  %-10s %s", e.At.UTC().Format(time.RFC3339), e.To, e.Cause)
	}
	if err := text.Err(); err != nil {
		return err
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

// pullRows is the story of a pull request.
func pullRows(p *journal.PullRequest, now time.Time) [][2]string {
	if p == nil {
		return nil
	}
	changes, closed := "", timeText(p.Closed)
	if !p.Merged.IsZero() { // a merge closes it as well
		closed = ""
	}
	if p.Files > 0 {
		changes = fmt.Sprintf("%s, %s added, %s removed", format.Plural(p.Files, "file"),
			format.Plural(p.Additions, "line"), format.Plural(p.Deletions, "line"))
	}
	return [][2]string{
		{"review", reviewText(p, now)}, {"problem", p.Problem},
		{"decision", strings.ReplaceAll(p.Review, "_", " ")}, {"checks", p.Checks},
		{"changes", changes}, {"opened", timeText(p.Created)}, {"ready", timeText(p.Ready)},
		{"first review", timeText(p.FirstReview)},
		{"reopened", timeText(p.Reopened)}, {"merged", timeText(p.Merged)}, {"closed", closed},
		{"read", timeText(p.Answered)},
	}
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ")
}

// timeText is a time to the minute, empty if it is zero.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return format.Time(t)
}
