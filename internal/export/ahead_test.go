package export

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/schedule"
)

// TestGuesses: without a budget, reading a window sends at most log2(pages) requests that find
// nothing, even if a prediction was wrong or the window moved during the reading. With a budget,
// or with one request at a time, only the wrong prediction finds nothing.
func TestGuesses(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, dirOf(t, root))
		w.concurrency = rapid.IntRange(1, 32).Draw(t, "concurrency")
		w.service.cap = rapid.IntRange(1, 5).Draw(t, "rows of a page")
		w.service.strict = rapid.Bool().Draw(t, "refuses what is beyond the end")
		pages := rapid.OneOf(rapid.IntRange(1, 9), rapid.IntRange(1, 400), rapid.IntRange(1, 1500)).Draw(t, "pages")
		rows := pages*w.service.cap - rapid.IntRange(0, w.service.cap-1).Draw(t, "missing on the last page")
		w.service.limited, w.service.budget = rapid.IntRange(0, 3).Draw(t, "limited") == 0, math.MaxInt
		k := day("prj_a", 0)
		w.service.put(k, rows, 1)
		// A path that comes twice is found when all pages were read.
		twice := rapid.Bool().Draw(t, "a path twice") && min(rows, w.service.cap) > 1
		moves := rapid.SliceOfNDistinct(rapid.IntRange(2, 2*pages+2), 0, schedule.MaxReadings-1, rapid.ID).Draw(t,
			"moves")
		var inVain atomic.Int32
		w.service.answer = func(nth int, q docsapi.PageQuery) (*visitorsPage, error) {
			// A request that is refused shows no move, and need not: the pages before it agree.
			if slices.Contains(moves, nth) && (q.Offset < rows || !w.service.strict) {
				w.service.put(k, rows, nth)
			}
			if q.Offset >= rows {
				inVain.Add(1)
			}
			if q.Offset > 0 || !twice {
				return nil, nil
			}
			twice = false
			p := w.service.page(q)
			p.Rows = slices.Clone(p.Rows)
			p.Rows[0] = p.Rows[1]
			return &p, nil
		}
		work := w.work(asked(k))
		work.Sizes.SetPerPage(schedule.Source{Project: "prj_a"}, w.service.cap)
		most := bits.Len(uint(pages - 1))
		if w.service.limited || w.concurrency == 1 {
			most = 0
		}
		if predicted := rapid.IntRange(0, 2*pages).Draw(t, "predicted"); predicted > 0 {
			work.Sizes.Learn(k, int64(predicted*w.service.cap))
			w.service.strict = w.service.strict && predicted <= pages
			if predicted > pages {
				most = max(most, 1)
			}
		}
		r := w.clean(reading(t.Context(), w.process(), work))
		if got := int(inVain.Load()); got > most || r.Mispredicted != got {
			t.Fatalf("%d requests for %d pages found nothing, %d are counted; want at most %d", got, pages,
				r.Mispredicted, most)
		}
		requests := w.service.requests()
		if r.Drifted == 0 && requests != pages+r.Mispredicted {
			t.Fatalf("%d requests for %d pages, %d found nothing", requests, pages, r.Mispredicted)
		}
		w.charged(k, requests)
		if r.Drifted == schedule.MaxReadings-1 {
			return // the last reading takes what it gets
		}
		w.verified(k, 1)
		w.emptySpool()
	})
}

// TestGuessesSaveTime: with sixteen requests in flight, the first reading of a hundred
// pages takes a fifth of the time that one page after the other takes, and no longer when
// it is read a second time within the run because it moved.
func TestGuessesSaveTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const pages, latency = 100, 50 * time.Millisecond
		for _, moves := range []int{0, 1} {
			w := newWorld(t, t.TempDir())
			w.concurrency = 16
			k := day("prj_a", 0)
			w.service.put(k, pages*analytics.PageRows, 1)
			w.service.answer = func(nth int, _ docsapi.PageQuery) (*visitorsPage, error) {
				time.Sleep(latency)
				if nth == 2 && moves > 0 {
					w.service.put(k, pages*analytics.PageRows, 2)
				}
				return nil, nil
			}
			start := time.Now()
			r := w.clean(w.run(asked(k)...))
			if took := time.Since(start); took > pages*latency/5 || r.Drifted != moves {
				t.Errorf("%v, %d drifted; one after the other takes %v", took, r.Drifted, pages*latency)
			}
		}
	})
}

// Where several windows are read at the same time, they use the places: no guess is
// needed.
func TestNoGuessesBesideOtherWindows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, t.TempDir())
		w.concurrency = 4
		keys := w.days("prj_a", 4)
		for _, k := range keys {
			w.service.put(k, 23*analytics.PageRows, 1)
		}
		w.service.answer = func(int, docsapi.PageQuery) (*visitorsPage, error) {
			time.Sleep(time.Millisecond)
			return nil, nil
		}
		if r := w.clean(w.run(asked(keys...)...)); r.Mispredicted > 0 {
			t.Errorf("%d requests found nothing", r.Mispredicted)
		}
	})
}
