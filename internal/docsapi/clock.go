package docsapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/format"
)

// ClockError says that two answers in a row showed this machine's clock to be wrong by
// more than clock.Tolerance. Which windows are complete, and which firings are due, cannot
// be decided by it.
type ClockError struct {
	// Here is the time of this machine's clock, There the time of the service's clock.
	Here, There time.Time
}

func (e *ClockError) Error() string {
	off, word := e.Here.Sub(e.There), "ahead of"
	if off < 0 {
		off, word = -off, "behind"
	}
	off = off.Round(time.Minute) // Date has no fractions
	return fmt.Sprintf("this machine's clock is %s %s the service's (%s here, %s there): "+
		"set the clock, for instance by NTP, then run again; nothing is decided by a wrong clock",
		format.Duration(off), word, format.Time(e.Here), format.Time(e.There))
}

// clockCheck compares this machine's clock with the Date headers of the answers. Answers
// without one say nothing: then the clock is believed.
type clockCheck struct {
	// now is the clock whose jumps withdraw a confirmation.
	now func() time.Time
	// asking has room for one question at a time; asked is when the last one was sent.
	asking chan struct{}
	asked  moment

	mu sync.Mutex
	// off is the error of the clock that the last answer showed, 0 for none.
	off time.Duration
	// wrong: the answer before it showed the same.
	wrong bool
	// heard: the last answer agreed, or had no Date.
	heard bool
	// there was the service's time at the moment here, which has a monotonic reading.
	there, here time.Time
	// noted is when the request of the last answer began. A jump of the clock since then may be later than the answer.
	noted moment
}

// moment is a time by two clocks: the wall clock, which can be set, and the monotonic clock.
type moment struct{ wall, monotonic time.Time }

func (w *clockCheck) moment() moment { return moment{w.now().Round(0), time.Now()} }

// jumped reports whether the wall clock was set since then.
func (w *clockCheck) jumped(since moment) bool {
	now := w.moment()
	return (now.wall.Sub(since.wall) - now.monotonic.Sub(since.monotonic)).Abs() > clock.Tolerance
}

// note takes in an answer to a request that began at a moment.
func (w *clockCheck) note(a answer, began moment) {
	if a.status == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	off, there := clockOff(a)
	agree := off != 0 && w.off != 0 && (off-w.off).Abs() <= clock.Tolerance
	w.wrong = agree || w.wrong && off != 0
	w.off, w.heard, w.there, w.here, w.noted = off, off == 0, there, a.ended, began
}

// clockOff returns by how much the clock was wrong at least when the answer came, 0 if that is
// within clock.Tolerance, and the time of the service then. The answer of a cache is as old
// as its Age says.
func clockOff(a answer) (off time.Duration, there time.Time) {
	date, err := http.ParseTime(a.header.Get("Date"))
	if err != nil {
		return 0, a.ended
	}
	if age, err := strconv.ParseUint(a.header.Get("Age"), 10, 31); err == nil {
		date = date.Add(time.Duration(age) * time.Second)
	}
	// The answer was written after the request began, and Date has no fractions.
	began := a.began
	if began.IsZero() {
		began = a.ended // a transport that reports no connections
	}
	switch ahead, behind := began.Sub(date.Add(time.Second)), date.Sub(a.ended); {
	case ahead > clock.Tolerance:
		return ahead, date
	case behind > clock.Tolerance:
		return -behind, date
	}
	return 0, date
}

// suspects reports whether the last answer alone showed the clock to be wrong.
func (w *clockCheck) suspects() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.off != 0 && !w.wrong
}

// verdict returns the *ClockError if the clock was found wrong, and has not been set since. With alone, one answer
// is enough for that, unless it is the last one to a question, which the one before it contradicted.
func (w *clockCheck) verdict(alone bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.wrong && (!alone || w.off == 0 || w.noted == w.asked) {
		return nil
	}
	// By the monotonic clock, which setting the clock does not change.
	here, there := time.Now().Round(0), w.there.Add(time.Since(w.here))
	if here.Sub(there).Abs() <= clock.Tolerance {
		return nil
	}
	return &ClockError{Here: here, There: there}
}

// ClockError returns a [*ClockError] as long as this machine's clock is known to be wrong.
func (c *Client) ClockError() error { return c.clock.verdict(false) }

// ClockAgrees reports whether the last answer agreed with this machine's clock, or did not
// say what time it is.
func (c *Client) ClockAgrees() bool {
	c.clock.mu.Lock()
	defer c.clock.mu.Unlock()
	return c.clock.heard
}

// ClockConfirmed reports whether the last answer agreed with this machine's clock, or did not say what
// time it is, and the clock was not set since then.
func (c *Client) ClockConfirmed() bool {
	w := c.clock
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard && !w.jumped(w.noted)
}

// askEvery is the least time between two questions for the service's time, unless the clock was set.
const askEvery = time.Minute

// ConfirmClock asks the service what time it is, unless an answer has confirmed the clock already. The
// question is a HEAD request, or GET where that has no answer. It has no key, so that it counts against no limit
// of the organization; any answer has a Date. The error is a [*ClockError] if the clock is wrong, for which the
// last answer to any request is enough if the question has none; any other error means that the service did not
// say what time it is.
func (c *Client) ConfirmClock(ctx context.Context) error {
	w := c.clock
	select {
	case w.asking <- struct{}{}:
		defer func() { <-w.asking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	switch {
	case c.ClockConfirmed():
		return nil
	case !w.mayAsk():
		return cmp.Or(w.verdict(true), errNoTime)
	}
	for range 2 { // one answer alone does not show the clock to be wrong
		w.asked = w.moment()
		got, err := c.askTime(ctx, http.MethodHead)
		if err != nil && dialError(err) == "" {
			got, err = c.askTime(ctx, http.MethodGet)
		}
		if err != nil {
			return cmp.Or(w.verdict(true), fmt.Errorf("%w: %w", errNoTime, err))
		}
		w.note(got, w.asked)
		if c.ClockConfirmed() {
			return nil
		}
	}
	return cmp.Or(w.verdict(false), errNoTime)
}

// mayAsk reports whether a question is due: the last one is old, or since then the clock was set or an answer showed
// it to be wrong, or the clock was set since the newest answer.
func (w *clockCheck) mayAsk() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.asked.monotonic) >= askEvery || w.jumped(w.asked) ||
		w.noted.monotonic.After(w.asked.monotonic) && (w.off != 0 && !w.wrong || w.jumped(w.noted))
}

var errNoTime = errors.New("the service did not say what time it is, so nothing has confirmed this machine's clock")

// askTime sends one question for the time.
func (c *Client) askTime(ctx context.Context, method string) (got answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, min(c.options.Timeout, connectTimeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/", http.NoBody)
	if err != nil {
		return got, err
	}
	req.Header.Set("User-Agent", c.options.UserAgent)
	req.Header.Set("Cache-Control", "no-cache")
	began := time.Now()
	resp, err := c.jobTransport.RoundTrip(req)
	if err != nil {
		return got, err
	}
	got = answer{status: resp.StatusCode, header: resp.Header, began: began, ended: time.Now()}
	return got, resp.Body.Close()
}
