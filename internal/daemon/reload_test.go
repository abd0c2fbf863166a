package daemon

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
)

// TestReloads: new settings are taken, wrong ones and those that cannot be opened are not,
// and their side effects are undone. No value is missing during a reload.
func TestReloads(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 10, Pages: 40, Projects: []string{"prj_a", "prj_b"}})
	c := configFor(t, s.URL)
	c.Projects, c.PromptsOnNewState = config.Projects{"prj_a"}, "submit"
	c.PromptsDir = filepath.Join(t.TempDir(), "prompts")
	check(t, os.Mkdir(c.PromptsDir, 0o700))
	writeText(t, filepath.Join(c.PromptsDir, "later.md"),
		"---\nnot_before: 2999-01-01\nproject: prj_a\n---\nFix all typos.")
	both, gone := c, c
	both.Projects, gone.PromptsDir = config.Projects{"prj_a", "prj_b"}, filepath.Join(t.TempDir(), "gone")
	wrong := config.Problems{"DOCGAUGE_BUDGET: wrong", "DOCGAUGE_SINKS: wrong"}

	var mu sync.Mutex
	var next config.Config
	var problem error
	undone := 0
	reload := func(config.Config) (config.Config, func() error, error) {
		mu.Lock()
		defer mu.Unlock()
		return next, func() error { undone++; return nil }, problem
	}
	at, log := serveFor(t, c, Options{Lifecycle: true, Reload: reload})
	scrape := func() testbed.Series {
		t.Helper()
		status, body, err := testbed.Fetch(t.Context(), at+"/metrics")
		all, parsed := testbed.ParseSeries(body)
		if err := errors.Join(err, parsed); err != nil || status != http.StatusOK {
			t.Fatalf("status %d, %v", status, err)
		}
		return all
	}
	const pending = `docgauge_agent_prompts{project="prj_a",state="pending"}`
	const taken = "docgauge_config_last_reload_successful"
	testbed.Await(t, "the prompt is seen and the run has ended", func() bool {
		now := scrape()
		return now[pending] == 1 && now[`docgauge_export_runs_total{outcome="success"}`] == 1
	})
	for _, step := range []struct {
		about    string
		settings config.Config
		problem  error
		status   int
		says     string
		undone   int
		projects int
	}{
		{"the same", c, nil, 200, "reloaded", 0, 1},
		{"wrong", both, wrong, 500, "DOCGAUGE_SINKS: wrong", 0, 1},
		{"cannot be opened", gone, nil, 500, "DOCGAUGE_PROMPTS_DIR", 1, 1},
		{"another project", both, nil, 200, "reloaded", 1, 2},
		{"the former", c, nil, 200, "reloaded", 1, 1},
	} {
		mu.Lock()
		next, problem = step.settings, step.problem
		mu.Unlock()
		testbed.Await(t, "the prompt is seen", func() bool { return scrape()[pending] == 1 })
		before := scrape()
		status, body, err := testbed.Ask(t.Context(), http.MethodPost, at+"/-/reload")
		if err != nil || status != step.status || !strings.Contains(body, step.says) || undone != step.undone {
			t.Errorf("%s: status %d, %v, undone %d times: %s", step.about, status, err, undone, body)
		}
		now := scrape()
		success := 0.0
		if step.status == http.StatusOK {
			success = 1
		}
		// Other projects are other rules for prompts.
		seen := now[pending] == 1 || step.status == http.StatusOK && step.about != "the same"
		if now[taken] != success || !seen {
			t.Errorf("%s: taken %v, %v prompts wait", step.about, now[taken], now[pending])
		}
		if down := testbed.Fallen(before, now); len(down) > 0 && step.about != "the former" {
			t.Errorf("%s:\n%s", step.about, strings.Join(down, "\n"))
		}
		_, both := now[`docgauge_windows_due{project="prj_b",reason="missing",report="visitors",window="day"}`]
		if both != (step.projects == 2) {
			t.Errorf("%s: prj_b is there: %v", step.about, both)
		}
		answer := projectsOf(t, at)
		if strings.Contains(answer, "prj_b") != (step.projects == 2) || !strings.Contains(answer, "prj_a") {
			t.Errorf("%s: assistants get %s", step.about, answer)
		}
	}
	// Another process runs the queue: serve can be without one, but not get one.
	none := c
	none.PromptsDir = ""
	reloads := func(to config.Config, want int, says string) {
		t.Helper()
		mu.Lock()
		next = to
		mu.Unlock()
		if status, body, err := testbed.Ask(t.Context(), http.MethodPost, at+"/-/reload"); err != nil || status != want ||
			!strings.Contains(body, says) {
			t.Errorf("status %d, %v: %s", status, err, body)
		}
	}
	if _, err := state.LockQueue(c.StateDir); !errors.Is(err, state.ErrLocked) {
		t.Errorf("the queue of serve can be run: %v", err)
	}
	reloads(none, http.StatusOK, "reloaded")
	queue, err := state.LockQueue(c.StateDir)
	check(t, err)
	reloads(c, http.StatusInternalServerError, "one process runs the prompt queue at a time")
	reloads(none, http.StatusOK, "reloaded")
	check(t, queue.Release())
	reloads(c, http.StatusOK, "reloaded")
	if text := log.String(); !strings.Contains(text, `error="DOCGAUGE_BUDGET: wrong; DOCGAUGE_SINKS: wrong"`) {
		t.Errorf("want one line for all that is wrong:\n%s", text)
	}
}

// TestInheritOutcomes: the outcomes of a project that the settings do not have any more end with the reload.
func TestInheritOutcomes(t *testing.T) {
	of := func(projects ...string) *daemon {
		return &daemon{app: &app.App{Config: config.Config{Projects: projects}}}
	}
	former, next := of("prj_a", "prj_b"), of("prj_b", "prj_c")
	for _, project := range former.app.Config.Projects {
		former.outcomes.change(func(o *view.Outcomes) {
			o.Summaries = append(o.Summaries, view.OutcomeSummary{Project: project})
			o.Merges = append(o.Merges, view.Outcome{Merge: view.Merge{Project: project}})
			o.Redirects = append(o.Redirects, view.Redirect{Redirect: journal.Redirect{Project: project}})
		})
	}
	next.inherit(former)
	o := next.outcomes.get()
	if len(o.Summaries) != 1 || len(o.Merges) != 1 || len(o.Redirects) != 1 || o.Summaries[0].Project != "prj_b" ||
		o.Merges[0].Project != "prj_b" || o.Redirects[0].Project != "prj_b" {
		t.Errorf("%+v", o)
	}
}

// projectsOf asks for the projects as an assistant does.
func projectsOf(t *testing.T, at string) string {
	t.Helper()
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"projects","arguments":{}}}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/mcp", strings.NewReader(call))
	check(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", response.StatusCode, err, text)
	}
	return string(text)
}

// TestStopWhileTheJournalIsRead: a stop, or a reload, right after the start does not count as a failure.
func TestStopWhileTheJournalIsRead(t *testing.T) {
	t.Parallel()
	c := configFor(t, "http://127.0.0.1:1")
	c.PromptsDir, c.PromptsOnNewState = t.TempDir(), "submit"
	d, _ := daemonFor(t, c)
	check(t, d.openQueue())
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := errors.Join(d.queueLoop(ctx), d.run(ctx)); err != nil {
		t.Error(err)
	}
}
