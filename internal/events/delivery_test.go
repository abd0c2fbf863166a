package events

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/state"
)

const target = "https://hooks.example.com/T0KEN/path?key=qu3ry"

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// openNotifier opens the state in dir. Its pauses are not spread.
func openNotifier(dir, url string, now func() time.Time, log io.Writer) (*Notifier, error) {
	db, err := state.Open(dir)
	if err != nil {
		return nil, err
	}
	c := config.Config{NotifyURL: config.Secret(url), NotifySecret: "s3cret", Build: config.Build{Version: "1"}}
	n, err := ForApp(&app.App{Config: c, State: db, Now: now, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err == nil {
		n.jitter = func(d time.Duration) time.Duration { return d }
	}
	return n, err
}

func notifier(t *testing.T, url string, now func() time.Time, log io.Writer) *Notifier {
	t.Helper()
	n, err := openNotifier(t.TempDir(), url, now, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.app.State.Close() })
	return n
}

// enter puts events into the outbox.
func enter(n *Notifier, kinds ...string) error {
	var all state.Report
	for _, kind := range kinds {
		all.Events = append(all.Events, journal.Event{Kind: kind, At: n.app.Now(),
			Body: []byte(`{"event":"` + kind + `"}`)})
	}
	return n.app.State.Report(context.Background(), all)
}

func add(t *testing.T, n *Notifier, kinds ...string) {
	t.Helper()
	if err := enter(n, kinds...); err != nil {
		t.Fatal(err)
	}
}

// deliver delivers, and sets the time to the time of the next delivery.
func deliver(t *testing.T, n *Notifier, now *time.Time) {
	t.Helper()
	next, err := n.Deliver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	*now = next
}

func undelivered(t *testing.T, n *Notifier) []journal.Event {
	t.Helper()
	left, err := n.app.State.Events(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// receiver answers with the status for an event, 0 being no connection, and appends the events
// to kinds.
func receiver(status func(kind string) int, kinds *[]string) roundTripper {
	return func(req *http.Request) (*http.Response, error) {
		kind := req.Header.Get("X-Docgauge-Event")
		code := status(kind)
		if code == 0 {
			return nil, fmt.Errorf("dial %s: refused", req.URL)
		}
		if kinds != nil {
			*kinds = append(*kinds, kind)
		}
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("thanks"))}, nil
	}
}

func always(status int) func(string) int { return func(string) int { return status } }

func TestDelivery(t *testing.T) {
	for _, secret := range []config.Secret{"s3cret", ""} {
		var got *http.Request
		var body []byte
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r
			body, _ = io.ReadAll(r.Body)
			w.WriteHeader(http.StatusAccepted)
		}))
		defer server.Close()
		n := notifier(t, server.URL+"/hook?token=x", func() time.Time { return start }, io.Discard)
		n.app.Config.NotifySecret = secret
		add(t, n, "completed")
		if next, err := n.Deliver(t.Context()); err != nil || !next.IsZero() || len(undelivered(t, n)) > 0 {
			t.Fatalf("next %v, %v, left %+v", next, err, undelivered(t, n))
		}
		id := delivery(journal.Event{ID: 1, At: start})
		want := `{"event":"completed","delivery":"` + id + `"}`
		signature := ""
		if secret != "" {
			mac := hmac.New(sha256.New, []byte(secret))
			mac.Write([]byte(want))
			signature = "sha256=" + hex.EncodeToString(mac.Sum(nil))
		}
		for name, want := range map[string]string{
			"Content-Type": "application/json", "User-Agent": "docgauge/1", "X-Docgauge-Event": "completed",
			"X-Docgauge-Delivery": id, "X-Docgauge-Signature": signature,
		} {
			if got.Header.Get(name) != want {
				t.Errorf("%s: %q, want %q", name, got.Header.Get(name), want)
			}
		}
		if got.Method != http.MethodPost || got.RequestURI != "/hook?token=x" || string(body) != want {
			t.Errorf("%s %s %s", got.Method, got.RequestURI, body)
		}
	}
}

// TestSendWithoutURL: nothing is sent without a receiver.
func TestSendWithoutURL(t *testing.T) {
	n := notifier(t, target, func() time.Time { return start }, io.Discard)
	n.app.Config.NotifyURL = ""
	if host, err := Send(t.Context(), n.app, []journal.Event{{Kind: "test"}}); host != "" || err != nil {
		t.Errorf("sent to %q, %v", host, err)
	}
}

// TestAtLeastOnce: a receiver that fails for hours gets each event in the end, and the pauses
// grow to an hour.
func TestAtLeastOnce(t *testing.T) {
	for _, status := range []int{0, 302, 404, 429, 500} {
		now, kinds := start, []string(nil)
		n := notifier(t, target, func() time.Time { return now }, io.Discard)
		n.transport = receiver(always(status), nil)
		add(t, n, "completed", "failed", "paused")
		var pauses []time.Duration
		for range 12 {
			before := now
			deliver(t, n, &now)
			pauses = append(pauses, now.Sub(before))
		}
		if pauses[0] != 10*time.Second || pauses[1] != 20*time.Second || pauses[11] != time.Hour {
			t.Errorf("status %d: pauses %v", status, pauses)
		}
		if left := undelivered(t, n); len(left) != 3 {
			t.Errorf("status %d: left %+v", status, left)
		}
		n.transport = receiver(always(200), &kinds)
		for len(undelivered(t, n)) > 0 {
			deliver(t, n, &now)
		}
		if slices.Sort(kinds); !slices.Equal(kinds, []string{"completed", "failed", "paused"}) {
			t.Errorf("status %d: %v came", status, kinds)
		}
	}
}

// TestPoison: an event that the receiver never accepts does not block the others.
func TestPoison(t *testing.T) {
	now := start
	n := notifier(t, target, func() time.Time { return now }, io.Discard)
	n.transport = receiver(func(kind string) int { return map[string]int{"poison": 400, "a": 200, "b": 200}[kind] },
		nil)
	add(t, n, "poison", "a", "b")
	for range 2 {
		deliver(t, n, &now)
	}
	if left := undelivered(t, n); len(left) != 1 || left[0].Kind != "poison" {
		t.Errorf("left %+v", left)
	}
}

func TestGivesUpAfterThreeDays(t *testing.T) {
	now := start
	var log bytes.Buffer
	n := notifier(t, target, func() time.Time { return now }, &log)
	n.transport = receiver(always(500), nil)
	add(t, n, "failed")
	for len(undelivered(t, n)) > 0 {
		deliver(t, n, &now)
	}
	age := now.Sub(start)
	if age < 72*time.Hour || age > 74*time.Hour || !strings.Contains(log.String(), "notification given up") {
		t.Errorf("given up after %v:\n%s", age, log.String())
	}
}

func TestClockSetBack(t *testing.T) {
	now := start
	n := notifier(t, target, func() time.Time { return now }, io.Discard)
	n.transport = receiver(always(500), nil)
	add(t, n, "failed")
	if _, err := n.Deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-365 * 24 * time.Hour)
	n.transport = receiver(always(200), nil)
	if next, err := n.Deliver(t.Context()); err != nil || len(undelivered(t, n)) > 0 {
		t.Errorf("with the clock a year back it waits until %v: %v", next, err)
	}
}

// TestNothingSecret: no error and no log has the path and query of the URL, or the secret.
func TestNothingSecret(t *testing.T) {
	var log bytes.Buffer
	n := notifier(t, target, func() time.Time { return start }, &log)
	n.transport = receiver(always(0), nil)
	add(t, n, "failed")
	if _, err := n.Deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	said := log.String() + fmt.Sprint(n.post(t.Context(), undelivered(t, n)[0]))
	n.app.Config.NotifyURL = "http://hooks.example.com/T0KEN"
	_, err := ForApp(n.app)
	said += fmt.Sprint(err)
	for _, want := range []string{"refused", "hooks.example.com", "DOCGAUGE_NOTIFY_URL: "} {
		if !strings.Contains(said, want) {
			t.Errorf("no %s in %s", want, said)
		}
	}
	for _, secret := range []string{"T0KEN", "qu3ry", "s3cret"} {
		if strings.Contains(said, secret) {
			t.Errorf("%s is in %s", secret, said)
		}
	}
}

// TestRun: it wakes for an event, waits after a failure and ends with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var status, came atomic.Int32
		status.Store(503)
		n := notifier(t, target, time.Now, io.Discard)
		n.transport = receiver(func(string) int { came.Add(1); return int(status.Load()) }, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); n.run(ctx) }()
		synctest.Wait()
		add(t, n, "completed")
		n.wake.Send()
		for _, step := range []struct {
			wait   time.Duration
			status int32
			want   int32
		}{{0, 200, 1}, {9 * time.Second, 200, 1}, {time.Second, 200, 2}} {
			time.Sleep(step.wait)
			synctest.Wait()
			if status.Store(step.status); came.Load() != step.want {
				t.Errorf("%d deliveries after %v more, want %d", came.Load(), step.wait, step.want)
			}
		}
		cancel()
		<-ended
		if left := undelivered(t, n); len(left) > 0 {
			t.Errorf("left %+v", left)
		}
	})
}

// TestRunOutlivesTheOutbox: an outbox that cannot be read does not end it.
func TestRunOutlivesTheOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		n := notifier(t, target, time.Now, &log)
		n.app.State.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		n.run(ctx)
		if got := strings.Count(log.String(), "outbox of notifications not read"); got != 1 {
			t.Errorf("logged %d times", got)
		}
	})
}

// silent is a receiver that never answers.
var silent = roundTripper(func(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
})

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := notifier(t, target, time.Now, io.Discard)
		n.transport = silent
		add(t, n, "completed")
		began := time.Now()
		if next, err := n.Deliver(t.Context()); err != nil || next.Sub(began) != timeout+firstPause {
			t.Errorf("next after %v, %v", next.Sub(began), err)
		}
		time.Sleep(firstPause)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Deliver(ctx); !errors.Is(err, context.DeadlineExceeded) || undelivered(t, n)[0].Tries != 1 {
			t.Errorf("cut off: %v, left %+v", err, undelivered(t, n))
		}
	})
}

// monitored are settings with a monitor at a URL.
func monitored(url string) config.Config {
	return config.Config{PingURL: config.Secret(url), Build: config.Build{Version: "1"}}
}

func TestPing(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.RequestURI+" "+r.Header.Get("User-Agent"))
	}))
	defer server.Close()
	for _, at := range []string{"/uuid?rid=1", "/uuid/"} {
		for _, good := range []bool{true, false} {
			if err := Ping(t.Context(), monitored(server.URL+at), good); err != nil {
				t.Error(err)
			}
		}
	}
	want := []string{"GET /uuid?rid=1 docgauge/1", "GET /uuid/fail?rid=1 docgauge/1", "GET /uuid/ docgauge/1",
		"GET /uuid/fail docgauge/1"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestPingFails: a monitor that fails is asked twice, a redirect is not followed, and no
// error has the URL, which is a secret.
func TestPingFails(t *testing.T) {
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	closed.Close()
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"redirect": {http.RedirectHandler(other.URL, http.StatusFound).ServeHTTP, "HTTP 302"},
		"500": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
			"HTTP 500"},
		"closed": {nil, "connection refused"},
	} {
		asked, at := 0, "http://"+address
		if tc.handler != nil {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
				r *http.Request) {
				asked++
				tc.handler(w, r)
			}))
			defer server.Close()
			at = server.URL
		}
		err = Ping(t.Context(), monitored(at+"/T0KEN?key=qu3ry"), false)
		if err == nil || !strings.Contains(err.Error(), tc.want) ||
			!strings.HasPrefix(err.Error(), "DOCGAUGE_PING_URL: 127.0.0.1:") {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "T0KEN") || strings.Contains(err.Error(), "qu3ry")) {
			t.Errorf("%s: the secret is in %v", name, err)
		}
		if tc.handler != nil && asked != pingTries {
			t.Errorf("%s: asked %d times", name, asked)
		}
	}
	if elsewhere > 0 {
		t.Error("a redirect was followed")
	}
}

// TestPingIsShort: a monitor that does not answer holds up nothing for long.
func TestPingIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := ping(t.Context(), silent, monitored("https://hc.example.com/T0KEN"), true); err == nil ||
			time.Since(began) > 12*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
