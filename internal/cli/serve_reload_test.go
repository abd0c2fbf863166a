package cli

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// TestReloadStorm: twenty signals at once, again and again, and requests beside them, while
// an export reads. Every scrape is answered, no counter falls, no window is lost or comes
// twice, and of the requests only those in flight at a reload are sent again.
func TestReloadStorm(t *testing.T) {
	engines.Long(t)
	t.Parallel()
	const storms = 5
	s := testbed.NewService(t, sandbox.Config{Seed: 7, Days: 20, Pages: 700,
		Faults: sandbox.Faults{Latency: 60 * time.Millisecond}})
	p := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_SINCE="+testbed.DaysAgo(14).String(),
		"DOCGAUGE_OPEN_WINDOWS=",
		"DOCGAUGE_WINDOWS=day", "DOCGAUGE_CONCURRENCY=1")
	daemon := p.serve(t, "--once-at-start", "--web.enable-lifecycle")
	stop := make(chan struct{})
	var scraping sync.WaitGroup
	scrapes := 0
	scraping.Go(func() { scrapes = scrapeUntil(t, daemon, stop) })

	for storm := range storms {
		read := len(s.Requests())
		testbed.Await(t, "it continues", func() bool { return len(s.Requests()) > read+1 })
		var asking sync.WaitGroup
		for range 20 {
			check(t, daemon.cmd.Process.Signal(syscall.SIGHUP))
		}
		for range 3 {
			asking.Go(func() {
				if status, body, err := testbed.Ask(t.Context(), http.MethodPost, daemon.URL+"/-/reload"); err != nil ||
					status != http.StatusOK {
					t.Errorf("storm %d: status %d, %v: %s", storm, status, err, body)
				}
			})
		}
		asking.Wait()
	}
	end := daemon.awaitRuns(t, "success", 1)
	close(stop)
	scraping.Wait()
	daemon.stop(t)

	reloads := daemon.logged(t, `msg="settings reloaded"`)
	// Each storm is one reload at least, and another for each that came during one.
	if reloads < storms || reloads > 10*storms || daemon.logged(t, "level=ERROR") > 0 {
		t.Errorf("%d reloads", reloads)
	}
	pages := map[string]int{}
	for _, r := range s.Requests() {
		pages[fmt.Sprint(r.From, r.To, r.Offset)]++
	}
	if again := len(s.Requests()) - len(pages); again > reloads {
		t.Errorf("%d of %d pages were requested again over %d reloads", again, len(pages), reloads)
	}
	windows, rows := compareAll(t, s.Sandbox, filepath.Join(p.dir, "data"), sandbox.DefaultProject)
	if got := end[committedSeries]; got != float64(windows) || windows != 14 {
		t.Errorf("%v windows were counted, %d are there", got, windows)
	}
	t.Logf("%d reloads, %d scrapes, %d requests for %d pages, %d windows, %d rows", reloads, scrapes, len(s.Requests()),
		len(pages), windows, rows)
}

// logged counts a text in the log.
func (s *sidecar) logged(t *testing.T, what string) int {
	t.Helper()
	text, err := os.ReadFile(s.log)
	check(t, err)
	return strings.Count(string(text), what)
}

// TestReloadDuringCreation: a POST that is in flight is finished, its job known, and no
// prompt is sent twice.
func TestReloadDuringCreation(t *testing.T) {
	t.Parallel()
	const prompts = 2
	s := testbed.NewService(t, sandbox.Config{Seed: 7, Days: 6, Pages: 40})
	to, err := url.Parse(s.URL)
	check(t, err)
	arrived, release := make(chan struct{}), make(chan struct{})
	between := httputil.NewSingleHostReverseProxy(to)
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			arrived <- struct{}{}
			<-release
		}
		between.ServeHTTP(w, r)
	}))
	t.Cleanup(door.Close)
	p := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_BASE_URL="+door.URL, "DOCGAUGE_PROMPTS_DIR=prompts",
		"DOCGAUGE_PROMPTS_ON_NEW_STATE=submit", "DOCGAUGE_POLL_INTERVAL=1s")
	check(t, os.Mkdir(filepath.Join(p.dir, "prompts"), 0o700))
	for i := range prompts {
		writeText(t, filepath.Join(p.dir, "prompts", fmt.Sprintf("%d.md", i)), fmt.Sprintf("Fix page %d.", i))
	}
	daemon := p.serve(t, "--web.enable-lifecycle")
	for sent := range prompts {
		<-arrived
		answer := make(chan string)
		go func() {
			status, body, err := testbed.Ask(t.Context(), http.MethodPost, daemon.URL+"/-/reload")
			answer <- fmt.Sprint(status, body, err)
		}()
		testbed.Await(t, "the reload waits for the POST", func() bool {
			return daemon.logged(t, "what is under way is finished first") > sent
		})
		select {
		case early := <-answer:
			t.Errorf("while a POST was in flight the reload ended: %s", early)
		default:
		}
		daemon.metrics(t) // is answered during that
		release <- struct{}{}
		if got, want := <-answer, fmt.Sprint(http.StatusOK, "reloaded\n", error(nil)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if known := daemon.logged(t, `msg="agent job sent"`); known != sent+1 {
			t.Errorf("after POST %d the outcome of %d is known", sent+1, known)
		}
	}
	jobs := `docgauge_agent_jobs_finished_total{project="` + sandbox.DefaultProject + `",result="pr"}`
	testbed.Await(t, "the jobs have ended", func() bool { return daemon.metrics(t)[jobs] == prompts })
	created := 0
	for _, r := range s.Requests() {
		if r.Accepted {
			created++
		}
	}
	if created != prompts || daemon.logged(t, "in doubt") > 0 {
		t.Errorf("%d prompts became %d jobs", prompts, created)
	}
	daemon.stop(t)
}

// scrapeUntil scrapes all the time. Each scrape is answered, and nothing that only rises
// ever falls.
func scrapeUntil(t *testing.T, s *sidecar, stop <-chan struct{}) (scrapes int) {
	last := testbed.Series{}
	for {
		select {
		case <-stop:
			return scrapes
		default:
		}
		status, body, err := testbed.Fetch(t.Context(), s.URL+"/metrics")
		if err != nil || status != http.StatusOK {
			t.Errorf("scrape %d: status %d, %v", scrapes, status, err)
			return scrapes
		}
		now, err := testbed.ParseSeries(body)
		if err != nil {
			t.Error(err)
			return scrapes
		}
		if down := testbed.Fallen(last, now); len(down) > 0 {
			t.Errorf("scrape %d:\n%s", scrapes, strings.Join(down, "\n"))
		}
		last = now
		scrapes++
	}
}

// TestReloadWhileASinkIsDown: windows that wait for an unreachable sink keep waiting, and a
// reload that names another place for it continues the export there.
func TestReloadWhileASinkIsDown(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 6, Pages: 40})
	p := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_OPEN_WINDOWS=", "DOCGAUGE_WINDOWS=day")
	file, dsn := filepath.Join(p.dir, "docgauge.env"), filepath.Join(p.dir, "dsn")
	writeText(t, file, "DOCGAUGE_SINCE="+testbed.DaysAgo(2).String()+"\n")
	p.run(t, "--env-file", file, "export") // so that the sink is not asked for its windows
	writeText(t, dsn, "postgres://nobody@127.0.0.1:1/none")
	settings := "DOCGAUGE_SINCE=" + testbed.DaysAgo(5).String() +
		"\nDOCGAUGE_SINKS=parquet,postgres\nDOCGAUGE_POSTGRES_DSN_FILE=" + dsn + "\n"
	writeText(t, file, settings)
	daemon := p.serve(t, "--env-file", file, "--once-at-start", "--web.enable-lifecycle")
	daemon.awaitRuns(t, "failed", 1)
	reload := func(want int, says string) {
		t.Helper()
		status, body, err := testbed.Ask(t.Context(), http.MethodPost, daemon.URL+"/-/reload")
		if err != nil || status != want || !strings.Contains(body, says) || strings.Contains(body, "dsn-secret") {
			t.Fatalf("status %d, %v: %s", status, err, body)
		}
	}
	waits := `docgauge_spool_windows{sink="postgres"}`
	if got := daemon.metrics(t)[waits]; got != 3 {
		t.Errorf("%v windows wait", got)
	}
	reload(http.StatusOK, "reloaded")
	if got := daemon.metrics(t)[waits]; got != 3 {
		t.Errorf("after a reload %v windows wait", got)
	}
	testbed.Await(t, "it is not ready", func() bool {
		status, body, err := testbed.Fetch(t.Context(), daemon.URL+"/-/ready")
		return err == nil && status == http.StatusServiceUnavailable && strings.Contains(body, "sink postgres")
	})
	writeText(t, dsn, "no dsn but a dsn-secret")
	reload(http.StatusInternalServerError, "DOCGAUGE_POSTGRES_DSN")
	// Without the sink it is well, and nothing was lost for the other.
	writeText(t, file, strings.Replace(settings, ",postgres", "", 1))
	writeText(t, dsn, "postgres://nobody@127.0.0.1:2/none")
	reload(http.StatusOK, "reloaded")
	testbed.Await(t, "it is ready", func() bool {
		status, _, err := testbed.Fetch(t.Context(), daemon.URL+"/-/ready")
		return err == nil && status == http.StatusOK
	})
	if _, there := daemon.metrics(t)[waits]; there {
		t.Error("the sink is still shown")
	}
	committed := daemon.metrics(t)[committedSeries]
	if committed != 5 || len(s.Requests()) != 5 {
		t.Errorf("%v windows, %d requests", committed, len(s.Requests()))
	}
	daemon.stop(t)
}

// TestServeFlags: they win over the environment and the file, also after a reload; an empty
// one is the default.
func TestServeFlags(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 6, Pages: 40})
	p := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_LISTEN_ADDRESS=256.0.0.1:1",
		"DOCGAUGE_WEB_CONFIG_FILE=gone.yml",
		"DOCGAUGE_LOG_LEVEL=error", "DOCGAUGE_LOG_FORMAT=text")
	file := filepath.Join(p.dir, "docgauge.env")
	writeText(t, file, "DOCGAUGE_LOG_LEVEL=warn\nDOCGAUGE_LOG_FORMAT=text\nDOCGAUGE_WEB_CONFIG_FILE=gone too\n")
	daemon := p.serve(t, "--env-file", file, "--web.listen-address=127.0.0.1:0", "--web.listen-address",
		"[::1]:0", "--web.config.file=",
		"--log.level", "debug", "--log.format=json", "--web.enable-lifecycle")
	if status, body, err := testbed.Ask(t.Context(), http.MethodPut, daemon.URL+"/-/reload"); err != nil ||
		status != http.StatusOK {
		t.Fatalf("status %d, %v: %s", status, err, body)
	}
	daemon.page(t, "/-/healthy")
	daemon.stop(t)
	text, err := os.ReadFile(daemon.log)
	check(t, err)
	all := logLines(t, string(text))
	listening := find(t, all, "listening", "url")
	if len(listening) != 2 || !strings.HasPrefix(listening[1]["url"].(string), "http://[::1]:") {
		t.Errorf("%v", listening)
	}
	find(t, all, "settings reloaded")
	if !slices.ContainsFunc(all, func(line map[string]any) bool { return line["level"] == "DEBUG" }) {
		t.Error("--log.level has no effect")
	}
}

// TestLifecycle: reloading by HTTP is off by default, and behind the users of the web
// configuration.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 6, Pages: 40})
	p := placeFor(t, s, []string{sandbox.DefaultProject})
	reload := func(daemon *sidecar, user string, want int) string {
		t.Helper()
		status, body, err := testbed.Ask(t.Context(), http.MethodPost,
			strings.Replace(daemon.URL, "://", "://"+user, 1)+"/-/reload")
		if err != nil || status != want {
			t.Errorf("%q: status %d, %v: %s", user, status, err, body)
		}
		return body
	}
	daemon := p.serve(t)
	if body := reload(daemon, "", http.StatusForbidden); !strings.Contains(body, "--web.enable-lifecycle") {
		t.Error(body)
	}
	daemon.stop(t)
	// The password is "reload".
	writeText(t, filepath.Join(p.dir, "web.yml"), "basic_auth_users: {ops: "+
		"$2a$04$mPteoXWvgRO1meZ88klKXOEIMuib8un0jucRZQ8.hy8Fu9bnMP0yy}\n")
	daemon = p.serve(t, "--web.enable-lifecycle", "--web.config.file=web.yml")
	reload(daemon, "", http.StatusUnauthorized)
	reload(daemon, "ops:reload@", http.StatusOK)
	daemon.stop(t)
	if n := daemon.logged(t, `msg="settings reloaded"`); n != 1 {
		t.Errorf("%d reloads", n)
	}
}

// TestStopIsNotHeldUp: a Pushgateway, or a receiver of notifications, that takes a connection
// and never answers holds up neither the export nor a stop.
func TestStopIsNotHeldUp(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"Pushgateway": {"DOCGAUGE_PUSHGATEWAY_URL=http://ops:push-secret@ADDRESS"},
		"notifications": {"DOCGAUGE_API_KEY_EXPIRES=" + testbed.DaysAgo(1).String(),
			"DOCGAUGE_NOTIFY_URL=http://ADDRESS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			check(t, err)
			defer silent.Close()
			env := []string{"DOCGAUGE_SINCE=" + testbed.DaysAgo(2).String(), "DOCGAUGE_WINDOWS=day"}
			for _, s := range settings {
				env = append(env, strings.Replace(s, "ADDRESS", silent.Addr().String(), 1))
			}
			s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 5, Pages: 40})
			daemon := placeFor(t, s, []string{sandbox.DefaultProject}, env...).serve(t, "--once-at-start")
			check(t, silent.(*net.TCPListener).SetDeadline(time.Now().Add(testbed.Patience)))
			conn, err := silent.Accept()
			check(t, err)
			defer conn.Close()
			if name == "notifications" { // a Pushgateway is pushed to after the run
				daemon.awaitRuns(t, "success", 1)
			}
			daemon.stop(t) // in less than the grace of a run, else it would exit with an error
		})
	}
}

// TestServeOnSystemdSocket: the socket that systemd opened is the one that is
// served on, whatever DOCGAUGE_LISTEN_ADDRESS says.
func TestServeOnSystemdSocket(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	socket, err := l.(*net.TCPListener).File()
	check(t, err)
	p := placeFor(t, &testbed.Service{URL: "http://127.0.0.1:1"}, []string{sandbox.DefaultProject},
		"DOCGAUGE_LISTEN_ADDRESS=256.0.0.1:9817", "DOCGAUGE_SCHEDULE="+never)
	// The id must be the id of the process that has the socket.
	cmd := exec.Command("sh", "-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec docgauge serve --web.systemd-socket")
	cmd.Dir, cmd.Env, cmd.ExtraFiles = p.dir, p.env, []*os.File{socket}
	dieWithUs(cmd)
	check(t, cmd.Start())
	url := "http://" + l.Addr().String()
	_, _ = socket.Close(), l.Close()
	status, body, err := testbed.Fetch(t.Context(), url+"/readyz") // waits in the socket
	if err != nil || status != 200 || body != "ready\n" {
		t.Errorf("status %d, %q, %v", status, body, err)
	}
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
