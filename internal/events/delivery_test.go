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
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// outbox is an Outbox in memory.
type outbox struct {
	mu    sync.Mutex
	notes []journal.Event
	fail  error
}

func (o *outbox) Events(_ context.Context, n int) ([]journal.Event, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	sorted := slices.Clone(o.notes)
	slices.SortStableFunc(sorted, func(a, b journal.Event) int { return a.Next.Compare(b.Next) })
	return sorted[:min(n, len(sorted))], o.fail
}

func (o *outbox) EventDone(_ context.Context, id int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.notes = slices.DeleteFunc(o.notes, func(n journal.Event) bool { return n.ID == id })
	return o.fail
}

func (o *outbox) EventBegun(_ context.Context, n journal.Event, at time.Time) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, held := range o.notes {
		if held.ID == n.ID && held.Begun.Equal(n.Begun) {
			if !held.Begun.IsZero() {
				o.notes[i].InDoubt++
			}
			o.notes[i].Begun = at
			return true, o.fail
		}
	}
	return false, o.fail
}

func (o *outbox) EventFailed(_ context.Context, id int64, next time.Time, inDoubt bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.notes {
		if o.notes[i].ID == id {
			o.notes[i].Tries++
			o.notes[i].Next, o.notes[i].Begun = next, time.Time{}
			if inDoubt {
				o.notes[i].InDoubt++
			}
		}
	}
	return o.fail
}

func (o *outbox) add(at time.Time, kinds ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, kind := range kinds {
		o.notes = append(o.notes, journal.Event{ID: int64(len(o.notes) + 1), Kind: kind, At: at, Next: at, Body: []byte(`{"event":"` + kind + `"}`)})
	}
}

// receiver answers as configured, and remembers what came.
type receiver struct {
	mu     sync.Mutex
	answer func(kind string) int // 0: no connection
	got    []*http.Request
	bodies []string
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	status := r.answer(req.Header.Get("X-Docgauge-Event"))
	if status == 0 {
		return nil, fmt.Errorf("dial %s: refused", req.URL)
	}
	r.got, r.bodies = append(r.got, req), append(r.bodies, string(body))
	return &http.Response{StatusCode: status, Header: http.Header{"Location": {"https://elsewhere.example.com"}}, Body: io.NopCloser(strings.NewReader("thanks"))}, nil
}

func (r *receiver) kinds() (kinds []string) {
	for _, req := range r.got {
		kinds = append(kinds, req.Header.Get("X-Docgauge-Event"))
	}
	return kinds
}

const target = "https://hooks.example.com/T0KEN/path?key=qu3ry"

func notifier(t *testing.T, r http.RoundTripper, o Outbox, now func() time.Time, log io.Writer) *Notifier {
	t.Helper()
	n, err := NewNotifier(Receiver{
		URL: target, Secret: "s3cret", Transport: r, Now: now,
		Jitter: func(d time.Duration) time.Duration { return d }, Logger: slog.New(slog.NewTextHandler(log, nil)),
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func answering(status int) func(string) int { return func(string) int { return status } }

func TestDelivery(t *testing.T) {
	var got *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	o := &outbox{}
	o.add(start, "completed")
	n, err := NewNotifier(Receiver{URL: config.Secret(server.URL + "/hook?token=x"), Secret: "s3cret", Now: time.Now}, o)
	if err != nil {
		t.Fatal(err)
	}
	if next, err := n.Deliver(t.Context()); err != nil || !next.IsZero() || len(o.notes) > 0 {
		t.Fatalf("next %v, %v, left %+v", next, err, o.notes)
	}
	mac := hmac.New(sha256.New, []byte("s3cret"))
	want := `{"event":"completed","delivery":"` + delivery(journal.Event{ID: 1, At: start}) + `"}`
	mac.Write([]byte(want))
	for name, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "docgauge", "X-Docgauge-Event": "completed",
		"X-Docgauge-Delivery": delivery(journal.Event{ID: 1, At: start}), "X-Docgauge-Signature": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), want)
		}
	}
	if got.Method != http.MethodPost || got.RequestURI != "/hook?token=x" || string(body) != want {
		t.Errorf("%s %s %s", got.Method, got.RequestURI, body)
	}
}

func TestNoSecretNoSignature(t *testing.T) {
	r, o := &receiver{answer: answering(200)}, &outbox{}
	o.add(start, "completed")
	n, err := NewNotifier(Receiver{URL: target, Transport: r, Now: time.Now}, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, signed := r.got[0].Header["X-Docgauge-Signature"]; signed {
		t.Error("signed without a secret")
	}
}

// TestAtLeastOnce: a receiver that fails for hours gets each notification in the
// end, and the pauses grow to an hour.
func TestAtLeastOnce(t *testing.T) {
	for _, status := range []int{0, 302, 404, 429, 500} {
		now := start
		r, o := &receiver{answer: answering(status)}, &outbox{}
		o.add(start, "completed", "failed", "paused")
		n := notifier(t, r, o, func() time.Time { return now }, io.Discard)
		var pauses []time.Duration
		for range 12 {
			next, err := n.Deliver(t.Context())
			if err != nil || next.IsZero() {
				t.Fatalf("status %d: %v, %v", status, next, err)
			}
			pauses = append(pauses, next.Sub(now))
			now = next
		}
		if pauses[0] != 10*time.Second || pauses[1] != 20*time.Second || pauses[11] != time.Hour {
			t.Errorf("status %d: pauses %v", status, pauses)
		}
		if len(o.notes) != 3 {
			t.Errorf("status %d: %d notifications left", status, len(o.notes))
		}
		r.answer, r.got = answering(200), nil
		for len(o.notes) > 0 {
			next, err := n.Deliver(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			now = next
		}
		if kinds := slices.Sorted(slices.Values(r.kinds())); !slices.Equal(kinds, []string{"completed", "failed", "paused"}) {
			t.Errorf("status %d: %v came", status, kinds)
		}
	}
}

// TestPoison: a notification that the receiver never accepts does not block the others.
func TestPoison(t *testing.T) {
	now := start
	r, o := &receiver{answer: func(kind string) int {
		if kind == "poison" {
			return 400
		}
		return 200
	}}, &outbox{}
	o.add(start, "poison", "a", "b", "c")
	n := notifier(t, r, o, func() time.Time { return now }, io.Discard)
	for range 2 {
		next, err := n.Deliver(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		now = next
	}
	if len(o.notes) != 1 || o.notes[0].Kind != "poison" {
		t.Errorf("left %+v", o.notes)
	}
}

func TestGivesUpAfterThreeDays(t *testing.T) {
	now := start
	var log bytes.Buffer
	o := &outbox{}
	o.add(start, "failed")
	n := notifier(t, &receiver{answer: answering(500)}, o, func() time.Time { return now }, &log)
	tries := 0
	for len(o.notes) > 0 {
		next, err := n.Deliver(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(o.notes) > 0 && next.IsZero() {
			t.Fatal("nothing to do next")
		}
		tries++
		if !next.IsZero() {
			now = next
		}
	}
	if age := now.Sub(start); age < 72*time.Hour || age > 74*time.Hour || !strings.Contains(log.String(), "notification given up") {
		t.Errorf("given up after %v and %d tries:\n%s", age, tries, log.String())
	}
}

func TestClockSetBack(t *testing.T) {
	now := start
	r, o := &receiver{answer: answering(500)}, &outbox{}
	o.add(start, "failed")
	n := notifier(t, r, o, func() time.Time { return now }, io.Discard)
	if _, err := n.Deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-365 * 24 * time.Hour)
	r.answer = answering(200)
	if next, err := n.Deliver(t.Context()); err != nil || len(o.notes) > 0 {
		t.Errorf("with the clock a year back it waits until %v: %v", next, err)
	}
}

// TestNothingSecret: the path and query of the URL and the secret are in no error or log.
func TestNothingSecret(t *testing.T) {
	var log bytes.Buffer
	o := &outbox{}
	o.add(start, "failed")
	n := notifier(t, &receiver{answer: answering(0)}, o, func() time.Time { return start }, &log)
	if _, err := n.Deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	said := log.String() + fmt.Sprint(n.post(t.Context(), o.notes[0]))
	if !strings.Contains(said, "refused") || !strings.Contains(said, "hooks.example.com") {
		t.Errorf("it does not say what happened: %s", said)
	}
	for _, secret := range []string{"T0KEN", "qu3ry", "s3cret"} {
		if strings.Contains(said, secret) {
			t.Errorf("%s is in %s", secret, said)
		}
	}
}

func TestCheckURL(t *testing.T) {
	for _, good := range []string{target, "http://127.0.0.1:8080/x", "http://localhost/x", "http://[::1]:1/", "https://h.example.com"} {
		if _, err := NewNotifier(Receiver{URL: config.Secret(good)}, nil); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "hooks.example.com/T0KEN", "http://hooks.example.com/T0KEN", "ftp://127.0.0.1/T0KEN", "https://user:T0KEN@example.com", "https:///T0KEN", "http://127.0.0.1.example.com/T0KEN", "https://h/\x00T0KEN"} {
		_, err := NewNotifier(Receiver{URL: config.Secret(bad)}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "DOCGAUGE_NOTIFY_URL: ") || strings.Contains(err.Error(), "T0KEN") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestRedirectIsNotFollowed over a real socket.
func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	o := &outbox{}
	o.add(start, "completed")
	n, err := NewNotifier(Receiver{URL: config.Secret(server.URL), Now: func() time.Time { return start }}, o)
	if err != nil {
		t.Fatal(err)
	}
	if next, err := n.Deliver(t.Context()); err != nil || next.IsZero() || elsewhere > 0 || len(o.notes) != 1 {
		t.Errorf("next %v, %v; %d requests elsewhere, %d left", next, err, elsewhere, len(o.notes))
	}
}

// TestRun: it wakes for a note, waits after a failure and ends with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var status, came atomic.Int32
		status.Store(503)
		r, o := &receiver{answer: func(string) int { came.Add(1); return int(status.Load()) }}, &outbox{}
		n := notifier(t, r, o, time.Now, io.Discard)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); n.Run(ctx) }()
		synctest.Wait()
		o.add(time.Now(), "completed")
		n.Wake()
		n.Wake()
		synctest.Wait()
		if came.Load() != 1 {
			t.Errorf("%d deliveries at once", came.Load())
		}
		status.Store(200)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if came.Load() != 1 {
			t.Errorf("%d deliveries in the pause", came.Load())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if came.Load() != 2 {
			t.Errorf("%d deliveries after it", came.Load())
		}
		cancel()
		<-ended
		if len(o.notes) != 0 {
			t.Errorf("left %+v", o.notes)
		}
	})
}

// TestRunOutlivesTheOutbox: an outbox that cannot be read does not end it.
func TestRunOutlivesTheOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := &outbox{fail: errors.New("the disk is gone")}
		n := notifier(t, &receiver{answer: answering(200)}, o, time.Now, &log)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		n.Run(ctx)
		if got := strings.Count(log.String(), "the disk is gone"); got != 1 {
			t.Errorf("said %d times", got)
		}
	})
}

// slowReceiver answers after a long time, or never.
type slowReceiver struct{}

func (slowReceiver) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outbox{}
		o.add(time.Now(), "completed")
		n := notifier(t, slowReceiver{}, o, time.Now, io.Discard)
		began := time.Now()
		if next, err := n.Deliver(t.Context()); err != nil || next.Sub(began) != timeout+firstPause {
			t.Errorf("next after %v, %v", next.Sub(began), err)
		}
		time.Sleep(firstPause)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Deliver(ctx); !errors.Is(err, context.DeadlineExceeded) || o.notes[0].Tries != 1 {
			t.Errorf("cut off: %v, tries %d", err, o.notes[0].Tries)
		}
	})
}
