package export

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/schedule"
)

// TestRequests counts requests under a budget: as many as there are pages, except where a
// prediction was too high.
func TestRequests(t *testing.T) {
	for _, c := range []struct{ rows, predict, want, wasted int }{
		{0, 0, 1, 0}, {1, 0, 1, 0}, {249, 0, 1, 0}, {250, 0, 1, 0}, {251, 0, 2, 0}, {500, 0, 2, 0}, {501, 0, 3, 0},
		{2500, 0, 10, 0},
		{0, 1, 1, 0}, {251, 2, 2, 0}, {500, 2, 2, 0}, {2500, 10, 10, 0}, // right
		{501, 2, 3, 0}, {2500, 1, 10, 0}, {2500, 7, 10, 0}, // too low
		{0, 2, 2, 1}, {250, 2, 2, 1}, {500, 3, 3, 1}, {2400, 40, 11, 1}, // too high
	} {
		for i, concurrency := range []int{1, 16, 4} {
			report := analytics.Reports[i/2]
			t.Run(fmt.Sprintf("%d rows of %s, %d predicted, concurrency %d", c.rows, report, c.predict, concurrency),
				func(t *testing.T) {
					w := newWorld(t, t.TempDir())
					w.report, w.concurrency, w.predict = report, concurrency, c.predict
					w.service.limited, w.service.budget, w.service.strict = true, 100, c.wasted == 0
					k := w.day("prj_a", 0)
					w.service.put(k, c.rows, 1)
					r := w.clean(w.run(asked(k)...))
					if got := w.service.requests(); got != c.want || r.Mispredicted != c.wasted {
						t.Errorf("%d requests, %d mispredicted; want %d, %d", got, r.Mispredicted, c.want, c.wasted)
					}
					if got := w.ledger.counters["pages_mispredicted_total project prj_a"]; got != int64(c.wasted) {
						t.Errorf("pages_mispredicted_total %d, want %d", got, c.wasted)
					}
					if rev := w.shows(k, 1); !rev.Verified || rev.Rows != int64(c.rows) ||
						rev.Totals != w.totals(k) {
						t.Errorf("revision %+v", rev)
					}
					w.charged(k, c.want)
					w.emptySpool()
					w.limits(t, analytics.PageRows)
				})
		}
	}
}

func (w *world) limits(t *testing.T, want int) {
	t.Helper()
	for _, q := range w.service.sent {
		if q.Limit != want || q.Offset%analytics.PageRows != 0 {
			t.Errorf("request with limit %d, offset %d; want limit %d", q.Limit, q.Offset, want)
		}
	}
}

func TestTotalsAlone(t *testing.T) {
	for _, reason := range []schedule.Reason{schedule.ReasonMissing, schedule.ReasonOpen} {
		t.Run(string(reason), func(t *testing.T) {
			w, k := oneWindow(t, 600, 1)
			r := w.clean(w.run(schedule.Item{Key: k, TotalsOnly: true, Reason: reason}))
			w.limits(t, 1)
			if w.service.requests() != 1 {
				t.Errorf("%d requests, want 1", w.service.requests())
			}
			w.emptySpool()
			want := totalsOf(w.service.all(k))
			if reason == schedule.ReasonOpen {
				if r.Open != 1 || w.ledger.open[k] != want || w.shown(k).Number != 0 {
					t.Errorf("open %+v, result %+v, shown %+v", w.ledger.open, r, w.shown(k))
				}
				return
			}
			if rev := w.shown(k); !rev.TotalsOnly() || !rev.Verified || rev.Totals != want {
				t.Errorf("shown %+v", rev)
			}
		})
	}
}

// A reading of totals that died before it was sealed leaves a page log. If rows
// are wanted since then, they must not be taken to be none.
func TestTotalsThenRows(t *testing.T) {
	w, k := oneWindow(t, 600, 1)
	w.failing(stepFetched, 1, faults.KilledAfter)
	w.run(schedule.Item{Key: k, TotalsOnly: true, Reason: schedule.ReasonMissing})
	w.faults = nil
	w.clean(w.run(asked(k)...))
	if rev := w.shows(k, 1); !rev.Verified || rev.Rows != 600 {
		t.Errorf("revision %+v", rev)
	}
}

// TestPagesThatDrift: pages that cannot belong to one unchanged window are read again.
func TestPagesThatDrift(t *testing.T) {
	const rows = 700 // three pages
	for _, c := range []struct {
		name string
		// spoil changes the page at offset 250.
		spoil func(*visitorsPage)
		// requests that such a reading takes.
		requests int
	}{
		{"totals", func(p *visitorsPage) { p.Totals.Human++ }, 2},
		{"mode of people", func(p *visitorsPage) { p.Humans = analytics.Confirmed }, 2},
		{"path of another page", func(p *visitorsPage) { p.Rows[3].Path = rowsOf(1, 1)[0].Path }, 3},
		{"path twice in the page", func(p *visitorsPage) { p.Rows[3].Path = p.Rows[4].Path }, 3},
		{"short page", func(p *visitorsPage) { p.Rows = p.Rows[:249] }, 2},
		{"empty page", func(p *visitorsPage) { p.Rows = nil }, 2},
	} {
		for i := range 3 * len(analytics.Reports) {
			times, report := 1+i%3, analytics.Reports[i/3]
			t.Run(fmt.Sprintf("%s of %s, %d times", c.name, report, times), func(t *testing.T) {
				w := newWorld(t, t.TempDir())
				w.report = report
				k := w.day("prj_a", 0)
				w.service.put(k, rows, 1)
				left := times
				w.service.answer = func(_ int, q docsapi.PageQuery) (*visitorsPage, error) {
					if q.Offset != 250 || left == 0 {
						return nil, nil
					}
					left--
					p := w.service.page(q)
					p.Rows = slices.Clone(p.Rows)
					c.spoil(&p)
					return &p, nil
				}
				r := w.clean(w.run(asked(k)...))
				restarts := min(times, schedule.MaxReadings-1)
				if got := w.ledger.counters["window_drift_total project prj_a"]; r.Drifted != restarts ||
					got != int64(restarts) {
					t.Errorf("%d readings drifted, %d counted; want %d", r.Drifted, got, restarts)
				}
				want := restarts*c.requests + 3
				w.sent(want)
				w.charged(k, want)
				w.emptySpool()
				if times < schedule.MaxReadings {
					w.verified(k, 1)
					return
				}
				w.unverified(t, k)
				// A later reading that goes well is verified.
				w.service.answer = nil
				w.clean(w.run(asked(k)...))
				w.verified(k, 2)
			})
		}
	}
}

// TestEndOfWindow: whatever the service computes hasMore from, every row is read, once the size of its pages is known
// from one window, and an empty page that says it is the last ends a reading.
func TestEndOfWindow(t *testing.T) {
	asked := func(to, rows int, q docsapi.PageQuery) bool { return q.Offset+q.Limit < rows }
	full := func(to, _ int, q docsapi.PageQuery) bool { return to-q.Offset == q.Limit }
	for _, c := range []struct {
		name       string
		cap, rows  int
		hasMore    func(to, rows int, q docsapi.PageQuery) bool
		known      int           // PageSize of the source
		since      time.Duration // for so long
		empty      bool          // the second page comes empty once
		want, size int           // requests, and what is known then
	}{
		{"maximum of 100, hasMore from the limit", 100, 730, asked, 0, 0, false, 8, 100},
		{"maximum of 100, hasMore from the limit, known", 100, 230, asked, 100, 0, false, 3, 100},
		{"maximum of 100, hasMore from the limit, known long ago", 100, 230, asked, 100, 30 * 24 * time.Hour, false, 3, 100},
		{"maximum that is gone", 250, 730, asked, 100, 30 * 24 * time.Hour, false, 3, 250},
		{"hasMore from the number of rows", 250, 500, full, 0, 0, false, 2 + 2, 250},
		{"hasMore from the number of rows, one page", 250, 250, full, 0, 0, false, 1 + 2, 250},
		{"empty page once", 250, 700, asked, 0, 0, true, 3 + 1, 250},
	} {
		for i, concurrency := range []int{1, 4, 1} {
			report := analytics.Reports[i/2]
			t.Run(fmt.Sprintf("%s, %s, concurrency %d", c.name, report, concurrency), func(t *testing.T) {
				w := newWorld(t, t.TempDir())
				w.report, w.concurrency, w.service.cap = report, concurrency, c.cap
				w.service.limited, w.service.budget = true, 100
				k, empty := w.day("prj_a", 0), c.empty
				w.service.put(k, c.rows, 1)
				w.service.answer = func(_ int, q docsapi.PageQuery) (*visitorsPage, error) {
					p := w.service.page(q)
					p.HasMore = c.hasMore(q.Offset+len(p.Rows), c.rows, q)
					if empty && q.Offset > 0 {
						p.Rows, p.HasMore, empty = nil, false, false
					}
					return &p, nil
				}
				work, source := w.work([]schedule.Item{{Key: k, Reason: schedule.ReasonAsked, Newest: true}}), schedule.SourceOf(k)
				if c.known > 0 {
					work.Learned.Set(schedule.Series{Source: source}, schedule.PageSize, c.known, w.now.Add(-c.since))
				}
				if c.known > 0 && work.Learned.KnowsPageSize(source, w.now) {
					work.Sizes.SetPerPage(source, c.known)
				}
				r := w.clean(reading(t.Context(), w.process(), work))
				if w.verified(k, 1); r.Drifted != 0 || w.service.requests() != c.want {
					t.Errorf("%d requests, want %d; %+v", w.service.requests(), c.want, r)
				}
				w.charged(k, c.want)
				if got := work.Sizes.PerPage(source); got != c.size {
					t.Errorf("pages have %d rows, want %d", got, c.size)
				}
				w.emptySpool()
			})
		}
	}
}

// A process that died before the ledger knew the window: the requests of all its readings
// count.
func TestRequestsOfALateWindow(t *testing.T) {
	w, k := oneWindow(t, 700, 1)
	w.spoil(moveTotals, 2)
	w.failing(stepSealed, 1, faults.KilledAfter)
	w.run(asked(k)...)
	w.faults = nil
	w.clean(w.run(asked(k)...))
	if e, _ := w.ledger.newest(k); e.prov.Requests != 2+3 || w.service.requests() != 2+3 {
		t.Errorf("%d requests, the ledger says %d", w.service.requests(), e.prov.Requests)
	}
	w.shows(k, 1)
	w.emptySpool()
}

// unverified fails unless the window is shown, each path once, and not as verified.
func (w *world) unverified(t *testing.T, k analytics.Key) {
	t.Helper()
	got := w.rows(k)
	seen := map[string]bool{}
	for _, r := range got {
		if seen[r.Path] {
			t.Errorf("path %s twice", r.Path)
		}
		seen[r.Path] = true
	}
	if rev := w.shown(k); rev.Verified || rev.Number != 1 || rev.Rows != int64(len(got)) || len(got) == 0 {
		t.Errorf("revision %+v with %d rows", rev, len(got))
	}
}

// spoil changes what the service answers to some requests, counted from 1.
func (w *world) spoil(change func(nth int, p *visitorsPage), requests ...int) {
	w.service.answer = func(nth int, q docsapi.PageQuery) (*visitorsPage, error) {
		if !slices.Contains(requests, nth) {
			return nil, nil
		}
		p := w.service.page(q)
		change(nth, &p)
		return &p, nil
	}
}

func moveTotals(_ int, p *visitorsPage) { p.Totals.AI++ }

// TestMispredicted: a window that shrank costs one request for a page that does not exist,
// even if it then drifts, and the budget ends then.
func TestMispredicted(t *testing.T) {
	for _, budget := range []int{100, 3} {
		w, k := oneWindow(t, 700, 1)
		w.predict = 9
		w.service.limited, w.service.budget = true, budget
		w.spoil(moveTotals, 3)
		r := w.clean(w.run(asked(k)...))
		if r.Mispredicted != 1 || r.Drifted != 1 || r.BudgetSpent != (budget == 3) {
			t.Errorf("budget %d: %+v", budget, r)
		}
		if r.BudgetSpent {
			w.service.budget = 9
			if r = w.clean(w.run(asked(k)...)); r.Mispredicted != 0 {
				t.Errorf("mispredicted again: %+v", r)
			}
		}
		w.sent(1 + 2 + 3)
		w.shows(k, 1)
	}
}

// TestRefusedPrediction: a service that refuses an offset beyond the end refuses a window that shrank once, and its
// project never. A project that is gone costs one request more.
func TestRefusedPrediction(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound} {
		w := newWorld(t, t.TempDir())
		keys := w.days("prj_a", 3)
		w.predict = 3
		w.service.put(keys[0], 200, 1)
		w.answers(func(_ int, q docsapi.PageQuery) error {
			return when(q.Window == keys[0].Window && q.Offset > 0,
				&docsapi.Error{Status: status, Outcome: docsapi.Permanent, FromAPI: true})
		})
		r := w.run(asked(keys...)...)
		w.setAside(r, 1)
		w.clean(w.run(asked(keys[0])...))
		if w.verified(keys[0], 1); r.Committed != 2 {
			t.Errorf("%d: %+v", status, r)
		}
		w.service.again()
		w.answers(func(int, docsapi.PageQuery) error { return statusError(http.StatusNotFound, docsapi.Permanent) })
		if r = w.run(asked(keys[1:]...)...); w.service.requests() != 2 || len(r.Errors) != 1 {
			t.Errorf("%d: %d requests, %+v", status, w.service.requests(), r)
		}
	}
}

// The page that a wrong prediction requested is evidence: other totals on it
// are drift, and so is a page that promises rows there.
func TestMispredictedPageCounts(t *testing.T) {
	w, k := oneWindow(t, 500, 1)
	w.predict = 3
	w.service.answer = func(nth int, q docsapi.PageQuery) (*visitorsPage, error) {
		if nth == 1 {
			w.service.put(k, 700, 1) // after this answer
			return &visitorsPage{Totals: totalsOf(rowsOf(700, 1)), Humans: analytics.Claimed}, nil
		}
		return nil, nil
	}
	r := w.clean(w.run(asked(k)...))
	if want := 1 + 2 + 3; w.service.requests() != want || r.Drifted != 1 || r.Mispredicted != 1 {
		t.Errorf("%d requests, %+v; want %d", w.service.requests(), r, want)
	}
	w.verified(k, 1)
}

// A service that ignores the offset must not be read for ever.
func TestOffsetIgnored(t *testing.T) {
	for i := range 2 * len(analytics.Reports) {
		rows, report := []int{analytics.PageRows, 0}[i%2], analytics.Reports[i/2]
		t.Run(fmt.Sprintf("%d rows of %s", rows, report), func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			w.report = report
			a, b := w.day("prj_a", 1), w.day("prj_a", 0)
			w.service.put(b, 600, 1)
			w.service.answer = func(_ int, q docsapi.PageQuery) (*visitorsPage, error) {
				if q.Window == b.Window {
					return nil, nil
				}
				return &visitorsPage{Rows: rowsOf(rows, 1), HasMore: true}, nil
			}
			r := w.run(asked(a, b)...)
			if len(r.Warnings) != 1 || len(r.Errors) != 0 || r.Left != 1 || r.Committed != 1 ||
				!strings.Contains(r.Warnings[0].Error(), a.String()) {
				t.Errorf("result %+v", r)
			}
			if got := w.service.requests(); got > 3*schedule.MaxReadings+3 {
				t.Errorf("%d requests", got)
			}
			w.emptySpool() // the pages that it sent are of no use
			w.shows(b, 1)
			w.service.answer = nil
			w.service.put(a, 300, 1)
			w.clean(w.run(asked(a)...))
			w.verified(a, 1)
		})
	}
}

// A page that says it is the last, before one that is known to exist, is drift.
func TestEndBeforeKnownPage(t *testing.T) {
	w, k := oneWindow(t, 700, 1)
	w.predict = 3
	spoiled := false
	w.spoil(func(_ int, p *visitorsPage) {
		if p.Offset == 250 && !spoiled {
			p.HasMore, spoiled = false, true
		}
	}, 1, 2, 3)
	if r := w.clean(w.run(asked(k)...)); r.Drifted != 1 {
		t.Errorf("result %+v", r)
	}
	w.shows(k, 1)
}

// The last reading accepts what comes and so relies on no prediction: rows that
// came after a page was found empty would be lost.
func TestLastReadingIsNotPredicted(t *testing.T) {
	w, k := oneWindow(t, 700, 1)
	w.predict = 3
	w.spoil(func(nth int, p *visitorsPage) {
		p.Totals.AI++ // which ends a reading
		if nth == 4 {
			w.service.put(k, 400, 1)
		}
	}, 2, 4)
	r := w.clean(w.run(asked(k)...))
	if r.Drifted != 2 || r.Mispredicted != 0 {
		t.Errorf("%d requests, %+v", w.service.requests(), r)
	}
	w.shows(k, 1)
}

// TestPagesOfTheNewest: the largest pages of a newest window are kept for the
// gauges, and no others.
func TestPagesOfTheNewest(t *testing.T) {
	w := newWorld(t, t.TempDir())
	newest, older, totals := day("prj_a", 0), day("prj_a", -1), day("prj_b", 0)
	for i, k := range []analytics.Key{newest, older, totals} {
		w.service.put(k, topPages+100, i)
	}
	w.clean(w.run(
		schedule.Item{Key: newest, Reason: schedule.ReasonMissing, Newest: true},
		schedule.Item{Key: older, Reason: schedule.ReasonMissing},
		schedule.Item{Key: totals, Reason: schedule.ReasonMissing, Newest: true, TotalsOnly: true},
	))
	want, err := analytics.Top(func(yield func(analytics.Row, error) bool) {
		for _, r := range w.service.all(newest) {
			if !yield(r, nil) {
				return
			}
		}
	}, topPages)
	if err != nil || len(want) != topPages {
		t.Fatalf("%v, %v", want, err)
	}
	if diff := cmp.Diff(want, analytics.RowsOf[analytics.Row](w.ledger.pages[newest])); diff != "" || len(w.ledger.pages) > 1 {
		t.Error(diff, len(w.ledger.pages))
	}
}

// A service that sends no rows under totals that are not zero never replaces rows, and is
// never verified; it costs no more than a window that drifts.
func TestNoRowsUnderTotals(t *testing.T) {
	for _, c := range []struct {
		name   string
		report analytics.Report
		rows   int // of the first reading; 0: it has none either
		most   int // requests after that, and in all
	}{
		{"of a page", analytics.VisitorsReport, 200, 4 + 2},
		{"of three pages", analytics.VisitorsReport, 600, 10 + 4},
		{"of three pages of agents", analytics.AgentsReport, 600, 10 + 4},
		{"from the beginning", analytics.VisitorsReport, 0, 4 + 4 + 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			w.report = c.report
			k := w.day("prj_a", 0)
			w.service.put(k, 600, 1)
			if c.rows > 0 {
				w.service.put(k, c.rows, 1)
				w.clean(w.run(asked(k)...))
				w.shows(k, 1)
				w.service.again()
			}
			full := w.service.all(k)
			empty := true
			w.service.answer = func(_ int, q docsapi.PageQuery) (*visitorsPage, error) {
				if !empty {
					return nil, nil
				}
				return &visitorsPage{Totals: totalsOf(full), Humans: analytics.Claimed}, nil
			}
			var last Summary
			for w.now = noon(1); w.now.Before(noon(90)); w.now = w.now.Add(time.Hour) {
				if due := w.due(false); len(due) > 0 {
					work := w.work(due)
					if rev, ok := w.ledger.known(k); ok {
						work.Sizes.Learn(k, rev.Rows)
					}
					last = reading(t.Context(), w.process(), work)
					w.emptySpool()
				}
			}
			if got := w.service.requests(); got == 0 || got > c.most {
				t.Errorf("%d requests, want at most %d", got, c.most)
			}
			rev := w.shown(k)
			if c.rows == 0 {
				if rev.Verified || rev.Rows != 0 || rev.Totals != totalsOf(full) || !rev.Settled {
					t.Errorf("without rows from the beginning: %+v", rev)
				}
				return
			}
			w.shows(k, 1)
			if rev.Settled || !rev.Verified || last.SetAside != 1 || len(last.Warnings) != 1 ||
				!schedule.GivenUp(w.ledger.asides()[k]) {
				t.Errorf("%+v, %+v", rev, last)
			}
			// Who names it has it read, and well.
			empty = false
			w.clean(w.run(asked(k)...))
			if rev := w.shows(k, 2); !rev.Verified || !rev.Settled {
				t.Errorf("read again: %+v", rev)
			}
		})
	}
}

// Totals of zero over rows with visitors never replace others, and are never verified.
func TestNoTotalsOverRows(t *testing.T) {
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("known %t", known), func(t *testing.T) {
			w, k := oneWindow(t, 600, 1)
			if known {
				w.clean(w.run(asked(k)...))
				w.service.again()
			}
			w.service.answer = func(_ int, q docsapi.PageQuery) (*visitorsPage, error) {
				p := w.service.page(q)
				p.Totals = analytics.Totals{}
				return &p, nil
			}
			for w.now = noon(1); w.now.Before(noon(90)); w.now = w.now.Add(time.Hour) {
				if due := w.due(false); len(due) > 0 {
					work := w.work(due)
					if rev, ok := w.ledger.known(k); ok {
						work.Sizes.Learn(k, rev.Rows)
					}
					reading(t.Context(), w.process(), work)
					w.emptySpool()
				}
			}
			rev, most := w.shown(k), 4+2
			if known {
				w.shows(k, 1)
			} else {
				most = 2*(1+1+3) + 3
			}
			if got := w.service.requests(); got == 0 || got > most {
				t.Errorf("%d requests, want at most %d", got, most)
			}
			if known != (rev.Totals == totalsOf(w.service.all(k))) || known != rev.Verified || known == rev.Settled {
				t.Errorf("%+v", rev)
			}
			w.service.answer = nil
			w.clean(w.run(asked(k)...))
			if rev := w.shown(k); !rev.Verified || rev.Totals != totalsOf(w.service.all(k)) {
				t.Errorf("read again: %+v", rev)
			}
		})
	}
}

// TestDatesIgnored: windows of several lengths with the same totals are said, without a request.
func TestDatesIgnored(t *testing.T) {
	for _, ignored := range []bool{true, false} {
		w := newWorld(t, t.TempDir())
		keys := w.days("prj_a", 3)
		week := keys[0]
		week.Granularity, week.From = analytics.Week, week.To-7
		w.service.put(week, 700, 9)
		keys = append(keys, week)
		w.service.answer = func(_ int, q docsapi.PageQuery) (*visitorsPage, error) {
			if ignored {
				q.Window = keys[0].Window
			}
			p := w.service.page(q)
			return &p, nil
		}
		if r := w.clean(w.run(asked(keys...)...)); ignored != slices.Equal(r.SameNumbers, []string{"prj_a"}) {
			t.Errorf("ignored %t: %v", ignored, r.SameNumbers)
		}
	}
}

// TestSuspectWindow: pages that add up to less than the site are committed, and said.
func TestSuspectWindow(t *testing.T) {
	totals := totalsOf(rowsOf(300, 1))
	for name, c := range map[string]struct {
		totals analytics.Totals
		rows   int
		want   int
	}{
		"covered":            {totals, 300, 0},
		"fewer humans":       {analytics.Totals{Human: 300 * 300, AI: 1, Total: totals.Total}, 300, 1},
		"fewer AI":           {analytics.Totals{Human: 1, AI: 301, Total: totals.Total}, 300, 1},
		"fewer in all":       {analytics.Totals{Human: 1, AI: 1, Total: 1 << 40}, 300, 1},
		"no visitor at all":  {analytics.Totals{}, 0, 0},
		"totals are missing": {analytics.Totals{}, 300, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, k := oneWindow(t, c.rows, 1)
			w.service.answer = func(_ int, q docsapi.PageQuery) (*visitorsPage, error) {
				p := w.service.page(q)
				p.Totals = c.totals
				return &p, nil
			}
			r := w.clean(w.run(asked(k)...))
			if rev := w.shows(k, 1); rev.Verified == (name == "totals are missing") || r.Suspect != c.want || r.Committed != 1 {
				t.Errorf("%+v, %+v", rev, r)
			}
		})
	}
}
