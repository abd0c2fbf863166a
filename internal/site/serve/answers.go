package serve

import (
	"bytes"
	"compress/flate"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/facts"
)

const (
	// LongestWindow is in days: so many days, from any day on, are within the two months of an epoch.
	LongestWindow = 29
	// maxCacheBytes limits the answers in memory. Each row counts as if its path had pathBytes.
	maxCacheBytes = 60 << 20
	pathBytes     = 72
	// answerBytes is an answer besides its rows.
	answerBytes = 28 << 10
	// shareTime is the time for which a first page repeats its answer while a reading of it is under way.
	shareTime = time.Minute
	// cacheTime is the time after its last use for which an answer is cached.
	cacheTime = 10 * time.Minute
)

// reports are the reports of a site.
var reports = map[analytics.Report]report{
	analytics.VisitorsReport: newReport((*facts.Store).CountVisitors),
	analytics.AgentsReport:   newReport((*facts.Store).CountAgents),
	analytics.SourcesReport:  newReport((*facts.Store).CountSources),
	analytics.ViewsReport:    newReport((*facts.Store).CountViews),
}

// report returns answers: an empty one, from the facts, and from a text that was kept.
type report struct {
	empty content
	count func(context.Context, *facts.Store, facts.Question) (content, error)
	read  func(*json.Decoder) (content, error)
}

// content is the answer of a report. It never changes.
type content interface {
	page(limit, offset int, dataFrom *analytics.Date, humans analytics.Humans) any
	write(*json.Encoder) error
	rows() int
	bytes() int
}

// newReport returns the report that counts facts.
func newReport[T any, R analytics.RowType](
	count func(_ *facts.Store, _ context.Context, project string, from, to analytics.Date,
		humans analytics.Humans) (facts.Answer[T, R], error),
) report {
	with := func(a facts.Answer[T, R]) content { return &contentOf[T, R]{a} }
	return report{empty: with(facts.Answer[T, R]{}),
		count: func(ctx context.Context, s *facts.Store, q facts.Question) (content, error) {
			a, err := count(s, ctx, q.Project, q.From, q.To, q.Humans)
			return with(a), err
		},
		read: func(d *json.Decoder) (content, error) {
			var a facts.Answer[T, R]
			err := d.Decode(&a)
			return with(a), err
		},
	}
}

type contentOf[T any, R analytics.RowType] struct{ answer facts.Answer[T, R] }

func (c *contentOf[T, R]) page(limit, offset int, dataFrom *analytics.Date, humans analytics.Humans) any {
	return api.NewPage(c.answer.Totals, c.answer.Rows, limit, offset, dataFrom, humans)
}

func (c *contentOf[T, R]) write(e *json.Encoder) error { return e.Encode(c.answer) }

func (c *contentOf[T, R]) rows() int { return len(c.answer.Rows) }

func (c *contentOf[T, R]) bytes() int {
	return len(c.answer.Rows)*(int(reflect.TypeFor[R]().Size())+pathBytes) + answerBytes
}

// Answers answers the API's questions from the facts of a site.
//
// Facts are added while a client reads page after page, and yet all pages of a reading must agree. So
// the first page, offset 0, shows the newest facts, and its answer is cached for the other
// pages that the same key asks for. A second reading of the same key and window that begins before the first
// has its last page gets the same answer, if it is younger than shareTime: a page does not say to which reading
// it belongs. Answers of days that are over are kept on disk as well, until facts of these days are added.
type Answers struct {
	store     *facts.Store
	now       func() time.Time
	log       *slog.Logger
	retention int // months; 0: everything is kept
	humans    analytics.Humans

	counting singleflight.Group
	one      chan struct{} // full while facts are counted, which takes memory

	mu     sync.Mutex
	cached map[readingKey]*list.Element
	recent *list.List // of *cachedAnswer, the newest use first
	size   int        // bytes

	// Counted, FromDisk and FromMemory count the answers by origin; Nanoseconds is the time of counting.
	Counted, FromDisk, FromMemory, Nanoseconds atomic.Int64
}

// readingKey names an answer in memory: the answer of a key's reading or, without a key, the newest.
type readingKey struct {
	key      string
	question facts.Question
}

type cachedAnswer struct {
	readingKey
	*answer
	began, used time.Time
	readings    int // that have begun and do not have their last page
}

type answer struct {
	content
	changed int64 // as of facts.Store.Changed
}

// NewAnswers returns the answers from a store, of the same options as its collector. What damages an
// answer is logged.
func NewAnswers(s *facts.Store, o CollectOptions) *Answers {
	return &Answers{store: s, now: o.Now, log: o.Logger, retention: o.Retention, humans: o.Humans,
		one: make(chan struct{}, 1), cached: map[readingKey]*list.Element{}, recent: list.New()}
}

// NewService returns the API over the facts of a site. Keys are looked up in the store for each request. lacks returns
// the refusal of an answer that could lack lines: see [Collector.Lacks].
func (a *Answers) NewService(
	projects []string, lacks func(project string, to analytics.Date) error, o api.Options,
) *api.Service {
	o.FindKey = func(ctx context.Context, digest [sha256.Size]byte) (api.Credential, bool, error) {
		k, found, err := a.store.FindAPIKey(ctx, digest)
		return api.Credential{ID: k.ID, Project: k.Project, Scope: k.Scope}, found, err
	}
	o.HasProject = func(name string) bool { return slices.Contains(projects, name) }
	o.Reports = map[analytics.Report]api.Reporter{}
	for name, r := range reports {
		o.Reports[name] = func(c *api.Call, q api.Query) (any, error) {
			return a.page(c, q, name, r, lacks)
		}
	}
	return api.NewService(o)
}

// page answers a query with one page of a report.
func (a *Answers) page(
	c *api.Call, q api.Query, name analytics.Report, r report, lacks func(project string, to analytics.Date) error,
) (any, error) {
	today := analytics.DateOf(c.Now)
	window, err := windowOf(q, today)
	if err != nil {
		return nil, err
	}
	oldest := analytics.Date(math.MinInt32)
	if a.retention > 0 {
		oldest = OldestDay(today, a.retention)
	}
	if window.From < oldest && window.From < window.To {
		// Nothing is no answer: it would take the place of the true one in the client's files.
		return nil, api.Fail(http.StatusBadRequest, "dateFrom: %s is before %s, the first day of the %d months that "+
			"are kept (DOCGAUGE_SITE_RETENTION)", window.From, oldest, a.retention)
	}
	if err := lacks(c.Project, window.To); err != nil {
		return nil, err
	}
	dataFrom, err := a.store.FirstDay(c.Context(), c.Project, oldest, today)
	reading := readingKey{c.Key.ID, facts.Question{Report: name, Project: c.Project, Humans: a.humans, Window: window}}
	if err == nil {
		if found := a.read(reading, q); found != nil {
			a.FromMemory.Add(1)
			return found.page(q.Limit, q.Offset, dataFrom, a.humans), nil
		}
	}
	var found *answer
	if err == nil {
		found, err = a.newest(c.Context(), reading.question, r)
	}
	switch {
	case err != nil && c.Context().Err() != nil:
		return nil, api.ErrDropped // the client has gone
	case err != nil:
		a.log.Error("facts not counted", "report", name.String(), "project", c.Project, "from", window.From.String(),
			"to", window.To.String(), "error", err)
		return nil, api.Fail(http.StatusInternalServerError, "the facts of project %q, %s, cannot be counted: "+
			"the log of docgauge site serve says why", c.Project, window)
	}
	a.cache(reading, found, q)
	return found.page(q.Limit, q.Offset, dataFrom, a.humans), nil
}

// OldestDay is the first day that is kept for some months.
func OldestDay(today analytics.Date, retention int) analytics.Date {
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
	if w.Days() > LongestWindow && w.To > month(w.From, 1) {
		return w, api.Fail(http.StatusBadRequest, "dateFrom, dateTo: want at most %d days, or days of one month: "+
			"[%s,%s) has %d; readers are not recognized for longer, so ask for each month",
			LongestWindow, w.From, w.To, w.Days())
	}
	return w, nil
}

// newest returns the answer from all facts there are.
func (a *Answers) newest(ctx context.Context, q facts.Question, r report) (*answer, error) {
	none := &answer{content: r.empty}
	if q.From >= q.To {
		return none, nil
	}
	// What is committed from here on may be in the answer or not: it is another number, so that this
	// answer is not taken for the newest then.
	changed, err := a.store.Changed(ctx, q.Project, q.From, q.To)
	if err != nil || changed == 0 {
		return none, err
	}
	key := readingKey{question: q}
	if found := a.find(key); found != nil && found.changed == changed {
		a.FromMemory.Add(1)
		return found, nil
	}
	// The others who wait for it must not lose it because the first client goes away.
	wait := a.counting.DoChan(fmt.Sprint(key, changed), func() (any, error) {
		return a.count(context.WithoutCancel(ctx), key, r, changed)
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
func (a *Answers) count(ctx context.Context, key readingKey, r report, changed int64) (*answer, error) {
	a.one <- struct{}{}
	defer func() { <-a.one }()
	q := key.question
	over := q.Complete(a.now())
	if over {
		text, err := a.store.Kept(ctx, q, changed)
		if err != nil {
			return nil, err
		}
		if text != nil {
			c, err := r.read(json.NewDecoder(flate.NewReader(bytes.NewReader(text))))
			if err == nil { // else it is counted once more
				found := &answer{c, changed}
				a.FromDisk.Add(1)
				a.cache(key, found, api.Query{})
				return found, nil
			}
		}
	}
	began := time.Now()
	c, err := r.count(ctx, a.store, q)
	if err != nil {
		return nil, err
	}
	found := &answer{c, changed}
	a.Counted.Add(1)
	a.Nanoseconds.Add(int64(time.Since(began)))
	a.cache(key, found, api.Query{})
	if over {
		if err := a.keep(ctx, q, found); err != nil {
			a.log.Warn("answer not kept", "report", q.Report.String(), "project", q.Project, "from", q.From.String(),
				"to", q.To.String(), "error", err)
		}
	}
	return found, nil
}

func (a *Answers) keep(ctx context.Context, q facts.Question, found *answer) error {
	var text bytes.Buffer
	deflated, err := flate.NewWriter(&text, flate.BestSpeed)
	if err == nil {
		err = errors.Join(found.write(json.NewEncoder(deflated)), deflated.Close())
	}
	if err != nil {
		return err
	}
	return a.store.Keep(ctx, q, found.changed, text.Bytes())
}

// find returns a cached answer; nil without one.
func (a *Answers) find(key readingKey) *answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.evict(maxCacheBytes)
	el := a.cached[key]
	if el == nil {
		return nil
	}
	h := el.Value.(*cachedAnswer)
	h.used = a.now()
	a.recent.MoveToFront(el)
	return h.answer
}

// read returns the cached answer for a page; nil if the page must show the newest facts.
func (a *Answers) read(reading readingKey, q api.Query) *answer {
	found := a.find(reading)
	a.mu.Lock()
	defer a.mu.Unlock()
	el := a.cached[reading]
	if found == nil || el == nil {
		return nil
	}
	h := el.Value.(*cachedAnswer)
	if q.Offset == 0 && (h.readings == 0 || a.now().Sub(h.began) >= shareTime) {
		return nil
	}
	h.turn(q)
	return h.answer
}

// turn counts the readings under way, of which q gets a page.
func (h *cachedAnswer) turn(q api.Query) {
	if q.Offset == 0 {
		h.readings++
	}
	if q.Offset >= h.rows()-q.Limit {
		h.readings = max(h.readings-1, 0)
	}
}

// cache replaces the former answer of a key, even by an answer that is too large for others beside it.
func (a *Answers) cache(key readingKey, found *answer, page api.Query) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if el := a.cached[key]; el != nil {
		a.remove(el)
	}
	a.evict(maxCacheBytes - found.bytes())
	now := a.now()
	h := &cachedAnswer{readingKey: key, answer: found, began: now, used: now}
	a.cached[key] = a.recent.PushFront(h)
	a.size += found.bytes()
	h.turn(page)
}

// evict removes answers that were not used for cacheTime, and the oldest until the rest has at most so many bytes.
func (a *Answers) evict(most int) {
	for el := a.recent.Back(); el != nil; el = a.recent.Back() {
		if a.size <= most && a.now().Sub(el.Value.(*cachedAnswer).used) < cacheTime {
			return
		}
		a.remove(el)
	}
}

func (a *Answers) remove(el *list.Element) {
	h := a.recent.Remove(el).(*cachedAnswer)
	delete(a.cached, h.readingKey)
	a.size -= h.bytes()
}
