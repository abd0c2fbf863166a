package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sandbox/codehost"
)

// What a zero Config and a zero Agent stand for.
const (
	DefaultProject = "prj_sandbox"
	DefaultAPIKey  = "sbx_local-trial-key"
	// AnyToken is printed where no token is needed: docgauge asks no code host without one.
	AnyToken     = "sandbox-needs-none"
	DefaultDays  = 120
	DefaultPages = 640
	// DefaultMovingDays is how long a day changes if Faults.Moving is set.
	DefaultMovingDays = 3
	DefaultWorkers    = 4
	// DefaultModel is the model of every job: it is not known what a command uses.
	DefaultModel = "docgauge-sandbox"
)

const (
	maxDays     = 3660
	maxPages    = 250_000
	maxLateDays = 365
	maxWorkers  = 1000
	// maxLatecomers limits the latecomers of one day.
	maxLatecomers = 10_000
)

// Config describes one service. The zero value is a good trial: one project,
// the default key, synthetic traffic, no faults.
type Config struct {
	// Seed decides the synthetic traffic: the events of a day depend on Seed,
	// Scenario, Pages, the project and the date, and on nothing else but the faults
	// that add some.
	Seed uint64
	// Scenario of the synthetic traffic; empty = Steady.
	Scenario Scenario
	// Days of synthetic traffic before the day New was called on; 0 = DefaultDays.
	Days int
	// Pages of the synthetic site; 0 = DefaultPages.
	Pages int
	// Projects served, each with traffic of its own; none = DefaultProject.
	Projects []string
	// APIKey may do everything, "<prefix>_<secret>"; empty = DefaultAPIKey.
	APIKey string
	// Keys that are refused: ExpiredKey with 401, the other two with 403 if
	// they lack the scope (GET needs read). Empty = no such key.
	ExpiredKey, ReadOnlyKey, WriteOnlyKey string
	// Now tells the time of the service; nil = time.Now.
	Now func() time.Time
	// DataDir, if set, is a directory that may hold EventLogName. The agent half
	// keeps its jobs and pull requests there, beginning with the first job.
	DataDir string
	Faults  Faults
	Agent   Agent
	// RequestLog gets a record for each request, pages included, before its answer is
	// written: with the names of a Request's JSON, and the duration in seconds and the
	// bytes of the answer. nil = none.
	RequestLog slog.Handler
	// Logger gets an error line for an unreadable event log; nil = silent.
	Logger *slog.Logger
}

// Faults are injected into the answers; the zero value injects none. All but
// Latency and RetryAfter concern analytics alone. Requests are numbered from 1 in
// the order they passed authentication, all projects together; "every Nth" and
// "after N" use that number. If several apply, a 429 goes before a 500.
type Faults struct {
	// Latency before every answer.
	Latency time.Duration
	// RateLimit is the number of analytics requests answered per sliding hour,
	// all projects together; one more gets 429 and is not counted. 0 = no limit.
	RateLimit int
	// RetryAfter is the Retry-After header of a 429, in seconds rounded up; 0 = none.
	RetryAfter time.Duration
	// ThrottleAfter N requests, every further one gets 429; 0 = never.
	ThrottleAfter int
	// ErrorEvery Nth request gets 500; 0 = none.
	ErrorEvery int
	// CutEvery Nth answer ends in the middle of its body; 0 = none.
	CutEvery int
	// DriftEvery Nth analytics request that is answered finds one more event of
	// a new visitor in the UTC day before and one in the running one; 0 = none.
	DriftEvery int
	// LateDays > 0: one event in twenty arrives late, at a moment evenly spread
	// over the LateDays days after the end of its UTC day, so that a closed
	// window changes until it is LateDays days old. 0 = none is late.
	LateDays int
	// Moving > 0, in whole minutes: for MovingDays days after the end of a UTC day,
	// whenever the clock reaches a multiple of Moving (counted from 1970), one more
	// visitor of that day arrives, with up to eight pages read. Every window with
	// that day has greater totals then, until the day is MovingDays old. The
	// latecomers depend on Seed, the project and the date.
	Moving time.Duration
	// MovingDays is 1 to 365; 0 = DefaultMovingDays.
	MovingDays int
	// PageRows is the maximum number of rows of one page, whatever limit asks for;
	// hasMore is true while rows remain. 0 = as many as asked for.
	PageRows int
	// BadWindows: if dateFrom is one of these dates, each row has half a human
	// visitor too many, which the specification does not allow.
	BadWindows []analytics.Date
}

// Agent describes the agent half of the service. The zero value pretends: a job
// is completed at once, with a pull request of the sandbox that adds one line.
type Agent struct {
	// Script is a file for agent.ReadScript; empty = the built-in words alone.
	Script string
	// After is how long an instruction takes that has no duration by script.
	After time.Duration
	// Workers is how many instructions are worked on at once; 0 = DefaultWorkers.
	Workers int
	// ArchiveAfter the end of its last instruction a job is archived; 0 = never.
	ArchiveAfter time.Duration
	// PublicURL begins the links to pull requests on this sandbox; empty = the
	// host in the request that reads the job.
	PublicURL string
	// Pulls are the pull requests on this sandbox: what becomes of them, and of the
	// readers of what they change.
	Pulls Pulls
	// Repo is a local git repository that jobs really edit; nil = they pretend.
	Repo   *Repo
	Faults AgentFaults
}

// Pulls describes the pull requests on this sandbox. The zero value leaves them open
// and their readers alone. Plan.Seed is Config.Seed.
type Pulls struct {
	codehost.Plan
	// Effect of a merge on the synthetic readers of the pages that it changed.
	Effect Effect
	// Token, if set, is the one that the API at githubapi.Path needs; otherwise any will do,
	// such as AnyToken, or none. Limit is how many requests it answers in an hour, 0 =
	// githubapi.DefaultLimit.
	Token string
	Limit int
}

// Repo is a git repository and where its pull requests go.
type Repo struct {
	// Path of the repository, base branch of pull requests (empty = the branch that is
	// checked out), command that edits files, its timeout and environment: see
	// worktree.Config.
	Path, Base, Command string
	Timeout             time.Duration
	Env                 []string
	// GitHub is the "owner/name" that gets the pull requests on GitHub, GitHubURL its
	// REST API (empty = codehost.DefaultGitHub), Remote the remote that branches are
	// pushed to (empty = "origin"), and Token returns the token. Without GitHub, pull
	// requests are kept on the sandbox.
	GitHub, GitHubURL, Remote string
	Token                     func() (string, error)
}

// AgentFaults are injected into agent POSTs, creates and messages alike; the
// zero value injects none. POSTs are numbered apart from all other requests,
// from 1: those that passed authentication for Latency and ThrottleEvery, those
// that were accepted for the faults after accepting.
type AgentFaults struct {
	// Latency before a POST is accepted, also if the client has gone.
	Latency time.Duration
	// RateLimit is how many POSTs pass in a sliding hour, for each project; one
	// more gets 429 and is not counted. 0 = no limit; the live service has 100.
	RateLimit int
	// ThrottleEvery Nth POST gets 429; 0 = none. Retry-After is Faults.RetryAfter.
	ThrottleEvery int
	// DropEvery Nth accepted POST has its connection closed instead of a reply.
	DropEvery int
	// BadGatewayEvery Nth accepted POST gets 502.
	BadGatewayEvery int
	// StallEvery Nth accepted POST waits for Stall with its reply; 0 = each.
	Stall      time.Duration
	StallEvery int
}

func (c Config) withDefaults() Config {
	c.Days = cmp.Or(c.Days, DefaultDays)
	c.Pages = cmp.Or(c.Pages, DefaultPages)
	c.Scenario = cmp.Or(c.Scenario, Steady)
	c.APIKey = cmp.Or(c.APIKey, DefaultAPIKey)
	c.Faults.MovingDays = cmp.Or(c.Faults.MovingDays, DefaultMovingDays)
	c.Agent.Pulls.Seed = c.Seed
	c.Agent.Workers = cmp.Or(c.Agent.Workers, DefaultWorkers)
	if len(c.Projects) == 0 {
		c.Projects = []string{DefaultProject}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// keyForm is the form of API keys.
var keyForm = regexp.MustCompile(`^[A-Za-z0-9]+_[!-~]+$`)

// validate lists every problem of c at once.
func (c Config) validate() error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	between := func(name string, n, least, most int) {
		if n < least || n > most {
			add("%s: want %d to %d, got %d", name, least, most, n)
		}
	}
	for i, name := range c.Projects {
		if analytics.CheckProject(name) != nil {
			add("project %.140q: want 1 to 128 of A-Z a-z 0-9 _ -", name)
		}
		if slices.Contains(c.Projects[:i], name) {
			add("project %.140q: is named twice", name)
		}
	}
	keys := map[string]string{}
	for _, k := range []struct{ name, value string }{
		{"API key", c.APIKey}, {"expired key", c.ExpiredKey},
		{"read-only key", c.ReadOnlyKey}, {"write-only key", c.WriteOnlyKey},
	} {
		if k.value == "" {
			continue
		}
		if !keyForm.MatchString(k.value) {
			add("%s: want <prefix>_<secret>, the prefix of letters and digits, without spaces", k.name)
		}
		if other, taken := keys[k.value]; taken {
			add("%s: is the %s too; want another one", k.name, other)
		}
		keys[k.value] = k.name
	}
	if err := c.Scenario.check(); err != nil {
		problems = append(problems, err)
	}
	f, a := c.Faults, c.Agent
	between("days", c.Days, 1, maxDays)
	between("pages", c.Pages, 1, maxPages)
	between("late days", f.LateDays, 0, maxLateDays)
	between("agent workers", a.Workers, 1, maxWorkers)
	timeout := time.Duration(0)
	if a.Repo != nil {
		timeout = a.Repo.Timeout
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"latency", int64(f.Latency)}, {"rate limit", int64(f.RateLimit)}, {"retry after", int64(f.RetryAfter)},
		{"throttle after", int64(f.ThrottleAfter)}, {"error every", int64(f.ErrorEvery)},
		{"cut every", int64(f.CutEvery)}, {"drift every", int64(f.DriftEvery)}, {"page rows", int64(f.PageRows)},
		{"agent duration", int64(a.After)}, {"agent archive after", int64(a.ArchiveAfter)}, {"agent timeout", int64(timeout)},
		{"agent latency", int64(a.Faults.Latency)}, {"agent rate limit", int64(a.Faults.RateLimit)},
		{"agent 429 every", int64(a.Faults.ThrottleEvery)}, {"agent drop every", int64(a.Faults.DropEvery)},
		{"agent 502 every", int64(a.Faults.BadGatewayEvery)},
		{"agent stall", int64(a.Faults.Stall)}, {"agent stall every", int64(a.Faults.StallEvery)},
		{"GitHub API limit", int64(a.Pulls.Limit)},
	} {
		if n.value < 0 {
			add("%s: must not be negative; 0 switches it off", n.name)
		}
	}
	switch days := time.Duration(f.MovingDays) * 24 * time.Hour; {
	case f.Moving == 0:
	case f.Moving < time.Minute || f.Moving%time.Minute != 0:
		add("moving: want whole minutes, at least one, got %s", f.Moving)
	case f.MovingDays < 1 || f.MovingDays > maxLateDays:
		between("moving days", f.MovingDays, 1, maxLateDays)
	case days/f.Moving > maxLatecomers:
		add("moving: every %s over %d days is more than %d changes of a day; want fewer days or a longer time",
			f.Moving, f.MovingDays, maxLatecomers)
	}
	problems = append(problems, a.Pulls.Check(), a.Pulls.Effect.check())
	if strings.ContainsFunc(a.Pulls.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		add("GitHub API token: want letters, digits and signs of ASCII, without spaces")
	}
	if !isOrigin(a.PublicURL) {
		add("public URL %.200q: want http:// or https://, a host, and no path, such as http://docs.example:8787", a.PublicURL)
	}
	return errors.Join(problems...)
}

// isOrigin reports whether s is empty or a URL of HTTP with a host and no path.
func isOrigin(s string) bool {
	u, err := analytics.ParseServiceURL(s, analytics.URLRules{CredentialsIn: "-", PlainHTTP: true})
	return s == "" || err == nil && strings.Trim(u.Path, "/") == ""
}
