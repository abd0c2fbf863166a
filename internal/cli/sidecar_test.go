package cli

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

const (
	// stopped is the time that serve may take to end after SIGTERM.
	stopped = 30 * time.Second
	// never is a schedule that does not fire while a test runs.
	never = "0 0 29 2 *"
)

// sidecar is a `docgauge serve` by the real binary.
type sidecar struct {
	URL   string
	log   string // the file with its output
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process was waited for
}

// startSidecar starts serve, or with args site serve, in dir, on a free port unless env says otherwise, and
// returns when it has logged its address. Its output is appended to log.
func startSidecar(dir, log string, env []string, args ...string) (*sidecar, error) {
	binary, err := exec.LookPath("docgauge")
	if err != nil {
		return nil, err
	}
	return startProgram(binary, dir, log, env, args...)
}

// startProgram is startSidecar of another binary.
func startProgram(binary, dir, log string, env []string, args ...string) (*sidecar, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	before, err := out.Stat()
	if err != nil {
		return nil, err
	}
	if len(args) == 0 || args[0] != "site" {
		args = append([]string{"serve"}, args...)
	}
	s := &sidecar{log: log, cmd: exec.Command(binary, args...), ended: make(chan struct{})}
	s.cmd.Dir, s.cmd.Env = dir, append([]string{"DOCGAUGE_LISTEN_ADDRESS=127.0.0.1:0", "DOCGAUGE_SCHEDULE=" + never,
		"DOCGAUGE_SITE_LISTEN_ADDRESS=127.0.0.1:0", "DOCGAUGE_SITE_METRICS_ADDRESS=127.0.0.1:0"}, env...)
	s.cmd.Stdout, s.cmd.Stderr = out, out
	dieWithUs(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait() // ProcessState has how
		close(s.ended)
	}()
	if s.URL, err = s.where(int(before.Size())); err != nil {
		s.kill()
	}
	return s, err
}

var whereItServes = regexp.MustCompile(
	`msg="(?:site )?serve started" .*url=(https?://[^\s/]+)|"msg":"serve started".*"url":"(https?://[^"/]+)"`)

// where waits for the line that says so, after the first bytes of the log.
func (s *sidecar) where(after int) (url string, err error) {
	err = testbed.Poll("serve has stderr where", func() (bool, error) {
		text, err := os.ReadFile(s.log)
		if err != nil {
			return false, err
		}
		if found := whereItServes.FindSubmatch(text[after:]); found != nil {
			url = string(found[1]) + string(found[2])
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
		return 0, errors.Join(fmt.Errorf("serve still runs %v later", stopped), s.cmd.Process.Signal(syscall.SIGQUIT))
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

// page returns the page that the sidecar serves at a path with status 200.
func (s *sidecar) page(t *testing.T, path string) string {
	t.Helper()
	status, body, err := testbed.Fetch(t.Context(), s.URL+path)
	if err != nil || status != http.StatusOK {
		t.Fatalf("GET %s: status %d, %v\n%s", path, status, err, body)
	}
	return body
}

// metrics is a scrape.
func (s *sidecar) metrics(t *testing.T) testbed.Series {
	t.Helper()
	all, err := testbed.ParseSeries(s.page(t, "/metrics"))
	check(t, err)
	return all
}

// awaitRuns scrapes until so many runs have had the outcome, and nothing has
// changed since.
func (s *sidecar) awaitRuns(t *testing.T, outcome string, n float64) testbed.Series {
	t.Helper()
	var all testbed.Series
	testbed.Await(t, fmt.Sprintf("%v %s runs", n, outcome), func() bool {
		all = s.metrics(t)
		return all[`docgauge_export_runs_total{outcome="`+outcome+`"}`] == n && all.Rested()
	})
	return all
}

// place is the directory and the environment that the real binary runs in.
type place struct {
	dir string
	env []string
}

// placeFor is a new directory with the variables of a service, and then more.
func placeFor(t *testing.T, s *testbed.Service, projects []string, more ...string) place {
	t.Helper()
	own := []string{
		"DOCGAUGE_BASE_URL=" + s.URL, "DOCGAUGE_PROJECTS=" + strings.Join(projects, ","),
		"DOCGAUGE_API_KEY=" + sandbox.DefaultAPIKey,
		"DOCGAUGE_BUDGET=0",
	}
	return place{t.TempDir(), slices.Concat(os.Environ(), own, more)}
}

// serve starts a sidecar, which ends with the test at the latest.
func (p place) serve(t *testing.T, args ...string) *sidecar {
	t.Helper()
	s, err := startSidecar(p.dir, filepath.Join(p.dir, "serve.log"), p.env, args...)
	check(t, err)
	t.Cleanup(func() {
		s.kill()
		if text, err := os.ReadFile(s.log); err == nil && t.Failed() {
			t.Logf("%s", text[max(0, len(text)-8<<10):])
		}
	})
	return s
}

// command is a command of the real binary.
func (p place) command(args ...string) *exec.Cmd {
	cmd := exec.Command("docgauge", args...)
	cmd.Dir, cmd.Env = p.dir, slices.Clone(p.env)
	return cmd
}

// run runs a command that must succeed and returns its standard output.
func (p place) run(t *testing.T, args ...string) []byte {
	t.Helper()
	code, out, log := p.try(t, args...)
	if code != exitDone {
		t.Fatalf("docgauge %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, log)
	}
	return []byte(out)
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
