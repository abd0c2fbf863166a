// Package format writes numbers and times for people, in the same way in tables,
// logs and HTML pages, and splits the lists of settings. It holds only formats that are used in more than one place.
package format

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agext/levenshtein"
)

// Commas writes n in groups of three digits: 1,234,567.
func Commas[N int | int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// Known writes a count as Commas does, and a dash for an unknown one, which is less than 0.
func Known(n int64) string {
	if n < 0 {
		return "-"
	}
	return Commas(n)
}

// Size writes a number of bytes with three digits: 512 B, 1.21 MB.
func Size(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	size := float64(n)
	for size >= 999.5 {
		size, units = size/1000, units[1:]
	}
	return strconv.FormatFloat(size, 'g', 3, 64) + " " + units[0]
}

// List returns the elements of a comma-separated list, without the spaces around them and without empty elements.
func List(text string) (all []string) {
	for element := range strings.SplitSeq(text, ",") {
		if element = strings.TrimSpace(element); element != "" {
			all = append(all, element)
		}
	}
	return all
}

// Plural counts things whose plural ends in s: 1 window, 2 windows.
func Plural[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return Commas(n) + " " + one + "s"
}

// DidYouMean names the nearest of the known names, or all of them if none is near.
func DidYouMean(name string, known []string) string {
	if len(known) == 0 {
		return "there are none"
	}
	if near := Nearest(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "there are " + strings.Join(known, ", ")
}

// Nearest is the known name that may be meant; empty: none is near.
func Nearest(name string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	near := slices.MinFunc(known, func(a, b string) int { return Edits(name, a) - Edits(name, b) })
	if Edits(name, near) > min(2, len(near)-1) {
		return ""
	}
	return near
}

// Path writes the path of a page, which may be empty.
func Path(path string) string {
	if path == "" {
		return "(empty path)"
	}
	return path
}

// Edits is the number of letters to insert, delete or replace to turn one name into another.
func Edits(a, b string) int { return levenshtein.Distance(a, b, nil) }

// Time writes t to the minute, in UTC: 2026-10-06 10:31 UTC.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// Duration is a duration in its largest unit, rounded down: 45 min, 3 h, 12 d.
func Duration(d time.Duration) string {
	switch hours := int(d.Hours()); {
	case hours >= 48:
		return fmt.Sprintf("%d d", hours/24)
	case hours > 0:
		return fmt.Sprintf("%d h", hours)
	}
	return fmt.Sprintf("%d min", int(d.Minutes()))
}

// Clock writes t to the minute, in UTC, for a reader at now: 10:31 UTC on the
// same day, 7 Oct 10:31 UTC in the same year.
func Clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	switch {
	case t.Year() != now.Year():
		return Time(t)
	case t.YearDay() != now.YearDay():
		return t.Format("2 Jan 15:04 UTC")
	}
	return t.Format("15:04 UTC")
}

// DateSpan writes the days from first to last: 21 Nov 2026, 9–15 Nov 2026, 28 Sep – 4 Oct 2026,
// 28 Dec 2025 – 3 Jan 2026. If the last day is in the given year, no year is written
// (21 Nov, 28 Dec – 3 Jan), unless the days are so many that it would be unclear.
func DateSpan(first, last time.Time, year int) string {
	end, begin := "2 Jan 2006", "2 Jan – "
	switch {
	case last.Year() == year && last.Before(first.AddDate(0, 11, 0)):
		end = "2 Jan"
	case first.Year() != last.Year():
		begin = "2 Jan 2006 – "
	}
	switch {
	case first.Equal(last):
		begin = ""
	case first.Month() == last.Month() && first.Year() == last.Year():
		begin = "2–"
	}
	return first.Format(begin) + last.Format(end)
}

// Cut shortens s to at most n characters; an ellipsis stands for the rest.
func Cut(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}
