package docsapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
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
			_, err := c.Page(t.Context(), query())
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
		_, err := c.Page(ctx, query())
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

// TestConfirmClock: the question for the time has no key. It is sent when nothing has confirmed the clock, again
// after a minute if the answer did not confirm it, and at once after a jump of the clock, also during the question.
// Two answers that contradict each other neither confirm the clock nor show it to be wrong.
func TestConfirmClock(t *testing.T) {
	const right, wrong, none, jumps, contradicts = "right", "wrong", "none", "jumps", "contradicts"
	date, asked, off := right, 0, -time.Hour
	jump := func(time.Duration) {}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if date == jumps {
			jump(time.Hour)
			date = right
		}
		w.Header()["Date"] = nil
		switch date {
		case right:
			w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
		case wrong:
			w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		case contradicts:
			w.Header().Set("Date", time.Now().Add(off).UTC().Format(http.TimeFormat))
			off = -off
		}
		if r.Method != http.MethodHead || r.Header.Get("Authorization") != "" {
			t.Errorf("%s with the key %q", r.Method, r.Header.Get("Authorization"))
		}
		asked++
		w.WriteHeader(http.StatusNotFound)
	})
	now := time.Now
	c.clock.now = func() time.Time { return now() }
	jump = func(d time.Duration) {
		before := now
		now = func() time.Time { return before().Add(d) }
	}
	for i, step := range []struct {
		date      string
		jump      time.Duration
		asks      int
		confirmed bool
	}{
		{right, 0, 1, true},
		{right, 0, 0, true},
		{right, time.Hour, 1, true},
		{right, -time.Hour, 1, true},
		{right, time.Minute, 0, true},
		{wrong, time.Hour, 2, false},
		{wrong, 0, 0, false},
		{none, -time.Hour, 1, true},
		{jumps, time.Hour, 2, true},
		{contradicts, time.Hour, 2, false},
		{contradicts, 0, 0, false},
	} {
		date, asked = step.date, 0
		jump(step.jump)
		err := c.ConfirmClock(t.Context())
		_, isWrong := errors.AsType[*ClockError](err)
		if asked != step.asks || (err == nil) != step.confirmed || isWrong != (step.date == wrong) ||
			c.ClockConfirmed() != step.confirmed {
			t.Errorf("step %d, %+v: asked %d times, %v", i, step, asked, err)
		}
	}
}

// TestUnaskedClock: a service that cannot be asked confirms nothing, and shows nothing to be wrong.
func TestUnaskedClock(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	c, err := New(ClientOptions{BaseURL: gone.URL, APIKey: StaticKey("adm_secret")})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.ConfirmClock(t.Context()); !errors.Is(err, errNoTime) || c.ClockConfirmed() || c.ClockError() != nil {
			t.Errorf("%v, confirmed: %v, %v", err, c.ClockConfirmed(), c.ClockError())
		}
	}
}
