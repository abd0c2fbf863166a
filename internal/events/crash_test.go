package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
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
	entered = "entered" // the event is in the outbox, nothing was sent
	sending = "sending" // it is entered that it is sent; the request did not leave
	sent    = "sent"    // the receiver has answered; nothing was entered
)

func deliverAndDie(when, dir, url string) error {
	n, err := openNotifier(dir, url, func() time.Time { return start }, io.Discard)
	if err != nil {
		return err
	}
	if err := enter(n, "digest"); err != nil {
		return err
	}
	if when == entered {
		die()
	}
	n.transport = roundTripper(func(req *http.Request) (*http.Response, error) {
		if when == sending {
			die()
		}
		resp, err := newTransport().RoundTrip(req)
		if when == sent {
			die()
		}
		return resp, err
	})
	_, err = n.Deliver(context.Background())
	return err
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// TestKilled kills the sender at each step. Every event arrives; it arrives twice only if the
// first delivery was in doubt, and the second says so, with the same id.
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
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				body, _ := io.ReadAll(r.Body)
				ids, bodies = append(ids, r.Header.Get("X-Docgauge-Delivery")), append(bodies, string(body))
				marks = append(marks, r.Header.Get("X-Docgauge-Possibly-Repeated") == "true")
			}))
			defer server.Close()
			dir := t.TempDir()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"="+when+" "+dir+" "+server.URL)
			if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != -1 {
				t.Fatalf("it was not killed: %v\n%s", err, out)
			}
			now := start.Add(time.Second)
			n, err := openNotifier(dir, server.URL, func() time.Time { return now }, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			defer n.app.State.Close()
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
			err = json.Unmarshal([]byte(bodies[last]), &body)
			if err != nil || body.PossiblyRepeated != want.marked || body.Delivery != ids[0] {
				t.Errorf("%s: %v", bodies[last], err)
			}
		})
	}
}

// TestInDoubt: a delivery is marked as a possible repetition if the failed one before it may
// have arrived.
func TestInDoubt(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, tc := range map[string]struct {
		first http.HandlerFunc // nil: no connection
		want  string
	}{
		"no connection": {nil, ""},
		"404":           {status(http.StatusNotFound), ""},
		"429":           {status(http.StatusTooManyRequests), ""},
		"redirect":      {status(http.StatusFound), ""},
		"500":           {status(http.StatusInternalServerError), "true"},
		"cut off":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "true"},
	} {
		t.Run(name, func(t *testing.T) {
			var marks []string
			var tries atomic.Int32 // a connection that is cut off orders nothing between the two sides
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tries.Load() == 1 {
					tc.first(w, r)
				}
			}))
			defer server.Close()
			now := start
			n := notifier(t, server.URL, func() time.Time { return now }, io.Discard)
			n.transport = roundTripper(func(req *http.Request) (*http.Response, error) {
				marks = append(marks, req.Header.Get("X-Docgauge-Possibly-Repeated"))
				if tries.Add(1) == 1 && tc.first == nil {
					return nil, errors.New("connection refused")
				}
				return newTransport().RoundTrip(req)
			})
			add(t, n, "completed")
			for range 2 {
				deliver(t, n, &now)
			}
			if left := undelivered(t, n); len(marks) != 2 || len(left) > 0 || marks[1] != tc.want {
				t.Errorf("marked %q, want %q last of two; left %+v", marks, tc.want, left)
			}
		})
	}
}
