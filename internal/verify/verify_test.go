package verify

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestCleanArchive(t *testing.T) {
	w := newWorld(t, 40)
	if r := w.verify(); len(r.Findings)+len(r.Busy) > 0 || r.Windows != 40 || r.Shown["parquet"] != 40 ||
		r.Shown["clickhouse"] != 40 {
		t.Errorf("report %+v", r)
	}
	if _, done := w.repair(); done.Mended+len(done.Due)+len(done.Errors) > 0 {
		t.Errorf("repair of a clean archive: %+v", done)
	}
	if done := w.compare(); len(done.Lost)+done.Filled+done.Due+len(done.Errors) > 0 {
		t.Errorf("comparison of a clean archive: %+v", done)
	}
}

// damages are done to the second of three windows, which both sinks have.
var damages = []struct {
	name  string
	harms []harm
	// found are the findings of verify, left those after a repair.
	found, left string
	// due: the window is out of the ledger after a repair.
	due bool
}{
	{"missing in one", []harm{gone(clickhouse)}, "02 clickhouse missing copy parquet", "", false},
	{"missing in both", []harm{gone(clickhouse, parquet)},
		"02 clickhouse missing read; 02 parquet missing read", "", true},
	{"unreadable", []harm{faulty(parquet, sinks.Unreadable)}, "02 parquet unreadable copy clickhouse", "", false},
	{"unreadable in the one, missing in the other", []harm{faulty(parquet, sinks.Unreadable), gone(clickhouse)},
		"02 clickhouse missing read; 02 parquet unreadable read", "", true},
	{"unavailable in the one, missing in the other", []harm{faulty(parquet, sinks.Unavailable), gone(clickhouse)},
		"02 clickhouse missing wait; 02 parquet unavailable wait",
		"02 clickhouse missing wait; 02 parquet unavailable wait", false},
	{"older revision", []harm{other(parquet, 1, 4)}, "02 parquet revision copy clickhouse", "", false},
	{"older revision in both", []harm{other(parquet, 1, 4), other(clickhouse, 1, 4)},
		"02 clickhouse revision read; 02 parquet revision read", "", true},
	{"newer revision", []harm{other(parquet, 3, 6)}, "02 parquet revision adopt parquet", "", false},
	{"rows lost", []harm{shows(clickhouse, rows(4))}, "02 clickhouse rows copy parquet", "", false},
	{"rows lost in both", []harm{shows(clickhouse, rows(4)), shows(parquet, rows(3))},
		"02 clickhouse rows read; 02 parquet rows read", "", true},
	{"rows doubled", []harm{shows(clickhouse, append(rows(5), rows(5)...))},
		"02 clickhouse rows copy parquet", "", false},
	{"rows changed", []harm{shows(clickhouse, changedRows())}, "02 clickhouse checksum copy parquet", "", false},
	{"totals changed", []harm{retold(clickhouse, otherTotal)}, "02 clickhouse totals copy parquet", "", false},
	{"totals changed in both", []harm{retold(clickhouse, otherTotal), retold(parquet, otherTotal)},
		"02 clickhouse totals copy parquet; 02 parquet totals copy parquet", "", false},
	{"mode of people changed", []harm{retold(clickhouse, func(rev *analytics.Revision) { rev.Humans = "claimed" })},
		"02 clickhouse totals copy parquet", "", false},
	{"announced rows changed", []harm{retold(clickhouse, func(rev *analytics.Revision) { rev.Rows = 9 })},
		"02 clickhouse rows copy parquet", "", false},
	{"extra in one", []harm{unknown, gone(clickhouse)}, "02 parquet extra adopt parquet", "", false},
	{"extra that is not whole", []harm{unknown, gone(clickhouse), shows(parquet, rows(4))},
		"02 parquet extra due", "02 parquet extra due", false},
	{"stray", []harm{func(w *world, _ analytics.Revision) {
		w.files.Put(analytics.Revision{}, nil, sinks.Fault{Kind: sinks.Stray, Err: errors.New("copy.parquet")})
	}}, "1970-01-01 parquet stray by_hand", "1970-01-01 parquet stray by_hand", false},
	{"never delivered", []harm{gone(clickhouse), undelivered(clickhouse)},
		"02 clickhouse missing copy parquet", "", false},
	{"owed", []harm{gone(clickhouse), owed(clickhouse)}, "02 clickhouse missing copy parquet", "", false},
	{"owed, and shown", []harm{owed(clickhouse)}, "", "", false},
	{"owed, an older revision is shown", []harm{other(clickhouse, 1, 4), owed(clickhouse)},
		"02 clickhouse revision copy parquet", "", false},
	{"owed, and unreadable", []harm{faulty(parquet, sinks.Unreadable), owed(parquet)},
		"02 parquet unreadable copy clickhouse", "", false},
	{"owed to both, and in none", []harm{gone(clickhouse, parquet), owed(clickhouse, parquet)},
		"02 clickhouse missing read; 02 parquet missing read", "", true},
	{"missing in both, in the spool", []harm{inSpool, gone(clickhouse, parquet)},
		"02 clickhouse missing read; 02 parquet missing read", "", false},
	{"missing in the one, the other not listed", []harm{gone(parquet), func(w *world, _ analytics.Revision) {
		w.table.away = fmt.Errorf("%w: down", sinks.ErrNotListed)
	}}, "1970-01-01 clickhouse unlisted by_hand; 02 parquet missing wait",
		"1970-01-01 clickhouse unlisted by_hand; 02 parquet missing wait", false},
	{"owed, and in the spool", []harm{inSpool, gone(clickhouse), owed(clickhouse)}, "", "", false},
	{"lost", []harm{gone(clickhouse, parquet), undelivered(clickhouse, parquet)},
		"02 clickhouse missing due; 02 parquet missing due",
		"02 clickhouse missing due; 02 parquet missing due", false},
	{"lost, and found again", []harm{undelivered(clickhouse, parquet)}, "", "", false},
	{"read while the clock was ahead", []harm{unbelieved}, "02 clickhouse revision later; 02 parquet revision later",
		"02 clickhouse revision later; 02 parquet revision later", false},
	{"read while the clock was ahead, missing in one", []harm{unbelieved, gone(parquet)},
		"02 clickhouse revision later; 02 parquet missing later",
		"02 clickhouse revision later; 02 parquet missing later", false},
	{"checksum not known, rows differ", []harm{noChecksum, shows(clickhouse, changedRows())},
		"02 clickhouse checksum read; 02 parquet checksum read", "", true},
	{"checksum not known, rows lost", []harm{noChecksum, shows(clickhouse, rows(4))},
		"02 clickhouse rows copy parquet", "", false},
	{"checksum not known, nothing wrong", []harm{noChecksum}, "", "", false},
}

func otherTotal(rev *analytics.Revision) { rev.Totals.Human++ }

// TestDamage: each is found by name and mended where it can be.
func TestDamage(t *testing.T) {
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			w := newWorld(t, 3)
			rev := w.revision(1, 2)
			for _, do := range d.harms {
				do(w, rev)
			}
			if got := brief(w.verify().Findings); got != d.found {
				t.Errorf("found %q, want %q", got, d.found)
			}
			left, done := w.repair()
			if len(done.Errors) > 0 {
				t.Errorf("errors %v", done.Errors)
			}
			if got := brief(left.Findings); got != d.left {
				t.Errorf("left %q, want %q", got, d.left)
			}
			if e := w.ledger.entries[rev.Key]; d.due != e.Lost() && d.left == "" {
				t.Errorf("the ledger has %+v; due %v", e, done.Due)
			}
			if d.due != (len(done.Due) == 1) || (len(w.spooled) > 0 && d.found != "") != (len(done.Waiting) == 1) {
				t.Errorf("due %v, waiting %v", done.Due, done.Waiting)
			}
			if d.left != "" || d.due {
				return
			}
			for _, f := range w.verify().Findings {
				t.Errorf("after the repair: %+v", f)
			}
			if e := w.ledger.entries[rev.Key]; len(w.spooled) == 0 && (!e.Has(parquet) || !e.Has(clickhouse)) {
				t.Errorf("after the repair the ledger says %+v", e)
			}
		})
	}
}

// sees fails unless verify names, of each window, the sinks whose readers do not see the
// ledger's revision whole, and no others. It trusts only what the sinks were given.
func (w *world) sees() {
	w.Helper()
	found := map[string]bool{}
	for _, f := range w.verify().Findings {
		found[f.key().String()+f.Sink] = true
	}
	for key := range w.known {
		e, known := w.ledger.entries[key]
		if !known {
			w.Errorf("%s is no longer in the ledger", key)
		}
		for _, s := range []*sink{w.files, w.table} {
			rows, revs, err := s.Rows(key)
			shown := false
			for _, rev := range revs {
				shown = err == nil && rev.Same(e.Revision) &&
					(e.Checksum == "" || sumOfRecords(rows).Checksum.String() == e.Checksum) && s.faultless(key)
			}
			if owed := w.spooled[key] && !e.Has(s.name); found[key.String()+s.name] != (!shown && !owed) {
				w.Errorf("%s %s: shown %t, owed by the spool %t, but found %t; the ledger has %+v", key, s.name, shown,
					owed, !shown, e)
			}
		}
	}
}

// faultless reports whether the window is shown without an error.
func (s *sink) faultless(key analytics.Key) bool {
	for _, err := range s.Inspect(context.Background(), sinks.Scope{Keys: map[analytics.Key]bool{key: true}}) {
		if err != nil {
			return false
		}
	}
	return true
}

// TestKilled: a repair, or a comparison, is killed before, after or within each of its
// writes. Afterwards verify names the missing windows and nothing else, no window has left the
// ledger, and the next repair comes to where the first would have.
func TestKilled(t *testing.T) {
	deaths := 0
	for _, d := range damages {
		if d.left != "" || strings.HasPrefix(d.name, "extra") || strings.HasPrefix(d.name, "checksum") {
			continue // nothing to compare with, or nothing is written
		}
		for name, run := range map[string]func(*world){
			"repair": func(w *world) { w.repair() }, "comparison": func(w *world) { w.compare() },
		} {
			for _, how := range []faults.Fault{faults.KilledBefore, faults.KilledAfter, faults.KilledWithin} {
				for at := 1; ; at++ {
					w := newWorld(t, 3)
					rev := w.revision(1, 2)
					for _, do := range d.harms {
						do(w, rev)
					}
					*w.plan = faults.Nth(callWrite, at, how)
					run(w)
					ended := w.on.Dead()
					*w.plan = nil
					w.on.Restart()
					w.sees()
					w.repair()
					w.sees()
					if e := w.ledger.entries[rev.Key]; d.due != e.Lost() {
						t.Errorf("the ledger has %+v", e)
					}
					if found := w.verify().Findings; !d.due && len(found) > 0 {
						t.Errorf("after the next repair: %s", brief(found))
					}
					if t.Failed() {
						t.Fatalf("%s, %s killed %s write %d", d.name, name, how, at)
					}
					if !ended {
						break
					}
					deaths++
				}
			}
		}
	}
	if deaths < 100 {
		t.Errorf("killed %d times", deaths)
	}
}

// TestImplausible: counts that contradict each other, which cannot be mended.
func TestImplausible(t *testing.T) {
	for name, c := range map[string]struct {
		change func(of *analytics.Totals, rows []analytics.Row)
		want   string
	}{
		"total above the sum": {func(of *analytics.Totals, _ []analytics.Row) { of.Total = of.Human + of.AI + 1 },
			"must lie between"},
		"total below the larger": {func(of *analytics.Totals, _ []analytics.Row) { of.Total = of.Human - 1 },
			"must lie between"},
		"a page": {func(_ *analytics.Totals, rows []analytics.Row) { rows[2].Total, rows[2].Human = 1, 2 },
			`1 page contradict each other, such as those of "/p002"`},
		"a page above the site": {func(of *analytics.Totals, rows []analytics.Row) {
			rows[2] = analytics.Row{Path: "/p002", Totals: analytics.Totals{AI: of.AI + 1, Total: of.AI + 1}}
		}, "a page has more visitors than the site"},
		"a day above its week": {func(of *analytics.Totals, _ []analytics.Row) {
			*of = analytics.Totals{Human: 5000, AI: 1, Total: 5000}
		}, "fewer visitors than its day 2026-10-02"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			week := w.revision(0, 2)
			week.Granularity, week.To, week.Totals = analytics.Week, week.From+7,
				analytics.Totals{Human: 4000, AI: 400, Total: 4100}
			w.commit(week)
			put := func(verified bool) {
				rev, pages := w.revision(1, 2), rows(5)
				rev.Verified = verified
				c.change(&rev.Totals, pages)
				w.commit(rev)
				for _, s := range []*sink{w.files, w.table} {
					s.Put(rev, pages, nil)
				}
				w.setChecksum(rev, pages)
			}
			put(true)
			found := w.verify().Findings
			if len(found) != 1 || found[0].Kind != implausible || !strings.Contains(found[0].Detail, c.want) {
				t.Errorf("found %+v, want %q", found, c.want)
			}
			if left, done := w.repair(); done.Mended+len(done.Due) > 0 || len(left.Findings) != 1 {
				t.Errorf("repair %+v, left %+v", done, left)
			}
			put(false)
			if found := w.verify().Findings; len(found) > 0 {
				t.Errorf("of an unverified reading: %+v", found)
			}
		})
	}
}

// TestSameEverywhere: windows of several lengths that have the same totals are no readings of their days.
func TestSameEverywhere(t *testing.T) {
	for _, other := range []bool{false, true} {
		w := newWorld(t, 3)
		for i := range 4 {
			rev := w.revision(i, 2)
			rev.Totals = analytics.Totals{Human: 40, AI: 9, Total: 45}
			if i == 3 {
				rev.Granularity, rev.From, rev.To = analytics.Week, rev.From-3, rev.From+4
				if other {
					rev.Totals.Human++
				}
			}
			w.commit(rev)
		}
		found := w.verify().Findings
		if other && len(found) > 0 || !other && (len(found) != 1 || !strings.Contains(found[0].Detail, "ignore the dates")) {
			t.Errorf("found %+v", found)
		}
	}
}

// TestImplausibleAgents: rows of agents that contradict each other, or the visitors of the same window.
func TestImplausibleAgents(t *testing.T) {
	for name, c := range map[string]struct {
		readers, requests, ofPath int64
		provisional               bool
		want                      string
	}{
		"plausible":                       {readers: 200, requests: 300, ofPath: 200},
		"fewer requests than readers":     {readers: 200, requests: 199, ofPath: 200, want: "1 row with fewer requests"},
		"a path above the site":           {readers: 200, requests: 300, ofPath: 201, want: `such as those of "/a"`},
		"fewer than the visitors":         {readers: 199, requests: 300, ofPath: 1, want: "200 ai visitors, and its"},
		"more than the visitors":          {readers: 201, requests: 300, ofPath: 1, want: "201 readers at most"},
		"of a window that is not settled": {readers: 201, requests: 300, ofPath: 1, provisional: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			rev := w.revision(0, 2)
			rev.Report, rev.Totals, rev.Settled = analytics.AgentsReport, analytics.Totals{}, !c.provisional
			ai := analytics.AgentRow{Agent: "a", Class: "coding", Audience: analytics.AI, Found: true, Visitors: c.readers,
				Requests: c.requests}
			of := ai
			of.Path, of.Visitors, of.Requests = "/a", c.ofPath, 300
			people := analytics.AgentRow{Agent: "browser", Class: "human", Audience: analytics.Human, Found: true,
				Visitors: 2000, Requests: 2000}
			file, err := archive.Encode(rev, analytics.Records(sinktest.List(ai, people, of)))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []*sink{w.files, w.table} {
				if err := s.Replace(t.Context(), file); err != nil {
					t.Fatal(err)
				}
			}
			w.ledger.entries[rev.Key] = state.Entry{
				Revision: file.Revision(), Provenance: analytics.Provenance{Checksum: file.Checksum()},
				Sinks: map[string]time.Time{"parquet": now, "clickhouse": now},
			}
			found := w.verify().Findings
			if c.want == "" && len(found) > 0 ||
				c.want != "" && (len(found) != 1 || !strings.Contains(found[0].Detail, c.want)) {
				t.Errorf("found %+v, want %q", found, c.want)
			}
		})
	}
}

// TestPeople: by the mode of counting, the human visitors are the agents browser and unconfirmed, or browser alone, on
// the site and on each path; a month has no fewer browsers than its days; and people of two modes are not compared.
func TestPeople(t *testing.T) {
	// counted is a window with a page, by the people with and without evidence.
	type counted struct {
		mode, ofAgents             analytics.Humans
		human, browser, other      int64
		onPage, browserOn, otherOn int64
		provisional                bool
	}
	fits := func(by analytics.Humans, browser, other int64) counted {
		human := browser
		if by != analytics.Confirmed {
			human += other
		}
		return counted{by, by, human, browser, other, human, browser, other, false}
	}
	with := func(c counted, change func(*counted)) counted {
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		day, month counted
		want       string
	}{
		"claimed":   {fits("claimed", 300, 4200), fits("claimed", 900, 9000), ""},
		"confirmed": {fits("confirmed", 300, 4200), fits("confirmed", 900, 9000), ""},
		"no mode": {with(fits("", 300, 4200), func(c *counted) { c.human, c.onPage = 4400, 4300 }), fits("", 299, 9000),
			""},
		"mode changed between day and month": {fits("claimed", 300, 4200), fits("confirmed", 900, 9000), ""},
		"mode changed between reports": {fits("claimed", 300, 4200),
			with(fits("claimed", 900, 9000), func(c *counted) { c.ofAgents = "confirmed" }), ""},
		"of the site": {with(fits("claimed", 300, 4200), func(c *counted) { c.human++ }), fits("claimed", 900, 9000),
			"4501 human visitors (claimed), and its agents that are people have 4500 readers together: human = browser + " +
				"unconfirmed"},
		"of the site, confirmed": {with(fits("confirmed", 300, 4200), func(c *counted) { c.human++ }),
			fits("confirmed", 900, 9000), "301 human visitors (confirmed)"},
		"of a page": {fits("claimed", 300, 4200), with(fits("claimed", 900, 9000), func(c *counted) { c.onPage-- }),
			`9899 human visitors (claimed) of "/a", and its agents that are people have 9900 readers together`},
		"of a page, confirmed": {with(fits("confirmed", 300, 4200), func(c *counted) { c.browserOn-- }),
			fits("confirmed", 900, 9000), `300 human visitors (confirmed) of "/a"`},
		"provisional": {with(fits("claimed", 300, 4200), func(c *counted) { c.human, c.provisional = 4600, true }),
			fits("claimed", 900, 9000), ""},
		"a month below its day": {fits("claimed", 300, 4200), fits("claimed", 299, 9000),
			"fewer readers of the agent browser than its day 2026-10-01: 299; the day 300"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 0)
			commit := func(rev analytics.Revision, rows iter.Seq2[analytics.Record, error]) {
				file, err := archive.Encode(rev, rows)
				if err == nil {
					err = errors.Join(w.files.Replace(t.Context(), file), w.table.Replace(t.Context(), file))
				}
				if err != nil {
					t.Fatal(err)
				}
				w.ledger.entries[rev.Key] = state.Entry{
					Revision: file.Revision(), Provenance: analytics.Provenance{Checksum: file.Checksum()},
					Sinks: map[string]time.Time{"parquet": now, "clickhouse": now},
				}
			}
			for granularity, c := range map[analytics.Granularity]counted{analytics.Day: c.day, analytics.Month: c.month} {
				rev := w.revision(0, 2)
				if rev.Granularity = granularity; granularity == analytics.Month {
					rev.To = rev.From + 31
				}
				rev.Humans, rev.Settled = c.mode, !c.provisional
				rev.Totals = analytics.Totals{Human: c.human, Total: c.human}
				commit(rev, analytics.Records(sinktest.List(analytics.Row{Path: "/a",
					Totals: analytics.Totals{Human: c.onPage, Total: c.onPage}}, analytics.Row{Path: "/b",
					Totals: analytics.Totals{Human: 1, Total: 1}})))
				rev.Report, rev.Humans, rev.Totals = analytics.AgentsReport, c.ofAgents, analytics.Totals{}
				row := func(path, agent string, n int64) analytics.AgentRow {
					of := analytics.AgentRow{Path: path, Agent: agent, Class: "human", Audience: analytics.Human, Found: true,
						Visitors: n, Requests: n}
					if agent == analytics.UnconfirmedAgent && c.ofAgents == analytics.Confirmed {
						of.Audience = "neither"
					}
					return of
				}
				missed := row("/c", "browser", 1)
				missed.Found = false
				commit(rev, analytics.Records(sinktest.List(row("", "browser", c.browser), row("", "unconfirmed", c.other),
					row("/a", "browser", c.browserOn), row("/a", "unconfirmed", c.otherOn), row("/b", "browser", 1), missed)))
			}
			found := w.verify().Findings
			if c.want == "" && len(found) > 0 ||
				c.want != "" && (len(found) != 1 || !strings.Contains(found[0].Detail, c.want)) {
				t.Errorf("found %+v, want %q", found, c.want)
			}
		})
	}
}

// TestAgentsOfSite: the rows of the site in a window of agents of which only totals were read are found where they
// are lost, and come back from a sink that has them, or into a ledger that does not know them.
func TestAgentsOfSite(t *testing.T) {
	w := newWorld(t, 1)
	rev := w.revision(0, 2)
	rev.Report, rev.Totals, rev.Rows = analytics.AgentsReport, analytics.Totals{}, analytics.TotalsOnlyRows
	whole, err := archive.Encode(rev, analytics.Records(sinktest.List(analytics.AgentRow{Agent: "browser", Class: "human",
		Audience: analytics.Human, Found: true, Visitors: 2000, Requests: 2000})))
	lost, err2 := archive.Encode(rev, analytics.Records(sinktest.List[analytics.AgentRow]()))
	if err = errors.Join(err, err2, w.files.Replace(t.Context(), lost), w.table.Replace(t.Context(), whole)); err != nil {
		t.Fatal(err)
	}
	known := state.Entry{Revision: whole.Revision(), Provenance: analytics.Provenance{Checksum: whole.Checksum()},
		Sinks: map[string]time.Time{"parquet": now, "clickhouse": now}}
	w.ledger.entries[rev.Key] = known
	if got, want := brief(w.verify().Findings), "01 parquet checksum copy clickhouse"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	if left, done := w.repair(); len(left.Findings) > 0 || done.Mended != 1 {
		t.Errorf("after the repair: %+v, %+v", left.Findings, done)
	}
	delete(w.ledger.entries, rev.Key)
	if left, _ := w.repair(); len(left.Findings) > 0 || w.ledger.entries[rev.Key].Checksum != whole.Checksum() {
		t.Errorf("after it was unknown: %+v, %+v", left.Findings, w.ledger.entries[rev.Key])
	}
}

// TestSuspect: pages that add up to less than the site are a remark; a verified window
// without any page, whose site has visitors, is implausible.
func TestSuspect(t *testing.T) {
	for name, c := range map[string]struct {
		pages            int
		verified         bool
		remarks, finding int
	}{
		"enough pages": {5, true, 0, 0}, "a page is missing": {4, true, 1, 0}, "no page": {0, true, 0, 1},
		"unverified": {4, false, 0, 0},
	} {
		w := newWorld(t, 1)
		pages := rows(5)
		rev := w.revision(0, 2)
		rev.Totals = analytics.Totals{Human: 10, AI: 5, Total: 15}
		rev.Verified, rev.Rows = c.verified, int64(c.pages)
		w.commit(rev)
		w.setChecksum(rev, pages[:c.pages])
		for _, s := range []*sink{w.files, w.table} {
			s.Put(rev, pages[:c.pages], nil)
		}
		if r := w.verify(); len(r.Remarks) != c.remarks || len(r.Findings) != c.finding {
			t.Errorf("%s: %+v, %+v", name, r.Findings, r.Remarks)
		}
	}
}

// TestArchive: an archive beside the sinks supplies windows that the sinks have lost, and nothing
// else: it is not verified, and windows that only the archive has do not enter the ledger.
func TestArchive(t *testing.T) {
	w := newWorld(t, 3)
	v := w.verifier()
	v.Sinks, v.Archive = []sinks.Sink{w.table}, w.files
	for _, e := range w.ledger.entries {
		delete(e.Sinks, "parquet")
	}
	w.files.Put(w.revision(2, 9), rows(4), nil)
	w.files.Put(w.revision(7, 1), rows(5), nil)
	w.table.Remove(w.revision(0, 2).Key)
	w.table.Remove(w.revision(2, 2).Key)
	report, err := v.Verify(t.Context())
	if got := brief(report.Findings); got != "01 clickhouse missing copy parquet; 03 clickhouse missing read" ||
		err != nil {
		t.Errorf("found %q, %v", got, err)
	}
	left, err := v.Repair(t.Context())
	if done := left.Repair; err != nil || done.Mended != 1 || len(done.Due) != 1 || len(left.Findings) != 0 ||
		len(w.ledger.entries) != 3 {
		t.Errorf("repair %+v, left %+v, %v", done, left, err)
	}
}

// TestCommittedWhileLooking: windows committed in between are inspected again.
func TestCommittedWhileLooking(t *testing.T) {
	w := newWorld(t, 3)
	n := 0
	w.ledger.reading = func() {
		switch n++; n {
		case 2, 4: // between the sinks and the second look at the ledger
			rev := w.revision(1, int32(10+n))
			w.commit(rev)
			w.table.Put(w.revision(1, 2), rows(5), nil) // the first version again
		case 5:
			w.commit(w.revision(1, 20))
		}
	}
	if r := w.verify(); len(r.Findings)+len(r.Busy) > 0 {
		t.Errorf("report %+v after %d looks", r, n)
	}
	n = 0
	w.ledger.reading = func() {
		n++
		rev := w.revision(1, int32(10+n))
		w.commit(rev)
		w.table.Put(w.revision(1, 2), rows(5), nil)
	}
	if r := w.verify(); len(r.Findings) > 0 || len(r.Busy) != 1 {
		t.Errorf("always being written: %+v", r)
	}
}

// TestEmptySink: a wrong address is not taken for a loss.
func TestEmptySink(t *testing.T) {
	w := newWorld(t, 12)
	for day := range 12 {
		w.files.Remove(w.revision(day, 2).Key)
		w.table.Remove(w.revision(day, 2).Key)
	}
	found := w.verify().Findings
	if len(found) != 26 || found[0].Kind != unlisted || !strings.Contains(found[0].Detail, "12 windows") ||
		found[2].Remedy != wait {
		t.Errorf("found %d: %+v", len(found), found[0])
	}
	if _, done := w.repair(); len(done.Due) > 0 || len(w.ledger.entries) != 12 {
		t.Errorf("repair %+v", done)
	}
}

// TestManyLost: a sink that still shows another window is not taken for a wrong address, however many are lost.
func TestManyLost(t *testing.T) {
	w := newWorld(t, 13)
	for day := range 12 {
		w.files.Remove(w.revision(day, 2).Key)
		w.table.Remove(w.revision(day, 2).Key)
	}
	found := w.verify().Findings
	if len(found) != 24 || found[0].Kind != missing || found[0].Remedy != read {
		t.Errorf("found %d: %+v", len(found), found[0])
	}
	if _, done := w.repair(); len(done.Due) != 12 {
		t.Errorf("repair %+v", done)
	}
}

func TestOnly(t *testing.T) {
	w := newWorld(t, 3)
	w.files.Remove(w.revision(0, 2).Key)
	w.table.Remove(w.revision(1, 2).Key)
	v := w.verifier()
	v.Only = "clickhouse"
	r, err := v.Verify(t.Context())
	if got := brief(r.Findings); got != "02 clickhouse missing copy parquet" || err != nil {
		t.Errorf("found %q, %v", got, err)
	}
	v.Scope = sinks.Scope{Within: analytics.Window{From: sinktest.Key("", 2).From, To: sinktest.Key("", 2).To}}
	if r, err := v.Verify(t.Context()); len(r.Findings) > 0 || r.Windows != 1 || err != nil {
		t.Errorf("of another day: %+v, %v", r, err)
	}
}

func TestLookIsCancelled(t *testing.T) {
	w := newWorld(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.verifier().Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Look = %v", err)
	}
}

// TestImplausibleReports: people by their sources bound the human visitors, and views add up and are no fewer than
// visitors, on the site and on each page.
func TestImplausibleReports(t *testing.T) {
	type totals = analytics.Totals
	sources := func(mode analytics.Humans, browser, unconfirmed int64) func(*analytics.Revision) []analytics.Record {
		return func(rev *analytics.Revision) []analytics.Record {
			rev.Report, rev.Humans, rev.Totals = analytics.SourcesReport, mode, totals{}
			row := analytics.SourceRow{Source: "chatgpt", Class: "assistant", Agent: analytics.BrowserAgent,
				Visitors: browser, Requests: 100}
			other := row
			other.Agent, other.Visitors = analytics.UnconfirmedAgent, unconfirmed
			return []analytics.Record{analytics.RecordOf(row), analytics.RecordOf(other)}
		}
	}
	views := func(site totals, pages ...analytics.ViewRow) func(*analytics.Revision) []analytics.Record {
		return func(rev *analytics.Revision) (rows []analytics.Record) {
			rev.Report, rev.Totals = analytics.ViewsReport, site
			for _, page := range pages {
				rows = append(rows, analytics.RecordOf(page))
			}
			return rows
		}
	}
	page := func(path string, human, ai int64) analytics.ViewRow {
		return analytics.ViewRow{Path: path, Human: human, AI: ai, Total: human + ai}
	}
	a, b := page("/a", 30, 4), page("/b", 30, 6)
	odd := b
	odd.Total--
	for name, c := range map[string]struct {
		mode analytics.Humans // of visitors
		of   func(*analytics.Revision) []analytics.Record
		want string
	}{
		"claimed":                   {"claimed", sources("claimed", 30, 20), ""},
		"claimed, all too few":      {"claimed", sources("claimed", 30, 19), "30 readers at most and 49 together"},
		"claimed, one too many":     {"claimed", sources("claimed", 51, 0), "51 readers at most"},
		"confirmed":                 {"confirmed", sources("confirmed", 50, 60), ""},
		"confirmed, one too many":   {"confirmed", sources("confirmed", 51, 60), "51 readers at most"},
		"confirmed, all too few":    {"confirmed", sources("confirmed", 49, 60), "and 49 together"},
		"sources without a mode":    {"", sources("", 1, 1), ""},
		"another mode":              {"claimed", sources("confirmed", 1, 1), ""},
		"views":                     {"", views(totals{Human: 60, AI: 10, Total: 70}, a, b), ""},
		"views, human + ai is not":  {"", views(totals{Human: 60, AI: 10, Total: 69}, a, odd), "must be human + ai"},
		"views of a page":           {"", views(totals{Human: 60, AI: 10, Total: 69}, a, odd), "contradict each other"},
		"views, pages are not site": {"", views(totals{Human: 61, AI: 10, Total: 71}, a, b), "the pages add up to 60 human"},
		"fewer views than visitors": {"", views(totals{Human: 30, AI: 4, Total: 34}, a), "fewer requests than the report"},
		"fewer on a page": {"", views(totals{Human: 60, AI: 10, Total: 70}, page("/a", 19, 4), page("/b", 41, 6)),
			`"/a" has fewer requests than readers in the report visitors, which has 20 human`},
		"a page without views": {"", views(totals{Human: 60, AI: 10, Total: 70}, page("/a", 60, 10)), `"/b" has fewer`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 0)
			commit := func(rev analytics.Revision, rows []analytics.Record) {
				file, err := archive.Encode(rev, sinktest.List(rows...))
				if err == nil {
					err = errors.Join(w.files.Replace(t.Context(), file), w.table.Replace(t.Context(), file))
				}
				if err != nil {
					t.Fatal(err)
				}
				w.ledger.entries[rev.Key] = state.Entry{
					Revision: file.Revision(), Provenance: analytics.Provenance{Checksum: file.Checksum()},
					Sinks: map[string]time.Time{"parquet": now, "clickhouse": now},
				}
			}
			rev := w.revision(0, 2)
			rev.Humans, rev.Totals = c.mode, totals{Human: 50, AI: 8, Total: 55}
			commit(rev, []analytics.Record{
				analytics.RecordOf(analytics.Row{Path: "/a", Totals: totals{Human: 20, AI: 4, Total: 22}}),
				analytics.RecordOf(analytics.Row{Path: "/b", Totals: totals{Human: 30, AI: 4, Total: 33}}),
			})
			rows := c.of(&rev)
			commit(rev, rows)
			found := w.verify().Findings
			says := slices.ContainsFunc(found, func(f Finding) bool { return strings.Contains(f.Detail, c.want) })
			if c.want == "" && len(found) > 0 || c.want != "" && !says {
				t.Errorf("found %+v, want %q", found, c.want)
			}
		})
	}
}
