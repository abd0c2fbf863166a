package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
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

// ParseCron reads a cron expression: five fields, or a descriptor such as
// @hourly. "@every 90m" counts from the start of Run. The only zone is
// UTC. Steps that are longer than their field ("*/90" minutes would be an hour) and
// days that never come (30 February) are errors. An error names the expression,
// the rule and an example.
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

// String is the expression, with single spaces.
func (c Cron) String() string { return c.spec }

// Next returns the first firing after t, in UTC, or the zero time if there is none.
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

// ErrDeadline is the cause with which the context of a run ends at its deadline.
var ErrDeadline = errors.New("run reached its deadline")

// ErrOverrun is what Cron.Run returns when it gives up waiting for a run.
var ErrOverrun = errors.New("run continues after its context ended")

// runGrace is the default of Runs.Grace. It leaves room in the half
// minute that most supervisors give a process to stop.
const runGrace = 20 * time.Second

// Runs says what to run.
type Runs struct {
	// Do is one run. It returns soon after its context ends; context.Cause says
	// whether that was the deadline.
	Do func(ctx context.Context)
	// AtStart adds one run at once to those of the schedule.
	AtStart bool
	// First is when the schedule fires first, instead of at the next time of the Cron: an
	// @every that continues after an interruption. A time in the past is ignored.
	First time.Time
	// Deadline is how long one run may take; 0: any time.
	Deadline time.Duration
	// Grace is how long a run may continue after its context ended; 0: 20 seconds.
	Grace time.Duration
	// Logger gets skipped firings, panics, and runs that continue after Grace; it may be nil.
	Logger *slog.Logger
}

// Run runs at every firing, one run at a time, until ctx ends. Then it waits for
// the run under way. If that takes longer than Grace it returns ErrOverrun:
// what the run uses must not be closed, and the process should end. As long as a run
// continues, firings are skipped; after a panic the next firing runs again.
func (c Cron) Run(ctx context.Context, r Runs) error {
	if r.Grace == 0 {
		r.Grace = runGrace
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	// A panic must be recovered inside the job that must not run twice: outside,
	// it would leave the job marked as running for ever.
	events := cronEvents{r.Logger}
	engine := cron.New(cron.WithLocation(time.UTC), cron.WithLogger(events),
		cron.WithChain(cron.SkipIfStillRunning(events), cron.Recover(events)))
	engine.Schedule(&firings{cron: c, now: r.AtStart, first: r.First}, cron.FuncJob(func() { r.once(ctx) }))
	engine.Start()
	<-ctx.Done()
	select {
	case <-engine.Stop().Done():
		return nil
	case <-time.After(r.Grace):
		return ErrOverrun
	}
}

// once is one run, with a goroutine that watches whether it ends in time.
func (r Runs) once(ctx context.Context) {
	if ctx.Err() != nil {
		return // fired at the moment of the stop
	}
	if r.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.Deadline, ErrDeadline)
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
		case <-time.After(r.Grace):
			r.Logger.Error("run continues after its end", "cause", context.Cause(ctx), "grace_seconds",
				r.Grace.Seconds())
		}
	})
	defer watcher.Wait()
	defer close(ended)
	r.Do(ctx)
}

// firings are those of a Cron from the first on, and before them one at once. Only the
// engine's own goroutine calls Next.
type firings struct {
	cron  Cron
	now   bool
	first time.Time
}

func (f *firings) Next(t time.Time) time.Time {
	if f.now {
		f.now = false
		return t
	}
	if f.first.After(t) {
		return f.first
	}
	return f.cron.Next(t)
}

// cronEvents receives what the engine would log.
type cronEvents struct{ log *slog.Logger }

// Info passes on skipped firings; everything else is routine.
func (e cronEvents) Info(msg string, _ ...any) {
	if msg == "skip" {
		e.log.Warn("firing skipped: the previous run has not ended")
	}
}

// Error is about a run that panicked.
func (e cronEvents) Error(err error, _ string, keysAndValues ...any) {
	e.log.Error("run panicked", append([]any{"error", err}, keysAndValues...)...)
}
