package cli

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// oddService answers a create by a word in its prompt, and counts creates.
type oddService struct {
	answers map[string]oddAnswer
	read    string // the job that every read finds
	// held, unless nil, keeps each create waiting until it is closed.
	held chan struct{}

	mu      sync.Mutex
	creates []string
}

type oddAnswer struct {
	status     int
	body       string
	retryAfter string
}

func (s *oddService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, s.read)
		return
	}
	var body struct{ Prompt string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	word, _, _ := strings.Cut(body.Prompt, " ")
	s.mu.Lock()
	s.creates = append(s.creates, word)
	s.mu.Unlock()
	if s.held != nil {
		<-s.held
	}
	w.Header().Set("Content-Type", "application/json")
	if after := s.answers[word].retryAfter; after != "" {
		w.Header().Set("Retry-After", after)
	}
	w.WriteHeader(s.answers[word].status)
	_, _ = io.WriteString(w, s.answers[word].body)
}

func (s *oddService) created() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.creates...)
}

const (
	goodJob = `{"id":"job_good","status":"active","source":{"repository":"r","ref":"main"},"model":"m",` +
		`"prLink":null,"createdAt":"2026-11-21T12:00:00Z"}`
	goodEnd = `{"id":"job_good","status":"completed","prLink":"https://example.com/pr/1",` +
		`"createdAt":"2026-11-21T12:00:00Z"}`
)

// queuePlace is a place with prompts that are not new.
func queuePlace(t *testing.T, s *testbed.Service, prompts map[string]string, more ...string) place {
	t.Helper()
	p := placeFor(t, s, []string{sandbox.DefaultProject}, slices.Concat([]string{
		"DOCGAUGE_PROMPTS_DIR=prompts", "DOCGAUGE_PROMPTS_ON_NEW_STATE=submit", "DOCGAUGE_POLL_INTERVAL=1s",
	}, more)...)
	for name, text := range prompts {
		writePrompt(t, filepath.Join(p.dir, "prompts", name), text)
	}
	return p
}

// try runs a command and returns its exit code, standard output and error.
func (p place) try(t *testing.T, args ...string) (code int, out, log string) {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd := p.command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// oddPlace is a place whose service is s, with a prompt for each of the words.
func oddPlace(t *testing.T, s *oddService, words ...string) place {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	prompts := map[string]string{}
	for _, word := range words {
		prompts[word+".md"] = word + " and more"
	}
	return queuePlace(t, &testbed.Service{URL: server.URL}, prompts)
}

// TestJobsOddAnswers: refused prompts are rejected, an invalid answer,
// or that of another prompt, leaves the prompt in doubt; the others continue, and
// nothing is sent again.
func TestJobsOddAnswers(t *testing.T) {
	t.Parallel()
	s := &oddService{read: goodEnd, answers: map[string]oddAnswer{
		"a-bad":  {status: http.StatusBadRequest, body: `{"error":"prompt: no thanks"}`},
		"b-good": {status: http.StatusCreated, body: goodJob},
		"c-odd":  {status: http.StatusCreated, body: `{"ok":true}`},
		"d-long": {status: http.StatusRequestEntityTooLarge, body: `{"error":"too long"}`},
		"e-same": {status: http.StatusCreated, body: goodJob},
	}}
	p := oddPlace(t, s, "a-bad", "b-good", "c-odd", "d-long", "e-same")
	for range 2 { // the second run finds nothing to do
		if code, _, stderr := p.try(t, "jobs", "run", "--wait"); code != exitFailed {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		if diff := cmp.Diff([]string{"a-bad", "b-good", "c-odd", "d-long", "e-same"}, s.created()); diff != "" {
			t.Fatal(diff)
		}
	}
	var list jobList
	check(t, json.Unmarshal(p.run(t, "jobs", "list", "--json"), &list))
	got := map[string]journal.State{}
	reasons := ""
	for _, j := range list.Jobs {
		got[j.Prompt] = j.State
		reasons += j.Reason + "\n"
	}
	want := map[string]journal.State{"a-bad.md": journal.Rejected, "b-good.md": journal.Completed,
		"c-odd.md": journal.Unknown, "d-long.md": journal.Rejected, "e-same.md": journal.Unknown}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{
		"the service says: prompt: no thanks (HTTP 400 Bad Request", "no usable id of a job",
		"HTTP 413", "job_good is the id of job 2 of prompt b-good.md",
	} {
		if !strings.Contains(reasons, text) {
			t.Errorf("no reason says %q:\n%s", text, reasons)
		}
	}
	plan := string(p.run(t, "jobs", "plan"))
	if !strings.Contains(plan, "docgauge jobs resolve 3 --job-id ID (it is there), --resubmit") {
		t.Errorf("plan does not say what to do:\n%s", plan)
	}
}

// TestJobsThrottled: after a 429 nothing of the project is sent for as long as the
// service says, or five minutes where it does not say, in other processes too. The
// queue asks sooner, and learns that from the budget.
func TestJobsThrottled(t *testing.T) {
	t.Parallel()
	for retryAfter, want := range map[string]time.Duration{"": 5 * time.Minute, "1800": 30 * time.Minute} {
		t.Run("Retry-After "+retryAfter, func(t *testing.T) {
			t.Parallel()
			s := &oddService{answers: map[string]oddAnswer{"a": {status: http.StatusTooManyRequests,
				body: `{"error":"slow down"}`, retryAfter: retryAfter}}}
			p := oddPlace(t, s, "a", "b")
			began := time.Now()
			p.run(t, "jobs", "run")
			if next := p.tries(t); next.Sub(began) < time.Minute {
				time.Sleep(time.Until(next))
			}
			p.run(t, "jobs", "run")
			if diff := cmp.Diff([]string{"a"}, s.created()); diff != "" {
				t.Error(diff)
			}
			if wait := p.tries(t).Sub(began).Round(time.Minute); wait != want {
				t.Errorf("the next try is after %v, want %v", wait, want)
			}
		})
	}
}

// tries returns when the prompts, which all wait, are tried again.
func (p place) tries(t *testing.T) (next time.Time) {
	t.Helper()
	var plan []jobs.Planned
	check(t, json.Unmarshal(p.run(t, "jobs", "plan", "--json"), &plan))
	for _, planned := range plan {
		if planned.State != journal.Pending || planned.Until.IsZero() {
			t.Errorf("%s is %s: %s", planned.ID, planned.State, planned.Reason)
		}
		if next.IsZero() || planned.Until.Before(next) {
			next = planned.Until
		}
	}
	return next
}

// TestJobsFolder: a folder that cannot be used is a mistake in the configuration, in
// every command that needs it, and nothing is sent.
func TestJobsFolder(t *testing.T) {
	t.Parallel()
	s := &oddService{answers: map[string]oddAnswer{"a": {status: http.StatusCreated, body: goodJob}}}
	for name, tc := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"missing": {os.RemoveAll, "no such file or directory: make the folder or mount it; without a queue, " +
			"unset the variable"},
		"world-writable": {func(dir string) error { return os.Chmod(dir, 0o777) }, "anyone can write to it"},
		"a file": {func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		}, "not a directory"},
	} {
		p := oddPlace(t, s, "a")
		check(t, tc.spoil(filepath.Join(p.dir, "prompts")))
		for _, command := range []string{
			"jobs lint", "jobs plan", "jobs run", "jobs run --wait", "jobs add x",
			"jobs hold a.md", "jobs retry a.md", "serve",
		} {
			code, _, stderr := p.try(t, strings.Fields(command)...)
			if code != exitUsage || !strings.Contains(stderr, "DOCGAUGE_PROMPTS_DIR: ") ||
				!strings.Contains(stderr, tc.want) {
				t.Errorf("%s: %s: exit code %d\n%s", name, command, code, stderr)
			}
		}
	}
	if got := s.created(); len(got) > 0 {
		t.Errorf("sent: %v", got)
	}
}
