package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var noon = time.Date(2026, 10, 14, 12, 0, 30, 0, time.UTC)

// host is a code host in memory: one link for each branch, and what was shown last.
type host struct {
	mu    sync.Mutex
	links map[string]string
	last  map[string]Proposal
	err   error
}

func newHost() *host { return &host{links: map[string]string{}, last: map[string]Proposal{}} }

func (h *host) Propose(_ context.Context, p Proposal) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return "", h.err
	}
	if h.links[p.Branch] == "" {
		h.links[p.Branch] = "/pr/" + string(rune('1'+len(h.links)))
	}
	h.last[p.Branch] = p
	return h.links[p.Branch], nil
}

// config is a good one; the zero parts of c are filled in.
func config(c Config) Config {
	c.Workers = max(c.Workers, 1)
	c.Source, c.Model = Source{"docs", "main"}, "model"
	if c.Editor == nil {
		c.Editor = Pretend{}
	}
	if c.Host == nil {
		c.Host = newHost()
	}
	if c.Now == nil {
		c.Now = func() time.Time { return noon }
	}
	c.Logger = slog.New(slog.DiscardHandler)
	return c
}

func open(t testing.TB, c Config) *Jobs {
	t.Helper()
	s, err := Open(config(c))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeJobs(t testing.TB, s *Jobs) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func create(t testing.TB, s *Jobs, prompt string) string {
	t.Helper()
	j, err := s.Create("p", prompt)
	if err != nil {
		t.Fatal(err)
	}
	return j.ID
}

func send(t testing.TB, s *Jobs, id, prompt string) {
	t.Helper()
	if _, err := s.Message("p", id, prompt); err != nil {
		t.Fatal(err)
	}
}

// atRest waits in a bubble until no worker is busy, and returns all jobs.
func atRest(s *Jobs) []Record {
	time.Sleep(24 * time.Hour)
	synctest.Wait()
	return s.All()
}

func journalText(t testing.TB, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, JournalName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// untilStarted waits until work on a job has begun, and is in the journal.
func untilStarted(t testing.TB, dir string) {
	t.Helper()
	for text := ""; !strings.Contains(text, started) || !strings.HasSuffix(text, "\n"); text = journalText(t, dir) {
		time.Sleep(time.Millisecond)
	}
}

func writeJournal(t testing.TB, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, JournalName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
