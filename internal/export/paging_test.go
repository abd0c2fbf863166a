package export

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/schedule"
)

// TestRequests counts: the pages and not one more, except where a prediction
// was too high.
func TestRequests(t *testing.T) {
	for _, c := range []struct{ rows, predict, want, wasted int }{
		{0, 0, 1, 0}, {1, 0, 1, 0}, {249, 0, 1, 0}, {250, 0, 1, 0}, {251, 0, 2, 0}, {500, 0, 2, 0}, {501, 0, 3, 0}, {2500, 0, 10, 0},
		{0, 1, 1, 0}, {251, 2, 2, 0}, {500, 2, 2, 0}, {2500, 10, 10, 0}, // right
		{501, 2, 3, 0}, {2500, 1, 10, 0}, {2500, 7, 10, 0}, // too low
		{0, 2, 2, 1}, {250, 2, 2, 1}, {500, 3, 3, 1}, {2400, 40, 11, 1}, // too high
	} {
		for _, concurrency := range []int{1, 4, 16} {
			t.Run(fmt.Sprintf("%d rows, %d predicted, concurrency %d", c.rows, c.predict, concurrency), func(t *testing.T) {
				w := newWorld(t, t.TempDir())
				w.concurrency, w.predict = concurrency, c.predict
				k := day("prj_a", 0)
				w.service.put(k, c.rows, 1)
				r := w.clean(w.run(asked(k)...))
				if got := w.service.requests(); got != c.want || r.Mispredicted != c.wasted {
					t.Errorf("%d requests, %d mispredicted; want %d, %d", got, r.Mispredicted, c.want, c.wasted)
				}
				if got := w.ledger.counters["pages_mispredicted_total project prj_a"]; got != int64(c.wasted) {
					t.Errorf("pages_mispredicted_total %d, want %d", got, c.wasted)
				}
				if rev := w.shows(k, 1); !rev.Verified || rev.Rows != int64(c.rows) || rev.Totals != totalsOf(w.service.all(k)) {
					t.Errorf("revision %+v", rev)
				}
				if e, _ := w.ledger.newest(k); e.prov.Requests != c.want {
					t.Errorf("the ledger says %d requests, want %d", e.prov.Requests, c.want)
				}
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
			w := newWorld(t, t.TempDir())
			k := day("prj_a", 0)
			w.service.put(k, 600, 1)
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

// A reading of totals that died before it was sealed leaves a page log. Rows,
// wanted since, must not be taken to be none.
func TestTotalsThenRows(t *testing.T) {
	w := newWorld(t, t.TempDir())
	k := day("prj_a", 0)
	w.service.put(k, 600, 1)
	w.failing(string(StepFetched), 1, killedAfter)
	w.run(schedule.Item{Key: k, TotalsOnly: true, Reason: schedule.ReasonMissing})
	w.faults = nil
	w.clean(w.run(asked(k)...))
	if rev := w.shows(k, 1); !rev.Verified || rev.Rows != 600 {
		t.Errorf("revision %+v", rev)
	}
}

// TestDrift: what cannot be one unchanged window is read again.
func TestDrift(t *testing.T) {
	const rows = 700 // three pages
	page := func(w *world, k analytics.Key, offset int) *analytics.Page {
		p := w.service.page(docsapi.VisitorsQuery{Project: k.Project, Window: k.Window, Offset: offset, Limit: analytics.PageRows})
		return &p
	}
	for _, c := range []struct {
		name string
		// spoil changes the page at offset 250.
		spoil func(*analytics.Page)
		// requests of a reading that meets it.
		requests int
	}{
		{"totals", func(p *analytics.Page) { p.Totals.Human++ }, 2},
		{"path of another page", func(p *analytics.Page) { p.Rows[3].Path = rowsOf(1, 1)[0].Path }, 3},
		{"path twice in the page", func(p *analytics.Page) { p.Rows[3].Path = p.Rows[4].Path }, 3},
		{"short page", func(p *analytics.Page) { p.Rows = p.Rows[:249] }, 2},
		{"empty page", func(p *analytics.Page) { p.Rows = nil }, 2},
		{"page vanishes", func(p *analytics.Page) { p.Rows, p.HasMore = nil, false }, 2},
	} {
		for _, times := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%s, %d times", c.name, times), func(t *testing.T) {
				w := newWorld(t, t.TempDir())
				k := day("prj_a", 0)
				w.service.put(k, rows, 1)
				left := times
				w.service.answer = func(_ int, q docsapi.VisitorsQuery) (*analytics.Page, error) {
					if q.Offset != 250 || left == 0 {
						return nil, nil
					}
					left--
					p := page(w, k, q.Offset)
					p.Rows = append([]analytics.Row{}, p.Rows...)
					c.spoil(p)
					return p, nil
				}
				r := w.clean(w.run(asked(k)...))
				restarts := min(times, schedule.MaxReadings-1)
				if got := w.ledger.counters["window_drift_total project prj_a"]; r.Drifted != restarts || got != int64(restarts) {
					t.Errorf("%d readings drifted, %d counted; want %d", r.Drifted, got, restarts)
				}
				want := restarts*c.requests + 3
				if c.name == "page vanishes" && times == 3 {
					want-- // nothing is said to come after it
				}
				if got := w.service.requests(); got != want {
					t.Errorf("%d requests, want %d", got, want)
				}
				if e, _ := w.ledger.newest(k); e.prov.Requests != want {
					t.Errorf("the ledger says %d requests, want %d", e.prov.Requests, want)
				}
				w.emptySpool()
				if times < schedule.MaxReadings {
					if rev := w.shows(k, 1); !rev.Verified {
						t.Errorf("not verified: %+v", rev)
					}
					return
				}
				w.unverified(t, k)
				// A later reading that goes well is verified.
				w.service.answer = nil
				w.clean(w.run(asked(k)...))
				if rev := w.shows(k, 2); !rev.Verified {
					t.Errorf("not verified: %+v", rev)
				}
			})
		}
	}
}

// unverified fails unless the window is shown, each path once, and not as verified.
func (w *world) unverified(t *testing.T, k analytics.Key) {
	t.Helper()
	got, _, err := w.reader.Visitors(k)
	if err != nil {
		t.Fatal(err)
	}
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

// A window that shrank is mispredicted once, even if it then drifts.
func TestMispredictedOnce(t *testing.T) {
	w := newWorld(t, t.TempDir())
	k := day("prj_a", 0)
	w.service.put(k, 700, 1)
	w.predict = 9
	w.service.answer = func(nth int, q docsapi.VisitorsQuery) (*analytics.Page, error) {
		if nth != 3 {
			return nil, nil
		}
		p := w.service.page(q)
		p.Totals.AI++
		return &p, nil
	}
	r := w.clean(w.run(asked(k)...))
	if want := 1 + 2 + 3; w.service.requests() != want || r.Mispredicted != 1 || r.Drifted != 1 {
		t.Errorf("%d requests, %+v; want %d", w.service.requests(), r, want)
	}
	w.shows(k, 1)
}

// The page that a wrong prediction asked for is evidence: other totals on it
// are drift, and so is a page that promises rows there.
func TestMispredictedPageCounts(t *testing.T) {
	w := newWorld(t, t.TempDir())
	k := day("prj_a", 0)
	w.service.put(k, 500, 1)
	w.predict = 3
	w.service.answer = func(nth int, q docsapi.VisitorsQuery) (*analytics.Page, error) {
		if nth == 1 {
			w.service.put(k, 700, 1) // after this answer
			return &analytics.Page{Totals: totalsOf(rowsOf(700, 1))}, nil
		}
		return nil, nil
	}
	r := w.clean(w.run(asked(k)...))
	if want := 1 + 2 + 3; w.service.requests() != want || r.Drifted != 1 || r.Mispredicted != 1 {
		t.Errorf("%d requests, %+v; want %d", w.service.requests(), r, want)
	}
	if rev := w.shows(k, 1); !rev.Verified {
		t.Errorf("revision %+v", rev)
	}
}

// A service that takes no notice of the offset must not be read for ever.
func TestOffsetIgnored(t *testing.T) {
	for _, rows := range []int{analytics.PageRows, 0} {
		t.Run(fmt.Sprintf("%d rows", rows), func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			a, b := day("prj_a", 1), day("prj_a", 0)
			w.service.put(b, 600, 1)
			w.service.answer = func(_ int, q docsapi.VisitorsQuery) (*analytics.Page, error) {
				if q.Window == b.Window {
					return nil, nil
				}
				return &analytics.Page{Rows: rowsOf(rows, 1), HasMore: true}, nil
			}
			r := w.run(asked(a, b)...)
			if len(r.Warnings) != 1 || len(r.Errors) != 0 || r.Left != 1 || r.Committed != 1 || !strings.Contains(r.Warnings[0].Error(), a.String()) {
				t.Errorf("result %+v", r)
			}
			if got := w.service.requests(); got > 3*schedule.MaxReadings+3 {
				t.Errorf("%d requests", got)
			}
			w.emptySpool() // what it sent is nothing to go on with
			w.shows(b, 1)
			w.service.answer = nil
			w.service.put(a, 300, 1)
			w.clean(w.run(asked(a)...))
			if rev := w.shows(a, 1); !rev.Verified {
				t.Errorf("revision %+v", rev)
			}
		})
	}
}

// A page that says it is the last, before one that is known to exist, is drift.
func TestEndBeforeKnownPage(t *testing.T) {
	w := newWorld(t, t.TempDir())
	k := day("prj_a", 0)
	w.service.put(k, 700, 1)
	w.predict = 3
	spoiled := false
	w.service.answer = func(_ int, q docsapi.VisitorsQuery) (*analytics.Page, error) {
		if q.Offset != 250 || spoiled {
			return nil, nil
		}
		spoiled = true
		p := w.service.page(q)
		p.HasMore = false
		return &p, nil
	}
	if r := w.clean(w.run(asked(k)...)); r.Drifted != 1 {
		t.Errorf("result %+v", r)
	}
	w.shows(k, 1)
}

// The last reading takes what comes and so builds on no prediction: rows that
// came after a page was found empty would be lost.
func TestLastReadingIsNotPredicted(t *testing.T) {
	w := newWorld(t, t.TempDir())
	k := day("prj_a", 0)
	w.service.put(k, 700, 1)
	w.predict = 3
	w.service.answer = func(nth int, q docsapi.VisitorsQuery) (*analytics.Page, error) {
		if nth != 2 && nth != 4 {
			return nil, nil
		}
		p := w.service.page(q)
		p.Totals.AI++
		if nth == 4 {
			w.service.put(k, 400, 1)
		}
		return &p, nil
	}
	// The first page that comes with others of the window ends a reading.
	r := w.clean(w.run(asked(k)...))
	if r.Drifted != 2 || r.Mispredicted != 0 {
		t.Errorf("%d requests, %+v", w.service.requests(), r)
	}
	w.shows(k, 1)
}

// A window that was mispredicted, drifted, and then met the end of the budget
// is not mispredicted again by the next run.
func TestMispredictedOnceOverRuns(t *testing.T) {
	w := newWorld(t, t.TempDir())
	k := day("prj_a", 0)
	w.service.put(k, 700, 1)
	w.predict = 9
	w.service.limited, w.service.budget = true, 3
	w.service.answer = func(nth int, q docsapi.VisitorsQuery) (*analytics.Page, error) {
		if nth != 3 {
			return nil, nil
		}
		p := w.service.page(q)
		p.Totals.AI++
		return &p, nil
	}
	if r := w.clean(w.run(asked(k)...)); r.Drifted != 1 || r.Mispredicted != 1 || !r.BudgetSpent {
		t.Fatalf("result %+v", r)
	}
	w.service.budget = 9
	if r := w.clean(w.run(asked(k)...)); r.Mispredicted != 0 || w.service.requests() != 3+3 {
		t.Errorf("%d requests, %+v", w.service.requests(), r)
	}
	w.shows(k, 1)
}
