package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	clijobs "github.com/docgauge/docgauge/internal/cli/jobs"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/journal"
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

// TestJobsOddAnswers: refused prompts are rejected, an invalid answer, or an answer for another prompt, leaves the
// prompt in doubt; the others continue, and nothing is sent again.
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
	var list clijobs.List
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

// TestCapOnOpenPullsOverProcesses: three processes at once, over 50 prompts, open as many
// pull requests as the cap allows, with and without a token.
func TestCapOnOpenPullsOverProcesses(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "ghp_any"} {
		s := testbed.NewService(t, sandbox.Config{Agent: sandbox.Agent{After: 10 * time.Millisecond}})
		files := map[string]string{}
		for i := range 50 {
			files[fmt.Sprintf("%02d.md", i)] = fmt.Sprintf("Do %d.", i)
		}
		p := queuePlace(t, s, files, "DOCGAUGE_MAX_OPEN_PULL_REQUESTS=4", "DOCGAUGE_MAX_JOBS_PER_DAY=0",
			"DOCGAUGE_MAX_ACTIVE_JOBS=0",
			"DOCGAUGE_GITHUB_URL="+s.URL+"/github", "DOCGAUGE_GITHUB_TOKEN="+token)
		for range 2 {
			var processes sync.WaitGroup
			for range 3 {
				processes.Go(func() {
					if code, _, stderr := p.try(t, "jobs", "run", "--wait"); code != exitDone && code != exitLocked {
						t.Errorf("exit code %d: %s", code, stderr)
					}
				})
			}
			processes.Wait()
			_, body, err := testbed.Fetch(t.Context(),
				s.URL+"/github/repos/docgauge/sandbox/pulls?state=all&per_page=100")
			var pulls []struct{ Number int }
			if err != nil || json.Unmarshal([]byte(body), &pulls) != nil || len(pulls) != 4 {
				t.Errorf("%d pull requests, %v: %.300s", len(pulls), err, body)
			}
		}
	}
}

// TestTenThousandPrompts has jobs lint and jobs plan read a folder of 10,000 files,
// one of them wrong. Each gives one answer that a person can read: a line for each
// prompt or finding, in order, and how many there are.
func TestTenThousandPrompts(t *testing.T) {
	engines.Long(t)
	t.Parallel()
	const n = 10_000
	dir := t.TempDir()
	for i := range n {
		writePrompt(t, filepath.Join(dir, "prompts", fmt.Sprintf("%02d", i%20), fmt.Sprintf("%05d.md", i)),
			fmt.Sprintf("---\nid: p-%d\ntitle: Page %d\n---\nUpdate page %d.\n", i, i, i))
	}
	writePrompt(t, filepath.Join(dir, "prompts", "wrong.md"), "---\ntilte: x\n---\nText.\n")

	lint := bounded(t, dir, exitFailed, "jobs", "lint")
	if want := `^wrong\.md:2: .*tilte.*\n10,001 prompts, 1 invalid\n$`; !regexp.MustCompile(want).Match(lint) {
		t.Errorf("lint says %.500q, want %s", lint, want)
	}
	plan := bounded(t, dir, exitDone, "jobs", "plan")
	lines := strings.Split(strings.TrimRight(string(plan), "\n"), "\n")
	if len(lines) != n+2 {
		t.Fatalf("plan says %d lines: %.500q", len(lines), plan)
	}
	for i, want := range map[int]string{
		0:     `^ *# +prompt +state +why`,
		1:     `^ *1 +p-0 +pending +goes with the next pass`,
		10:    `^ *10 +p-180 +pending +goes with the next pass`,
		11:    `^ *11 +p-200 +pending +10 jobs in 24 h \(DOCGAUGE_MAX_JOBS_PER_DAY is 10\)`,
		n:     `^ *10000 +p-9999 +pending +10 jobs in 24 h`,
		n + 1: `^ *- +wrong\.md +invalid +wrong\.md:2: tilte`,
	} {
		if !regexp.MustCompile(want).MatchString(lines[i]) {
			t.Errorf("line %d of plan is %q, want %s", i+1, lines[i], want)
		}
	}
}

// most is the memory that such a command may take at the most.
const most = 300 << 20

// bounded runs a command that must end with code, and returns its output.
func bounded(t *testing.T, dir string, code int, args ...string) []byte {
	t.Helper()
	var stderr bytes.Buffer
	cmd := place{dir, append(os.Environ(), "DOCGAUGE_PROJECTS=prj", "DOCGAUGE_PROMPTS_DIR=prompts",
		"DOCGAUGE_PROMPTS_ON_NEW_STATE=submit", "DOCGAUGE_MAX_ACTIVE_JOBS=0")}.command(args...)
	cmd.Stderr = &stderr
	began := time.Now()
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != code {
		t.Fatalf("docgauge %s: %v\n%.2000s%.2000s", strings.Join(args, " "), err, out, stderr.String())
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if ok && runtime.GOOS == "linux" && usage.Maxrss<<10 > most {
		t.Errorf("docgauge %s took %d MiB", strings.Join(args, " "), usage.Maxrss>>10)
	}
	t.Logf("docgauge %s: %v, %d MiB, %d bytes", strings.Join(args, " "), time.Since(began).Round(time.Millisecond),
		usage.Maxrss>>10, len(out))
	return out
}
