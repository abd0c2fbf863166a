package analytics

import (
	"fmt"
	"regexp"
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

// ProjectPattern is the regular expression of project ids.
const ProjectPattern = `^[A-Za-z0-9_-]{1,128}$`

var projectForm = regexp.MustCompile(ProjectPattern)

// ValidProject reports whether id can be the id of a project.
func ValidProject(id string) bool { return projectForm.MatchString(id) }

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

// Spec is one configured granularity: what DOCGAUGE_WINDOWS lists.
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

// Key names one window of one project at one granularity: the unit that is
// fetched, sealed and committed whole.
type Key struct {
	Project     string      `json:"project"`
	Granularity Granularity `json:"granularity"`
	Window
}

// ParseKey reads what String returns.
func ParseKey(s string) (k Key, err error) {
	fields := strings.Fields(s)
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

// String returns k for messages: "prj_a day [2026-10-01,2026-10-02)".
func (k Key) String() string {
	return k.Project + " " + string(k.Granularity) + " " + k.Window.String()
}
