package remotewrite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/exp/api/remote"
	writev2 "github.com/prometheus/client_golang/exp/api/remote/genproto/v2"
	"google.golang.org/protobuf/proto"

	"github.com/docgauge/docgauge/exporter"
)

// transport answers requests without a network, so that time can be simulated.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// handled lets a handler answer.
func handled(h http.Handler) transport {
	return func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		response := w.Result()
		response.Request = r
		return response, nil
	}
}

// writer sends by protocol 2.0.
func writer(t *testing.T, to http.RoundTripper, retrying func(error)) *Writer {
	t.Helper()
	w, err := newWriter(&url.URL{Scheme: "http", Host: "store:9090", Path: "/write"}, remote.WriteV2MessageType, to,
		retrying)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// store keeps samples: of each series the values by time.
type store struct {
	series map[string]map[int64]float64
	// old are times that are refused, and with them their request.
	old     func(int64) bool
	refusal string
}

// Store is called by the client library's receiver.
func (s *store) Store(r *http.Request, _ remote.WriteMessageType) (*remote.WriteResponse, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var request writev2.Request
	if err := proto.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	response, samples := remote.NewWriteResponse(), 0
	for _, one := range request.Timeseries {
		for _, p := range one.Samples {
			if samples++; s.old(p.Timestamp) {
				response.SetStatusCode(http.StatusBadRequest)
				return response, errors.New(s.refusal)
			}
		}
	}
	if samples > batchSamples {
		return nil, fmt.Errorf("%d samples in one request", samples)
	}
	for _, one := range request.Timeseries {
		if help := request.Symbols[one.Metadata.HelpRef]; help != "Help." ||
			one.Metadata.Type != writev2.Metadata_METRIC_TYPE_GAUGE {
			return nil, fmt.Errorf("metadata %v, %s", one.Metadata, help)
		}
		s.keep(fmt.Sprint(writev2.DesymbolizeLabels(one.LabelsRefs, request.Symbols, nil)), one.Samples)
	}
	response.Samples = samples
	return response, nil
}

func (s *store) keep(name string, samples []*writev2.Sample) {
	if s.series[name] == nil {
		s.series[name] = map[int64]float64{}
	}
	for _, p := range samples {
		s.series[name][p.Timestamp] = p.Value
	}
}

func newStore() (*store, transport) {
	s := &store{series: map[string]map[int64]float64{}, refusal: "too old sample",
		old: func(int64) bool { return false }}
	return s, handled(remote.NewWriteHandler(s, remote.MessageTypes{remote.WriteV2MessageType}))
}

// start is the time of the first sample, in seconds.
const start = int64(1_790_000_000)

// fill adds samples of some series at so many hours, and what must be stored of them.
func fill(t *testing.T, w *Writer, count, hours int) map[string]map[int64]float64 {
	t.Helper()
	want := map[string]map[int64]float64{}
	for hour := range hours {
		for n := range count {
			path := fmt.Sprintf("/%d", n)
			s := exporter.Sample{
				Labels: []string{"path", path, "none", "", "__name__", "docgauge_pages"}, Help: "Help.",
				At: start + 3600*int64(hour), Value: float64(hour*1000 + n),
			}
			name := fmt.Sprint([]string{"__name__", "docgauge_pages", "path", path})
			if want[name] == nil {
				want[name] = map[int64]float64{}
			}
			want[name][1000*s.At] = s.Value
			if err := w.Add(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return want
}

func TestEverySampleArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to := newStore()
		w := writer(t, to, nil)
		want := fill(t, w, 70, 100)
		if diff := cmp.Diff(want, s.series); diff != "" {
			t.Error(diff)
		}
		got := Summary{Accepted: 7000, Requests: 4, Through: new(time.Unix(start+99*3600, 0).UTC())}
		if diff := cmp.Diff(got, w.Summary()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestRefusals: of a receiver that refuses a request for one old sample, everything
// that is young enough is accepted, and the rest is counted, with few requests.
func TestRefusals(t *testing.T) {
	const count, hours = 70, 200
	for _, refused := range [][]int64{ // pairs of hours, from and to
		{}, {0, 1}, {0, 27}, {0, 28}, {0, 29}, {0, 100}, {0, 171}, {0, 198}, {0, 199}, {0, 200}, {90, 91}, {50, 150},
		{101, 200}, {0, 40, 100, 140},
	} {
		s, to := newStore()
		var n, last int64
		for pair := range slices.Chunk(refused, 2) {
			n, last = n+count*(pair[1]-pair[0]), pair[1]-1
		}
		s.old = func(at int64) (old bool) {
			for pair := range slices.Chunk(refused, 2) {
				hour := (at/1000 - start) / 3600
				old = old || pair[0] <= hour && hour < pair[1]
			}
			return old
		}
		w := writer(t, to, nil)
		want := fill(t, w, count, hours)
		for name, values := range want {
			maps.DeleteFunc(values, func(at int64, _ float64) bool { return s.old(at) })
			if len(values) == 0 {
				delete(want, name)
			}
		}
		if diff := cmp.Diff(want, s.series); diff != "" {
			t.Errorf("%v: %s", refused, diff)
		}
		got := w.Summary()
		if got.Refused != n || got.Accepted != count*hours-n || got.Retries != 0 || got.Requests > 250 ||
			len(refused) <= 2 && got.Requests > 140 {
			t.Errorf("%v: %+v", refused, got)
		}
		if n > 0 && (got.Refusal != "too old sample" || got.RefusedThrough.Unix() != start+3600*last) {
			t.Errorf("%v: %q through %s", refused, got.Refusal, got.RefusedThrough)
		}
	}
}

// TestWordsOfRefusals: these refusals mean that a sample is too old, and are not failures.
func TestWordsOfRefusals(t *testing.T) {
	for _, tc := range []struct {
		status int
		text   string
		old    bool
	}{
		{400, "out of order sample", true},
		{400, "out of bounds", true},
		{400, "duplicate sample for timestamp", true},
		{500, "too old sample", true}, // Prometheus 2.42
		{400, "send data to ingesters: failed pushing to ingester: the sample has been rejected because its " +
			"timestamp is too old (err-mimir-sample-timestamp-too-old)", true},
		{400, "err-mimir-sample-out-of-order", true},
		{409, "store locally: conflict", true}, // Thanos
		{400, "label name is invalid", false},
		{400, "", false},
		{422, "out of order", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := writer(t, handled(http.HandlerFunc(func(w http.ResponseWriter,
				_ *http.Request) {
				http.Error(w, tc.text, tc.status)
			})), nil)
			err := errors.Join(w.Add(t.Context(), one), w.Close(t.Context()))
			if s := w.Summary(); (err == nil) != tc.old || (s.Refused == 1) != tc.old || s.Requests > 2 {
				t.Errorf("%d %s: %v, %+v", tc.status, tc.text, err, s)
			}
		})
	}
}

// script answers requests one after the other, the last answer again and again.
func script(steps ...transport) (transport, *int) {
	var n int
	return func(r *http.Request) (*http.Response, error) {
		step := steps[min(n, len(steps)-1)]
		n++
		return step(r)
	}, &n
}

func status(code int, header ...string) transport {
	return handled(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for pair := range slices.Chunk(header, 2) {
			w.Header().Set(pair[0], pair[1])
		}
		w.WriteHeader(code)
	}))
}

// cut is an answer that breaks off.
func cut(code int) transport {
	return func(r *http.Request) (*http.Response, error) {
		response, err := status(code)(r)
		response.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), errReader{}))
		return response, err
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func refusedConnection(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

var one = exporter.Sample{Labels: []string{"__name__", "x"}, Help: "Help.", At: start, Value: 1}

// TestRetries: failures that can pass are tried again, when the receiver says.
func TestRetries(t *testing.T) {
	for _, tc := range []struct {
		name       string
		steps      []transport
		least, max time.Duration
	}{
		{"overload", []transport{status(503)}, time.Second, 10 * time.Second},
		{"many", []transport{status(500), status(502), cut(504), refusedConnection}, 4 * time.Second, time.Minute},
		{"seconds", []transport{status(429, "Retry-After", "70")}, 71 * time.Second, 80 * time.Second},
		{"for ever", []transport{status(429, "Retry-After", "999999999")}, maxRetryAfter,
			maxRetryAfter + 10*time.Second},
		{"past", []transport{status(503, "Retry-After", "Fri, 01 Jan 1999 15:04:05 GMT")}, time.Second,
			10 * time.Second},
		{"far date", []transport{status(503, "Retry-After", "Fri, 02 Jan 2150 15:04:05 GMT")}, maxRetryAfter,
			maxRetryAfter + 10*time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s, to := newStore()
				steps, _ := script(append(tc.steps, to)...)
				var told []string
				w := writer(t, steps, func(err error) { told = append(told, err.Error()) })
				err := errors.Join(w.Add(t.Context(), one), w.Close(t.Context()))
				took := time.Since(began)
				if err != nil || len(s.series) != 1 || w.Summary().Retries != len(tc.steps) ||
					len(told) != len(tc.steps) || took < tc.least || took > tc.max {
					t.Errorf("%v after %s: %d series, %+v, told %q", err, took, len(s.series), w.Summary(), told)
				}
			})
		})
	}
}

// TestGivesUp: after some minutes, with what is wrong.
func TestGivesUp(t *testing.T) {
	for says, step := range map[string]transport{
		"remote write to store:9090: HTTP 503 Service Unavailable: it is overloaded or fails": status(503),
		"remote write to store:9090: connection refused: is it running and reachable?":        refusedConnection,
		"remote write to store:9090: unexpected EOF":                                          cut(500),
	} {
		synctest.Test(t, func(t *testing.T) {
			steps, n := script(step)
			w := writer(t, steps, nil)
			err := errors.Join(w.Add(t.Context(), one), w.Close(t.Context()))
			if err == nil || !strings.HasPrefix(err.Error(), says) || *n != maxRetries+1 || w.Summary().Requests != *n {
				t.Errorf("after %d requests, %+v: %v", *n, w.Summary(), err)
			}
		})
	}
}

// TestStops: a wait ends with its context, for its reason.
func TestStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("a signal")
		steps, n := script(status(503))
		w := writer(t, steps, func(error) { cancel(reason) })
		if err := errors.Join(w.Add(ctx, one), w.Close(ctx)); !errors.Is(err, reason) || *n != 1 {
			t.Errorf("after %d requests: %v", *n, err)
		}
	})
}
