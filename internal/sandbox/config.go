package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// Defaults of a zero Config.
const (
	DefaultProject = "prj_sandbox"
	DefaultAPIKey  = "sbx_local-trial-key"
	DefaultDays    = 120
	DefaultPages   = 640
	// DefaultMovingDays is the number of days for which a day changes if Faults.Moving is set.
	DefaultMovingDays = 3
	DefaultWorkers    = 4
	// AnyToken is for clients where no token is needed: docgauge asks no code host without one.
	AnyToken = "sandbox-needs-none"
)

const (
	// jobModel is the model of every job: the model of a command is unknown.
	jobModel = "docgauge-sandbox"

	maxDays     = 3660
	maxPages    = 250_000
	maxLateDays = 365
	maxWorkers  = 1000
	// maxLatecomers limits the latecomers of one day.
	maxLatecomers = 10_000
)

// Config describes one service. The zero value is a good trial: one project, the default key,
// synthetic traffic, no faults.
type Config struct {
	// Seed of the synthetic traffic: the events of a day depend on Seed, Scenario, Pages, the
	// project and the date, and on nothing else but the faults that add some.
	Seed     uint64
	Scenario Scenario // of the synthetic traffic; empty = Steady
	Days     int      // of synthetic traffic before the day of New; 0 = DefaultDays
	Pages    int      // of the synthetic site; 0 = DefaultPages
	Projects []string // served, each with different traffic; none = DefaultProject
	// Forged is the share of programs under a browser's name among visitors that claim to be people, from 0 to 1. The
	// number of these visitors is the same for every share.
	Forged float64
	Humans analytics.Humans // readers that count as human; empty = claimed
	APIKey string           // may do everything, "<prefix>_<secret>"; empty = DefaultAPIKey
	// Keys that are refused: ExpiredKey with 401, the other two with 403 if they lack the
	// scope (GET needs read). Empty = no such key.
	ExpiredKey, ReadOnlyKey, WriteOnlyKey string
	Now                                   func() time.Time // clock of the service; nil = time.Now
	// DataDir, if set, is a directory that may hold an event log, eventLogName. The agent half
	// keeps its jobs and pull requests there, beginning with the first job.
	DataDir string
	Faults  Faults
	Agent   Agent
	// RequestLog gets a record for each request before its answer is written, and for pages and
	// the API about pull requests after it: with the names of a Request's JSON, and the duration
	// in seconds and the bytes of the answer. nil = none.
	RequestLog slog.Handler
	Logger     *slog.Logger // gets an error line for an unreadable event log; nil = silent
}

// Faults are injected into the answers; the zero value injects none. All but Latency and
// RetryAfter concern analytics alone. Requests are numbered from 1 in the order they passed
// authentication, all projects together; "every Nth" and "after N" use that number. If several
// apply, a 429 takes precedence over a 500.
type Faults struct {
	Latency       time.Duration // before every answer
	RateLimit     int           // requests answered per sliding hour, others get 429 and do not count; 0 = no limit
	RetryAfter    time.Duration // Retry-After header of a 429, in seconds rounded up; 0 = none
	ThrottleAfter int           // after N requests, every further one gets 429; 0 = never
	ErrorEvery    int           // every Nth request gets 500; 0 = none
	CutEvery      int           // every Nth answer ends in the middle of its body; 0 = none
	// DriftEvery Nth analytics request that is answered finds one more event of a new visitor
	// in the UTC day before and one in the running one; 0 = none.
	DriftEvery int
	// LateDays > 0: one event in twenty arrives late, at a moment evenly spread over the
	// LateDays days after the end of its UTC day, so that a closed window changes until it is
	// LateDays days old. 0 = none is late.
	LateDays int
	// Moving > 0, in whole minutes: for MovingDays days after the end of a UTC day, at every
	// multiple of Moving (counted from 1970), one more visitor of that day arrives, with up to
	// eight pages read, so that the totals of every window with that day grow. The latecomers
	// depend on Seed, the project and the date.
	Moving     time.Duration
	MovingDays int // 1 to 365; 0 = DefaultMovingDays
	// PageRows is the maximum number of rows of one page, whatever limit is requested;
	// hasMore is true while rows remain. 0 = no maximum.
	PageRows int
	// Refused are projects and reports for which analytics requests get 403.
	Refused []string
	// BadWindows are values of dateFrom for which each row has half a human visitor too many,
	// which the specification does not allow.
	BadWindows []analytics.Date
}

// Agent describes the agent half of the service. The zero value pretends: a job is completed
// at once, with a pull request of the sandbox that adds one line.
type Agent struct {
	Script       string        // file of further words and their outcomes; empty = the built-in words alone
	After        time.Duration // duration of an instruction that has none by script
	ArchiveAfter time.Duration // see runner.Options
	Workers      int           // number of instructions worked on at once; 0 = DefaultWorkers
	// PublicURL begins the links to pull requests on this sandbox; empty = the host in the
	// request that reads the job.
	PublicURL string
	Pulls     Pulls               // the pull requests on this sandbox
	Repo      *runner.RepoOptions // a local git repository that jobs really edit; nil = they pretend
	Faults    AgentFaults
}

// Pulls describes the pull requests on this sandbox, and decides about them when they are opened: the
// same number has the same fate with the same Config.Seed. The zero value leaves all of them open, and
// their readers unchanged. An action by hand ends the plan of that pull request.
type Pulls struct {
	// MergeShare and CloseShare, from 0 to 1, are the shares of pull requests that are
	// merged and closed, EndAfter after they are ready for review or, if later, reviewed.
	MergeShare, CloseShare float64
	EndAfter               time.Duration
	DraftFor               time.Duration // time that pull requests are drafts
	// ReviewAfter is the time from ready to reviewed: those that will be merged are approved,
	// changes are requested of the rest. 0 = no reviews.
	ReviewAfter time.Duration
	DaysAgo     int    // days by which merges, also by hand, are dated back
	Effect      Effect // of a merge on the synthetic readers of the pages that it changed
	Token       string // needed by the API at GitHubPath; empty = none is needed
	Limit       int    // requests that it answers in an hour; 0 = fake.DefaultLimit
}

// AgentFaults are injected into agent POSTs, creates and messages alike; the zero value
// injects none. POSTs are numbered apart from all other requests, from 1: those that passed
// authentication for Latency and ThrottleEvery, those that were accepted for the faults after
// accepting.
type AgentFaults struct {
	Latency time.Duration // before a POST is accepted, also if the client has gone
	// RateLimit is the number of POSTs allowed in a sliding hour, by project; one more gets 429
	// and is not counted. 0 = no limit; the live service has 100.
	RateLimit       int
	ThrottleEvery   int // every Nth POST gets 429; 0 = none. Retry-After is Faults.RetryAfter
	DropEvery       int // every Nth accepted POST has its connection closed instead of a reply
	BadGatewayEvery int // every Nth accepted POST gets 502
	StallEvery      int // every Nth accepted POST waits for Stall with its reply; 0 = each
	Stall           time.Duration
}

func (c Config) withDefaults() Config {
	c.Days = cmp.Or(c.Days, DefaultDays)
	c.Pages = cmp.Or(c.Pages, DefaultPages)
	c.Scenario = cmp.Or(c.Scenario, Steady)
	c.Humans = cmp.Or(c.Humans, analytics.Claimed)
	c.APIKey = cmp.Or(c.APIKey, DefaultAPIKey)
	c.Faults.MovingDays = cmp.Or(c.Faults.MovingDays, DefaultMovingDays)
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
	for _, k := range [][2]string{
		{"API key", c.APIKey}, {"expired key", c.ExpiredKey}, {"read-only key", c.ReadOnlyKey},
		{"write-only key", c.WriteOnlyKey},
	} {
		name, value := k[0], k[1]
		if value == "" {
			continue
		}
		if !api.KeyForm.MatchString(value) {
			add("%s: want <prefix>_<secret>, the prefix of letters and digits, without spaces", name)
		}
		if other, taken := keys[value]; taken {
			add("%s: is the %s too; want another one", name, other)
		}
		keys[value] = name
	}
	if c.Scenario != Steady && c.Scenario != Growth {
		add("scenario %.40q: want %s or %s", string(c.Scenario), Steady, Growth)
	}
	if !(c.Forged >= 0 && c.Forged <= 1) {
		add("forged share: want 0 to 1, got %v", c.Forged)
	}
	if c.Humans != analytics.Claimed && c.Humans != analytics.Confirmed {
		add("humans %.40q: want %s or %s", string(c.Humans), analytics.Claimed, analytics.Confirmed)
	}
	f, a, p := c.Faults, c.Agent, c.Agent.Pulls
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
		{"latency", int64(f.Latency)}, {"retry after", int64(f.RetryAfter)}, {"rate limit", int64(f.RateLimit)},
		{"throttle after", int64(f.ThrottleAfter)}, {"error every", int64(f.ErrorEvery)},
		{"cut every", int64(f.CutEvery)}, {"drift every", int64(f.DriftEvery)}, {"page rows", int64(f.PageRows)},
		{"agent duration", int64(a.After)}, {"agent archive after", int64(a.ArchiveAfter)},
		{"agent timeout", int64(timeout)}, {"agent latency", int64(a.Faults.Latency)},
		{"agent rate limit", int64(a.Faults.RateLimit)}, {"agent 429 every", int64(a.Faults.ThrottleEvery)},
		{"agent drop every", int64(a.Faults.DropEvery)}, {"agent 502 every", int64(a.Faults.BadGatewayEvery)},
		{"agent stall", int64(a.Faults.Stall)}, {"agent stall every", int64(a.Faults.StallEvery)},
		{"merge delay", int64(p.EndAfter)}, {"draft delay", int64(p.DraftFor)},
		{"review delay", int64(p.ReviewAfter)}, {"GitHub API limit", int64(p.Limit)},
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
	if m, c := p.MergeShare, p.CloseShare; !(m >= 0 && c >= 0 && m+c <= 1) { // also not a number
		add("merge share and close share: want 0 to 1, also together, got %g and %g", m, c)
	}
	if p.DaysAgo < 0 || p.DaysAgo > maxDays {
		add("merged days ago: want 0 to %d, got %d", maxDays, p.DaysAgo)
	}
	problems = append(problems, p.Effect.check())
	if strings.ContainsFunc(p.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		add("GitHub API token: want letters, digits and signs of ASCII, without spaces")
	}
	if a.PublicURL != "" {
		u, err := analytics.ParseServiceURL(a.PublicURL, analytics.URLRules{
			Example: "http://docs.example:8787", CredentialsIn: "the pages need none", PlainHTTP: true,
		})
		if err == nil && strings.Trim(u.Path, "/") != "" {
			err = errors.New("must not have a path")
		}
		if err != nil {
			add("public URL: %w", err)
		}
	}
	return errors.Join(problems...)
}

// Effect is the change of the readers of a page from the day of a merge on that changed it: 0.3
// is 30 % more of them, on average, on each day and in each longer window. A page reacts to the
// first merge only.
type Effect struct{ Human, AI float64 }

// ParseEffect reads +30%, or human=+30%, or ai=-20%, or several with commas between.
func ParseEffect(text string) (e Effect, err error) {
	for part := range strings.SplitSeq(text, ",") {
		kind, share, named := strings.Cut(part, "=")
		if !named {
			kind, share = "", part
		}
		number, percent := strings.CutSuffix(strings.TrimSpace(share), "%")
		value, bad := strconv.ParseFloat(number, 64)
		if kind = strings.TrimSpace(kind); bad != nil || !percent || named && kind != "human" && kind != "ai" {
			return Effect{}, fmt.Errorf("%.60q: want a change in percent, such as +30%%, human=+30%% or ai=-20%%", text)
		}
		if kind != "ai" {
			e.Human = value / 100
		}
		if kind != "human" {
			e.AI = value / 100
		}
	}
	return e, e.check()
}

func (e Effect) check() error {
	for _, change := range []float64{e.Human, e.AI} {
		if !(change >= -1 && change <= 1) { // also not a number
			return fmt.Errorf("merge effect: want -100%% to +100%%, got %+g%%", change*100)
		}
	}
	return nil
}

// Scenario names a development of the synthetic traffic over the months. Whatever the
// scenario, the events of a day depend on its date and not on the days that were
// asked for, so that two sandboxes of different age agree.
type Scenario string

const (
	// Steady traffic grows by a third of a percent a week; the pages keep their
	// popularity and the visitors their habits.
	Steady Scenario = "steady"
	// Growth is a site that people rewrite: it gains one to two percent of visitors a
	// week, more and more of them AI; a third of the pages gain and lose readers in
	// waves of half a year, and each Monday some pages appear and some vanish. Its agent jobs
	// report their cost, where in others only those do whose prompt says so.
	Growth Scenario = "growth"
)
