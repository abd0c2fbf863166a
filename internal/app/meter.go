package app

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/budget"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	meterEvery   = time.Second
	meterTimeout = 15 * time.Second
)

// meter counts requests and their results until they are written to the state. Only the written
// counts are shown, so that no counter falls after a crash.
type meter struct {
	// labels returns the labels of a key.
	labels func(name string) []string
	// writing is locked by one flush at a time, so that a flag never overwrites a later one. Requests do
	// not wait for it.
	writing sync.Mutex

	mu        sync.Mutex
	collected tallies // since the last write
	written   time.Time
	answered  map[string]bool // the labels of keys that were accepted since takeAnswered
}

// tallies are the results of some requests.
type tallies struct {
	counts   map[state.Count]int64 // by name and labels
	observed map[state.Observation]amount
	rejected map[string]bool // by the labels of the keys that were sent
}

type amount struct {
	count int64
	sum   time.Duration
}

func newTallies() tallies {
	return tallies{map[state.Count]int64{}, map[state.Observation]amount{}, map[string]bool{}}
}

// newMeter returns an empty meter; labels returns the labels of a key.
func newMeter(labels func(name string) []string) *meter {
	return &meter{labels: labels, collected: newTallies(), answered: map[string]bool{}}
}

// Observe counts a request. Many goroutines call it.
func (m *meter) Observe(a docsapi.Attempt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.collected
	code := "error" // no response
	if a.Status != 0 {
		code = strconv.Itoa(a.Status)
	}
	now.counts[state.Count{Name: "api_requests_total", Labels: state.Labels("endpoint", a.Endpoint, "code", code)}]++
	burst := a.RetryAfter > 0 && a.RetryAfter <= budget.ShortThrottle
	if a.Status == http.StatusTooManyRequests && !burst {
		now.counts[state.Count{Name: "api_foreign_throttles_total"}]++
	}
	at := state.Observation{
		Name: "api_request_duration_seconds", Labels: state.Labels("endpoint", a.Endpoint),
		Bucket: view.Bucket(a.Duration),
	}
	sum := now.observed[at]
	now.observed[at] = amount{sum.count + 1, sum.sum + a.Duration}
	switch {
	case a.Status == http.StatusUnauthorized && !a.IsReport():
		now.rejected[state.Labels(m.labels(a.Key)...)] = true
	case a.Status/100 == 2:
		labels := state.Labels(m.labels(a.Key)...)
		now.rejected[labels], m.answered[labels] = false, true
	}
}

// refuse notes that a key was refused for everything that it was sent for. One refusal does not show that: the
// service may refuse a project, or a report.
func (m *meter) refuse(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collected.rejected[state.Labels(m.labels(key)...)] = true
}

// takeAnswered returns the labels of the keys that were accepted, and forgets them.
func (m *meter) takeAnswered() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.answered
	m.answered = map[string]bool{}
	return taken
}

// tallier stores counts, observations and flags: [state.DB].
type tallier interface {
	Tally(ctx context.Context, counts []state.Count, observed []state.Observation, flags []state.Flag) error
}

// Flush writes the collected counts, or keeps them if that fails. Requests that are observed during
// the write are left for the next flush.
func (m *meter) Flush(ctx context.Context, db tallier) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	taken := m.collected
	m.collected, m.written = newTallies(), time.Now()
	m.mu.Unlock()
	err := taken.write(ctx, db)
	if err != nil {
		m.mu.Lock()
		m.collected.follow(taken)
		m.mu.Unlock()
	}
	return err
}

func (t tallies) write(ctx context.Context, db tallier) error {
	if len(t.counts) == 0 && len(t.rejected) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), meterTimeout)
	defer cancel()
	var counts []state.Count
	for c, n := range t.counts {
		c.Value = n
		counts = append(counts, c)
	}
	var observed []state.Observation
	for o, a := range t.observed {
		o.Count, o.Sum = a.count, a.sum
		observed = append(observed, o)
	}
	var flags []state.Flag
	for labels, on := range t.rejected {
		flags = append(flags, state.Flag{Name: keyRejected, Labels: labels, On: on})
	}
	return db.Tally(ctx, counts, observed, flags)
}

// follow adds tallies from before t.
func (t tallies) follow(before tallies) {
	for c, n := range before.counts {
		t.counts[c] += n
	}
	for o, a := range before.observed {
		sum := t.observed[o]
		t.observed[o] = amount{sum.count + a.count, sum.sum + a.sum}
	}
	for labels, on := range before.rejected {
		if _, asked := t.rejected[labels]; !asked {
			t.rejected[labels] = on
		}
	}
}

// Due reports whether the last flush was a while ago.
func (m *meter) Due() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.written) >= meterEvery
}
