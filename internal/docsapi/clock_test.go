package docsapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestClock: the Date headers are the witness of the clock. The wrong clock is the service's
// here, which is the same to the client.
func TestClock(t *testing.T) {
	const none = time.Duration(1<<63 - 1)
	month := 30 * 24 * time.Hour
	for _, tc := range []struct {
		name string
		// off are the errors of the Date headers, in the order of the answers; the last stays.
		off      []time.Duration
		age      time.Duration
		requests int
		says     string // empty: the page is returned
	}{
		{name: "right", off: []time.Duration{0}, requests: 1},
		{name: "four minutes", off: []time.Duration{4 * time.Minute}, requests: 1},
		{name: "our clock is ahead", off: []time.Duration{-month}, requests: 2, says: "30 d ahead of"},
		{name: "our clock is behind", off: []time.Duration{month}, requests: 2, says: "behind"},
		{name: "ten minutes", off: []time.Duration{-10 * time.Minute}, requests: 2, says: "10 min"},
		{name: "one answer alone", off: []time.Duration{-month, 0}, requests: 2},
		{name: "two that disagree", off: []time.Duration{-month, month}, requests: 2},
		{name: "a cache", off: []time.Duration{-time.Hour}, age: time.Hour, requests: 1},
		{name: "a cache, a wrong clock", off: []time.Duration{-month}, age: time.Hour, requests: 2, says: "29 d ahead"},
		{name: "no Date", off: []time.Duration{none}, requests: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n := 0
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				off := tc.off[min(n, len(tc.off)-1)]
				if n++; n > 1 && r.Header.Get("Cache-Control") != "no-cache" {
					t.Error("the second answer may come from a cache")
				}
				w.Header()["Date"] = nil
				if off != none {
					w.Header().Set("Date", time.Now().Add(off).UTC().Format(http.TimeFormat))
				}
				if tc.age > 0 {
					w.Header().Set("Age", strconv.Itoa(int(tc.age/time.Second)))
				}
				_, _ = w.Write([]byte(`{"totals":{"human":0,"ai":0,"total":0},"visitors":[],"hasMore":false}`))
			})
			_, err := c.VisitorsPage(t.Context(), query())
			wrong, isWrong := errors.AsType[*ClockError](err)
			switch {
			case n != tc.requests:
				t.Errorf("%d requests, want %d (%v)", n, tc.requests, err)
			case (err != nil) != (tc.says != "") || isWrong != (tc.says != ""):
				t.Errorf("error %v", err)
			case isWrong && !strings.Contains(wrong.Error(), tc.says):
				t.Errorf("%v does not say %q", wrong, tc.says)
			}
			agrees := tc.off[len(tc.off)-1] == 0 || tc.requests == 1
			if (c.ClockError() != nil) != isWrong || c.ClockAgrees() != agrees {
				t.Errorf("afterwards: %v, agrees: %v", c.ClockError(), c.ClockAgrees())
			}
		})
	}
}

// TestClockSetRight: once the clock is right again, the verdict is withdrawn, without an answer
// or by one.
func TestClockSetRight(t *testing.T) {
	off := -time.Hour
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(off).UTC().Format(http.TimeFormat))
		_, _ = w.Write([]byte(`{"totals":{"human":0,"ai":0,"total":0},"visitors":[],"hasMore":false}`))
	})
	read := func(ctx context.Context) error {
		_, err := c.VisitorsPage(ctx, query())
		return err
	}
	if err := read(t.Context()); err == nil || c.ClockError() == nil {
		t.Fatal("the clock is an hour ahead, and nothing says so")
	}
	c.clock.there = c.clock.there.Add(time.Hour) // as if the clock here had been set back
	if err := c.ClockError(); err != nil {
		t.Errorf("set right: %v", err)
	}
	off = 0
	if err := read(t.Context()); err != nil || !c.ClockAgrees() {
		t.Errorf("set right: %v", err)
	}
}
