package codehost_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/journal"
)

// paced returns a client with its own clock, and a function that reads as often as it
// may until then, and returns how many requests that took and the last time that it returned.
func paced(t *testing.T, answer func(*http.Request) *http.Response) (clock *time.Time,
	readUntil func(time.Time) (int, time.Time)) {
	at, count := now, 0
	c, err := codehost.New(codehost.Options{
		GitHubToken: fixed(token), Now: func() time.Time { return at },
		Transport: &wire{answer: func(req *http.Request) *http.Response {
			count++
			return answer(req)
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &at, func(end time.Time) (int, time.Time) {
		count = 0
		var until time.Time
		for at.Before(end) {
			_, err := c.Read(t.Context(), journal.PullRequest{Link: ghLink})
			if e, ok := errors.AsType[*codehost.Error](err); ok && e.Kind == codehost.Paced {
				if until = e.Until; !until.After(at) {
					t.Fatal("no wait")
				}
				at = until
			}
		}
		return count, until
	}
}

// TestPace: at full speed, an hour has fewer requests than the least quota, and they do not
// come one by one.
func TestPace(t *testing.T) {
	clock, readUntil := paced(t, func(*http.Request) *http.Response { return respond(404, nil, "") })
	first, _ := readUntil(clock.Add(time.Hour))
	next, _ := readUntil(clock.Add(time.Hour))
	if first < 3500 || first > 3700 || next < 3500 || next > 3700 {
		t.Errorf("%d, then %d requests in an hour", first, next)
	}
	// A clock that is set back stops nothing.
	*clock = clock.Add(-24 * time.Hour)
	if n, _ := readUntil(clock.Add(time.Minute)); n < 60 {
		t.Errorf("%d requests after the clock was set back", n)
	}
}

// TestReserve: the last tenth of the quota is left to others, until it is renewed by the
// host's clock.
func TestReserve(t *testing.T) {
	left := 510
	clock, readUntil := paced(t, func(*http.Request) *http.Response {
		left--
		return respond(404, map[string]string{
			"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": fmt.Sprint(left),
			"Date":              now.Add(time.Hour).Format(http.TimeFormat),
			"X-RateLimit-Reset": fmt.Sprint(now.Add(90 * time.Minute).Unix()),
		}, "")
	})
	began := *clock
	n, until := readUntil(clock.Add(time.Second))
	if n != 10 || until.Before(began.Add(30*time.Minute)) || until.After(began.Add(31*time.Minute)) {
		t.Errorf("%d requests, then not until %v", n, until)
	}
}

// TestSilence: a host that never answers is given up, and the end of the caller's context
// ends a request.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client(t, silent{})
		began := time.Now()
		_, err := c.Read(t.Context(), journal.PullRequest{Link: ghLink})
		if e, ok := errors.AsType[*codehost.Error](err); !ok || e.Kind != codehost.Transient ||
			time.Since(began) != 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = c.Read(ctx, journal.PullRequest{Link: ghLink}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

type silent struct{}

func (silent) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}
