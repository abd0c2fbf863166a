package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/secretfile"
	"github.com/docgauge/docgauge/internal/site/runner"
)

const aboutSandbox = `sandbox serves the documentation platform's API on this machine, with synthetic
traffic that is deterministic from --seed, or over the event log
DIR/events.ndjson (one JSON object a line: time, visitor, kind human|ai, path,
and perhaps agent, referrer, bytes, evidence and markdown). It has the reports
visitors, views, agents and sources, and readers are counted exactly. Some who
claim to be people are programs under a browser's name (--forged). It prints the
environment variables to set; paste them into another terminal and run docgauge
export there. In a browser, its address shows how to use it, its jobs and its
pull requests.

It serves agent jobs too. Without further flags, a job only pretends: it is
completed with a pull request that this sandbox shows. Words in a prompt choose
another outcome:
  [sandbox:pr]          completed, with a pull request
  [sandbox:no-change]   completed, without one
  [sandbox:fail]        failed
  [sandbox:archive]     archived
  [sandbox:slow]        the same after 30s; [sandbox:slow=5m] after 5m
  [sandbox:cost=0.42]   the same, and it reports a cost of 0.42 USD
--agent-script FILE adds words: {"[later]": {"outcome": "pr", "after": "30s"}},
with the outcomes pr, no_change, failed, archived and edit (what happens without
a word). A job that pretends changes a page of the synthetic site, by the word
[sandbox:page=/guides/errors] that one.

Pull requests live: on their pages people review, merge, close and reopen them,
or flags do (--merge-share). Programs read them below DOCGAUGE_GITHUB_URL as on
GitHub. With --merge-effect, readers of the pages that a merge changed become
more, or fewer, from its day on.

With --repo a job edits that git repository: in a copy of its files,
--agent-cmd runs with the prompt on standard input. What it changed becomes a
commit on the branch docgauge/<job>, however it ended, and is shown as a pull
request here, or opened on GitHub (--github-repo, with GITHUB_TOKEN_FILE or
GITHUB_TOKEN). The checked-out files and branch are not touched. The command
gets PATH, HOME and the like from the environment, and the variables that
--agent-env names.`

type sandboxOptions struct {
	config             sandbox.Config
	repo               runner.RepoOptions
	agentEnv           []string
	listen, requestLog string
	remote             bool
	effect             string
	badWindows         []string
}

func (a *Program) sandboxCommand() *cobra.Command {
	var o sandboxOptions
	groups := o.flagGroups()
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "run a local imitation of the service",
		Long:  aboutSandbox,
		Example: `  docgauge sandbox
  docgauge sandbox --scenario growth                numbers that say something
  docgauge sandbox --rate-limit 100 --late-days 2   strict as the real service
  docgauge sandbox --latency 50ms --error-every 20  unreliable as a bad day
  docgauge sandbox --pages 10000 --moving 1h        totals that move while read
  docgauge sandbox --merge-share 1 --merge-effect +30%  merges with an effect
  docgauge sandbox --repo ~/docs --agent-cmd my-agent --agent-env MY_AGENT_KEY`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(cmd.Flags(), groups); err != nil {
				return input.Usage(err)
			}
			return a.sandbox(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:8787", "address to listen on; port 0 picks a free port")
	f.BoolVar(&o.remote, "allow-remote", false, "allow --listen addresses that other machines can reach")
	f.StringVar(&o.config.DataDir, "data", "", "directory of the event log events.ndjson and of agent jobs")
	f.StringVar(&o.requestLog, "request-log", "",
		"file for the request log, as JSON lines (default standard error, as text)")
	for _, g := range groups {
		f.AddFlagSet(g.flags)
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		others := pflag.NewFlagSet("", pflag.ContinueOnError)
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !slices.ContainsFunc(groups, func(g flagGroup) bool { return g.flags.Lookup(f.Name) != nil }) {
				others.AddFlag(f)
			}
		})
		w := cmd.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
		global := flagGroup{"Global Flags", cmd.InheritedFlags()}
		for _, g := range slices.Concat([]flagGroup{{"Flags", others}}, groups, []flagGroup{global}) {
			if g.flags.HasAvailableFlags() {
				fmt.Fprintf(w, "\n%s:\n%s", g.title, g.flags.FlagUsagesWrapped(console.HelpWidth))
			}
		}
		return nil
	})
	return cmd
}

// flagGroup is flags that the help lists under a title.
type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

// Titles of the groups whose flags depend on others.
const (
	pullFlags = "Pull requests on the sandbox"
	repoFlags = "Agent jobs that edit a repository"
)

func (o *sandboxOptions) flagGroups() (groups []flagGroup) {
	group := func(title string) *pflag.FlagSet {
		groups = append(groups, flagGroup{title, pflag.NewFlagSet("", pflag.ContinueOnError)})
		return groups[len(groups)-1].flags
	}
	c, jobs, repo := &o.config, &o.config.Agent, &o.repo
	f := group("Traffic and keys")
	f.Uint64Var(&c.Seed, "seed", 1, "seed of the synthetic traffic")
	f.StringVar((*string)(&c.Scenario), "scenario", string(sandbox.Steady),
		"development of the traffic: steady, or growth for a site that grows, whose pages rise, fall, appear and "+
			"vanish")
	f.IntVar(&c.Days, "days", sandbox.DefaultDays, "days of synthetic traffic before today")
	f.IntVar(&c.Pages, "pages", sandbox.DefaultPages, "pages of the synthetic site")
	f.Float64Var(&c.Forged, "forged", 0.02,
		"share of those who claim to be people that are programs under a browser's name, 0 to 1")
	f.StringVar((*string)(&c.Humans), "humans", string(analytics.Claimed),
		"who counts as human: claimed (all of them), or confirmed (who shows evidence of a browser)")
	f.StringSliceVar(&c.Projects, "project", []string{sandbox.DefaultProject}, "ids of the projects that are served")
	f.StringVar(&c.APIKey, "api-key", sandbox.DefaultAPIKey, "API key with all permissions")
	f.StringVar(&c.ExpiredKey, "expired-key", "", "API key that is refused with 401")
	f.StringVar(&c.ReadOnlyKey, "read-only-key", "", "API key that is refused with 403 for agent POSTs")
	f.StringVar(&c.WriteOnlyKey, "write-only-key", "", "API key that is refused with 403 for reads")

	f = group("Agent jobs")
	f.StringVar(&jobs.Script, "agent-script", "", "file with further words and their outcomes")
	f.DurationVar(&jobs.After, "agent-duration", time.Second, "duration of an instruction, unless its words set one")
	f.IntVar(&jobs.Workers, "agent-workers", sandbox.DefaultWorkers, "instructions worked on at once")
	f.DurationVar(&jobs.ArchiveAfter, "agent-archive-after", 0,
		"time from the end of a job until it is archived; 0 = never")
	f.StringVar(&jobs.PublicURL, "public-url", "",
		"base URL of links to pull requests on this sandbox (default the address that the API's caller used)")

	f = group(pullFlags)
	pulls := &jobs.Pulls
	f.Float64Var(&pulls.MergeShare, "merge-share", 0, "share of pull requests that are merged, 0 to 1")
	f.Float64Var(&pulls.CloseShare, "close-share", 0, "share of pull requests that are closed without a merge, 0 to 1")
	f.DurationVar(&pulls.EndAfter, "merge-delay", time.Minute, "time until those are merged or closed")
	f.DurationVar(&pulls.ReviewAfter, "review-delay", 0, "time until a pull request is reviewed; 0 = no reviews")
	f.DurationVar(&pulls.DraftFor, "draft-delay", 0, "time that a pull request is a draft; the other delays begin then")
	f.IntVar(&pulls.DaysAgo, "merged-days-ago", 0, "days by which merged pull requests are dated back")
	f.StringVar(&o.effect, "merge-effect", "",
		"change of the synthetic readers of merged pages, such as +30% or human=+30%,ai=-10% (default none)")
	f.StringVar(&pulls.Token, "github-api-token", "", "token that reading pull requests needs (default none)")
	f.IntVar(&pulls.Limit, "github-api-limit", fake.DefaultLimit,
		"requests about pull requests answered in an hour")

	f = group(repoFlags)
	f.StringVar(&repo.Path, "repo", "", "git repository that agent jobs edit (default none: jobs only pretend)")
	f.StringVar(&repo.Base, "repo-base", "", "base branch of pull requests (default the one that is checked out)")
	f.StringVar(&repo.Command, "agent-cmd", "",
		"command that edits files, run by sh -c (default a built-in edit that adds a line to a file)")
	f.DurationVar(&repo.Timeout, "agent-timeout", runner.DefaultTimeout, "time limit of the command")
	f.StringSliceVar(&o.agentEnv, "agent-env", nil,
		"names of further variables for the command, besides PATH, HOME and the like")
	f.StringVar(&repo.Project, "github-repo", "", "owner/name of the GitHub repository that gets the pull requests")
	f.StringVar(&repo.CodeHostURL, "github-url", codehost.Find("github").API, "URL of GitHub's REST API")
	f.StringVar(&repo.Remote, "repo-remote", "origin", "git remote that branches are pushed to with --github-repo")

	faultFlags(group("Faults of analytics"), group("Faults of agent jobs"), o)
	return groups
}

func faultFlags(f, ofJobs *pflag.FlagSet, o *sandboxOptions) {
	faults, posts := &o.config.Faults, &o.config.Agent.Faults
	f.DurationVar(&faults.Latency, "latency", 0, "delay before every answer")
	f.IntVar(&faults.RateLimit, "rate-limit", 0, "analytics requests answered in a sliding hour; 0 = no limit")
	f.DurationVar(&faults.RetryAfter, "retry-after", 0, "duration in the Retry-After header of a 429; 0 = no header")
	f.IntVar(&faults.ThrottleAfter, "throttle-after", 0,
		"number of analytics requests after which all others get 429; 0 = never")
	f.IntVar(&faults.ErrorEvery, "error-every", 0, "every Nth request gets 500; 0 = none")
	f.IntVar(&faults.CutEvery, "cut-every", 0, "every Nth answer ends in the middle of its body; 0 = none")
	f.IntVar(&faults.DriftEvery, "drift-every", 0, "every Nth request adds a visitor to yesterday and today; 0 = none")
	f.IntVar(&faults.LateDays, "late-days", 0,
		"days within which one event in twenty arrives late, so that closed windows keep changing; 0 = none")
	f.DurationVar(&faults.Moving, "moving", 0,
		"time between two changes of a closed window, each by a visitor who arrives late; 0 = no change")
	f.IntVar(&faults.MovingDays, "moving-days", sandbox.DefaultMovingDays,
		"age in days from which --moving no longer changes a window")
	f.IntVar(&faults.PageRows, "page-rows", 0,
		"maximum number of rows on a page, whatever limit is requested; 0 = no maximum")
	f.StringSliceVar(&faults.Refused, "refuse", nil, "projects and reports whose analytics requests get 403")
	f.StringSliceVar(&o.badWindows, "bad-window", nil, "first dates (YYYY-MM-DD) of windows whose rows are malformed")

	f = ofJobs
	f.IntVar(&posts.RateLimit, "agent-rate-limit", 0,
		"agent POSTs per project in a sliding hour (100 on the live service); 0 = no limit")
	f.IntVar(&posts.ThrottleEvery, "agent-429-every", 0, "every Nth agent POST gets 429; 0 = none")
	f.IntVar(&posts.DropEvery, "agent-drop-every", 0,
		"every Nth accepted agent POST has its connection closed without a reply; 0 = none")
	f.IntVar(&posts.BadGatewayEvery, "agent-502-every", 0, "every Nth accepted agent POST gets 502; 0 = none")
	f.DurationVar(&posts.Latency, "agent-latency", 0, "delay before an agent POST is accepted")
	f.DurationVar(&posts.Stall, "agent-stall", 0, "delay between accepting an agent POST and the reply")
	f.IntVar(&posts.StallEvery, "agent-stall-every", 0, "every Nth accepted agent POST is delayed by --agent-stall; "+
		"0 = each")
}

// complete reads the flags that need more than their type, and lists every problem.
func (o *sandboxOptions) complete(flags *pflag.FlagSet, groups []flagGroup) error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, text := range o.badWindows {
		d, err := analytics.ParseDate(text)
		if err != nil {
			add("--bad-window: %w", err)
		}
		o.config.Faults.BadWindows = append(o.config.Faults.BadWindows, d)
	}
	if flags.Changed("moving-days") && o.config.Faults.Moving == 0 {
		add("--moving-days: needs --moving DURATION, the time between two changes")
	}
	if o.effect != "" {
		var err error
		if o.config.Agent.Pulls.Effect, err = sandbox.ParseEffect(o.effect); err != nil {
			add("--merge-effect: %w", err)
		}
	}
	for _, g := range groups {
		g.flags.VisitAll(func(f *pflag.Flag) {
			switch {
			case f.Changed && g.title == pullFlags && o.repo.Project != "":
				add("--%s: is for pull requests on the sandbox; with --github-repo they are on GitHub", f.Name)
			case f.Changed && g.title == repoFlags && o.repo.Path == "":
				add("--%s: needs --repo PATH, the git repository that is edited", f.Name)
			}
		})
	}
	if o.repo.Project != "" {
		o.repo.CodeHost = "github"
	}
	for _, name := range o.agentEnv {
		o.repo.Env = append(o.repo.Env, runner.Variable{Name: name, Value: os.Getenv(name)})
	}
	if o.repo.Path != "" {
		o.repo.Token, o.config.Agent.Repo = githubToken, &o.repo
	}
	return errors.Join(problems...)
}

// githubToken reads the token each time: tokens of GitHub apps last an hour.
func githubToken() (string, error) {
	if path := os.Getenv("GITHUB_TOKEN_FILE"); path != "" {
		token, err := secretfile.Read(path)
		if err != nil {
			return "", fmt.Errorf("GITHUB_TOKEN_FILE: %w", err)
		}
		return token, nil
	}
	if token := os.Getenv("GITHUB_TOKEN"); token != "" {
		return token, nil
	}
	return "", errors.New("set GITHUB_TOKEN_FILE or GITHUB_TOKEN")
}

func (a *Program) sandbox(ctx context.Context, o sandboxOptions) (err error) {
	text := slog.NewTextHandler(a.Err, nil)
	o.config.Now, o.config.Logger, o.config.RequestLog = a.Now, slog.New(text), text
	if o.requestLog != "" {
		file, err := os.OpenFile(o.requestLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return input.Usagef("--request-log: %w", err)
		}
		defer file.Close()
		o.config.RequestLog = slog.NewJSONHandler(file, nil)
	}
	s, err := sandbox.New(o.config)
	if err != nil {
		return input.Usage(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ln, err := sandbox.Listen(o.listen, o.remote)
	if err != nil {
		return input.Usage(err)
	}
	url := "http://" + ln.Addr().String()
	for _, line := range s.Exports(url) {
		if _, err := fmt.Fprintln(a.Out, line); err != nil {
			return errors.Join(err, ln.Close())
		}
	}
	a.Note("sandbox is listening; stop it with Ctrl-C")
	a.Note("its page for browsers is %s/", url)
	return s.Serve(ctx, ln)
}
