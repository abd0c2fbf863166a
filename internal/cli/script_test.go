package cli

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/runner"
	"github.com/docgauge/docgauge/internal/state"
)

// atOnce is how many scripts and tests run at a time: most wait, for time, engines and processes.
const atOnce = "4"

// TestMain makes the test binary the docgauge of the scripts and kill tests.
func TestMain(m *testing.M) {
	if code, ok := runner.Helper(os.Args[1:]); ok {
		os.Exit(code)
	}
	if err := flag.Set("test.parallel", atOnce); err != nil { // -parallel is read later, and wins
		panic(err)
	}
	testscript.Main(sharing{m}, map[string]func(){
		"docgauge": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			program := newProgram(os.Stdout, os.Stderr, clockAhead(os.Getenv("CLOCK_AHEAD")))
			program.observe = stopAt(os.Getenv("STOP_AT"))
			os.Exit(program.Run(ctx, os.Args[1:]))
		},
	})
}

// sharing are tests that share an archive.
type sharing struct{ *testing.M }

func (m sharing) Run() int {
	defer func() { _ = os.RemoveAll(sharedArchive.dir) }()
	return m.M.Run()
}

// clockAhead returns a clock that is ahead by a duration; nil without one.
func clockAhead(by string) func() time.Time {
	ahead, err := time.ParseDuration(by)
	if err != nil {
		return nil
	}
	return func() time.Time { return time.Now().Add(ahead) }
}

// stopAt kills the process, with SIGKILL, at the nth step of a kind: "sealed:2".
func stopAt(spec string) func(export.Event) {
	step, nth, ok := strings.Cut(spec, ":")
	n, err := strconv.ParseInt(nth, 10, 64)
	if !ok || err != nil {
		return nil
	}
	var seen atomic.Int64
	return func(ev export.Event) {
		if ev.Step == step && seen.Add(1) == n {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // until the signal comes
		}
	}
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition:           scriptCondition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"sandbox":  scriptSandbox,
			"codehost": scriptCodeHost,
			"serve":    scriptServe,
			"get":      scriptGet,
			"post":     scriptPost,
			"value":    scriptValue,
			"exits":    scriptExits,
			"refused":  refuses(exitUsage),
			"fails":    refuses(exitFailed),
			"requests": scriptRequests,
			"backdate": scriptBackdate,
			"await":    scriptAwait,
			"poke":     scriptPoke,
			"parquets": scriptParquets,
			"sigterm":  scriptSigterm,
			"schema":   scriptSchema,
			"hook":     scriptHook,
			"monitor":  scriptMonitor,

			"clickhouse":   scriptClickHouse,
			"query":        scriptQuery,
			"postgres":     scriptPostgres,
			"sql":          scriptSQL,
			"find":         scriptFind,
			"linked":       scriptLinked,
			"entry":        scriptEntry,
			"mutate":       scriptMutate,
			"s3":           scriptS3,
			"pushgateway":  scriptPushgateway,
			"nodeexporter": scriptNodeExporter,
		},
		Setup: func(env *testscript.Env) error {
			testbed.NotAtMidnight()
			for i := range 120 {
				day := analytics.DateOf(time.Now()) - analytics.Date(i)
				env.Setenv(fmt.Sprintf("D%d", i), day.String())
				env.Setenv(fmt.Sprintf("M%d", i), day.Time().Format("2006-01"))
				env.Setenv(fmt.Sprintf("T%d", i), format.DateSpan(day.Time(), day.Time(), time.Now().UTC().Year()))
			}
			env.Setenv("TOMORROW", (analytics.DateOf(time.Now()) + 1).String())
			env.Setenv("HOME", env.WorkDir)
			file, err := filepath.Abs("setup/template.env")
			env.Setenv("TEMPLATE", file)
			env.Values[started{}] = new(started)
			return err
		},
	})
}

// started are the processes of one script that are spoken to later.
type started struct {
	sandbox     *exec.Cmd
	sidecar     *sidecar
	clickhouse  *engines.ClickHouse
	postgres    *engines.Postgres
	pushgateway *engines.Pushgateway
}

func startedBy(ts *testscript.TestScript) *started { return ts.Value(started{}).(*started) }

// scriptSandbox starts the real `docgauge sandbox` on a free port, with a
// request log in $WORK/requests.jsonl, and sets the variables it prints;
// sandbox kill ends it.
func scriptSandbox(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 1 && args[0] == "kill" {
		cmd := startedBy(ts).sandbox
		ts.Check(cmd.Process.Kill())
		_ = cmd.Wait() // says that it was killed
		return
	}
	path, err := exec.LookPath("docgauge")
	ts.Check(err)
	cmd := exec.Command(path, append([]string{"sandbox", "--listen", "127.0.0.1:0", "--request-log",
		ts.MkAbs("requests.jsonl")}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	dieWithUs(cmd)
	ts.Check(cmd.Start())
	startedBy(ts).sandbox = cmd
	ts.Defer(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for name := ""; name != "DOCGAUGE_API_KEY"; { // which is the last
		if !lines.Scan() {
			ts.Fatalf("sandbox printed too little: %s", stderr.String())
		}
		var value string
		name, value, _ = strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "=")
		ts.Setenv(name, value)
	}
}

// scriptCodeHost serves team/docs.git in $WORK with GitHub's API for it, and sets DOCGAUGE_SITE_REPO for a project,
// with the settings of the code host: codehost prj_docs.
func scriptCodeHost(ts *testscript.TestScript, _ bool, args []string) {
	const token = "token-of-the-tests"
	host := fake.NewHost("github", "team/docs", token)
	git, err := engines.GitServer(ts.MkAbs("."), host.GitAuthorization())
	ts.Check(err)
	mux := http.NewServeMux()
	mux.Handle("/team/docs.git/", git)
	mux.Handle("/api/v3/", host)
	server := httptest.NewServer(mux)
	ts.Defer(server.Close)
	host.Web = server.URL
	for name, value := range map[string]string{"REPO": args[0] + "=" + server.URL + "/team/docs.git", "TOKEN": token,
		"CODE_HOST": "github", "CODE_HOST_URL": server.URL + "/api/v3"} {
		ts.Setenv("DOCGAUGE_SITE_"+name, value)
	}
}

// scriptExits runs a command and checks its exit code: exits 3 docgauge export.
func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// refuses is a command that must end with the exit code and say why on standard error:
// refused 'unknown flag: --nope' docgauge plan --nope.
func refuses(code int) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		scriptExits(ts, false, append([]string{strconv.Itoa(code)}, args[1:]...))
		if !matches(ts, args[0], ts.ReadFile("stderr")) {
			ts.Fatalf("standard error does not match %s", args[0])
		}
	}
}

func matches(ts *testscript.TestScript, pattern, text string) bool {
	re, err := regexp.Compile("(?m)" + pattern)
	ts.Check(err)
	return re.MatchString(text)
}

// scriptBackdate makes the prompt files older than the time that they must be unchanged.
func scriptBackdate(ts *testscript.TestScript, _ bool, _ []string) {
	names, err := filepath.Glob(ts.MkAbs("prompts/*.md"))
	ts.Check(err)
	old := time.Now().Add(-time.Hour)
	for _, name := range names {
		ts.Check(os.Chtimes(name, old, old))
	}
}

// scriptRequests checks how many requests the sandbox has had: requests 20, or
// requests 1 8 for from 1 to 8.
func scriptRequests(ts *testscript.TestScript, _ bool, args []string) {
	least, err := strconv.Atoi(args[0])
	ts.Check(err)
	most, err := strconv.Atoi(args[len(args)-1])
	ts.Check(err)
	if got := logged(ts); got < least || got > most {
		ts.Fatalf("the sandbox has had %d requests, want %s", got, strings.Join(args, " to "))
	}
}

func logged(ts *testscript.TestScript) int {
	text, err := os.ReadFile(ts.MkAbs("requests.jsonl"))
	ts.Check(err)
	return bytes.Count(text, []byte("\n"))
}

// scriptAwait waits until the sandbox has had so many requests, await 5, or a file has a
// text: await serve.log 'settings reloaded'.
func scriptAwait(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(testbed.Poll(strings.Join(args, " "), func() (bool, error) {
		if len(args) == 1 {
			n, err := strconv.Atoi(args[0])
			return err == nil && logged(ts) >= n, err
		}
		text, _ := os.ReadFile(ts.MkAbs(args[0])) // it may come
		return matches(ts, args[1], string(text)), nil
	}))
}

// scriptPoke overwrites bytes of a file: poke FILE OFFSET HEX.
func scriptPoke(ts *testscript.TestScript, _ bool, args []string) {
	offset, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	data, err := hex.DecodeString(args[2])
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY, 0)
	ts.Check(err)
	_, err = f.WriteAt(data, offset)
	ts.Check(errors.Join(err, f.Close()))
}

// scriptParquets checks how many .parquet files there are below a directory.
func scriptParquets(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	got := 0
	err = filepath.WalkDir(ts.MkAbs(args[0]), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".parquet") {
			got++
		}
		return err
	})
	ts.Check(err)
	if got != want {
		ts.Fatalf("%d .parquet files below %s, want %d", got, args[0], want)
	}
}

// scriptSchema sets the schema of a state, schema DIR 4, or checks it: schema DIR is 4.
func scriptSchema(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", ts.MkAbs(filepath.Join(args[0], state.FileName)))
	ts.Check(err)
	defer db.Close()
	if len(args) == 2 {
		_, err := db.Exec("PRAGMA busy_timeout = 60000; PRAGMA user_version = " + args[1])
		ts.Check(err)
		return
	}
	got := ""
	ts.Check(db.QueryRow("PRAGMA user_version").Scan(&got))
	if got != args[2] {
		ts.Fatalf("schema %s, want %s", got, args[2])
	}
}

// scriptHook starts a receiver of notifications that adds each body, and its
// signature and mark, to a file: hook FILE. With statuses it answers the first
// deliveries with them: hook FILE 500 302.
func scriptHook(ts *testscript.TestScript, _ bool, args []string) {
	statuses := args[1:]
	url := receive(ts, args[0], func(w http.ResponseWriter, r *http.Request) string {
		body, err := io.ReadAll(r.Body)
		ts.Check(err)
		if len(statuses) > 0 {
			status, err := strconv.Atoi(statuses[0])
			ts.Check(err)
			statuses = statuses[1:]
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		}
		return strings.TrimSpace(r.Header.Get("X-Docgauge-Signature") + " " +
			r.Header.Get("X-Docgauge-Possibly-Repeated") + " " + string(body))
	})
	ts.Setenv("DOCGAUGE_NOTIFY_URL", url+"/T0KEN")
}

// scriptMonitor starts a monitor of cron jobs that adds each request to a file: monitor
// FILE. With a status it answers all with that.
func scriptMonitor(ts *testscript.TestScript, _ bool, args []string) {
	url := receive(ts, args[0], func(w http.ResponseWriter, r *http.Request) string {
		if len(args) > 1 {
			status, err := strconv.Atoi(args[1])
			ts.Check(err)
			w.WriteHeader(status)
		}
		return r.Method + " " + r.RequestURI
	})
	ts.Setenv("DOCGAUGE_PING_URL", url+"/T0KEN")
}

// receive serves until the script ends, one request at a time, and adds a line for
// each to a file.
func receive(
	ts *testscript.TestScript, name string, line func(http.ResponseWriter, *http.Request) string,
) (url string) {
	file, err := os.OpenFile(ts.MkAbs(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	ts.Check(err)
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintln(file, line(w, r))
	}))
	ts.Defer(func() {
		server.Close()
		ts.Check(file.Close())
	})
	return server.URL
}

// scriptSigterm sends SIGTERM to the background commands.
func scriptSigterm(ts *testscript.TestScript, _ bool, _ []string) {
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	}
}

// newProgram is a program in the test's process; now can be nil: the system's clock.
func newProgram(out, err io.Writer, now func() time.Time) *Program {
	program := New("dev", "", "", out, err)
	if now != nil {
		program.Console = console.New(program.Build, out, err, now)
	}
	return program
}

var check = testbed.Check
