package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/facts"
)

var pushKills = flag.Int("push-kills", 4, "how often TestDrains kills site serve; `make torture` uses 200")

// drain is how a host pushes the lines of its log.
type drain struct {
	name string
	line func(r drained) string
	// body is what a batch is sent as, and its Content-Encoding.
	body func(lines []string) (text []byte, encoding string)
	// hasIDs: the host gives each request an id, so that batches may overlap.
	hasIDs bool
}

// drained is a request that a host has logged.
type drained struct {
	number              int
	at                  time.Time
	client, path, agent string
}

const drainedAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

func ndjson(lines []string) ([]byte, string) { return []byte(strings.Join(lines, "\n") + "\n"), "" }

var drains = []drain{
	{"vercel", func(r drained) string { // a line for the request, and one for each message
		line := fmt.Sprintf(`{"id":"%d","deploymentId":"dpl","source":"lambda","requestId":"req-%[1]d","proxy":{"timestamp":%d,`+
			`"method":"GET","host":"docs.example.com","path":%q,"userAgent":[%q],"clientIp":%q,"statusCode":200}}`, r.number,
			r.at.UnixMilli(), r.path, r.agent, r.client)
		return line + "\n" + strings.Replace(line, `"proxy"`, `"message":"hello","proxy"`, 1)
	}, ndjson, true},
	{"netlify", func(r drained) string {
		return fmt.Sprintf(`{"client_ip":%q,"log_type":"traffic","method":"GET","status_code":200,"timestamp":%d,`+
			`"url":"https://docs.example.com%s","user_agent":%q}`, r.client, r.at.UnixMilli(), r.path, r.agent)
	}, func(lines []string) ([]byte, string) { return []byte("[" + strings.Join(lines, ",\n") + "]"), "" }, false},
	{"logpush", func(r drained) string {
		return fmt.Sprintf(`{"RayID":"%016x","ClientIP":%q,"ClientRequestHost":"docs.example.com","ClientRequestMethod":"GET",`+
			`"ClientRequestURI":%q,"ClientRequestUserAgent":%q,"ClientRequestSource":"eyeball","EdgeResponseStatus":200,`+
			`"EdgeStartTimestamp":%d}`, r.number, r.client, r.path, r.agent, r.at.UnixNano())
	}, func(lines []string) ([]byte, string) {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		text, _ := ndjson(lines)
		_, err := z.Write(text)
		if err = errors.Join(err, z.Close()); err != nil {
			panic(err) // it is written to memory
		}
		return packed.Bytes(), "gzip"
	}, true},
	{"fastly", func(r drained) string {
		return fmt.Sprintf(`docs.example.com %s - - [%s] "GET %s HTTP/1.1" 200 5 "-" %q`, r.client,
			r.at.Format("02/Jan/2006:15:04:05 -0700"), r.path, r.agent)
	}, ndjson, false},
}

// TestDrains: hosts of four kinds push lines to the real binary, which is killed again and again. They send a batch
// again until they have its answer, lose answers, send batches that were taken once more, in another order and, where
// they give ids, with lines of other batches. In the end each request counts once.
func TestDrains(t *testing.T) {
	var sources []string
	for _, d := range drains {
		sources = append(sources, "prj_"+d.name+"=http:"+d.name)
	}
	p := place{t.TempDir(), append(os.Environ(), "DOCGAUGE_SITE_LOGS="+strings.Join(sources, ","),
		"DOCGAUGE_SITE_LISTEN_ADDRESS=127.0.0.1:0", "DOCGAUGE_SITE_METRICS_ADDRESS=127.0.0.1:0")}
	var url atomic.Pointer[string]
	var isOver atomic.Bool
	var starts atomic.Int64
	var sending sync.WaitGroup
	hosts := make([]*host, len(drains))
	for i, d := range drains {
		key := strings.TrimSpace(string(p.run(t, "site", "keys", "add", "--scope", "ingest", "--project", "prj_"+d.name)))
		hosts[i] = &host{drain: d, key: key, url: &url, isOver: &isOver, starts: &starts, hits: map[string]int64{}}
		for range 3 {
			sending.Go(hosts[i].send)
		}
	}
	for range *pushKills {
		s := p.serve(t, "site", "serve")
		url.Store(&s.URL)
		starts.Add(1)
		time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
		s.kill()
	}
	s := p.serve(t, "site", "serve")
	url.Store(&s.URL)
	isOver.Store(true)
	sending.Wait()
	s.stop(t)
	store, err := facts.Attach(filepath.Join(p.dir, "site"))
	check(t, err)
	defer store.Close()
	today := analytics.DateOf(time.Now())
	for _, h := range hosts {
		got, readers := map[string]int64{}, map[string]int64{}
		for day := today - 1; day <= today; day++ {
			check(t, store.Facts(t.Context(), "prj_"+h.name, day, func(f facts.Fact) error {
				got[f.Path] += int64(f.Requests)
				return nil
			}))
		}
		answer, err := store.CountVisitors(t.Context(), "prj_"+h.name, today-1, today+1, analytics.Claimed)
		check(t, err)
		for _, row := range answer.Rows {
			readers[row.Path] = row.Human
		}
		// Each request has a separate reader.
		for name, numbers := range map[string]map[string]int64{"requests": got, "readers": readers} {
			if diff := gocmp.Diff(h.hits, numbers); diff != "" || len(h.hits) == 0 {
				t.Errorf("%s: %s (-want, +got): %.2000s", h.name, name, diff)
			}
		}
		t.Logf("%s: %d requests in %d batches, sent %d times, %d kills", h.name, h.requests, h.batches, h.sent.Load(),
			*pushKills)
	}
	p.run(t, "site", "check")
}

// host is a host that pushes.
type host struct {
	drain
	key    string
	url    *atomic.Pointer[string]
	isOver *atomic.Bool
	starts *atomic.Int64 // of site serve
	sent   atomic.Int64

	mu       sync.Mutex
	requests int
	batches  int
	hits     map[string]int64 // requests of each page
	pending  [][]string       // batches without an answer, and some that had one
	former   []string         // lines of the last batches
}

// perStart bounds the requests that a host logs for each start of site serve.
const perStart = 500

// next returns a batch to send: one that waits, or a new one; nil when all were sent.
func (h *host) next() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	isFull := h.requests >= perStart*int(h.starts.Load())
	if n := len(h.pending); n > 0 && (h.isOver.Load() || isFull || rand.IntN(2) == 0) {
		at := rand.IntN(n)
		batch := h.pending[at]
		h.pending = slices.Delete(h.pending, at, at+1)
		return batch
	}
	if h.isOver.Load() || isFull {
		return nil
	}
	var lines []string
	for range 1 + rand.IntN(30) {
		n := h.requests
		r := drained{number: n, at: time.Now(), client: fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255),
			path: fmt.Sprintf("/page%d", rand.IntN(500)), agent: drainedAgent}
		h.requests++
		h.hits[r.path]++
		lines = append(lines, h.line(r))
	}
	h.batches++
	if h.hasIDs && rand.IntN(2) == 0 {
		for range min(len(h.former), 5) {
			lines = append(lines, h.former[rand.IntN(len(h.former))])
		}
	}
	h.former = slices.Clone(lines)
	return lines
}

// send sends batches until all are taken.
func (h *host) send() {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for {
		lines := h.next()
		if lines == nil {
			if h.isOver.Load() {
				return
			}
			time.Sleep(pause)
			continue
		}
		isTaken := h.post(client, lines)
		if !isTaken || !h.isOver.Load() && rand.IntN(10) == 0 {
			h.mu.Lock()
			h.pending = append(h.pending, lines)
			h.mu.Unlock()
		}
		time.Sleep(pause)
	}
}

// post sends a batch, and reports whether its answer came and was 200.
func (h *host) post(client *http.Client, lines []string) bool {
	url := h.url.Load()
	if url == nil {
		return false
	}
	patience := 10 * time.Second
	if !h.isOver.Load() && rand.IntN(4) == 0 { // the answer is lost
		patience = time.Duration(rand.IntN(40)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text, encoding := h.body(lines)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, *url+"/v1/ingest/"+h.name, bytes.NewReader(text))
	if err != nil {
		return false
	}
	r.Header.Set("Authorization", "Bearer "+h.key)
	if encoding != "" {
		r.Header.Set("Content-Encoding", encoding)
	}
	h.sent.Add(1)
	answer, err := client.Do(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close()) == nil && answer.StatusCode == http.StatusOK
}
