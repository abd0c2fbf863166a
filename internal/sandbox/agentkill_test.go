package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// childConfig is the variable that makes the test binary a sandbox.
const childConfig = "SANDBOX_CHILD"

func TestMain(m *testing.M) {
	if code, ok := runner.Helper(os.Args[1:]); ok {
		os.Exit(code)
	}
	if text := os.Getenv(childConfig); text != "" {
		child(text)
		return
	}
	os.Exit(engines.ShareChromium(m))
}

// childRepo is a Repo as it goes through the environment.
type childRepo struct{ Data, Path, Command, CodeHost, CodeHostURL, Project string }

// childToken is the token for the code host of a child.
const childToken = "token-of-the-child"

func child(text string) {
	var r childRepo
	err := json.Unmarshal([]byte(text), &r)
	var s *Sandbox
	if err == nil {
		s, err = New(Config{DataDir: r.Data, Agent: Agent{Workers: 2,
			Repo: &runner.RepoOptions{Path: r.Path, Command: r.Command, CodeHost: r.CodeHost, CodeHostURL: r.CodeHostURL,
				Project: r.Project, Token: func() (string, error) { return childToken, nil }}}})
	}
	ln, lnErr := Listen("127.0.0.1:0", false)
	if err != nil || lnErr != nil {
		fmt.Println("error:", err, lnErr)
		os.Exit(1)
	}
	fmt.Println("http://" + ln.Addr().String())
	_ = s.Serve(context.Background(), ln)
}

// startChild starts a sandbox in another process.
func startChild(t *testing.T, r childRepo) (base string, process *os.Process) {
	t.Helper()
	text, err := json.Marshal(r)
	check(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), childConfig+"="+string(text)), os.Stderr
	cmd.SysProcAttr = diesWithUs
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		home := os.Getenv("HOME")
		waitFor(t, "its processes to end", func() bool { return goneFrom(home) })
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "http://") {
		t.Fatalf("child: %q %v", line, err)
	}
	return strings.TrimSpace(line), cmd.Process
}

// ask1 asks for a job, or for something of one.
func ask1(t *testing.T, method, url, body string) runner.Job {
	t.Helper()
	j, err := tryToAsk(method, url, body)
	check(t, err)
	return j
}

func tryToAsk(method, url, body string) (j runner.Job, err error) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return j, err
	}
	r.Header.Set("Authorization", "Bearer "+DefaultAPIKey)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return j, err
	}
	defer resp.Body.Close()
	if err = json.NewDecoder(resp.Body).Decode(&j); err == nil && resp.StatusCode > 299 {
		err = fmt.Errorf("%s %s: %s", method, url, resp.Status)
	}
	return j, err
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
	}
}

// TestKilledInTheMiddle kills the process while commands of its jobs run, after
// they have made their own commit: all is done once after the restart, and
// nothing of the interrupted work is in it.
func TestKilledInTheMiddle(t *testing.T) {
	repo := engines.GitRepository(t)
	signs := t.TempDir()
	// The command hangs until the file go is there, and says when it has begun.
	command := fmt.Sprintf(`cd . && read line; echo "$line" >> new.md; git add new.md
		git -c user.name=Bot -c user.email=bot@x commit -qm "bot: $line"; echo "$line" >> rest.md
		touch %[1]s/begun-$line; while [ ! -e %[1]s/go ]; do sleep 0.01; done`, signs)
	r := childRepo{Data: t.TempDir(), Path: repo, Command: command}
	base, process := startChild(t, r)
	one := ask1(t, http.MethodPost, base+jobs, promptBody("one\n")).ID
	two := ask1(t, http.MethodPost, base+jobs, promptBody("two\n")).ID
	ask1(t, http.MethodPost, base+jobs+"/"+one+"/message", promptBody("three\n"))
	for _, line := range []string{"one", "two"} {
		waitFor(t, line, func() bool { _, err := os.Stat(filepath.Join(signs, "begun-"+line)); return err == nil })
	}
	check(t, process.Signal(syscall.SIGKILL))
	_, _ = process.Wait()

	check(t, os.WriteFile(filepath.Join(signs, "go"), nil, 0o600))
	base, _ = startChild(t, r)
	for id, want := range map[string]string{one: "three\none", two: "two"} {
		var j runner.Job
		waitFor(t, id, func() bool {
			j = ask1(t, http.MethodGet, base+jobs+"/"+id, "")
			return j.Status != runner.Active
		})
		if j.Status != runner.Completed || j.PRLink == nil {
			t.Errorf("%+v", j)
			continue
		}
		if log := engines.Git(t, repo, "log", "--format=%s", "main.."+runner.BranchPrefix+id); log != want {
			t.Errorf("%s: log %s, want %s", id, log, want)
		}
		if status, body := fetch(t, *j.PRLink); status != http.StatusOK || !strings.Contains(body, "new.md") {
			t.Errorf("page %d: %s", status, body)
		}
	}
	if list := engines.Git(t, repo, "worktree", "list"); strings.Contains(list, "\n") {
		t.Errorf("worktrees left: %s", list)
	}
}

// The moments at which TestKilledWhileProposing kills: before a request of a job has its effect on the code
// host, after it and before the response, and after that.
const (
	beforeEffect = iota
	afterEffect
	afterResponse
)

type moment struct {
	method string
	when   int
}

// mergedInBetween: a person merges the pull request before the process starts again.
const mergedInBetween = "opened, then merged"

// TestKilledWhileProposing kills the process between the push of a branch and the opening of its pull
// request, and between that and the record of the response: there is one pull request, of each job and on
// each kind of code host, and one commit for each instruction.
func TestKilledWhileProposing(t *testing.T) {
	const get, post = http.MethodGet, http.MethodPost
	kills := map[string][]moment{
		"opened and told": {{post, afterResponse}},
		"each in a row": {{get, beforeEffect}, {get, afterEffect}, {post, beforeEffect}, {post, beforeEffect},
			{post, afterEffect}, {get, beforeEffect}, {get, afterEffect}, {get, afterResponse}},
		mergedInBetween: {{post, afterEffect}},
	}
	// The moments of the row alone, before a later kill could hide what one left: the journal is the same for all hosts.
	alone := map[string][]moment{
		"pushed":     {{get, beforeEffect}},
		"found none": {{get, afterResponse}},
		"not opened": {{post, beforeEffect}},
		"opened":     {{post, afterEffect}},
	}
	for _, kind := range codehost.Hosts {
		t.Run(kind.Name, func(t *testing.T) {
			all := maps.Clone(kills)
			if kind.Name == codehost.Hosts[0].Name {
				maps.Copy(all, alone)
			} else {
				engines.Long(t)
			}
			for name, moments := range all {
				t.Run(name, func(t *testing.T) { killedWhileProposing(t, kind.Name, moments, name == mergedInBetween) })
			}
		})
	}
}

func killedWhileProposing(t *testing.T, kind string, moments []moment, merged bool) {
	repo := engines.GitRepository(t)
	remote := filepath.Join(t.TempDir(), "remote.git")
	engines.Git(t, ".", "clone", "--quiet", "--bare", repo, remote)
	engines.Git(t, repo, "remote", "add", "origin", remote)
	var mu sync.Mutex
	var process *os.Process
	kills := 0
	host := fake.NewHost(kind, "team/docs", childToken)
	// killAt reports whether it killed the process.
	killAt := func(r *http.Request, when int) bool {
		mu.Lock()
		defer mu.Unlock()
		if len(moments) == 0 || moments[0] != (moment{r.Method, when}) {
			return false
		}
		moments, kills = moments[1:], kills+1
		_ = process.Signal(syscall.SIGKILL)
		return true
	}
	host.Fault = func(_ http.ResponseWriter, r *http.Request, effect bool) bool {
		when := beforeEffect
		if effect {
			when = afterEffect
		}
		if killAt(r, when) {
			panic(http.ErrAbortHandler)
		}
		return false
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host.ServeHTTP(w, r)
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
		killAt(r, afterResponse)
	}))
	defer server.Close()
	child := childRepo{Data: t.TempDir(), Path: repo, Command: "cat >> new.md", CodeHost: kind,
		CodeHostURL: server.URL + host.Prefix, Project: host.Project}
	id, base := "", ""
	for lives := 0; ; lives++ {
		mu.Lock()
		base, process = startChild(t, child)
		mu.Unlock()
		if id == "" {
			id = ask1(t, http.MethodPost, base+jobs, promptBody("one\n")).ID
		}
		var j runner.Job
		var err error
		killed := false
		waitFor(t, "the end of the job or of the process", func() bool {
			j, err = tryToAsk(http.MethodGet, base+jobs+"/"+id, "")
			mu.Lock()
			defer mu.Unlock()
			killed = kills > lives
			return killed || err == nil && j.Status != runner.Active && len(moments) == 0
		})
		if !killed {
			if j.Status != runner.Completed || j.PRLink == nil || *j.PRLink != host.Link(1) || len(host.Pulls()) != 1 {
				t.Errorf("%+v, %+v", j, host.Pulls())
			}
			break
		}
		_, _ = process.Wait()
		if merged {
			check(t, host.Act(1, fake.Event{Action: fake.Merge}))
		}
	}
	ask1(t, http.MethodPost, base+jobs+"/"+id+"/message", promptBody("two\n"))
	waitFor(t, "the follow-up", func() bool {
		return ask1(t, http.MethodGet, base+jobs+"/"+id, "").Status != runner.Active
	})
	branch := runner.BranchPrefix + id
	want := 1
	if merged { // so the follow-up has another
		want = 2
	}
	if pulls := host.Pulls(); len(pulls) != want || pulls[0].Branch != branch {
		t.Errorf("pull requests: %+v", pulls)
	}
	if log := engines.Git(t, remote, "log", "--format=%s", "main.."+branch); log != "two\none" {
		t.Errorf("log: %s", log)
	}
}

// TestKilledWhileAccepting kills the process again and again while a client
// creates jobs: each job whose creation was answered is in the journal.
func TestKilledWhileAccepting(t *testing.T) {
	repo := engines.GitRepository(t)
	r := childRepo{Data: t.TempDir(), Path: repo, Command: "cat > new.md"}
	told := map[string]string{}
	for round := range 4 {
		base, process := startChild(t, r)
		for i := 0; ; i++ {
			prompt := fmt.Sprint("round ", round, ", job ", i)
			j, err := tryToAsk(http.MethodPost, base+jobs, promptBody(prompt))
			if err != nil {
				break
			}
			told[j.ID] = prompt
			if i == 5*round { // and the next are on their way
				time.AfterFunc(time.Duration(round)*time.Millisecond, func() { _ = process.Kill() })
			}
		}
		_ = process.Kill()
		_, _ = process.Wait()
	}
	s := newTest(t, Config{DataDir: r.Data, Agent: Agent{Script: everythingWithoutChange(t)}})
	kept := map[string]string{}
	for _, record := range s.Jobs() {
		if _, ok := told[record.ID]; ok {
			kept[record.ID] = record.Prompts[0]
		}
	}
	if diff := cmp.Diff(told, kept); diff != "" || len(told) < 4 {
		t.Errorf("%d told: %s", len(told), diff)
	}
	t.Logf("%d jobs told of in 4 lives, %d accepted", len(told), len(s.Jobs()))
}

// everythingWithoutChange is a script that ends the jobs of these tests at once.
func everythingWithoutChange(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(path, []byte(`{"round": {"outcome": "no_change"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
