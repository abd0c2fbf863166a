package main

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
)

const (
	// keyRejected is the flag that says that a key is refused; its labels are those
	// of [api.keyLabels].
	keyRejected  = "api_key_rejected"
	labelKey     = "key"
	meterEvery   = time.Second
	meterTimeout = 15 * time.Second
)

// meter collects what requests came to, until it is written to the state: what
// is shown is only what was written, so that no counter falls after a crash.
type meter struct {
	mu       sync.Mutex
	counts   map[state.Count]int64 // by name and labels
	observed map[state.Observation]amount
	rejected map[string]bool // by their labels, keys asked with since the last write
	written  time.Time
	// labels tells those of a key.
	labels func(name string) []string
}

type amount struct {
	count int64
	sum   time.Duration
}

func newMeter(labels func(name string) []string) *meter {
	m := &meter{labels: labels}
	m.clear()
	return m
}

func (m *meter) clear() {
	m.counts, m.observed, m.rejected = map[state.Count]int64{}, map[state.Observation]amount{}, map[string]bool{}
}

// observe is told each request, from many goroutines.
func (m *meter) observe(a docsapi.Attempt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[state.Count{Name: "api_requests_total", Labels: state.Labels("endpoint", a.Endpoint, "code", code(a.Status))}]++
	if a.Status == http.StatusTooManyRequests {
		m.counts[state.Count{Name: "api_foreign_throttles_total"}]++
	}
	at := state.Observation{Name: "api_request_duration_seconds", Labels: state.Labels("endpoint", a.Endpoint), Bucket: exporter.Bucket(a.Duration)}
	sum := m.observed[at]
	m.observed[at] = amount{sum.count + 1, sum.sum + a.Duration}
	switch {
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
		m.rejected[state.Labels(m.labels(a.Key)...)] = true
	case a.Status/100 == 2:
		m.rejected[state.Labels(m.labels(a.Key)...)] = false
	}
}

// code is the label of an HTTP status; error where no answer came.
func code(status int) string {
	if status == 0 {
		return "error"
	}
	return strconv.Itoa(status)
}

// flush writes what was collected; where that fails it stays collected.
func (m *meter) flush(ctx context.Context, db *state.DB) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.written = time.Now()
	if len(m.counts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), meterTimeout)
	defer cancel()
	var counts []state.Count
	for c, n := range m.counts {
		c.Value = n
		counts = append(counts, c)
	}
	var observed []state.Observation
	for o, a := range m.observed {
		o.Count, o.Sum = a.count, a.sum
		observed = append(observed, o)
	}
	var flags []state.Flag
	for labels, on := range m.rejected {
		flags = append(flags, state.Flag{Name: keyRejected, Labels: labels, On: on})
	}
	if err := db.Tally(ctx, counts, observed, flags); err != nil {
		return err
	}
	m.clear()
	return nil
}

// due reports whether the last flush is a while ago.
func (m *meter) due() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.written) >= meterEvery
}
