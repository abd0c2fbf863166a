// Package testbed has the helpers that tests of several packages share: a sandbox in the test's
// process, logs, scrapes, and waiting.
package testbed

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// Patience is the time that a test waits for a condition.
const Patience = 2 * time.Minute

// Log is a log that many goroutines write to.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write adds to it.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String returns everything that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// client keeps no connection, for servers come and go.
var client = http.Client{Timeout: Patience, Transport: &http.Transport{DisableKeepAlives: true}}

// Fetch gets an address.
func Fetch(ctx context.Context, url string) (status int, body string, err error) {
	return Ask(ctx, http.MethodGet, url)
}

// Ask is Fetch by another method.
func Ask(ctx context.Context, method, url string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// Series are the values of a scrape by name and labels, as the text has them.
type Series map[string]float64

// ParseSeries reads the classic text format. A timestamp is an error.
func ParseSeries(text string) (Series, error) {
	all := Series{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil || at < 0 || strings.Contains(line[strings.LastIndexByte(line, '}')+1:at], " ") {
			return nil, fmt.Errorf("no sample without a timestamp: %q (%w)", line, err)
		}
		all[line[:at]] = value
	}
	return all, nil
}

// Only returns the Series whose names are wanted.
func (all Series) Only(wanted func(name string) bool) Series {
	some := Series{}
	for name, value := range all {
		if strings.HasPrefix(name, "docgauge_") && wanted(name) {
			some[name] = value
		}
	}
	return some
}

// Rested reports whether the last run had ended when the snapshot was begun: an
// older one may have a part from before it.
func (all Series) Rested() bool {
	return all["docgauge_snapshot_timestamp_seconds"] > all["docgauge_export_last_completion_timestamp_seconds"]
}

// Fallen lists the Series of ours that only ever rise and that are lower than
// before, or gone.
func Fallen(before, now Series) (down []string) {
	for name, value := range before.Only(Rises) {
		if after, there := now[name]; !there || after < value {
			down = append(down, fmt.Sprintf("%s from %v to %v (there: %v)", name, value, after, there))
		}
	}
	slices.Sort(down)
	return down
}

// Rises says of a Series whether it is a counter or part of a histogram.
func Rises(name string) bool {
	name, _, _ = strings.Cut(name, "{")
	return slices.ContainsFunc([]string{"_total", "_bucket", "_count", "_sum"},
		func(end string) bool { return strings.HasSuffix(name, end) })
}

// Poll waits until done, or for an error, or too long.
func Poll(what string, done func() (bool, error)) error {
	for end := time.Now().Add(Patience); ; time.Sleep(10 * time.Millisecond) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("waited %v: %s", Patience, what)
		}
	}
}

// Check ends the test with an error.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Await fails the test if done stays false.
func Await(t *testing.T, what string, done func() bool) {
	t.Helper()
	Check(t, Poll(what, func() (bool, error) { return done(), nil }))
}

// Service is a sandbox that can die.
type Service struct {
	*sandbox.Sandbox
	URL string
	// Stop ends it; a second call does nothing.
	Stop func()
}

func NewService(t *testing.T, c sandbox.Config) *Service {
	t.Helper()
	NotAtMidnight()
	s, err := sandbox.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := sandbox.Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(ctx, ln)
	}()
	die := func() { stop(); <-served }
	t.Cleanup(die)
	return &Service{s, "http://" + ln.Addr().String(), die}
}

// NotAtMidnight waits for the next day if this one ends before a test may: the day
// that the test calls yesterday would be the day before.
func NotAtMidnight() {
	if left := time.Until(DaysAgo(-1).Time()); left < 5*time.Minute {
		time.Sleep(left + time.Second)
	}
}

// DaysAgo is a date relative to today.
func DaysAgo(n int) analytics.Date { return analytics.DateOf(time.Now()) - analytics.Date(n) }

// bubbleVariable has the name of the test that a child process runs in a bubble.
const bubbleVariable = "TESTBED_BUBBLE"

// InBubble reports whether this process runs a test for [Bubble].
func InBubble() bool { return os.Getenv(bubbleVariable) != "" }

// Bubble runs f with a fake clock in a child process, which gets the arguments: the pools of the
// compression library outlive a bubble, and their contents must not be used outside it.
func Bubble(t *testing.T, f func(*testing.T), args ...string) {
	t.Helper()
	if os.Getenv(bubbleVariable) == t.Name() {
		synctest.Test(t, f)
		return
	}
	parts := strings.Split(t.Name(), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	child := exec.CommandContext(t.Context(), os.Args[0], append([]string{
		"-test.run=" + strings.Join(parts, "/"), "-test.v", "-test.timeout=30m"}, args...)...)
	child.Env = append(os.Environ(), bubbleVariable+"="+t.Name())
	out, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
		return
	}
	t.Logf("%s", out)
}
