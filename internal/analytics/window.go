package analytics

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Window is the half-open interval of UTC dates [From, To): From is the first
// day inside it, To the first day after it. Adjacent windows share no day and
// miss none.
type Window struct {
	From Date `json:"from"`
	To   Date `json:"to"`
}

// Days returns how many days w covers.
func (w Window) Days() int { return int(w.To - w.From) }

// Complete reports whether every day of w is over at now, that is To <= today (UTC).
func (w Window) Complete(now time.Time) bool { return w.To <= DateOf(now) }

// String returns w as [from,to).
func (w Window) String() string { return "[" + w.From.String() + "," + w.To.String() + ")" }

// MaxRollingDays is the longest rolling window, in days.
const MaxRollingDays = 366

// Granularity names a kind of window: "day", "week" (ISO, from Monday), "month"
// or "Nd" (rolling, N complete days, 2 <= N <= MaxRollingDays). It is the value
// of the granularity column and of the window label.
type Granularity string

// The calendar granularities.
const (
	Day   Granularity = "day"
	Week  Granularity = "week"
	Month Granularity = "month"
)

// ParseGranularity reads "day", "week", "month" or "Nd".
func ParseGranularity(s string) (Granularity, error) {
	g := Granularity(s)
	if g == Day || g == Week || g == Month || g.RollingDays() > 0 {
		return g, nil
	}
	return "", fmt.Errorf("granularity %q: want day, week, month or Nd with N from 2 to %d (28d)", s, MaxRollingDays)
}

// RollingDays returns N for a rolling granularity "Nd", and 0 for any other.
func (g Granularity) RollingDays() int {
	digits, ok := strings.CutSuffix(string(g), "d")
	if !ok || digits == "" || digits[0] < '1' || digits[0] > '9' {
		return 0
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 2 || n > MaxRollingDays {
		return 0
	}
	return n
}

// Names reports whether a day names w: a rolling window by its last day, any other by each of its days.
func (g Granularity) Names(w Window, day Date) bool {
	if g.RollingDays() > 0 {
		return w.To == day+1
	}
	return w.From <= day && day < w.To
}

// Earlier returns the nth window of g before w: each ends where the next begins, so
// they share no day, even if windows roll.
func (g Granularity) Earlier(w Window, n int) Window {
	if g == Month {
		first := w.From.Time()
		month := func(ago int) Date { return NewDate(first.Year(), first.Month()-time.Month(ago), 1) }
		return Window{month(n), month(n - 1)}
	}
	days := Date(n * w.Days())
	return Window{w.From - days, w.To - days}
}

// ComparedWith returns the earlier window of g that w is compared with: for a day the same
// weekday of the week before, since a Saturday and a Friday differ anyway; for any other the
// window that ends where w begins. It is the default of every comparison.
func (g Granularity) ComparedWith(w Window) Window {
	if g == Day {
		return g.Earlier(w, 7)
	}
	return g.Earlier(w, 1)
}

// YearBefore returns the window of g a year before w: the same month, or the window 52
// weeks before, which has the same weekdays.
func (g Granularity) YearBefore(w Window) Window {
	const weeks = 52 * 7
	if g == Month {
		return g.Earlier(w, 12)
	}
	return Window{w.From - weeks, w.To - weeks}
}

// Spec is one configured granularity, an item of DOCGAUGE_WINDOWS.
type Spec struct {
	Granularity Granularity
	// TotalsOnly asks for the site totals alone, without rows ("28d:totals").
	TotalsOnly bool
}

// ParseSpec reads a granularity with an optional ":totals".
func ParseSpec(s string) (Spec, error) {
	name, only := strings.CutSuffix(s, ":totals")
	g, err := ParseGranularity(name)
	return Spec{Granularity: g, TotalsOnly: only}, err
}

// String returns s as DOCGAUGE_WINDOWS writes it.
func (s Spec) String() string {
	if s.TotalsOnly {
		return string(s.Granularity) + ":totals"
	}
	return string(s.Granularity)
}

var projectForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// CheckProject reports why id cannot be the id of a project, or nil.
func CheckProject(id string) error {
	if !projectForm.MatchString(id) {
		return fmt.Errorf("project %q: want 1 to 128 letters, digits, - or _", id)
	}
	return nil
}

// Key names one window of one project at one granularity: the unit that is
// fetched, sealed and committed whole.
type Key struct {
	Project     string      `json:"project"`
	Granularity Granularity `json:"granularity"`
	Window
	Report Report `json:"report,omitzero" api:"-"`
}

// ParseKey reads what String returns.
func ParseKey(s string) (k Key, err error) {
	fields := strings.Fields(s)
	if len(fields) == 4 {
		if k.Report, err = ParseReport(fields[1]); err != nil {
			return k, err
		}
		fields = slices.Delete(fields, 1, 2)
	}
	if len(fields) != 3 {
		return k, fmt.Errorf("window %q: want project, granularity and [from,to)", s)
	}
	k.Project = fields[0]
	if k.Granularity, err = ParseGranularity(fields[1]); err != nil {
		return k, err
	}
	from, to, _ := strings.Cut(strings.Trim(fields[2], "[)"), ",")
	if k.From, err = ParseDate(from); err == nil {
		k.To, err = ParseDate(to)
	}
	return k, err
}

// String returns k for messages: "prj_a day [2026-10-01,2026-10-02)", or "prj_a agents day [2026-10-01,2026-10-02)".
func (k Key) String() string {
	project := k.Project
	if k.Report != VisitorsReport {
		project += " " + k.Report.String()
	}
	return project + " " + string(k.Granularity) + " " + k.Window.String()
}

// Attrs names k in a log by fields: project, report unless it is visitors, granularity, from and to.
func (k Key) Attrs() slog.Attr {
	fields := []slog.Attr{slog.String("project", k.Project), slog.String("granularity", string(k.Granularity)),
		slog.String("from", k.From.String()), slog.String("to", k.To.String())}
	if k.Report != VisitorsReport {
		fields = slices.Insert(fields, 1, slog.String("report", k.Report.String()))
	}
	return slog.Attr{Value: slog.GroupValue(fields...)} // without a name the group is not seen
}

const (
	dateLayout = "2006-01-02"
	daySeconds = 24 * 60 * 60
)

// Date is a UTC calendar date, counted in days since 1970-01-01. It has no
// time of day and no zone, so that date arithmetic cannot meet a DST change.
type Date int32

// DateOf returns the UTC date of t.
func DateOf(t time.Time) Date {
	s := t.Unix()
	d := s / daySeconds
	if s%daySeconds < 0 {
		d--
	}
	return Date(d)
}

// NewDate returns the date of the given civil day; days and months outside
// their usual limits are normalised as by [time.Date].
func NewDate(year int, month time.Month, day int) Date {
	return DateOf(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
}

// ParseDate reads YYYY-MM-DD.
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(dateLayout, s)
	if err != nil {
		return 0, fmt.Errorf("date %q: want YYYY-MM-DD, a day that exists", s)
	}
	return DateOf(t), nil
}

// Time returns the first instant of d, in UTC.
func (d Date) Time() time.Time { return time.Unix(int64(d)*daySeconds, 0).UTC() }

// String returns d as YYYY-MM-DD.
func (d Date) String() string { return d.Time().Format(dateLayout) }

// Weekday returns the day of the week of d.
func (d Date) Weekday() time.Weekday { return d.Time().Weekday() }

// MarshalText writes YYYY-MM-DD.
func (d Date) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads YYYY-MM-DD.
func (d *Date) UnmarshalText(text []byte) error {
	v, err := ParseDate(string(text))
	if err != nil {
		return err
	}
	*d = v
	return nil
}
