package cli

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/site/runner"
)

var runnerKills = flag.Int("runner-kills", 15, "how often TestTortureRunner kills site serve, which has two jobs for "+
	"each three kills; `make torture` uses 300")

// tortureAgent is a stand-in for claude. Its prompt is "edit NAME", "mend NAME", "fail NAME" or "look NAME". What it
// writes for mend does not pass the check, until it hears from it: then its prompt is another. It leaves a process and
// its key behind, and works a moment.
const tortureAgent = `#!/bin/sh
# a stand-in
read -r what name
MARKER=%s setsid sh -c 'sleep 1000; : %[1]s' &
env >~/environment
sleep 0.$(($$ %% 4))
case $what in
edit) echo "$name" >>"$name.md" ;;
mend) echo wrong >>"$name.md" ;;
Your) for f in $(grep -lx wrong p*.md); do echo "${f%%.md}" >"$f"; done ;;
esac
sleep 0.$(($$ %% 3))
echo '{"type":"result","subtype":"success","total_cost_usd":0.25,"session_id":"s-1"}'
[ "$what" != fail ]
`

// TestTortureRunner kills the real binary at random moments while it carries out jobs in a jail, now and then with a
// wrong clock. Then each accepted job has ended once, as its prompts say; each job that changed something has one
// branch, with each change once, and one pull request; no other branch, file or process is left.
func TestTortureRunner(t *testing.T) {
	engines.Long(t)
	w := newTorturedRunner(t)
	jobs := max(2, *runnerKills*2/3)
	for kills := range *runnerKills {
		s := w.clocked(kills).serve(t, "site", "serve")
		var sending sync.WaitGroup
		sending.Go(func() { w.send(s.URL, len(w.prompts) < jobs*(kills+1)/(*runnerKills)+1) })
		time.Sleep(time.Duration(rand.IntN(1800)) * time.Millisecond)
		s.kill()
		sending.Wait()
		w.nothingRuns(kills)
	}
	s := w.serve(t, "site", "serve")
	for len(w.prompts) < jobs {
		w.send(s.URL, true)
	}
	ended := w.untilEnded(s.URL)
	s.stop(t)
	w.nothingRuns(*runnerKills)
	w.compare(ended)
	if !t.Failed() {
		t.Logf("%d kills, %d jobs: %d completed, %d failed, %d pull requests, %d with a cost", *runnerKills, len(ended),
			w.count(ended, runner.Completed), w.count(ended, runner.Failed), len(w.host.Pulls()), w.priced)
	}
}

// clocked is the place with a clock that is wrong in every third life.
func (w *torturedRunner) clocked(life int) place {
	if life%3 != 1 {
		return w.place
	}
	ahead := wrongClocks[rand.IntN(len(wrongClocks))]
	return place{w.dir, append(slices.Clip(w.env), "CLOCK_AHEAD="+ahead.String())}
}

// TestCostOfAnAgent: the dashboard shows what an agent in the jail of a site reports as the cost of the merged
// change: through the job, the journal of another docgauge, the pull request and Prometheus.
func TestCostOfAnAgent(t *testing.T) {
	w := newTorturedRunner(t)
	site := w.serve(t, "site", "serve")
	p := place{t.TempDir(), append(os.Environ(), "DOCGAUGE_BASE_URL="+site.URL, "DOCGAUGE_PROJECTS=prj_site",
		"DOCGAUGE_API_KEY="+w.key, "DOCGAUGE_BUDGET=0", "DOCGAUGE_WINDOWS=day", "DOCGAUGE_OPEN_WINDOWS=",
		"DOCGAUGE_PROMPTS_DIR=prompts", "DOCGAUGE_PROMPTS_ON_NEW_STATE=submit", "DOCGAUGE_POLL_INTERVAL=1s",
		"DOCGAUGE_GITHUB_URL="+w.host.Web+w.host.Prefix, "DOCGAUGE_GITHUB_TOKEN="+w.host.Token)}
	writePrompt(t, filepath.Join(p.dir, "prompts", "edit.md"), "edit page")
	w.host.Fault = func(_ http.ResponseWriter, r *http.Request, effect bool) bool {
		if effect && r.Method == http.MethodPost { // the pull request was just opened: merge it
			check(t, w.host.Act(1, fake.Event{Action: fake.Merge}))
		}
		return false
	}
	daemon := p.serve(t)
	server := engines.RunPrometheus(t, engines.PrometheusConfig{
		Scrapes: []engines.Scrape{{URL: daemon.URL + "/metrics", Interval: time.Second}},
	})
	const cost = `docgauge_agent_pull_request_cost{basis="reported"}`
	server.Await(t, cost)
	q := question{t, server, server.ScrapedAt(t, cost, "")}
	q.is(map[string]float64{"USD": 0.25}, dashboardQuery(t, "docgauge-agent-jobs.json", "Cost per merge"), "unit")
	daemon.stop(t)
	site.stop(t)
	w.nothingRuns(0)
}

// torturedRunner is a site serve with its repository and its code host, and with the prompts that it accepted.
type torturedRunner struct {
	place
	t      *testing.T
	host   *fake.Host
	bare   string // the repository at the host
	marker string // in the arguments of processes that agents leave
	key    string

	prompts map[string][]string // that were accepted, by job
	unsure  map[string]string   // prompts whose answer was lost, to the job of a message, if they are one
	n       int                 // of prompts
	priced  int
}

func newTorturedRunner(t *testing.T) *torturedRunner {
	if runtime.GOOS != "linux" {
		t.Skip("agents are jailed on Linux alone")
	}
	if _, err := exec.LookPath("bwrap"); err != nil {
		engines.Need(t, engines.Missing{Engine: "bubblewrap", Install: "apt-get install bubblewrap"})
	}
	const project, token = "docs-team/docs", "token-of-the-tests"
	w := &torturedRunner{t: t, host: fake.NewHost("github", project, token), prompts: map[string][]string{},
		unsure: map[string]string{}, marker: "docgauge-torture-" + fmt.Sprint(rand.Uint64())}
	repo, root, programs := engines.GitRepository(t), t.TempDir(), t.TempDir()
	w.bare = filepath.Join(root, project+".git")
	engines.Git(t, ".", "clone", "--quiet", "--bare", repo, w.bare)
	engines.Git(t, w.bare, "config", "http.receivepack", "true")
	git, err := engines.GitServer(root, w.host.GitAuthorization())
	check(t, err)
	mux := http.NewServeMux()
	mux.Handle("/"+project+".git/", git)
	mux.Handle("/api/v3/", w.host)
	w.host.Fault = func(_ http.ResponseWriter, r *http.Request, effect bool) bool {
		if effect && r.Method == http.MethodPost { // so that answers are lost
			time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		}
		return false
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	w.host.Web = server.URL
	agent := filepath.Join(programs, "claude")
	writeText(t, agent, fmt.Sprintf(tortureAgent, w.marker))
	check(t, os.Chmod(agent, 0o755))
	dir := t.TempDir()
	writeText(t, filepath.Join(dir, "access.log"), "")
	w.place = place{dir, append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "DOCGAUGE_SITE_LOGS=access.log",
		"DOCGAUGE_SITE_REPO="+server.URL+"/"+project+".git", "DOCGAUGE_SITE_CODE_HOST=github",
		"DOCGAUGE_SITE_CODE_HOST_URL="+server.URL+"/api/v3", "DOCGAUGE_SITE_TOKEN="+token,
		"DOCGAUGE_SITE_AGENT=claude", "DOCGAUGE_SITE_AGENT_TOOLS="+programs, "DOCGAUGE_SITE_AGENT_HOSTS=api.example.com",
		"DOCGAUGE_SITE_CHECK_COMMAND=test -e readme.md && ! grep -x wrong *.md", "DOCGAUGE_SITE_JOB_CONCURRENCY=2",
		"DOCGAUGE_SITE_AGENT_ENV=MODEL_KEY", "MODEL_KEY=key-of-the-tests")}
	w.key = strings.TrimSpace(string(w.run(t, "site", "keys", "add", "--scope", "admin")))
	return w
}

// send sends a job, if one is wanted, and a message for one.
func (w *torturedRunner) send(url string, job bool) {
	if job {
		w.post(url, "")
	}
	for id := range w.prompts { // any
		if rand.IntN(3) == 0 {
			w.post(url, id)
		}
		break
	}
}

// post sends a prompt as a job, or as a message for the job id.
func (w *torturedRunner) post(url, id string) {
	w.n++
	prompt := fmt.Sprintf("%s p%d", []string{"edit", "edit", "mend", "mend", "look", "fail"}[rand.IntN(6)], w.n)
	path := "/v2/agent/prj_site/job"
	if id != "" {
		path += "/" + id + "/message"
	}
	var job runner.Job
	if err := w.ask(http.MethodPost, url+path, fmt.Sprintf(`{"prompt": %q}`, prompt), &job); err != nil {
		w.unsure[prompt] = id
		return
	}
	w.prompts[job.ID] = append(w.prompts[job.ID], prompt)
}

// ask returns an error if there is no answer. Other answers than good ones end the test.
func (w *torturedRunner) ask(method, url, body string, into any) error {
	r, err := http.NewRequestWithContext(w.t.Context(), method, url, strings.NewReader(body))
	check(w.t, err)
	r.Header.Set("Authorization", "Bearer "+w.key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %w: %s", method, url, errStatus, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

var errStatus = errors.New("unexpected status")

// nothingRuns waits until no process of an agent is left.
func (w *torturedRunner) nothingRuns(kills int) {
	w.t.Helper()
	testbed.Await(w.t, fmt.Sprintf("no process of an agent is left after %d kills", kills), func() bool {
		all, err := filepath.Glob("/proc/[0-9]*/cmdline")
		check(w.t, err)
		return !slices.ContainsFunc(all, func(name string) bool {
			text, _ := os.ReadFile(name) // it may have ended
			return strings.Contains(string(text), w.marker) || strings.Contains(string(text), w.dir+"/site/jobs/work")
		})
	})
}

// journal returns the prompts of all jobs that site serve accepted.
func (w *torturedRunner) journal() map[string][]string {
	text, err := os.ReadFile(filepath.Join(w.dir, "site", "jobs", "jobs.ndjson"))
	check(w.t, err)
	all := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		var e struct{ Event, Job, Prompt string }
		check(w.t, json.Unmarshal([]byte(line), &e))
		if e.Prompt != "" {
			all[e.Job] = append(all[e.Job], e.Prompt)
		}
	}
	return all
}

// untilEnded returns all jobs, when each has ended. It waits as long as the journal grows: after many kills most jobs wait
// in the queue.
func (w *torturedRunner) untilEnded(url string) map[string]runner.Job {
	all, path := map[string]runner.Job{}, filepath.Join(w.dir, "site", "jobs", "jobs.ndjson")
	for id := range w.journal() {
		for all[id].ID == "" || all[id].Status == runner.Active {
			before, err := os.Stat(path)
			check(w.t, err)
			err = testbed.Poll("job "+id+" has ended, or another did something", func() (bool, error) {
				var job runner.Job
				err := w.ask(http.MethodGet, url+"/v2/agent/prj_site/job/"+id, "", &job)
				all[id] = job
				now, statErr := os.Stat(path)
				return job.Status != runner.Active || statErr == nil && now.Size() > before.Size(), errors.Join(err, statErr)
			})
			if err != nil {
				shown, _ := json.Marshal(all[id])
				text, _ := os.ReadFile(path)
				lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool {
					return !strings.Contains(line, id)
				})
				w.t.Fatalf("%v: it is %s\n%s", err, shown, strings.Join(lines, ""))
			}
		}
	}
	return all
}

func (w *torturedRunner) count(jobs map[string]runner.Job, status runner.Status) (n int) {
	for _, job := range jobs {
		if job.Status == status {
			n++
		}
	}
	return n
}

// compare compares the accepted jobs with the jobs, branches and pull requests, and with everything else that is
// left.
func (w *torturedRunner) compare(ended map[string]runner.Job) {
	t, accepted := w.t, w.journal()
	for id, prompts := range w.prompts {
		if got := accepted[id]; !slices.Equal(slices.DeleteFunc(slices.Clone(got), w.isUnsure), prompts) {
			t.Errorf("job %s: accepted %q, kept %q", id, prompts, got)
		}
	}
	pulls := map[string][]string{}
	for _, p := range w.host.Pulls() {
		pulls[p.Branch] = append(pulls[p.Branch], w.host.Link(p.Number))
	}
	var branches []string
	for id, prompts := range accepted {
		if w.prompts[id] == nil && !slices.ContainsFunc(prompts, w.isUnsure) {
			t.Errorf("job %s: %q was not sent", id, prompts)
		}
		var files, subjects []string
		for _, p := range prompts {
			if what, name, _ := strings.Cut(p, " "); what == "edit" || what == "mend" {
				files, subjects = append(files, name), append(subjects, p)
			}
		}
		job, branch, want := ended[id], runner.BranchPrefix+id, runner.Completed
		if strings.HasPrefix(prompts[len(prompts)-1], "fail") {
			want = runner.Failed
		}
		if job.Status != want || job.RetryAt != nil {
			t.Errorf("job %s: %q is %s, want %s", id, prompts, job.Status, want)
		}
		if job.Cost != nil {
			// The stand-in has one session a job; the cost of a resumed session includes what it reported before.
			w.priced++
			if *job.Cost != 0.25 {
				t.Errorf("job %s: %q cost %v", id, prompts, *job.Cost)
			}
		}
		if len(files) == 0 {
			if len(pulls[branch]) > 0 || job.PRLink != nil {
				t.Errorf("job %s: %q changed nothing, but has %q", id, prompts, pulls[branch])
			}
			continue
		}
		branches = append(branches, branch)
		if len(pulls[branch]) != 1 || job.PRLink == nil || *job.PRLink != pulls[branch][0] {
			t.Errorf("job %s: pull requests %q", id, pulls[branch])
		}
		log := engines.Git(t, w.bare, "log", "--reverse", "--format=%s", "main.."+branch)
		got := engines.Git(t, w.bare, "diff", "--name-only", "main", branch)
		if wantLog := strings.Join(subjects, "\n"); log != wantLog ||
			len(strings.Fields(got)) != len(files) {
			t.Errorf("job %s: commits %q of %q, want %q", id, log, got, wantLog)
		}
		for _, name := range files {
			if text := engines.Git(t, w.bare, "show", branch+":"+name+".md"); text != name {
				t.Errorf("job %s: %s.md is %q", id, name, text)
			}
		}
	}
	slices.Sort(branches)
	for _, repo := range []string{w.bare, filepath.Join(w.dir, "site", "jobs", "copies", "prj_site.git")} {
		got := engines.Git(t, repo, "for-each-ref", "--format=%(refname:short)", "refs/heads/"+runner.BranchPrefix)
		if got != strings.Join(branches, "\n") {
			t.Errorf("%s has the branches\n%s\nwant\n%s", repo, got, strings.Join(branches, "\n"))
		}
		if list := engines.Git(t, repo, "worktree", "list"); strings.Contains(list, "\n") {
			t.Errorf("%s has worktrees: %s", repo, list)
		}
	}
	left, err := filepath.Glob(filepath.Join(w.dir, "site", "jobs", "work", "prj_site", "*", "*"))
	check(t, err)
	for _, name := range left {
		if filepath.Base(name) != "home" {
			t.Errorf("left: %s", name)
		}
		if _, err := os.Lstat(filepath.Join(name, "environment")); err == nil {
			t.Errorf("left: the key in %s", name)
		}
	}
}

func (w *torturedRunner) isUnsure(prompt string) bool { _, ok := w.unsure[prompt]; return ok }
