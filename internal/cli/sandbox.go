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
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/sandbox/agent"
	"github.com/docgauge/docgauge/internal/sandbox/codehost"
	"github.com/docgauge/docgauge/internal/secretfile"
)

const aboutSandbox = `sandbox serves the documentation platform's API on this machine, with synthetic
traffic that is deterministic from --seed, or over the event log
DIR/events.ndjson (one JSON object a line: time, visitor, kind human|ai, path).
Visitors are counted exactly. It prints the environment variables to set; paste
them into another terminal and run docgauge export there. In a browser, its
address shows how to use it, its jobs and its pull requests.

It serves agent jobs too. Without further flags, a job only pretends: it is
completed with a pull request that this sandbox shows. Words in a prompt choose
another outcome:
  [sandbox:pr]          completed, with a pull request
  [sandbox:no-change]   completed, without one
  [sandbox:fail]        failed
  [sandbox:archive]     archived
  [sandbox:slow]        the same after 30s; [sandbox:slow=5m] after 5m
--agent-script FILE adds words: {"[later]": {"outcome": "pr", "after": "30s"}},
with the outcomes pr, no_change, failed, archived and edit (what happens without
a word). A job that pretends changes a page of the synthetic site, by the word
[sandbox:page=/guides/errors] that one.

Pull requests live: on their pages people review, merge, close and reopen them, or
flags do (--merge-share). Programs read them below DOCGAUGE_GITHUB_URL as on GitHub.
With --merge-effect, readers of the pages that a merge changed become more, or fewer,
from its day on.

With --repo a job edits that git repository: in a worktree of its own, on the
branch docgauge/<job>, --agent-cmd runs with the prompt on standard input. Its
changes are committed and shown as a pull request here, or opened on GitHub
(--github-repo, with GITHUB_TOKEN_FILE or GITHUB_TOKEN). The checked-out files
and branch are not touched. The command gets PATH, HOME and the like from the
environment, and the variables that --agent-env names.`

func (a *Program) sandboxCommand() *cobra.Command {
	c := sandbox.Config{}
	var listen, requestLog, effect string
	var badWindows []string
	var repo agent.RepoOptions
	var remote bool
	var pulls *pflag.FlagSet
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
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(a.file.Problems) > 0 {
				return a.file.Problems
			}
			var errDates, errMoving, errEffect error
			c.Faults.BadWindows, errDates = parseDates("bad-window", badWindows)
			if cmd.Flags().Changed("moving-days") && c.Faults.Moving == 0 {
				errMoving = errors.New("--moving-days: needs --moving DURATION, the time between two changes")
			}
			if effect != "" {
				if c.Agent.Pulls.Effect, errEffect = sandbox.ParseEffect(effect); errEffect != nil {
					errEffect = fmt.Errorf("--merge-effect: %w", errEffect)
				}
			}
			if err := errors.Join(errDates, errMoving, errEffect, onSandbox(pulls, repo),
				setRepo(&c.Agent, repo, cmd.Flags().Changed)); err != nil {
				return usageError{err}
			}
			return a.sandbox(cmd.Context(), c, listen, remote, requestLog)
		},
	}
	pulls = pullFlags(&c.Agent.Pulls, &effect)
	general := cmd.Flags()
	general.StringVar(&listen, "listen", "127.0.0.1:8787", "address to listen on; port 0 picks a free port")
	general.BoolVar(&remote, "allow-remote", false, "allow --listen addresses that other machines can reach")
	general.StringVar(&c.DataDir, "data", "", "directory of the event log events.ndjson and of agent jobs")
	general.StringVar(&requestLog, "request-log", "", "file for the request log, as JSON lines (default standard "+
		"error, as text)")
	groupFlags(cmd,
		flagGroup{"Traffic and keys", trafficFlags(&c)},
		flagGroup{"Agent jobs", agentFlags(&c.Agent)},
		flagGroup{"Pull requests on the sandbox", pulls},
		flagGroup{"Agent jobs that edit a repository", repoFlags(&repo)},
		flagGroup{"Faults of analytics", faultFlags(&c.Faults, &badWindows)},
		flagGroup{"Faults of agent jobs", agentFaultFlags(&c.Agent.Faults)},
	)
	return cmd
}

// parseDates reads the values of a flag; the error lists every bad one.
func parseDates(flag string, values []string) (dates []analytics.Date, err error) {
	for _, v := range values {
		d, bad := analytics.ParseDate(v)
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("--%s: %w", flag, bad))
			continue
		}
		dates = append(dates, d)
	}
	return dates, err
}

// flagGroup is flags of a command that its help lists under a title.
type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

// groupFlags adds flags to a command, and lists them in groups after its other flags.
func groupFlags(cmd *cobra.Command, groups ...flagGroup) {
	for _, g := range groups {
		cmd.Flags().AddFlagSet(g.flags)
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
		for _, g := range slices.Concat([]flagGroup{{"Flags", others}}, groups,
			[]flagGroup{{"Global Flags", cmd.InheritedFlags()}}) {
			if g.flags.HasAvailableFlags() {
				fmt.Fprintf(w, "\n%s:\n%s", g.title, g.flags.FlagUsagesWrapped(helpWidth))
			}
		}
		return nil
	})
}

func trafficFlags(c *sandbox.Config) *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Uint64Var(&c.Seed, "seed", 1, "seed of the synthetic traffic")
	f.StringVar((*string)(&c.Scenario), "scenario", string(sandbox.Steady),
		"development of the traffic: steady, or growth for a site that grows, whose pages rise, fall, appear and "+
			"vanish")
	f.IntVar(&c.Days, "days", sandbox.DefaultDays, "days of synthetic traffic before today")
	f.IntVar(&c.Pages, "pages", sandbox.DefaultPages, "pages of the synthetic site")
	f.StringSliceVar(&c.Projects, "project", []string{sandbox.DefaultProject}, "ids of the projects that are served")
	f.StringVar(&c.APIKey, "api-key", sandbox.DefaultAPIKey, "API key with all permissions")
	f.StringVar(&c.ExpiredKey, "expired-key", "", "API key that is refused with 401")
	f.StringVar(&c.ReadOnlyKey, "read-only-key", "", "API key that is refused with 403 for agent POSTs")
	f.StringVar(&c.WriteOnlyKey, "write-only-key", "", "API key that is refused with 403 for reads")
	return f
}

func faultFlags(c *sandbox.Faults, badWindows *[]string) *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.DurationVar(&c.Latency, "latency", 0, "delay before every answer")
	f.IntVar(&c.RateLimit, "rate-limit", 0, "analytics requests answered in a sliding hour; 0 = no limit")
	f.DurationVar(&c.RetryAfter, "retry-after", 0, "duration in the Retry-After header of a 429; 0 = no header")
	f.IntVar(&c.ThrottleAfter, "throttle-after", 0, "number of analytics requests after which all others get 429; 0 "+
		"= never")
	f.IntVar(&c.ErrorEvery, "error-every", 0, "every Nth request gets 500; 0 = none")
	f.IntVar(&c.CutEvery, "cut-every", 0, "every Nth answer ends in the middle of its body; 0 = none")
	f.IntVar(&c.DriftEvery, "drift-every", 0, "every Nth request adds a visitor to yesterday and today; 0 = none")
	f.IntVar(&c.LateDays, "late-days", 0,
		"days within which one event in twenty arrives late, so that closed windows keep changing; 0 = none")
	f.DurationVar(&c.Moving, "moving", 0,
		"time between two changes of a closed window, each by a visitor who arrives late; 0 = no change")
	f.IntVar(&c.MovingDays, "moving-days", sandbox.DefaultMovingDays,
		"age in days from which --moving no longer changes a window")
	f.IntVar(&c.PageRows, "page-rows", 0, "maximum number of rows on a page, whatever limit is requested; 0 = no "+
		"maximum")
	f.StringSliceVar(badWindows, "bad-window", nil, "first dates (YYYY-MM-DD) of windows whose rows are malformed")
	return f
}

func agentFlags(c *sandbox.Agent) *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.StringVar(&c.Script, "agent-script", "", "file with further words and their outcomes")
	f.DurationVar(&c.After, "agent-duration", time.Second, "duration of an instruction, unless its words set one")
	f.IntVar(&c.Workers, "agent-workers", sandbox.DefaultWorkers, "instructions worked on at once")
	f.DurationVar(&c.ArchiveAfter, "agent-archive-after", 0,
		"time from the end of a job until it is archived; 0 = never")
	f.StringVar(&c.PublicURL, "public-url", "",
		"base URL of links to pull requests on this sandbox (default the address that the API's caller used)")
	return f
}

func pullFlags(c *sandbox.Pulls, effect *string) *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Float64Var(&c.MergeShare, "merge-share", 0, "share of pull requests that are merged, 0 to 1")
	f.Float64Var(&c.CloseShare, "close-share", 0, "share of pull requests that are closed without a merge, 0 to 1")
	f.DurationVar(&c.EndAfter, "merge-delay", time.Minute, "time until those are merged or closed")
	f.DurationVar(&c.ReviewAfter, "review-delay", 0, "time until a pull request is reviewed; 0 = nobody reviews")
	f.DurationVar(&c.DraftFor, "draft-delay", 0, "time that a pull request is a draft; the other delays begin then")
	f.IntVar(&c.DaysAgo, "merged-days-ago", 0, "days by which merged pull requests are dated back")
	f.StringVar(effect, "merge-effect", "",
		"change of the synthetic readers of merged pages, such as +30% or human=+30%,ai=-10% (default none)")
	f.StringVar(&c.Token, "github-api-token", "", "token that reading pull requests needs (default none)")
	f.IntVar(&c.Limit, "github-api-limit", codehost.DefaultLimit, "requests about pull requests answered in an hour")
	return f
}

// onSandbox refuses flags about pull requests where those are not on the sandbox.
func onSandbox(pulls *pflag.FlagSet, r agent.RepoOptions) (err error) {
	pulls.VisitAll(func(f *pflag.Flag) {
		if f.Changed && r.GitHub != "" {
			err = errors.Join(err, fmt.Errorf("--%s: is for pull requests on the sandbox; with --github-repo they "+
				"are on GitHub", f.Name))
		}
	})
	return err
}

func agentFaultFlags(c *sandbox.AgentFaults) *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.IntVar(&c.RateLimit, "agent-rate-limit", 0,
		"agent POSTs per project in a sliding hour (100 on the live service); 0 = no limit")
	f.IntVar(&c.ThrottleEvery, "agent-429-every", 0, "every Nth agent POST gets 429; 0 = none")
	f.IntVar(&c.DropEvery, "agent-drop-every", 0,
		"every Nth accepted agent POST has its connection closed without a reply; 0 = none")
	f.IntVar(&c.BadGatewayEvery, "agent-502-every", 0, "every Nth accepted agent POST gets 502; 0 = none")
	f.DurationVar(&c.Latency, "agent-latency", 0, "delay before an agent POST is accepted")
	f.DurationVar(&c.Stall, "agent-stall", 0, "delay between accepting an agent POST and the reply")
	f.IntVar(&c.StallEvery, "agent-stall-every", 0,
		"every Nth accepted agent POST is delayed by --agent-stall; 0 = each")
	return f
}

// needsRepo are the flags that need --repo.
var needsRepo = []string{
	"agent-cmd", "agent-timeout", "agent-env", "repo-base", "repo-remote", "github-repo", "github-url",
}

func repoFlags(r *agent.RepoOptions) *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.StringVar(&r.Path, "repo", "", "git repository that agent jobs edit (default none: jobs only pretend)")
	f.StringVar(&r.Base, "repo-base", "", "base branch of pull requests (default the one that is checked out)")
	f.StringVar(&r.Command, "agent-cmd", "",
		"command that edits files, run by sh -c (default a built-in edit that adds a line to a file)")
	f.DurationVar(&r.Timeout, "agent-timeout", agent.DefaultTimeout, "time limit of the command")
	f.StringSliceVar(&r.Env, "agent-env", nil,
		"names of further variables for the command, besides PATH, HOME and the like")
	f.StringVar(&r.GitHub, "github-repo", "", "owner/name of the GitHub repository that gets the pull requests")
	f.StringVar(&r.GitHubURL, "github-url", agent.DefaultGitHub, "URL of GitHub's REST API")
	f.StringVar(&r.Remote, "repo-remote", "origin", "git remote that branches are pushed to with --github-repo")
	return f
}

// setRepo lets agent jobs edit r, if one is given.
func setRepo(c *sandbox.Agent, r agent.RepoOptions, given func(flag string) bool) error {
	if r.Path != "" {
		r.Token = githubToken
		c.Repo = &r
		return nil
	}
	var problems []error
	for _, flag := range needsRepo {
		if given(flag) {
			problems = append(problems, fmt.Errorf("--%s: needs --repo PATH, the git repository that is edited", flag))
		}
	}
	return errors.Join(problems...)
}

// githubToken reads the token each time: tokens of GitHub apps last an hour.
func githubToken() (string, error) {
	path, token := os.Getenv("GITHUB_TOKEN_FILE"), os.Getenv("GITHUB_TOKEN")
	switch {
	case path != "":
		token, err := secretfile.Read(path)
		if err != nil {
			return "", fmt.Errorf("GITHUB_TOKEN_FILE: %w", err)
		}
		return token, nil
	case token == "":
		return "", errors.New("set GITHUB_TOKEN_FILE or GITHUB_TOKEN")
	}
	return token, nil
}

func (a *Program) sandbox(
	ctx context.Context, c sandbox.Config, listen string, remote bool, requestLog string,
) (err error) {
	text := slog.NewTextHandler(a.Err, nil)
	c.Now, c.Logger, c.RequestLog = a.now, slog.New(text), text
	if requestLog != "" {
		file, err := os.OpenFile(requestLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return usageError{fmt.Errorf("--request-log: %w", err)}
		}
		defer file.Close()
		c.RequestLog = slog.NewJSONHandler(file, nil)
	}
	s, err := sandbox.New(c)
	if err != nil {
		return usageError{err}
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ln, err := sandbox.Listen(listen, remote)
	if err != nil {
		return usageError{err}
	}
	url := "http://" + ln.Addr().String()
	for _, line := range s.Exports(url) {
		if _, err := fmt.Fprintln(a.Out, line); err != nil {
			return errors.Join(err, ln.Close())
		}
	}
	a.note("sandbox is listening; stop it with Ctrl-C")
	a.note("its page for browsers is %s/", url)
	return s.Serve(ctx, ln)
}
