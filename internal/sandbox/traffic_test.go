package sandbox

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sandbox/traffic"
	"github.com/docgauge/docgauge/internal/site/facts"
)

func compare(t *testing.T, what string, want, got facts.Visitors) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

// Every day, week and month of the default site looks like a site.
func TestTrafficIsPlausible(t *testing.T) {
	s := newTest(t, Config{})
	weekday, weekend := int64(0), int64(0)
	for d := date("2026-10-05"); d < date("2026-10-12"); d++ {
		a := truth(t, s, d.String(), (d + 1).String())
		if n := len(a.Rows); n < 400 || n > DefaultPages {
			t.Errorf("%s has %d rows", d, n)
		}
		if d.Weekday() == time.Saturday || d.Weekday() == time.Sunday {
			weekend = max(weekend, a.Totals.Total)
		} else {
			weekday += a.Totals.Total
		}
	}
	if weekend*5 > weekday*3/4 {
		t.Errorf("the larger weekend day has %d visitors, five working days have %d", weekend, weekday)
	}
	week, month := truth(t, s, "2026-10-05", "2026-10-12").Totals, truth(t, s, "2026-09-01", "2026-10-01").Totals
	if sum := weekday + 2*weekend; week.Total > sum*4/5 || week.Total < weekday/5 {
		t.Errorf("the week has %d visitors, its days together about %d", week.Total, sum)
	}
	if month.Total < week.Total*3/2 || month.Total > week.Total*4 {
		t.Errorf("the month has %d visitors, a week %d", month.Total, week.Total)
	}
	for _, n := range []analytics.Totals{week, month} {
		if n.Total >= n.Human+n.AI || n.Total <= n.Human || n.AI == 0 || n.AI >= n.Human {
			t.Errorf("%+v: human and AI visitors do not overlap as they should", n)
		}
	}
	if empty := truth(t, s, "2026-06-15", "2026-06-16"); empty.Totals.Total != 0 || empty.Rows != nil {
		t.Errorf("traffic before the first day: %v", empty.Totals)
	}
	if first := truth(t, s, "2026-06-16", "2026-06-17"); first.Totals.Total == 0 {
		t.Error("no traffic on the first day")
	}
}

func TestTrafficIsDeterministic(t *testing.T) {
	two := []string{DefaultProject, "prj_b"}
	a := newTest(t, Config{Seed: 7, Projects: two})
	truth(t, a, "2026-09-01", "2026-10-01") // other days first
	want := truth(t, a, "2026-10-05", "2026-10-06")
	later := func() time.Time { return noon.AddDate(0, 1, 3) }
	compare(t, "another run, later", want, truth(t, newTest(t, Config{Seed: 7, Now: later, Days: 60}),
		"2026-10-05", "2026-10-06"))
	if other := truth(t, newTest(t, Config{Seed: 8}), "2026-10-05", "2026-10-06"); cmp.Equal(want.Rows, other.Rows) {
		t.Error("another seed has the same traffic")
	}
	if _, rows, _ := a.Visitors("prj_b", window("2026-10-05", "2026-10-06")); cmp.Equal(want.Rows, rows) {
		t.Error("another project has the same traffic")
	}
	if other := truth(t, a, "2026-10-06", "2026-10-07"); cmp.Equal(want.Rows, other.Rows) {
		t.Error("another day has the same traffic")
	}
}

func TestTodayGrowsByTheMinute(t *testing.T) {
	now := time.Date(2026, 10, 14, 0, 0, 0, 0, time.UTC)
	s := newTest(t, Config{Now: func() time.Time { return now }})
	closed := truth(t, s, "2026-10-13", "2026-10-14")
	previous := truth(t, s, "2026-10-14", "2026-10-15")
	if previous.Totals.Total > 5 {
		t.Errorf("%d visitors at midnight", previous.Totals.Total)
	}
	for range 24 {
		now = now.Add(59 * time.Second)
		compare(t, "within the minute", previous, truth(t, s, "2026-10-14", "2026-10-15"))
		now = now.Add(time.Hour - 59*time.Second)
		grown := truth(t, s, "2026-10-14", "2026-10-15")
		if grown.Totals.Total <= previous.Totals.Total {
			t.Errorf("%s: %d visitors, %d an hour ago", now, grown.Totals.Total, previous.Totals.Total)
		}
		previous = grown
	}
	now = now.AddDate(1, 0, 0)
	compare(t, "yesterday a year later", closed, truth(t, s, "2026-10-13", "2026-10-14"))
	if today := truth(t, s, "2027-10-14", "2027-10-15"); today.Totals.Total == 0 {
		t.Error("no new days while it runs")
	}
}

func TestLateDataSettles(t *testing.T) {
	now := time.Date(2026, 10, 14, 0, 0, 0, 0, time.UTC)
	s := newTest(t, Config{Faults: Faults{LateDays: 2}, Now: func() time.Time { return now }})
	day := func() facts.Visitors { return truth(t, s, "2026-10-13", "2026-10-14") }
	fresh := day()
	now = now.Add(24 * time.Hour)
	older := day()
	now = now.Add(24*time.Hour - time.Minute)
	almost := day()
	now = now.Add(time.Minute)
	settled := day()
	if fresh.Totals.Total >= older.Totals.Total || older.Totals.Total >= settled.Totals.Total {
		t.Errorf("visitors: %d at the end, %d after a day, %d after two", fresh.Totals.Total,
			older.Totals.Total, settled.Totals.Total)
	}
	if almost.Totals.Total > settled.Totals.Total {
		t.Errorf("visitors went from %d to %d", almost.Totals.Total, settled.Totals.Total)
	}
	compare(t, "settled without lateness", truth(t, newTest(t, Config{}), "2026-10-13", "2026-10-14"), settled)
	now = now.AddDate(0, 3, 0)
	compare(t, "three months later", settled, day())
}

func TestDriftLandsInYesterdayAndToday(t *testing.T) {
	s := newTest(t, Config{Faults: Faults{DriftEvery: 2}})
	days := func() (n [3]int64) {
		for i, from := range []string{"2026-10-12", "2026-10-13", "2026-10-14"} {
			n[i] = truth(t, s, from, (date(from) + 1).String()).Totals.Total
		}
		return n
	}
	before := days()
	asked := decode(t, get(s, path+"?dateFrom=2026-10-13&dateTo=2026-10-14"))
	if asked.Totals.Total != before[1] {
		t.Error("drift on the first request")
	}
	asked = decode(t, get(s, path+"?dateFrom=2026-10-13&dateTo=2026-10-14"))
	want := [3]int64{before[0], before[1] + 1, before[2] + 1}
	if got := days(); got != want || asked.Totals.Total != want[1] {
		t.Errorf("days %v, asked %v; want %v", got, asked.Totals, want)
	}
	get(s, path)
	get(s, path)
	if got := truth(t, s, "2026-10-13", "2026-10-15").Totals; got.Total < want[1]+2 {
		t.Errorf("both days have %d visitors", got.Total)
	}
}

// body returns the answer to a query as it came.
func body(t *testing.T, s *Sandbox, query string) string {
	t.Helper()
	w := get(s, path+"?"+query)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: status %d: %s", query, w.Code, w.Body)
	}
	return w.Body.String()
}

func pageOf(t *testing.T, s *Sandbox, query string) page {
	t.Helper()
	return decode(t, get(s, path+"?"+query))
}

// midnight begins the day after the tests' windows.
var midnight = time.Date(2026, 10, 14, 0, 0, 0, 0, time.UTC)

const (
	theDay  = "dateFrom=2026-10-13&dateTo=2026-10-14&limit=250"
	theWeek = "dateFrom=2026-10-08&dateTo=2026-10-15&limit=250"
)

// TestMovingDaysMoveWithTheClock: the totals and the rows of a day hold still
// between full hours and grow at each, for three days.
func TestMovingDaysMoveWithTheClock(t *testing.T) {
	now := midnight
	s := newTest(t, Config{Pages: 50, Faults: Faults{Moving: time.Hour}, Now: func() time.Time { return now }})
	still := newTest(t, Config{Pages: 50, Days: DefaultDays + 7,
		Now: func() time.Time { return midnight.AddDate(0, 0, 7) }})
	if got, want := body(t, s, theDay), body(t, still, theDay); got != want {
		t.Error("at its end the day is not as it is without latecomers")
	}
	reads := func(p page) (n int64) {
		for _, e := range p.Visitors {
			n += e.Total
		}
		return n
	}
	day, before := body(t, s, theDay), pageOf(t, s, theDay)
	week := pageOf(t, s, theWeek).Totals.Total
	for hour := range 72 {
		now = now.Add(59 * time.Minute)
		if body(t, s, theDay) != day {
			t.Fatalf("the day changes before hour %d is full", hour+1)
		}
		now = now.Add(time.Minute)
		after := pageOf(t, s, theDay)
		if after.Totals.Total != before.Totals.Total+1 || reads(after) <= reads(before) {
			t.Fatalf("hour %d: totals from %+v to %+v, reads from %d to %d", hour+1, before.Totals, after.Totals,
				reads(before), reads(after))
		}
		later := pageOf(t, s, theWeek).Totals.Total
		if later < week+1 {
			t.Fatalf("hour %d: the week has %d visitors after %d", hour+1, later, week)
		}
		day, before, week = body(t, s, theDay), after, later
	}
	now = now.AddDate(0, 1, 0)
	if body(t, s, theDay) != day {
		t.Error("the day still changes when it is three days old")
	}
	if got := before.Totals; got.Human <= 0 || got.AI <= pageOf(t, still, theDay).Totals.AI {
		t.Errorf("no latecomer was an AI: %+v", got)
	}
}

func TestMovingIsDeterministic(t *testing.T) {
	at := func(c Config, age time.Duration, days int) facts.Visitors {
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
	if n := at(three, 90*24*time.Hour, 200).Totals.Total - at(Config{}, 90*24*time.Hour, 200).Totals.Total; n != 8 {
		t.Errorf("%d latecomers in a day, one in three hours", n)
	}
}

// Every answer has the properties of exact sets, at any moment.
func TestMovingKeepsNumbersConsistent(t *testing.T) {
	now := midnight.Add(41*time.Hour + 17*time.Minute)
	s := newTest(t, Config{Pages: 60, Faults: Faults{Moving: 20 * time.Minute, LateDays: 2, DriftEvery: 5},
		Now: func() time.Time { return now }})
	week := truth(t, s, "2026-10-08", "2026-10-15")
	for d := date("2026-10-08"); d < date("2026-10-15"); d++ {
		day := truth(t, s, d.String(), (d + 1).String())
		if day.Totals.Total > week.Totals.Total || day.Totals.Human > week.Totals.Human ||
			day.Totals.AI > week.Totals.AI {
			t.Errorf("%s has %+v, its week %+v", d, day.Totals, week.Totals)
		}
		for _, row := range append(day.Rows, analytics.Row{Totals: analytics.Totals{Human: day.Totals.Human,
			AI:    day.Totals.AI,
			Total: day.Totals.Total}}) {
			if row.Total > day.Totals.Total || row.Total > row.Human+row.AI || row.Total < max(row.Human, row.AI) {
				t.Errorf("%s, %s: %+v with totals %+v", d, row.Path, row, day.Totals)
			}
		}
	}
}

func TestEventLogMovesToo(t *testing.T) {
	now := midnight
	f := newLogFile(t, `{"time":"2026-10-13T08:00:00Z","visitor":"a","kind":"human","path":"/x"}`+"\n")
	s := newTest(t, Config{DataDir: f.dir, Faults: Faults{Moving: time.Hour, MovingDays: 1},
		Now: func() time.Time { return now }})
	for hour := range int64(24) {
		if got := truth(t, s, "2026-10-13", "2026-10-14"); got.Totals.Total != 1+hour || got.Rows[0].Total != 1+hour {
			t.Errorf("after %d hours: %+v", hour, got)
		}
		now = now.Add(time.Hour)
	}
	empty := newTest(t, Config{DataDir: newLogFile(t, "").dir, Faults: Faults{Moving: time.Hour}})
	if got := truth(t, empty, "2026-10-13", "2026-10-14").Totals; got.Total != 0 {
		t.Errorf("a site without pages has %+v", got)
	}
}

// TestPageRows reads a window from a service that has smaller pages than were
// asked for: the next offset is the number of rows that came.
func TestPageRows(t *testing.T) {
	config := Config{Pages: 60}
	whole := pageOf(t, newTest(t, config), theDay)
	config.Faults.PageRows = 20
	s := newTest(t, config)
	var rows []analytics.Row
	sizes := ""
	for more := true; more; {
		page := pageOf(t, s, fmt.Sprintf("%s&offset=%d", theDay, len(rows)))
		rows = append(rows, page.Visitors...)
		more = page.HasMore
		sizes += fmt.Sprintf("%d ", len(page.Visitors))
	}
	if diff := cmp.Diff(whole.Visitors, rows); diff != "" || !strings.HasPrefix(sizes, "20 20 ") {
		t.Errorf("pages of %srows: %s", sizes, diff)
	}
	if page := pageOf(t, s, theDay+"&offset=15"); page.Visitors[0] != whole.Visitors[15] {
		t.Error("offset does not count rows")
	}
	if page := pageOf(t, s, strings.Replace(theDay, "250", "3", 1)); len(page.Visitors) != 3 || !page.HasMore {
		t.Errorf("limit 3 has %d rows", len(page.Visitors))
	}
}

func TestBadWindows(t *testing.T) {
	s := newTest(t, Config{Pages: 10, Faults: Faults{BadWindows: []analytics.Date{date("2026-10-13")}}})
	var page struct {
		Totals   analytics.Totals `json:"totals"`
		Visitors []struct {
			Path  string  `json:"path"`
			Human float64 `json:"human"`
		} `json:"visitors"`
		HasMore *bool `json:"hasMore"`
	}
	check(t, json.Unmarshal([]byte(body(t, s, theDay)), &page))
	if page.Totals.Total == 0 || len(page.Visitors) == 0 || page.HasMore == nil {
		t.Errorf("not a page: %+v", page)
	}
	for _, e := range page.Visitors {
		if _, half := math.Modf(e.Human); half != 0.5 || e.Path == "" {
			t.Errorf("a row that can be read: %+v", e)
		}
	}
	for _, good := range []string{
		"dateFrom=2026-10-12&dateTo=2026-10-14", "dateFrom=2026-10-12&dateTo=2026-10-13",
		"dateFrom=2026-10-13T00:00:01Z", "",
	} {
		if pageOf(t, s, good).Totals.Total == 0 {
			t.Errorf("%s: no visitors", good)
		}
	}
}

type modelEvent struct {
	at                  time.Time
	visitor, kind, path string
}

func (e modelEvent) line() string {
	return fmt.Sprintf(`{"time":%q,"visitor":%q,"kind":%q,"path":%q}`, e.at.Format(time.RFC3339),
		e.visitor, e.kind, e.path)
}

// arrived is the rule of late events, written down once more.
func (e modelEvent) arrived(lateDays int) time.Time {
	day := e.at.UTC().Truncate(24 * time.Hour)
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.Join([]string{e.at.Format(time.RFC3339), e.visitor, e.kind, e.path}, "\x00")))
	if luck := h.Sum32(); lateDays > 0 && luck%20 == 0 {
		return day.Add(time.Duration(86401+luck/20%uint32(lateDays*86400)) * time.Second)
	}
	return e.at
}

// modelTotals is the specification in the plainest words: sets of names.
func modelTotals(events []modelEvent) (totals analytics.Totals) {
	seen := map[string]map[string]bool{"human": {}, "ai": {}, "total": {}}
	for _, e := range events {
		seen[e.kind][e.visitor] = true
		seen["total"][e.visitor] = true
	}
	return analytics.Totals{Human: int64(len(seen["human"])), AI: int64(len(seen["ai"])),
		Total: int64(len(seen["total"]))}
}

func model(events []modelEvent, from, to, now time.Time, lateDays int) facts.Visitors {
	var visible []modelEvent
	byPath := map[string][]modelEvent{}
	for _, e := range events {
		if e.at.Before(from) || !e.at.Before(to) || e.arrived(lateDays).After(now.Truncate(time.Minute)) {
			continue
		}
		visible = append(visible, e)
		byPath[e.path] = append(byPath[e.path], e)
	}
	a := facts.Visitors{Totals: modelTotals(visible)}
	for path, events := range byPath {
		n := modelTotals(events)
		a.Rows = append(a.Rows, analytics.Row{Path: path, Totals: analytics.Totals{Human: n.Human, AI: n.AI, Total: n.Total}})
	}
	sort.Slice(a.Rows, func(i, j int) bool {
		x, y := a.Rows[i], a.Rows[j]
		return x.Total > y.Total || x.Total == y.Total && x.Path < y.Path
	})
	return a
}

var modelStart = time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC)

func drawInstant(t *rapid.T, label string) time.Time {
	quarter := rapid.IntRange(-4, 4*4*24).Draw(t, label)
	return modelStart.Add(time.Duration(quarter) * 15 * time.Minute)
}

func drawEvent(t *rapid.T) modelEvent {
	zone := time.FixedZone("", 3600*rapid.IntRange(-5, 5).Draw(t, "zone"))
	return modelEvent{
		at:      drawInstant(t, "at").In(zone),
		visitor: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "visitor"),
		kind:    rapid.SampledFrom([]string{"human", "ai"}).Draw(t, "kind"),
		path:    rapid.SampledFrom([]string{"/", "/x", "/ü", `/"q"`, "/z"}).Draw(t, "path"),
	}
}

func TestCountsAreExactSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.Custom(drawEvent), 0, 60).Draw(t, "events")
		lateDays := rapid.IntRange(0, 2).Draw(t, "late days")
		dir, err := os.MkdirTemp("", "sandbox") //nolint:usetesting // rapid's T has no TempDir
		check(t, err)
		defer os.RemoveAll(dir)
		var lines []string
		for _, e := range events {
			lines = append(lines, e.line())
		}
		check(t, os.WriteFile(filepath.Join(dir, traffic.EventLogName), []byte(strings.Join(lines, "\n")), 0o600))
		now := modelStart
		s, err := New(Config{DataDir: dir, Faults: Faults{LateDays: lateDays}, Now: func() time.Time { return now }})
		check(t, err)
		for range 4 {
			now = drawInstant(t, "now").Add(48 * time.Hour)
			from, to := drawInstant(t, "from"), drawInstant(t, "to")
			if to.Before(from) {
				from, to = to, from
			}
			limit := rapid.IntRange(1, 6).Draw(t, "limit")
			got := all(t, s, from.Format(time.RFC3339), to.Format(time.RFC3339), limit)
			want := model(events, from, to, now, lateDays)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("[%s,%s) at %s: %s", from, to, now, diff)
			}
		}
	})
}

// A late event is in no answer before the minute that begins after its arrival.
func TestLateEventArrivesOnTime(t *testing.T) {
	e := modelEvent{at: noon.AddDate(0, 0, -3), kind: "human", path: "/x"}
	for i := 0; e.arrived(2).Sub(e.at) < 24*time.Hour || e.arrived(2).Second() == 0; i++ {
		e.visitor = fmt.Sprint("visitor ", i)
	}
	now := e.arrived(2).Truncate(time.Minute).Add(59 * time.Second)
	f := newLogFile(t, e.line()+"\n")
	s := newTest(t, Config{DataDir: f.dir, Faults: Faults{LateDays: 2}, Now: func() time.Time { return now }})
	if got := totals(t, s); got.Total != 0 {
		t.Errorf("visible at %s, arrives at %s", now, e.arrived(2))
	}
	now = now.Add(time.Second)
	if got := totals(t, s); got.Total != 1 {
		t.Errorf("not visible at %s, arrived at %s", now, e.arrived(2))
	}
}
