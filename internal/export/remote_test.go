package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	// late is how long closed windows change, and lateStep how often.
	late     = 60 * time.Hour
	lateStep = 7 * time.Hour
)

// remote is the service of a simulation, on the far side of the client and the
// budget. Its windows change until they are late old.
type remote struct {
	process func() error // an error where the process that asks is dead

	mu       sync.Mutex
	rand     *rand.Rand
	calm     bool // no failures
	down     time.Time
	arrivals []time.Time
	asked    map[place][]time.Time
}

func (s *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := s.process(); err != nil {
		return nil, err
	}
	time.Sleep(s.delay())
	q := req.URL.Query()
	var at place
	at.project = strings.Split(req.URL.Path, "/")[3]
	if err := at.From.UnmarshalText([]byte(q.Get("dateFrom"))); err != nil {
		return nil, err
	}
	if err := at.To.UnmarshalText([]byte(q.Get("dateTo"))); err != nil {
		return nil, err
	}
	offset, _ := strconv.Atoi(q.Get("offset"))
	limit, _ := strconv.Atoi(q.Get("limit"))
	status := s.arrive(at)
	body := []byte(`{"error": "not now"}`)
	if status == http.StatusOK {
		body = answer(at, time.Now(), offset, limit)
	}
	time.Sleep(s.delay())
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(body)), Request: req}, nil
}

func (s *remote) delay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.rand.IntN(1500)) * time.Millisecond
}

// arrive notes a request and returns its status.
func (s *remote) arrive(at place) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.arrivals = append(s.arrivals, now)
	s.asked[at] = append(s.asked[at], now)
	switch n := s.rand.IntN(1000); {
	case s.calm:
		return http.StatusOK
	case now.Before(s.down):
		return http.StatusServiceUnavailable
	case n == 0:
		s.down = now.Add(time.Duration(s.rand.IntN(30)) * time.Hour)
		return http.StatusServiceUnavailable
	case n < 3:
		return http.StatusTooManyRequests
	case n < 20:
		return http.StatusInternalServerError
	}
	return http.StatusOK
}

// content is what a window holds at a time.
func content(at place, now time.Time) []analytics.Row {
	version := int(max(0, min(now.Sub(at.To.Time()), late)) / lateStep)
	h := fnv.New32()
	fmt.Fprint(h, at.project, at.From, at.To)
	return rowsOf(int(h.Sum32()%600)+20*min(at.Days(), 31)+version*3, version)
}

func answer(at place, now time.Time, offset, limit int) []byte {
	type counts struct {
		Path  string `json:"path,omitempty"`
		Human int64  `json:"human"`
		AI    int64  `json:"ai"`
		Total int64  `json:"total"`
	}
	rows := content(at, now)
	t := totalsOf(rows)
	visitors := []counts{}
	for _, r := range rows[min(offset, len(rows)):min(offset+limit, len(rows))] {
		visitors = append(visitors, counts{r.Path, r.Human, r.AI, r.Total})
	}
	body, err := json.Marshal(map[string]any{
		"totals": counts{Human: t.Human, AI: t.AI, Total: t.Total}, "visitors": visitors, "hasMore": offset+limit < len(rows),
	})
	if err != nil {
		panic(err) // a fault of the test
	}
	return body
}
