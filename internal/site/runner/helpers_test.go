package runner

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

func TestMain(m *testing.M) {
	if code, ok := Helper(os.Args[1:]); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

var noon = time.Date(2026, 10, 14, 12, 0, 30, 0, time.UTC)

// host is a code host in memory: one link for each branch, and its last change.
type host struct {
	mu    sync.Mutex
	links map[string]string
	last  map[string]Change
	err   error
}

func newHost() *host { return &host{links: map[string]string{}, last: map[string]Change{}} }

func (h *host) Propose(_ context.Context, _ Job, c Change, _ string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return "", h.err
	}
	if h.links[c.Branch] == "" {
		h.links[c.Branch] = "/pr/" + string(rune('1'+len(h.links)))
	}
	h.last[c.Branch] = c
	return h.links[c.Branch], nil
}

// config is a good one; the zero parts of c are filled in.
func config(o Options) Options {
	o.Workers = max(o.Workers, 1)
	o.Source, o.Model = func(string) Source { return Source{"docs", "main"} }, "model"
	if o.Editor == nil {
		o.Editor = pretend
	}
	if o.Host == nil {
		o.Host = newHost()
	}
	if o.Now == nil {
		o.Now = func() time.Time { return noon }
	}
	o.Logger = slog.New(slog.DiscardHandler)
	return o
}

var pretend = words{}

// words is an Editor of changes without a repository. A prompt with [sandbox:fail], [sandbox:archive],
// [sandbox:limit] or [sandbox:no-change] comes to that, one with [report:JSON] reports JSON, one with
// [sandbox:slow] takes nine hours, others take after.
type words struct{ after time.Duration }

func (w words) Edit(ctx context.Context, t Task) (r Result, err error) {
	if _, report, ok := strings.Cut(t.Prompt, "[report:"); ok {
		defer func() {
			r.Report = &Report{}
			err = errors.Join(err, json.NewDecoder(strings.NewReader(report)).Decode(r.Report))
		}()
	}
	has := func(word string) bool { return strings.Contains(t.Prompt, "[sandbox:"+word+"]") }
	if has("slow") {
		w.after = 9 * time.Hour
	}
	if err := clock.Sleep(ctx, w.after); err != nil {
		return Result{}, err
	}
	switch c := t.Last; {
	case has("limit"):
		return Result{Retries: maxRetries}, errLimit
	case has("fail"):
		return Result{}, errors.New("it was to fail")
	case has("archive"), has("no-change"):
		return Result{Change: c, Archive: has("archive")}, nil
	default:
		c.Branch, c.Base = BranchPrefix+t.Job, "base"
		c.Messages = append(slices.Clone(c.Messages), Subject(t.Prompt))
		c.Head = "head of " + strings.Join(c.Messages, ", ")
		return Result{Change: c}, nil
	}
}

func (words) Diff(_ context.Context, c Change) (string, error) { return c.Head, nil }

// link is the link of j's pull request, empty without one.
func link(j Job) string {
	if j.PRLink == nil {
		return ""
	}
	return *j.PRLink
}

func open(t testing.TB, o Options) *Queue {
	t.Helper()
	s, err := Open(config(o))
	check(t, err)
	return s
}

func closeQueue(t testing.TB, s *Queue) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func create(t testing.TB, s *Queue, prompt string) string {
	t.Helper()
	j, err := s.Create("p", prompt, "")
	check(t, err)
	return j.ID
}

func send(t testing.TB, s *Queue, id, prompt string) {
	t.Helper()
	if _, err := s.Message("p", id, prompt); err != nil {
		t.Fatal(err)
	}
}

// atRest waits in a bubble until no worker is busy, and returns all jobs.
func atRest(s *Queue) []Job {
	time.Sleep(24 * time.Hour)
	synctest.Wait()
	return s.All()
}

func journalText(t testing.TB, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, journalName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// untilStarted waits until work on a job has begun, and is in the journal.
func untilStarted(t testing.TB, dir string) {
	t.Helper()
	for text := ""; !strings.Contains(text, eventStarted) ||
		!strings.HasSuffix(text, "\n"); text = journalText(t, dir) {
		time.Sleep(time.Millisecond)
	}
}

func writeJournal(t testing.TB, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, journalName), []byte(text), 0o600))
	return dir
}

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
