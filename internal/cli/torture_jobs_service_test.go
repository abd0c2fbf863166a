package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/docgauge/docgauge/internal/site/api"
)

const tortureKey = "torture_key"

var tortureProjects = []string{"prj_a", "prj_b", "prj_c", "prj_d"}

// Behaviours of the service towards prompts, for so many runs each; docgauge waits one
// second for an answer.
var (
	calm = "--agent-latency 10ms"
	// lossy accepts, and then the answer is lost, is 502, or comes too late.
	lossy = "--agent-latency 10ms --agent-drop-every 11 --agent-502-every 13 --agent-stall 3s --agent-stall-every 17"
	moods = []string{
		lossy,
		"--agent-latency 10ms --agent-drop-every 3",
		"--agent-latency 20ms --agent-429-every 4 --retry-after 1s",
		"--agent-latency 5ms --agent-502-every 3 --agent-drop-every 4",
		calm,
		"--agent-latency 1200ms", // it accepts after docgauge gave up
		"--agent-429-every 5 --retry-after 1s --agent-drop-every 3 --agent-502-every 7",
		"--agent-stall 3s --agent-stall-every 3",
	}
	// throttlingForLong has no Retry-After: a project waits five minutes and more.
	throttlingForLong = "--agent-latency 10ms --agent-429-every 15 --agent-drop-every 6"
)

// torturedService is the sandbox in another process, behind a gate at address. Both end together, so that a service
// that has died refuses connections.
type torturedService struct {
	address, behind, dir string
	cmd                  *exec.Cmd
	gate                 *gate
	front                *httptest.Server
	// closed: it has had its turn to throttle without Retry-After.
	closed bool
	deaths int
	// read is the length of the journal that was counted, and taken its prompts.
	read  int64
	taken int
}

func newTorturedService(t *testing.T) *torturedService {
	behind := freeAddress(t)
	s := &torturedService{address: freeAddress(t), behind: behind, dir: t.TempDir(), gate: newGate(t, "http://"+behind)}
	t.Cleanup(s.kill)
	s.restart(t, calm)
	return s
}

// freeAddress is one that the system does not give to others.
func freeAddress(t *testing.T) string {
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(12_000+rand.IntN(18_000)))
		if ln, err := net.Listen("tcp", address); err == nil {
			check(t, ln.Close())
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

// restart ends the service as it may end, and starts it in another mood.
func (s *torturedService) restart(t *testing.T, mood string) {
	s.stop(t)
	s.cmd = exec.Command("docgauge", append([]string{"sandbox", "--listen", s.behind, "--data", s.dir, "--api-key",
		tortureKey, "--request-log", s.requests(),
		"--project", strings.Join(tortureProjects, ","), "--agent-duration", "200ms", "--agent-workers", "100"},
		strings.Fields(mood)...)...)
	dieWithUs(s.cmd)
	var stderr bytes.Buffer
	s.cmd.Stderr = &stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	check(t, err)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, s.behind) {
		t.Fatalf("the sandbox stderr %q: %v %s", line, err, stderr.String())
	}
	ln, err := net.Listen("tcp", s.address)
	check(t, err)
	s.front = &httptest.Server{Listener: ln, Config: &http.Server{Handler: s.gate}}
	s.front.Start()
}

func (s *torturedService) requests() string { return filepath.Join(s.dir, "requests.jsonl") }

// answered counts the creates and messages that had that status; 0 counts requests whose connection was closed.
func (s *torturedService) answered(t *testing.T) map[int]int {
	text, err := os.ReadFile(s.requests())
	check(t, err)
	n := map[int]int{}
	for line := range bytes.Lines(text) {
		var r api.Request
		if json.Unmarshal(line, &r) == nil && r.Method == http.MethodPost {
			n[r.Status]++
		}
	}
	return n
}

// stop lets it finish its requests.
func (s *torturedService) stop(t *testing.T) {
	if s.cmd == nil {
		return
	}
	check(t, s.cmd.Process.Signal(syscall.SIGTERM))
	_ = s.cmd.Wait() // says that requests were cut off
	s.front.Close()
	s.cmd = nil
}

// kill ends it in the middle of its requests.
func (s *torturedService) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.front.CloseClientConnections()
	s.front.Close()
	s.cmd = nil
	s.deaths++
}

// accepted counts creates and messages that were accepted so far.
func (s *torturedService) accepted(t *testing.T) int {
	file, err := os.Open(filepath.Join(s.dir, "jobs.ndjson"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	check(t, err)
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, s.read, 1<<30))
	check(t, err)
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	s.read += int64(len(whole))
	s.taken += bytes.Count(whole, []byte(`"event":"created"`)) + bytes.Count(whole, []byte(`"event":"message"`))
	return s.taken
}

// taken is the record of one prompt at the service: the jobs it made of it, and
// the numbers of the follow-ups in the order they came.
type taken struct {
	jobs     []string
	messages []int
}

var taskForm = regexp.MustCompile(`Task (\S+?)(?:, follow-up (\d+))?\.`)

// truth reads the accepted requests, by prompt. The service must not run.
func (s *torturedService) truth(t *testing.T) map[string]*taken {
	text, err := os.ReadFile(filepath.Join(s.dir, "jobs.ndjson"))
	check(t, err)
	all := map[string]*taken{}
	for line := range bytes.Lines(text) {
		var e struct{ Event, Job, Prompt string }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(fmt.Errorf("%q: %w", line, err))
		}
		task := taskForm.FindStringSubmatch(e.Prompt)
		switch {
		case e.Event != "created" && e.Event != "message":
			continue
		case task == nil:
			t.Fatalf("an unknown prompt: %q", e.Prompt)
		case all[task[1]] == nil:
			all[task[1]] = &taken{}
		}
		if of := all[task[1]]; e.Event == "created" {
			of.jobs = append(of.jobs, e.Job)
		} else {
			n, _ := strconv.Atoi(task[2])
			of.messages = append(of.messages, n)
		}
	}
	return all
}
