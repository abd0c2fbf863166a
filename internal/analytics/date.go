package analytics

import (
	"fmt"
	"time"
)

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
