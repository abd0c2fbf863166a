package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
)

// Cron says when runs begin, always in UTC: daylight saving time moves no run.
// The zero Cron never fires.
type Cron struct {
	spec  string
	times cron.Schedule
}

const (
	// leastEvery is the shortest @every. Five fields cannot express less either.
	leastEvery = time.Minute
	// cronForm is the end of every error of ParseCron.
	cronForm = `want minute (0-59), hour (0-23), day (1-31), month (1-12 or jan-dec) and weekday (0-6 or sun-sat) ` +
		`in UTC, such as "17 * * * *", or @hourly, @daily, @weekly, @monthly, @yearly, or @every with a minute or more`
)

// ParseCron reads a cron expression: five fields, or a descriptor such as @hourly. The only zone is
// UTC. Steps that are longer than their field ("*/90" minutes would be an hour) and days that never
// come (30 February) are errors. An error names the expression, the rule and an example.
func ParseCron(spec string) (Cron, error) {
	c := Cron{spec: strings.Join(strings.Fields(spec), " ")}
	if err := c.parse(); err != nil {
		return Cron{}, fmt.Errorf("schedule %.100q: %w: %s", spec, err, cronForm)
	}
	return c, nil
}

func (c *Cron) parse() (err error) {
	if err = checkSpec(c.spec); err != nil {
		return err
	}
	if c.times, err = cron.ParseStandard(c.spec); err != nil {
		return err
	}
	switch times := c.times.(type) {
	case cron.ConstantDelaySchedule:
		// The library makes a second of anything shorter, so this looks at the text.
		if d, err := time.ParseDuration(strings.TrimPrefix(c.spec, "@every ")); err != nil || d < leastEvery {
			return errors.New("it fires more than once a minute")
		}
	case *cron.SpecSchedule:
		times.Location = time.UTC
		if c.Next(time.Time{}).IsZero() {
			return errors.New("it never fires: no month has that day")
		}
	}
	return nil
}

// UnmarshalText is [ParseCron], for settings.
func (c *Cron) UnmarshalText(spec []byte) (err error) {
	*c, err = ParseCron(string(spec))
	return err
}

// String is the expression, with single spaces.
func (c Cron) String() string { return c.spec }

// Same reports whether two schedules fire at the same times: whatever Next depends on belongs here.
func (c Cron) Same(o Cron) bool { return c.spec == o.spec }

// Next returns the first firing after t, in UTC, or the zero time if it never fires again.
func (c Cron) Next(t time.Time) time.Time {
	if c.times == nil {
		return time.Time{}
	}
	// The library gives up at the end of the fifth year, and over a century's end 29
	// February is eight years away: so search twice.
	t = t.UTC()
	for range 2 {
		if next := c.times.Next(t); !next.IsZero() {
			return next
		}
		t = time.Date(t.Year()+5, time.December, 31, 23, 59, 59, 0, time.UTC)
	}
	return time.Time{}
}

// fields has the largest step of each field.
var fields = [...]int{59, 23, 31, 12, 6}

// element is one element of a field's list.
var element = regexp.MustCompile(`^(?:[*?]|(?:\d{1,2}|[A-Za-z]{3})(?:-(?:\d{1,2}|[A-Za-z]{3}))?)(?:/(\d{1,2}))?$`)

// checkSpec refuses what the library misunderstands or fails on.
func checkSpec(spec string) error {
	switch {
	case spec == "":
		return errors.New("it is empty")
	case strings.Contains(spec, "TZ="):
		return errors.New("it names a time zone, and there is only UTC")
	case strings.HasPrefix(spec, "@"):
		return nil
	}
	got := strings.Fields(spec)
	if len(got) != len(fields) {
		noun := "fields"
		if len(got) == 1 {
			noun = "field"
		}
		return fmt.Errorf("it has %d %s, not %d", len(got), noun, len(fields))
	}
	for i, field := range got {
		for e := range strings.SplitSeq(field, ",") {
			match := element.FindStringSubmatch(e)
			if match == nil {
				return fmt.Errorf("%.20q is neither *, a number, a name nor a range", e)
			}
			if step, _ := strconv.Atoi(match[1]); step > fields[i] {
				return fmt.Errorf("the step of %q is larger than its field", e)
			}
		}
	}
	return nil
}

// Missed reports whether c fired n times after since, the last time before now.
func (c Cron) Missed(n int, since, now time.Time) bool {
	for range n {
		since = c.Next(since)
	}
	return !since.IsZero() && since.Before(now)
}

// ErrDeadline is the cause with which the context of a run ends at its deadline.
var ErrDeadline = errors.New("run reached its deadline")

// ErrOverrun is the error of Firings.Run when it gives up waiting for a run.
var ErrOverrun = errors.New("run continues after its context ended")

// runGrace is the time that a run may continue after its context ended. It leaves room in the half
// minute that most supervisors give a process to stop.
const runGrace = 20 * time.Second

// Firings are the moments at which a daemon runs.
type Firings struct {
	cron   Cron
	now    func() time.Time
	mu     sync.Mutex
	atOnce bool
	coming time.Time
}

// NewFirings returns the firings of c from first on, and one at once before them if atOnce is true.
// An @every that continues after an interruption keeps its phase that way. A first in the past is ignored.
func NewFirings(c Cron, first time.Time, atOnce bool) *Firings {
	return &Firings{cron: c, now: time.Now, coming: first, atOnce: atOnce}
}

// Coming returns the next firing by the clock, or the zero time without one.
func (f *Firings) Coming() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.coming
}

// Next returns the next firing after t, or the zero time without one.
func (f *Firings) Next(t time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	// A firing later than the next one was chosen by a clock that was ahead.
	if next := f.cron.Next(t); !f.coming.After(t) || f.coming.After(next) {
		f.coming = next
	}
	if f.atOnce {
		f.atOnce = false
		return t
	}
	return f.coming
}

// Run calls do at every firing, one run at a time, until ctx ends; firings during a run are skipped,
// and after a panic the next firing runs again. The context of a run ends after deadline, unless that
// is 0, and then context.Cause is ErrDeadline. do should return soon after its context ends.
//
// At the end Run waits for the run in progress. If that takes longer than 20 seconds it returns ErrOverrun: nothing
// that the run uses may be closed, and the process should end.
func (f *Firings) Run(ctx context.Context, deadline time.Duration, log *slog.Logger, do func(context.Context)) error {
	run := func(ctx context.Context) {
		// A panic ends this run alone.
		defer func() {
			if value := recover(); value != nil {
				log.Error("run panicked", "error", fmt.Sprint(value), "stack", string(debug.Stack()))
			}
		}()
		if deadline > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, deadline, ErrDeadline)
			defer cancel()
		}
		ended := make(chan struct{})
		var watcher sync.WaitGroup
		watcher.Go(func() {
			select {
			case <-ended:
				return
			case <-ctx.Done():
			}
			select {
			case <-ended:
			case <-time.After(runGrace):
				log.Error("run continues after its end", "cause", context.Cause(ctx),
					"grace_seconds", runGrace.Seconds())
			}
		})
		defer watcher.Wait()
		defer close(ended)
		do(ctx)
	}
	running, done := false, make(chan struct{}, 1)
	now := f.now()
	next := f.Next(now)
	wait := func() time.Duration {
		if next.IsZero() {
			return math.MaxInt64
		}
		// Timers do not see that a clock was set, or that the machine slept.
		return min(next.Sub(now), time.Minute)
	}
	timer := time.NewTimer(wait())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			if !running {
				return nil
			}
			select {
			case <-done:
				return nil
			case <-time.After(runGrace):
				return ErrOverrun
			}
		case <-done:
			running = false
			continue
		case <-timer.C:
		}
		now = f.now()
		switch {
		case ctx.Err() != nil: // at the moment of the stop
		case next.After(now): // not yet, or no longer
		case running:
			log.Warn("firing skipped: the previous run has not ended")
		default:
			running = true
			go func() {
				run(ctx)
				done <- struct{}{}
			}()
		}
		next = f.Next(now)
		timer.Reset(wait())
	}
}
