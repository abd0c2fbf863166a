package docsapi

import (
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
	// Here is the time of this machine's clock, There that of the service.
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
	mu sync.Mutex
	// off is by how much the last answer showed the clock to be wrong, 0 for not at all.
	off time.Duration
	// wrong: the answer before it showed the same.
	wrong bool
	// heard: the last answer agreed, or had no Date.
	heard bool
	// there was the service's time at the moment here, which has a monotonic reading.
	there, here time.Time
}

// note takes in an answer.
func (w *clockCheck) note(a answer) {
	if a.status == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	off, there := clockOff(a)
	agree := off != 0 && w.off != 0 && (off-w.off).Abs() <= clock.Tolerance
	w.wrong = agree || w.wrong && off != 0
	w.off, w.heard, w.there, w.here = off, off == 0, there, a.ended
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

// verdict returns the *ClockError if the clock was found wrong, and has not been set since.
func (w *clockCheck) verdict() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.wrong {
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
func (c *Client) ClockError() error { return c.clock.verdict() }

// ClockAgrees reports whether the last answer agreed with this machine's clock, or did not
// say what time it is.
func (c *Client) ClockAgrees() bool {
	c.clock.mu.Lock()
	defer c.clock.mu.Unlock()
	return c.clock.heard
}
