package sandbox

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// What a zero Config stands for.
const (
	DefaultProject = "prj_sandbox"
	DefaultAPIKey  = "sbx_local-trial-key"
	DefaultDays    = 120
	DefaultPages   = 640
	// DefaultMovingDays is how long a day changes where Faults.Moving is set.
	DefaultMovingDays = 3
)

const (
	maxDays     = 3660
	maxPages    = 250_000
	maxLateDays = 365
)

// Config describes one service. The zero value is a good trial: one project,
// the default key, synthetic traffic, no faults.
type Config struct {
	// Seed decides the synthetic traffic: the events of a day depend on Seed,
	// Pages, the project and the date, and on nothing else but the faults that add
	// some.
	Seed uint64
	// Days of synthetic traffic before the day New was called on; 0 = DefaultDays.
	Days int
	// Pages of the synthetic site; 0 = DefaultPages.
	Pages int
	// Projects served, each with traffic of its own; none = DefaultProject.
	Projects []string
	// APIKey may do everything, "<prefix>_<secret>"; empty = DefaultAPIKey.
	APIKey string
	// Keys that are refused: ExpiredKey with 401, the other two with 403 where
	// they lack the scope (GET needs read). Empty = no such key.
	ExpiredKey, ReadOnlyKey, WriteOnlyKey string
	// Now tells the time of the service; nil = time.Now.
	Now func() time.Time
	// DataDir, if set, is a directory that may hold EventLogName. The agent half
	// keeps its jobs and pull requests there, beginning with the first job.
	DataDir string
	Faults  Faults
	Agent   Agent
	// RequestLog gets one JSON line a request (a Request), before its answer is
	// written; nil = none.
	RequestLog io.Writer
	// Logger gets a debug line a request and an error line for an unreadable
	// event log; nil = silent.
	Logger *slog.Logger
}

// Faults are injected into the answers; the zero value injects none. All but
// Latency and RetryAfter concern analytics alone. Requests are numbered from 1
// in the order they passed authentication, all projects together; "every Nth" and "after N" go by that number. Where several apply, a
// 429 goes before a 500.
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
	// PageRows is the most rows of one page, whatever limit asks for; hasMore is
	// true while rows remain. 0 = as many as asked for.
	PageRows int
	// BadWindows: where dateFrom is one of these dates, each row has half a human
	// visitor too many, so that it is no row of the specification.
	BadWindows []analytics.Date
}

var keyForm = regexp.MustCompile(`^[A-Za-z0-9]+_[!-~]+$`)

func (c Config) withDefaults() Config {
	if c.Days == 0 {
		c.Days = DefaultDays
	}
	if c.Pages == 0 {
		c.Pages = DefaultPages
	}
	if len(c.Projects) == 0 {
		c.Projects = []string{DefaultProject}
	}
	if c.APIKey == "" {
		c.APIKey = DefaultAPIKey
	}
	if c.Faults.MovingDays == 0 {
		c.Faults.MovingDays = DefaultMovingDays
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Agent = c.Agent.withDefaults()
	return c
}

// validate lists every problem of c at once.
func (c Config) validate() error {
	return errors.Join(
		between("days", c.Days, 1, maxDays),
		between("pages", c.Pages, 1, maxPages),
		c.validateProjects(),
		c.validateKeys(),
		c.Faults.validate(),
		c.Agent.validate(),
	)
}

func (c Config) validateProjects() error {
	var problems []error
	for i, name := range c.Projects {
		if analytics.CheckProject(name) != nil {
			problems = append(problems, fmt.Errorf("project %.140q: want 1 to 128 of A-Z a-z 0-9 _ -", name))
		}
		if slices.Contains(c.Projects[:i], name) {
			problems = append(problems, fmt.Errorf("project %.140q: is named twice", name))
		}
	}
	return errors.Join(problems...)
}

func (c Config) validateKeys() error {
	var problems []error
	keys := map[string]string{}
	for _, k := range []struct{ name, value string }{
		{"API key", c.APIKey}, {"expired key", c.ExpiredKey}, {"read-only key", c.ReadOnlyKey}, {"write-only key", c.WriteOnlyKey},
	} {
		if k.value == "" {
			continue
		}
		if !keyForm.MatchString(k.value) {
			problems = append(problems, fmt.Errorf("%s: want <prefix>_<secret>, the prefix of letters and digits, without spaces", k.name))
		}
		if other, taken := keys[k.value]; taken {
			problems = append(problems, fmt.Errorf("%s: is the %s too; want another one", k.name, other))
		}
		keys[k.value] = k.name
	}
	return errors.Join(problems...)
}

func (f Faults) validate() error {
	return errors.Join(
		notNegative([]quantity{
			{"latency", int64(f.Latency)}, {"rate limit", int64(f.RateLimit)}, {"retry after", int64(f.RetryAfter)},
			{"throttle after", int64(f.ThrottleAfter)}, {"error every", int64(f.ErrorEvery)},
			{"cut every", int64(f.CutEvery)}, {"drift every", int64(f.DriftEvery)},
			{"page rows", int64(f.PageRows)},
		}),
		between("late days", f.LateDays, 0, maxLateDays),
		f.validateMoving(),
	)
}

// quantity is a number of the configuration with its name.
type quantity struct {
	name  string
	value int64
}

func notNegative(numbers []quantity) error {
	var problems []error
	for _, n := range numbers {
		if n.value < 0 {
			problems = append(problems, fmt.Errorf("%s: must not be negative; 0 switches it off", n.name))
		}
	}
	return errors.Join(problems...)
}

func between(name string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s: want %d to %d, got %d", name, least, most, n)
	}
	return nil
}
