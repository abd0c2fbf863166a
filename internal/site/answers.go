package site

import (
	"bytes"
	"compress/flate"
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/facts"
)

const (
	// longestWindow is in days: so many days, from any day on, are within the two months of an epoch.
	longestWindow = 29
	// heldRows limits the answers in memory: about 60 MiB with their paths.
	heldRows = 1 << 19
	// answerWeight is that of an answer besides its rows.
	answerWeight = 256
	// heldFor is how long an answer is held that nobody asks for.
	heldFor = 10 * time.Minute
)

// Answers answers the API's questions from the facts of a site.
//
// Facts are added while a client reads page after page, and yet all pages of a reading must agree. So
// the first page, offset 0, is of the newest facts, and the answer it is from is held for the other
// pages that the same key asks for. Answers of days that are over are kept on disk as well, until facts
// of these days are added.
type Answers struct {
	store     *facts.Store
	now       func() time.Time
	log       *slog.Logger
	retention int // months; 0: everything is kept

	counting singleflight.Group
	one      chan struct{} // held while facts are counted: that takes memory

	mu     sync.Mutex
	held   map[heldKey]*list.Element
	recent *list.List // of *held, the newest use first
	weight int

	// Counted, Kept and Held count the answers by where they came from; Nanoseconds is the time of
	// counting.
	Counted, Kept, Held, Nanoseconds atomic.Int64
}

// heldKey names an answer in memory: of a key's reading or, without a key, the newest.
type heldKey struct {
	key, project string
	window       analytics.Window
}

type held struct {
	heldKey
	*answer
	used time.Time
}

// answer never changes.
type answer struct {
	facts.Answer
	changed int64 // as of facts.Store.Changed
}

// NewAnswers returns the answers from a store, of the same options as its collector. What damages an
// answer is logged.
func NewAnswers(s *facts.Store, o CollectOptions) *Answers {
	return &Answers{store: s, now: o.Now, log: o.Logger, retention: o.Retention, one: make(chan struct{}, 1),
		held: map[heldKey]*list.Element{}, recent: list.New()}
}

// Page answers a query with one page.
func (a *Answers) Page(c *api.Call, q api.Query) (any, error) {
	today := analytics.DateOf(c.Now)
	window, err := windowOf(q, today)
	if err != nil {
		return nil, err
	}
	if oldest := oldestDay(today, a.retention); a.retention > 0 && window.From < oldest && window.From < window.To {
		// Nothing is no answer: it would take the place of the true one in the client's files.
		return nil, api.Fail(http.StatusBadRequest, "dateFrom: %s is before %s, the first day of the %d months that "+
			"are kept (DOCGAUGE_SITE_RETENTION)", window.From, oldest, a.retention)
	}
	reading := heldKey{c.Key.ID, c.Project, window}
	if q.Offset > 0 {
		if found := a.find(reading); found != nil {
			a.Held.Add(1)
			return api.NewPage(found.Totals, found.Rows, q.Limit, q.Offset), nil
		}
	}
	found, err := a.newest(c.Context(), c.Project, window)
	switch {
	case err != nil && c.Context().Err() != nil:
		return nil, api.ErrDropped // the client has gone
	case err != nil:
		a.log.Error("facts not counted", "project", c.Project, "from", window.From.String(), "to", window.To.String(),
			"error", err)
		return nil, api.Fail(http.StatusInternalServerError, "the facts of project %q, %s, cannot be counted: "+
			"the log of docgauge site serve says why", c.Project, window)
	}
	a.hold(reading, found)
	return api.NewPage(found.Totals, found.Rows, q.Limit, q.Offset), nil
}

// oldestDay is the first day that is kept for some months.
func oldestDay(today analytics.Date, retention int) analytics.Date {
	return (facts.EpochOf(today) - facts.Epoch(retention)).From()
}

// windowOf returns the days of a query that can be counted, or refuses it.
func windowOf(q api.Query, today analytics.Date) (w analytics.Window, err error) {
	w.To = today + 1
	if q.ToDay != nil {
		w.To = *q.ToDay
	}
	month := func(d analytics.Date, after int) analytics.Date {
		t := d.Time()
		return analytics.NewDate(t.Year(), t.Month()+time.Month(after), 1)
	}
	if q.FromDay == nil {
		w.To = min(w.To, today+1)
		w.From = month(w.To-1, -1)
		return w, nil
	}
	w.From = *q.FromDay
	if w.Days() > longestWindow && w.To > month(w.From, 1) {
		return w, api.Fail(http.StatusBadRequest, "dateFrom, dateTo: want at most %d days, or days of one month: "+
			"[%s,%s) has %d; readers are not recognized for longer, so ask for each month",
			longestWindow, w.From, w.To, w.Days())
	}
	return w, nil
}

// newest returns the answer from all facts there are.
func (a *Answers) newest(ctx context.Context, project string, w analytics.Window) (*answer, error) {
	if w.From >= w.To {
		return &answer{}, nil
	}
	// What is committed from here on may be in the answer or not: it is another number, so that this
	// answer is not taken for the newest then.
	changed, err := a.store.Changed(ctx, project, w.From, w.To)
	if err != nil || changed == 0 {
		return &answer{}, err
	}
	key := heldKey{project: project, window: w}
	if found := a.find(key); found != nil && found.changed == changed {
		a.Held.Add(1)
		return found, nil
	}
	// The others who wait for it must not lose it because the first client goes away.
	wait := a.counting.DoChan(fmt.Sprint(key, changed), func() (any, error) {
		return a.count(context.WithoutCancel(ctx), key, changed)
	})
	select {
	case result := <-wait:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*answer), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// count returns the kept answer of a window, or counts and keeps it.
func (a *Answers) count(ctx context.Context, key heldKey, changed int64) (*answer, error) {
	a.one <- struct{}{}
	defer func() { <-a.one }()
	found, w := &answer{changed: changed}, key.window
	over := w.Complete(a.now())
	if over {
		if text, err := a.store.Kept(ctx, key.project, w.From, w.To, changed); err != nil {
			return nil, err
		} else if text != nil && json.NewDecoder(flate.NewReader(bytes.NewReader(text))).Decode(&found.Answer) == nil {
			a.Kept.Add(1)
			a.hold(key, found)
			return found, nil
		}
	}
	began := time.Now()
	var err error
	if found.Answer, err = a.store.Count(ctx, key.project, w.From, w.To); err != nil {
		return nil, err
	}
	a.Counted.Add(1)
	a.Nanoseconds.Add(int64(time.Since(began)))
	a.hold(key, found)
	if over {
		if err := a.keep(ctx, key, found); err != nil {
			a.log.Warn("answer not kept", "project", key.project, "from", w.From.String(), "to", w.To.String(),
				"error", err)
		}
	}
	return found, nil
}

func (a *Answers) keep(ctx context.Context, key heldKey, found *answer) error {
	var text bytes.Buffer
	deflated, err := flate.NewWriter(&text, flate.BestSpeed)
	if err == nil {
		err = errors.Join(json.NewEncoder(deflated).Encode(found.Answer), deflated.Close())
	}
	if err != nil {
		return err
	}
	return a.store.Keep(ctx, key.project, key.window.From, key.window.To, found.changed, text.Bytes())
}

// find returns a held answer; nil without one.
func (a *Answers) find(key heldKey) *answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(heldRows)
	el := a.held[key]
	if el == nil {
		return nil
	}
	h := el.Value.(*held)
	h.used = a.now()
	a.recent.MoveToFront(el)
	return h.answer
}

// hold holds an answer in place of the former one, even if it is too large for others beside it.
func (a *Answers) hold(key heldKey, found *answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if el := a.held[key]; el != nil {
		a.remove(el)
	}
	weight := len(found.Rows) + answerWeight
	a.drop(heldRows - weight)
	a.held[key] = a.recent.PushFront(&held{key, found, a.now()})
	a.weight += weight
}

// drop removes what was not used for long, and the oldest until the rest weighs at most most.
func (a *Answers) drop(most int) {
	for el := a.recent.Back(); el != nil; el = a.recent.Back() {
		if a.weight <= most && a.now().Sub(el.Value.(*held).used) < heldFor {
			return
		}
		a.remove(el)
	}
}

func (a *Answers) remove(el *list.Element) {
	h := a.recent.Remove(el).(*held)
	delete(a.held, h.heldKey)
	a.weight -= len(h.Rows) + answerWeight
}
