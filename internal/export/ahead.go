package export

import (
	"cmp"
	"context"
	"math/bits"

	"github.com/docgauge/docgauge/schedule"
)

// query is a request for a page.
type query struct {
	offset, limit int
	// guess: no other page announces this one.
	guess bool
}

// ahead decides which page of a reading is requested next, for one goroutine. Requesting a page
// that another page announces is never wasted. All other requests are guesses, which are made
// only without a budget:
//
// One guess at a time requests a page further and further ahead. If it has rows, all pages
// before it exist, and are then requested together. The first guess without rows bounds the
// search: from then on each guess halves the unknown part.
//
// Without guesses, a first reading of 25,000 rows at 50 ms of latency takes 7 times as long.
type ahead struct {
	pages *pages
	// size is the assumed number of rows in a page until a page of the reading shows it. No more are requested: a
	// service that puts fewer rows on a page may still compute hasMore from what was requested.
	size        int
	concurrency int
	mayGuess    func(surely int) bool
	// predicted is the offset of the first request, 0 for no prediction.
	predicted int
	// inFlight has the offsets that are requested and not in the page log yet. guessing
	// means that one request is a guess.
	inFlight map[int]bool
	guessing bool
	// chained is the last page that was requested because it follows the furthest; every
	// page before offset filled is requested.
	chained, filled int
}

// next returns the request to send now. It returns false if it must wait for a response, or, if
// no request is in flight, if the reading is complete.
func (a *ahead) next() (q query, ok bool) {
	if a.guessing && a.pages.highest < 0 {
		return query{}, false // the prediction is not answered
	}
	if q, ok = a.choose(); ok {
		a.inFlight[q.offset] = true
		a.guessing = a.guessing || q.guess
	}
	return q, ok
}

func (a *ahead) choose() (query, bool) {
	if o := a.predicted; o > 0 {
		a.predicted = 0
		return query{o, a.size, true}, true
	}
	p := a.pages
	if next := p.next; (p.more || p.furthest < 0) && next > a.chained {
		a.chained = next
		if !a.inFlight[next] {
			return query{next, cmp.Or(p.size, a.size), false}, true
		}
	}
	size := cmp.Or(p.size, a.size)
	if !a.guessing && p.furthest-a.filled < a.concurrency*size {
		offset, surely, ok := p.guess(a.concurrency)
		if ok && a.mayGuess(surely) && !a.inFlight[offset] {
			return query{offset, size, true}, true
		}
	}
	for a.filled < p.furthest {
		offset := a.filled
		a.filled += size
		if _, has := p.log.Pages[offset]; !has && !a.inFlight[offset] {
			return query{offset, size, false}, true
		}
	}
	if len(a.inFlight) > 0 {
		return query{}, false
	}
	// Rows that are missing now, because pages had fewer rows than expected, come one by one.
	offset, limit, missing := p.firstMissing()
	return query{offset, min(limit, size), false}, missing
}

// newAhead begins with a prediction where there is one: a window is mispredicted once, not
// again when it is started over.
func (w *window) newAhead(ctx context.Context) *ahead {
	sizes, concurrency := w.run.work.Sizes, w.e.concurrency()
	_, limited := w.run.free(ctx)
	a := &ahead{
		pages: w.pages, size: sizes.PerPage(schedule.SourceOf(w.item.Key)), concurrency: concurrency,
		inFlight: map[int]bool{}, chained: -1,
	}
	// The service may refuse an offset beyond the end, or all of the window, or its project.
	_, failed := w.run.work.Asides[w.item.Key]
	w.run.locked(func() { failed = failed || len(w.run.health.refused[schedule.SourceOf(w.item.Key)]) > 0 })
	if w.mispredicted == 0 && !failed && !w.pages.tolerant && w.pages.highest < 0 {
		a.predicted = (sizes.Surely(w.item.Key, limited) - 1) * a.size
	}
	// At most log2(pages) guesses find nothing: mayGuess compares their number with the number
	// of pages known before the guess. No guess is sent if a budget is set, or if other windows
	// use the places.
	a.mayGuess = func(surely int) bool {
		return !limited && !w.pages.tolerant && w.mispredicted < bits.Len(uint(surely-1)) &&
			2*w.run.order.openWindows() <= concurrency
	}
	return a
}
