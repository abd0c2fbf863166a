package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sandbox"
)

const (
	// awaited is how long a test waits for what must come.
	awaited = 2 * time.Minute
	// stopped is how long serve may take to end after SIGTERM.
	stopped = 30 * time.Second
	// polled is the time between two looks.
	polled = 10 * time.Millisecond
	// never is a schedule that does not fire while a test runs.
	never = "0 0 29 2 *"
)

// sidecar is a `docgauge serve` by the real binary.
type sidecar struct {
	url   string
	log   string // the file that has what it said
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process was waited for
}

// startSidecar starts serve in dir, on a free port unless env says otherwise, and
// returns when it has said where. What it says is added to log.
func startSidecar(dir, log string, env []string, args ...string) (*sidecar, error) {
	binary, err := exec.LookPath("docgauge")
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	before, err := out.Stat()
	if err != nil {
		return nil, err
	}
	s := &sidecar{log: log, cmd: exec.Command(binary, append([]string{"serve"}, args...)...), ended: make(chan struct{})}
	s.cmd.Dir, s.cmd.Env = dir, append([]string{"DOCGAUGE_LISTEN_ADDRESS=127.0.0.1:0", "DOCGAUGE_SCHEDULE=" + never}, env...)
	s.cmd.Stdout, s.cmd.Stderr = out, out
	dieWithUs(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait() // ProcessState has how
		close(s.ended)
	}()
	if s.url, err = s.where(int(before.Size())); err != nil {
		s.kill()
	}
	return s, err
}

var whereItServes = regexp.MustCompile(`status page and metrics at (https?://\S+)/ and`)

// where waits for the line that says so, after the first bytes of the log.
func (s *sidecar) where(after int) (url string, err error) {
	err = poll("serve has said where", func() (bool, error) {
		text, err := os.ReadFile(s.log)
		if err != nil {
			return false, err
		}
		if found := whereItServes.FindSubmatch(text[after:]); found != nil {
			url = string(found[1])
			return true, nil
		}
		select {
		case <-s.ended:
			return false, fmt.Errorf("serve ended with %v:\n%s", s.cmd.ProcessState, text[after:])
		default:
			return false, nil
		}
	})
	return url, err
}

// kill ends it as a power cut would.
func (s *sidecar) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// exit waits for its end and returns the exit code.
func (s *sidecar) exit() (code int, err error) {
	select {
	case <-s.ended:
		return s.cmd.ProcessState.ExitCode(), nil
	case <-time.After(stopped):
		return 0, errors.Join(fmt.Errorf("serve goes on after %v", stopped), s.cmd.Process.Signal(syscall.SIGQUIT))
	}
}

// stop ends it with SIGTERM.
func (s *sidecar) stop(t *testing.T) {
	t.Helper()
	err := s.cmd.Process.Signal(syscall.SIGTERM)
	code, exitErr := s.exit()
	if err := errors.Join(err, exitErr); err != nil || code != exitDone {
		t.Fatalf("exit code %d, %v", code, err)
	}
}

// client keeps no connection, for servers come and go.
var client = http.Client{Timeout: awaited, Transport: &http.Transport{DisableKeepAlives: true}}

// fetch gets an address.
func fetch(ctx context.Context, url string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
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

// page returns what the sidecar serves at a path with status 200.
func (s *sidecar) page(t *testing.T, path string) string {
	t.Helper()
	status, body, err := fetch(t.Context(), s.url+path)
	if err != nil || status != http.StatusOK {
		t.Fatalf("GET %s: status %d, %v\n%s", path, status, err, body)
	}
	return body
}

// metrics is a scrape.
func (s *sidecar) metrics(t *testing.T) series {
	t.Helper()
	all, err := parseSeries(s.page(t, "/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// awaitRuns scrapes until so many runs have had the outcome, and nothing has
// changed since.
func (s *sidecar) awaitRuns(t *testing.T, outcome string, n float64) series {
	t.Helper()
	var all series
	await(t, fmt.Sprintf("%v %s runs", n, outcome), func() bool {
		all = s.metrics(t)
		return all[`docgauge_export_runs_total{outcome="`+outcome+`"}`] == n && all.rested()
	})
	return all
}

// series are the values of a scrape by name and labels, as the text has them.
type series map[string]float64

// parseSeries reads the classic text format. A timestamp is an error.
func parseSeries(text string) (series, error) {
	all := series{}
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

// only returns the series of ours that keep says yes to.
func (all series) only(keep func(name string) bool) series {
	some := series{}
	for name, value := range all {
		if strings.HasPrefix(name, "docgauge_") && keep(name) {
			some[name] = value
		}
	}
	return some
}

// rested reports whether the last run had ended when the snapshot was begun: one
// that is made meanwhile may have a part from before.
func (all series) rested() bool {
	return all["docgauge_snapshot_timestamp_seconds"] > all["docgauge_export_last_completion_timestamp_seconds"]
}

// poll waits until done, or for an error, or too long.
func poll(what string, done func() (bool, error)) error {
	for end := time.Now().Add(awaited); ; time.Sleep(polled) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("waited %v in vain: %s", awaited, what)
		}
	}
}

// await fails the test where it waits in vain.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	if err := poll(what, func() (bool, error) { return done(), nil }); err != nil {
		t.Fatal(err)
	}
}

// service is a sandbox that can die.
type service struct {
	*sandbox.Sandbox
	url string
	die func()
}

func serviceOf(t *testing.T, c sandbox.Config) *service {
	t.Helper()
	notAtMidnight()
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
	return &service{s, "http://" + ln.Addr().String(), die}
}

// place is where the real binary runs, and with what.
type place struct {
	dir string
	env []string
}

// placeFor is a new directory with the variables of a service, and then more.
func placeFor(t *testing.T, s *service, projects []string, more ...string) place {
	t.Helper()
	own := []string{
		"DOCGAUGE_BASE_URL=" + s.url, "DOCGAUGE_PROJECTS=" + strings.Join(projects, ","), "DOCGAUGE_API_KEY=" + sandbox.DefaultAPIKey,
		"DOCGAUGE_BUDGET=0",
	}
	return place{t.TempDir(), slices.Concat(os.Environ(), own, more)}
}

// serve starts a sidecar, which ends with the test at the latest.
func (p place) serve(t *testing.T, args ...string) *sidecar {
	t.Helper()
	s, err := startSidecar(p.dir, filepath.Join(p.dir, "serve.log"), p.env, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		if text, err := os.ReadFile(s.log); err == nil && t.Failed() {
			t.Logf("%s", text[max(0, len(text)-8<<10):])
		}
	})
	return s
}

// run runs a command that must succeed and returns its standard output.
func (p place) run(t *testing.T, args ...string) []byte {
	t.Helper()
	var said strings.Builder
	cmd := exec.Command("docgauge", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = p.dir, p.env, &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docgauge %s: %v\n%s%s", strings.Join(args, " "), err, out, said.String())
	}
	return out
}

// notAtMidnight waits for the next day if this one ends before a test may: what
// the test calls yesterday would be the day before.
func notAtMidnight() {
	if left := time.Until(daysAgo(-1).Time()); left < 5*time.Minute {
		time.Sleep(left + time.Second)
	}
}

// daysAgo is a date relative to today.
func daysAgo(n int) analytics.Date { return analytics.DateOf(time.Now()) - analytics.Date(n) }
