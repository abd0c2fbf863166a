package docsapi

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// refuser lets nothing through, like a budget that is used up.
type refuser struct{ http.RoundTripper }

func (refuser) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, refusedUntil{time.Now().Add(time.Minute)}
}

type refusedUntil struct{ at time.Time }

func (refusedUntil) Error() string        { return "the budget is used up" }
func (r refusedUntil) RetryAt() time.Time { return r.at }

func TestObserve(t *testing.T) {
	statuses := []int{http.StatusTooManyRequests, http.StatusOK}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status := statuses[0]
		statuses = statuses[1:]
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"humanVisitors":0,"aiVisitors":0,"totalVisitors":0,"visitors":[],"hasMore":false}`))
	}))
	defer server.Close()
	var mu sync.Mutex
	var seen []Attempt
	ask := func(base string, transport http.RoundTripper) {
		c, err := New(Config{BaseURL: base, APIKey: StaticKey("mint_secret"), Transport: transport,
			Observe: func(a Attempt) { mu.Lock(); seen = append(seen, a); mu.Unlock() }})
		if err != nil {
			t.Fatal(err)
		}
		c.once(t.Context())
	}
	ask(server.URL, nil)
	ask(server.URL, nil)
	ask(server.URL, refuser{})
	if len(seen) != 2 || seen[0].Status != http.StatusTooManyRequests || seen[1].Status != http.StatusOK {
		t.Fatalf("observed %+v, want a 429 and a 200, and nothing of what was refused", seen)
	}
	for _, a := range seen {
		if a.Endpoint != EndpointVisitors || a.Duration <= 0 || a.Duration > time.Minute {
			t.Errorf("observed %+v", a)
		}
	}
	seen = nil
	ask(refusing(t), nil)
	if len(seen) != 1 || seen[0].Status != 0 {
		t.Errorf("no connection: observed %+v", seen)
	}
}
