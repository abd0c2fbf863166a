package sandbox

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/google/go-cmp/cmp"
)

// body asks over a socket and returns the answer as it came.
func body(t *testing.T, server *httptest.Server, query string) string {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, server.URL+path+"?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+DefaultAPIKey)
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v: %s", query, resp.StatusCode, err, text)
	}
	return string(text)
}

func pageOf(t *testing.T, text string) (p visitorsPage) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// midnight begins the day after that of the tests' windows.
var midnight = time.Date(2026, 10, 14, 0, 0, 0, 0, time.UTC)

const (
	theDay  = "dateFrom=2026-10-13&dateTo=2026-10-14&limit=250"
	theWeek = "dateFrom=2026-10-08&dateTo=2026-10-15&limit=250"
)

// TestMovingDaysMoveWithTheClock: the totals and the rows of a day hold still
// between full hours and grow at each, for three days.
func TestMovingDaysMoveWithTheClock(t *testing.T) {
	now := midnight
	server := start(t, newTest(t, Config{Pages: 50, Faults: Faults{Moving: time.Hour}, Now: func() time.Time { return now }}))
	still := start(t, newTest(t, Config{Pages: 50, Now: func() time.Time { return midnight.AddDate(0, 0, 7) }}))
	if got, want := body(t, server, theDay), body(t, still, theDay); got != want {
		t.Error("at its end the day is not as it is without latecomers")
	}
	reads := func(p visitorsPage) (n int64) {
		for _, e := range p.Visitors {
			n += e.Total
		}
		return n
	}
	day := body(t, server, theDay)
	week := pageOf(t, body(t, server, theWeek)).Totals.Total
	for hour := range 72 {
		now = now.Add(59 * time.Minute)
		if body(t, server, theDay) != day {
			t.Fatalf("the day changes before hour %d is full", hour+1)
		}
		now = now.Add(time.Minute)
		before, after := pageOf(t, day), pageOf(t, body(t, server, theDay))
		if after.Totals.Total != before.Totals.Total+1 || reads(after) <= reads(before) {
			t.Fatalf("hour %d: totals from %+v to %+v, reads from %d to %d", hour+1, before.Totals, after.Totals, reads(before), reads(after))
		}
		later := pageOf(t, body(t, server, theWeek)).Totals.Total
		if later < week+1 {
			t.Fatalf("hour %d: the week has %d visitors after %d", hour+1, later, week)
		}
		day, week = body(t, server, theDay), later
	}
	now = now.AddDate(0, 1, 0)
	if body(t, server, theDay) != day {
		t.Error("the day still changes when it is three days old")
	}
	if got := pageOf(t, day).Totals; got.Human <= 0 || got.AI <= pageOf(t, body(t, still, theDay)).Totals.AI {
		t.Errorf("no latecomer was an AI: %+v", got)
	}
}

func TestMovingIsDeterministic(t *testing.T) {
	at := func(c Config, age time.Duration, days int) answer {
		c.Pages, c.Days = 50, days
		c.Now = func() time.Time { return midnight.Add(age) }
		s := newTest(t, c)
		a := all(t, s, "2026-10-13", "2026-10-14", 7)
		compare(t, "pages and truth", truth(t, s, "2026-10-13", "2026-10-14"), a)
		return a
	}
	hourly := Config{Faults: Faults{Moving: time.Hour}}
	want := at(hourly, 30*time.Hour, 20)
	compare(t, "another run, begun on another day", want, at(hourly, 30*time.Hour+59*time.Minute, 60))
	three := Config{Faults: Faults{Moving: 3 * time.Hour, MovingDays: 1}}
	if n := at(three, 90*24*time.Hour, 200).totals.Total - at(Config{}, 90*24*time.Hour, 200).totals.Total; n != 8 {
		t.Errorf("%d latecomers in a day, one in three hours", n)
	}
}

// Every answer obeys what holds of exact sets, at any moment.
func TestMovingKeepsNumbersConsistent(t *testing.T) {
	now := midnight.Add(41*time.Hour + 17*time.Minute)
	s := newTest(t, Config{Pages: 60, Faults: Faults{Moving: 20 * time.Minute, LateDays: 2, DriftEvery: 5}, Now: func() time.Time { return now }})
	week := truth(t, s, "2026-10-08", "2026-10-15")
	for d := date("2026-10-08"); d < date("2026-10-15"); d++ {
		day := truth(t, s, d.String(), (d + 1).String())
		if day.totals.Total > week.totals.Total || day.totals.Human > week.totals.Human || day.totals.AI > week.totals.AI {
			t.Errorf("%s has %+v, its week %+v", d, day.totals, week.totals)
		}
		for _, row := range append(day.rows, analytics.Row{Human: day.totals.Human, AI: day.totals.AI, Total: day.totals.Total}) {
			if row.Total > day.totals.Total || row.Total > row.Human+row.AI || row.Total < max(row.Human, row.AI) {
				t.Errorf("%s, %s: %+v with totals %+v", d, row.Path, row, day.totals)
			}
		}
	}
}

func TestEventLogMovesToo(t *testing.T) {
	now := midnight
	f := newLogFile(t, `{"time":"2026-10-13T08:00:00Z","visitor":"a","kind":"human","path":"/x"}`+"\n")
	s := newTest(t, Config{DataDir: f.dir, Faults: Faults{Moving: time.Hour, MovingDays: 1}, Now: func() time.Time { return now }})
	for hour := range int64(24) {
		if got := truth(t, s, "2026-10-13", "2026-10-14"); got.totals.Total != 1+hour || got.rows[0].Total != 1+hour {
			t.Errorf("after %d hours: %+v", hour, got)
		}
		now = now.Add(time.Hour)
	}
	empty := newTest(t, Config{DataDir: newLogFile(t, "").dir, Faults: Faults{Moving: time.Hour}})
	if got := truth(t, empty, "2026-10-13", "2026-10-14").totals; got.Total != 0 {
		t.Errorf("a site without pages has %+v", got)
	}
}

// TestPageRows reads a window from a service that has smaller pages than were
// asked for: the next offset is the number of rows that came.
func TestPageRows(t *testing.T) {
	config := Config{Pages: 60}
	whole := pageOf(t, body(t, start(t, newTest(t, config)), theDay))
	config.Faults.PageRows = 20
	server := start(t, newTest(t, config))
	var rows []entry
	sizes := ""
	for more := true; more; {
		page := pageOf(t, body(t, server, fmt.Sprintf("%s&offset=%d", theDay, len(rows))))
		rows = append(rows, page.Visitors...)
		more = page.HasMore
		sizes += fmt.Sprintf("%d ", len(page.Visitors))
	}
	if diff := cmp.Diff(whole.Visitors, rows); diff != "" || !strings.HasPrefix(sizes, "20 20 ") {
		t.Errorf("pages of %srows: %s", sizes, diff)
	}
	if page := pageOf(t, body(t, server, theDay+"&offset=15")); page.Visitors[0] != whole.Visitors[15] {
		t.Error("offset does not count rows")
	}
	if page := pageOf(t, body(t, server, strings.Replace(theDay, "250", "3", 1))); len(page.Visitors) != 3 || !page.HasMore {
		t.Errorf("limit 3 has %d rows", len(page.Visitors))
	}
}

func TestBadWindows(t *testing.T) {
	server := start(t, newTest(t, Config{Pages: 10, Faults: Faults{BadWindows: []analytics.Date{date("2026-10-13")}}}))
	var page struct {
		Totals   analytics.Totals `json:"totals"`
		Visitors []struct {
			Path  string  `json:"path"`
			Human float64 `json:"human"`
		} `json:"visitors"`
		HasMore *bool `json:"hasMore"`
	}
	if err := json.Unmarshal([]byte(body(t, server, theDay)), &page); err != nil {
		t.Fatal(err)
	}
	if page.Totals.Total == 0 || len(page.Visitors) == 0 || page.HasMore == nil {
		t.Errorf("not a page: %+v", page)
	}
	for _, e := range page.Visitors {
		if _, half := math.Modf(e.Human); half != 0.5 || e.Path == "" {
			t.Errorf("a row that can be read: %+v", e)
		}
	}
	for _, good := range []string{"dateFrom=2026-10-12&dateTo=2026-10-14", "dateFrom=2026-10-12&dateTo=2026-10-13", "dateFrom=2026-10-13T00:00:01Z", ""} {
		if pageOf(t, body(t, server, good)).Totals.Total == 0 {
			t.Errorf("%s: no visitors", good)
		}
	}
}

func TestMovingIsChecked(t *testing.T) {
	for _, tc := range []struct {
		faults Faults
		says   string
	}{
		{Faults{Moving: 30 * time.Second}, "whole minutes"},
		{Faults{Moving: 90 * time.Second}, "whole minutes"},
		{Faults{Moving: -time.Hour}, "whole minutes"},
		{Faults{Moving: time.Hour, MovingDays: 366}, "moving days: want 1 to 365, got 366"},
		{Faults{Moving: time.Minute, MovingDays: 7}, "more than 10000 changes"},
		{Faults{PageRows: -1}, "page rows: must not be negative"},
	} {
		if _, err := New(Config{Faults: tc.faults}); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%+v: %v, want %q", tc.faults, err, tc.says)
		}
	}
}

func TestLatecomersAreNumberedDensely(t *testing.T) {
	today := date("2026-10-14")
	site := newTest(t, Config{Pages: 10, Days: 3}).projects[DefaultProject].synthetic
	often := Faults{Moving: 7 * time.Hour, MovingDays: 2} // six or seven a day
	late := withMoving(site, often, site.daySeed, today)
	days := map[uint32]analytics.Date{}
	for d := today - 3; d <= today; d++ {
		before := len(site.day(d))
		for _, e := range late.day(d)[before:] {
			visitor := e.who >> 1
			if first, known := days[visitor]; known && first != d || int(visitor) < site.visitors() || int(visitor) >= late.visitors() {
				t.Errorf("%s: latecomer %d, also of %s; want numbers of their own from %d to below %d", d, visitor, first, site.visitors(), late.visitors())
			}
			days[visitor] = d
		}
		if len(site.day(d)) != before {
			t.Error("the kept day has changed")
		}
	}
	if n := withMoving(&logTraffic{}, often, site.daySeed, today).visitors(); n != 0 {
		t.Errorf("%d visitors of a site without pages", n)
	}
}

func TestLatecomersDependOnSeedProjectAndDate(t *testing.T) {
	read := func(c Config, d analytics.Date) (pages []uint32) {
		c.Pages = 50
		site := newTest(t, c).projects[DefaultProject].synthetic
		for _, e := range withMoving(site, Faults{Moving: time.Hour, MovingDays: 3}, site.daySeed, d).day(d)[len(site.day(d)):] {
			pages = append(pages, e.page)
		}
		return pages
	}
	d := date("2026-10-13")
	want := read(Config{}, d)
	if again := read(Config{Days: 7, Projects: []string{"prj_b", DefaultProject}}, d); !slices.Equal(want, again) {
		t.Error("the same seed, project and date have other latecomers")
	}
	if slices.Equal(want, read(Config{Seed: 1}, d)) || slices.Equal(want, read(Config{}, d-1)) {
		t.Error("another seed or date has the same latecomers")
	}
}
