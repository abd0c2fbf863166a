package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func parseCron(t rapid.TB, spec string) Cron {
	t.Helper()
	c, err := ParseCron(spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCronNext(t *testing.T) {
	for _, tc := range []struct{ spec, after, want string }{
		{"17 * * * *", "2026-10-03T10:16:59.9Z", "2026-10-03T10:17:00Z"},
		{"17 * * * *", "2026-10-03T10:17:00Z", "2026-10-03T11:17:00Z"},
		{"17 * * * *", "2026-10-03T23:30:00+05:30", "2026-10-03T18:17:00Z"}, // 18:00 UTC
		{" 30  2 * * * ", "2026-03-29T00:00:00+01:00", "2026-03-29T02:30:00Z"},
		{"*/20 3-4 * * *", "2026-10-03T04:40:00Z", "2026-10-04T03:00:00Z"},
		{"5/20 * * * *", "2026-10-03T04:05:00Z", "2026-10-03T04:25:00Z"},
		{"0 6 * * mon-fri", "2026-10-02T06:00:00Z", "2026-10-05T06:00:00Z"},
		{"0 6 1,15 * ?", "2026-10-02T06:00:00Z", "2026-10-15T06:00:00Z"},
		{"0 0 13 * 5", "2026-10-03T00:00:00Z", "2026-10-09T00:00:00Z"}, // the 13th, and every Friday
		{"0 0 31 * *", "2026-10-31T00:00:00Z", "2026-12-31T00:00:00Z"},
		{"0 0 29 2 *", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"0 0 29 2 *", "2097-01-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"0 0 29 2 *", "2098-01-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"@hourly", "2026-10-03T10:00:00Z", "2026-10-03T11:00:00Z"},
		{"@daily", "2026-10-03T10:00:00Z", "2026-10-04T00:00:00Z"},
		{"@weekly", "2026-10-03T10:00:00Z", "2026-10-04T00:00:00Z"},
		{"@monthly", "2026-10-03T10:00:00Z", "2026-11-01T00:00:00Z"},
		{"@yearly", "2026-10-03T10:00:00Z", "2027-01-01T00:00:00Z"},
		{"@every 90m", "2026-10-03T10:00:00.4Z", "2026-10-03T11:30:00Z"},
	} {
		after, err := time.Parse(time.RFC3339, tc.after)
		if err != nil {
			t.Fatal(err)
		}
		got := parseCron(t, tc.spec).Next(after)
		if got.Location() != time.UTC || got.Format(time.RFC3339Nano) != tc.want {
			t.Errorf("%q after %s is %s, want %s", tc.spec, tc.after, got, tc.want)
		}
	}
}

// TestCronIsReadInUTC changes the local zone after the expression was read.
func TestCronIsReadInUTC(t *testing.T) {
	local := time.Local
	defer func() { time.Local = local }()
	time.Local = time.FixedZone("", 5*3600+1800)
	c := parseCron(t, "0 6 * * *")
	time.Local = time.FixedZone("", -3*3600)
	want := time.Date(2026, 10, 4, 6, 0, 0, 0, time.UTC)
	if got := c.Next(time.Date(2026, 10, 3, 6, 0, 0, 0, time.UTC)); !got.Equal(want) {
		t.Errorf("fires at %s, want %s", got, want)
	}
}

// TestCronNextIsOfTheWall: a time that is kept must not carry the clock of this process.
func TestCronNextIsOfTheWall(t *testing.T) {
	if next := parseCron(t, "@every 90m").Next(time.Now()); strings.Contains(next.String(), "m=") {
		t.Errorf("%s has a monotonic clock", next)
	}
}

func TestCronString(t *testing.T) {
	if got := parseCron(t, "\t17  * * *\n* ").String(); got != "17 * * * *" {
		t.Errorf("got %q", got)
	}
	hourly := parseCron(t, "17 * * * *")
	if !hourly.Same(parseCron(t, " 17 *  * * *")) || hourly.Same(parseCron(t, "18 * * * *")) {
		t.Error("Same compares something else than the firings")
	}
}

// TestMissed: the nth firing after a moment, and no sooner.
func TestMissed(t *testing.T) {
	c, noon := parseCron(t, "17 * * * *"), time.Date(2026, 10, 5, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		n, minutes int
		want       bool
	}{{1, 17, false}, {1, 18, true}, {2, 77, false}, {2, 78, true}} {
		if got := c.Missed(tc.n, noon, noon.Add(time.Duration(tc.minutes)*time.Minute)); got != tc.want {
			t.Errorf("%d firings in %d minutes: %v", tc.n, tc.minutes, got)
		}
	}
	if zero := (Cron{}); zero.Missed(2, noon, noon.Add(1000*time.Hour)) || !zero.Next(noon).IsZero() {
		t.Error("the zero Cron fires")
	}
}

func TestParseCronRefuses(t *testing.T) {
	for spec, want := range map[string]string{
		"":                                "it is empty",
		"  \t":                            "it is empty",
		"17 * * *":                        "it has 4 fields, not 5",
		"0 17 * * * *":                    "it has 6 fields, not 5",
		"hourly":                          "it has 1 field, not 5",
		"60 * * * *":                      "above maximum (59)",
		"* 24 * * *":                      "above maximum (23)",
		"* * 0 * *":                       "below minimum (1)",
		"* * * 13 *":                      "above maximum (12)",
		"* * * * 7":                       "weekday (0-6",
		"5-1 * * * *":                     "beyond end of range",
		"*/0 * * * *":                     "positive",
		"*/90 * * * *":                    `the step of "*/90" is larger than its field`,
		"0 */24 * * *":                    `the step of "*/24" is larger than its field`,
		"*-5 * * * *":                     `"*-5" is neither`,
		"1,,2 * * * *":                    `"" is neither`,
		"0 0 , * 1":                       `"" is neither`,
		"+5 * * * *":                      `"+5" is neither`,
		"0 0 * foo *":                     "foo",
		"0 0 30 2 *":                      "it never fires",
		"0 0 31 4,6,9,11 *":               "it never fires",
		"CRON_TZ=Europe/Berlin 0 6 * * *": "there is only UTC",
		"TZ=UTC 0 6 * * *":                "there is only UTC",
		"TZ=UTC":                          "there is only UTC",
		"@fortnightly":                    "unrecognized descriptor",
		"@every":                          "unrecognized descriptor",
		"@every 5":                        "missing unit",
		"@every 59s":                      "more than once a minute",
		"@every 0s":                       "more than once a minute",
		"@every -5m":                      "more than once a minute",
		"@reboot":                         "unrecognized descriptor",
		strings.Repeat("* ", 500):         "it has 500 fields",
	} {
		c, err := ParseCron(spec)
		if err == nil {
			t.Errorf("%q is taken for %s", spec, c)
			continue
		}
		for _, want := range []string{fmt.Sprintf("schedule %.100q: ", spec), want, "in UTC", "17 * * * *", "@hourly"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %q does not say %q", spec, err, want)
			}
		}
	}
}

func FuzzParseCron(f *testing.F) {
	for _, spec := range []string{"17 * * * *", "*/5 1-3,7 ? jan-mar/2 sun", "@every 1h", "@hourly", "TZ=x",
		"CRON_TZ=", "0 0 30 2 *", "9/9 9 9 9 *"} {
		f.Add(spec, int64(951_782_400))
	}
	f.Fuzz(func(t *testing.T, spec string, seconds int64) {
		c, err := ParseCron(spec)
		if err != nil {
			return
		}
		after := time.Unix(seconds%1e10, 0)
		if next := c.Next(after); !next.After(after) {
			t.Errorf("%q: after %s comes %s", spec, after.UTC(), next)
		}
		again, err := ParseCron(c.String())
		if err != nil || again.Next(after) != c.Next(after) {
			t.Errorf("%q becomes %q: %v", spec, c, err)
		}
	})
}
