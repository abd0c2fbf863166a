package events

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/state"
)

const childEnv = "DOCGAUGE_NOTIFY_TEST_CHILD"

// TestMain is also the process that is killed: "<when> <state directory> <URL>".
func TestMain(m *testing.M) {
	role := strings.Fields(os.Getenv(childEnv))
	if len(role) != 3 {
		os.Exit(m.Run())
	}
	if err := deliverAndDie(role[0], role[1], role[2]); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// The moments at which a process is killed.
const (
	entered = "entered" // the note is in the outbox, nothing was sent
	sending = "sending" // it is entered that it is sent; the request did not leave
	sent    = "sent"    // the receiver has answered; nothing was entered
)

func deliverAndDie(when, dir, url string) error {
	db, err := state.Open(dir)
	if err != nil {
		return err
	}
	err = db.Report(context.Background(), state.Report{Events: []journal.Event{{Kind: "digest", At: start, Body: []byte(`{"event":"digest","text":"x"}`)}}})
	if err != nil {
		return err
	}
	if when == entered {
		die()
	}
	n, err := NewNotifier(Receiver{URL: config.Secret(url), Transport: deadly{when}, Now: func() time.Time { return start }}, db)
	if err == nil {
		_, err = n.Deliver(context.Background())
	}
	return err
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// deadly kills the process before it sends, or after the answer.
type deadly struct{ when string }

func (d deadly) RoundTrip(req *http.Request) (*http.Response, error) {
	if d.when == sending {
		die()
	}
	resp, err := newTransport().RoundTrip(req)
	if d.when == sent {
		die()
	}
	return resp, err
}

// TestKilled kills the sender at each step. Every notification arrives; it arrives
// twice only if the first was in doubt, and the second says so, with the same id.
func TestKilled(t *testing.T) {
	for when, want := range map[string]struct {
		arrives int
		marked  bool
	}{
		entered: {1, false},
		sending: {1, true},
		sent:    {2, true},
	} {
		t.Run(when, func(t *testing.T) {
			var mu sync.Mutex
			var ids, bodies []string
			var marks []bool
			receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				body, _ := io.ReadAll(r.Body)
				ids, bodies = append(ids, r.Header.Get("X-Docgauge-Delivery")), append(bodies, string(body))
				marks = append(marks, r.Header.Get("X-Docgauge-Possibly-Repeated") == "true")
			}))
			defer receiver.Close()
			dir := t.TempDir()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"="+when+" "+dir+" "+receiver.URL)
			if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != -1 {
				t.Fatalf("it was not killed: %v\n%s", err, out)
			}
			db, err := state.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			now := start.Add(time.Second)
			n, err := NewNotifier(Receiver{URL: config.Secret(receiver.URL), Now: func() time.Time { return now }}, db)
			if err != nil {
				t.Fatal(err)
			}
			next, err := n.Deliver(t.Context())
			if lease := start.Add(lease); when != entered && !next.Equal(lease) {
				t.Errorf("while another process may be sending it: next %v, %v; want %v", next, err, lease)
			}
			now = start.Add(lease)
			if next, err = n.Deliver(t.Context()); err != nil || !next.IsZero() {
				t.Fatalf("next %v, %v", next, err)
			}
			last := len(ids) - 1
			if len(ids) != want.arrives || marks[last] != want.marked || ids[0] != ids[last] {
				t.Errorf("arrived as %v, marked %v", ids, marks)
			}
			var body struct {
				Delivery         string
				PossiblyRepeated bool `json:"possibly_repeated"`
			}
			if err := json.Unmarshal([]byte(bodies[last]), &body); err != nil || body.PossiblyRepeated != want.marked || body.Delivery != ids[0] {
				t.Errorf("%s: %v", bodies[last], err)
			}
		})
	}
}

// TestInDoubt: which failures may have arrived all the same, by the mark of the next try.
func TestInDoubt(t *testing.T) {
	for name, tc := range map[string]struct {
		first http.HandlerFunc
		want  bool
	}{
		"404":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, false},
		"429":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, false},
		"redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, false},
		"500":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, true},
		"cut off":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			var marks []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if marks = append(marks, r.Header.Get("X-Docgauge-Possibly-Repeated")); len(marks) == 1 {
					tc.first(w, r)
				}
			}))
			defer server.Close()
			if marked := secondTry(t, server.URL, func() string { return marks[1] }); marked != tc.want {
				t.Errorf("the second is marked: %v, want %v", marked, tc.want)
			}
		})
	}
}

// secondTry delivers one note until it is delivered, and returns whether the last try
// was marked.
func secondTry(t *testing.T, url string, mark func() string) bool {
	t.Helper()
	now := start
	o := &outbox{}
	o.add(start, "completed")
	n, err := NewNotifier(Receiver{URL: config.Secret(url), Now: func() time.Time { return now }}, o)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		next, err := n.Deliver(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		now = next.Add(time.Minute) // the pauses are spread
	}
	if len(o.notes) > 0 {
		t.Fatalf("left %+v", o.notes)
	}
	return mark() == "true"
}

// TestNoConnection: nothing left this machine, so the next try is no repetition.
func TestNoConnection(t *testing.T) {
	r, o := &receiver{answer: answering(0)}, &outbox{}
	o.add(start, "completed")
	now := start
	n := notifier(t, r, o, func() time.Time { return now }, io.Discard)
	next, err := n.Deliver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now, r.answer = next, answering(200)
	if _, err := n.Deliver(t.Context()); err != nil || len(r.got) != 1 || r.got[0].Header.Get("X-Docgauge-Possibly-Repeated") != "" {
		t.Errorf("%v, %d arrived: %v", err, len(r.got), r.got[0].Header)
	}
}
