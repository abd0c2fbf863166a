package schedule

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Cron says when runs begin, always in UTC: a change of the clocks moves no run.
// The zero Cron never fires.
type Cron struct {
	spec  string
	times cron.Schedule
}

// leastEvery is the shortest @every. Five fields cannot say less either.
const leastEvery = time.Minute

// cronForm is the end of every error of ParseCron.
const cronForm = `want minute (0-59), hour (0-23), day (1-31), month (1-12 or jan-dec) and weekday (0-6 or sun-sat) in UTC, such as "17 * * * *", or @hourly, @daily, @weekly, @monthly, @yearly, or @every with a minute or more`

// ParseCron reads a cron expression: five fields, or a descriptor such as
// @hourly. "@every 90m" counts from the start of the process. There is no zone but
// UTC. Steps that a field is too short for ("*/90" minutes would be an hour) and
// days that never come (30 February) are errors. An error names the expression,
// the rule and an example.
func ParseCron(spec string) (Cron, error) {
	c := Cron{spec: strings.Join(strings.Fields(spec), " ")}
	var err error
	if c.times, err = parseTimes(c.spec); err != nil {
		return Cron{}, fmt.Errorf("schedule %.100q: %w: %s", spec, err, cronForm)
	}
	return c, nil
}

// String is the expression, with single spaces.
func (c Cron) String() string { return c.spec }

// Next returns the first firing after t, in UTC, or the zero time if there is none.
func (c Cron) Next(t time.Time) time.Time {
	if c.times == nil {
		return time.Time{}
	}
	return next(c.times, t)
}

func parseTimes(spec string) (cron.Schedule, error) {
	if err := checkSpec(spec); err != nil {
		return nil, err
	}
	times, err := cron.ParseStandard(spec)
	if err != nil {
		return nil, err
	}
	switch times := times.(type) {
	case cron.ConstantDelaySchedule:
		return times, checkEvery(spec)
	case *cron.SpecSchedule:
		times.Location = time.UTC
	}
	if next(times, time.Time{}).IsZero() {
		return nil, errors.New("it never fires: no month has that day")
	}
	return times, nil
}

// next searches twice. The library gives up after five years, and over a
// century's end 29 February is eight years away.
func next(times cron.Schedule, t time.Time) time.Time {
	const search = 5 // years, to their end
	t = t.UTC()
	for range 2 {
		if n := times.Next(t); !n.IsZero() {
			return n
		}
		t = time.Date(t.Year()+search, time.December, 31, 23, 59, 59, 0, time.UTC)
	}
	return time.Time{}
}

// checkEvery looks at the duration itself: the library makes a second of anything shorter.
func checkEvery(spec string) error {
	if d, err := time.ParseDuration(strings.TrimPrefix(spec, "@every ")); err != nil || d < leastEvery {
		return errors.New("it fires more than once a minute")
	}
	return nil
}

// checkSpec refuses what the library takes for something else, or fails on.
func checkSpec(spec string) error {
	switch {
	case spec == "":
		return errors.New("it is empty")
	case strings.Contains(spec, "TZ="):
		return errors.New("it names a time zone, and there is only UTC")
	case strings.HasPrefix(spec, "@"):
		return nil
	}
	fields := strings.Fields(spec)
	if len(fields) != len(longest) {
		return fmt.Errorf("it has %d fields, not %d", len(fields), len(longest))
	}
	for i, field := range fields {
		if err := checkField(field, longest[i]); err != nil {
			return err
		}
	}
	return nil
}

// longest holds the largest step of each field.
var longest = [...]int{59, 23, 31, 12, 6}

// part is one element of a field's list.
var part = regexp.MustCompile(`^(?:[*?]|(?:\d{1,2}|[A-Za-z]{3})(?:-(?:\d{1,2}|[A-Za-z]{3}))?)(?:/(\d{1,2}))?$`)

func checkField(field string, longest int) error {
	for p := range strings.SplitSeq(field, ",") {
		match := part.FindStringSubmatch(p)
		if match == nil {
			return fmt.Errorf("%.20q is neither *, a number, a name nor a range", p)
		}
		if step, _ := strconv.Atoi(match[1]); step > longest {
			return fmt.Errorf("the step of %q is larger than its field", p)
		}
	}
	return nil
}
