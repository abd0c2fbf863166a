package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/docgauge/docgauge/internal/dev/testbed"
)

// scriptServe runs the real `docgauge serve`. `serve --once-at-start`, or with no flag or others, starts it, and
// `serve site serve` starts the server of a site; $URL is then its address, and its output is in $WORK/serve.log.
// `serve hup` sends a signal, `serve kill` ends it at once, `serve stop` sends SIGTERM and expects exit code 0, and
// `serve exits 1` waits for that exit code.
func scriptServe(ts *testscript.TestScript, _ bool, args []string) {
	s := startedBy(ts).sidecar
	switch {
	case len(args) == 0 || strings.HasPrefix(args[0], "-") || args[0] == "site":
		serveScript(ts, args)
	case args[0] == "stop":
		ts.Check(s.cmd.Process.Signal(syscall.SIGTERM))
		scriptServe(ts, false, []string{"exits", "0"})
	case args[0] == "hup":
		// It may have ended already.
		if err := s.cmd.Process.Signal(syscall.SIGHUP); !errors.Is(err, os.ErrProcessDone) {
			ts.Check(err)
		}
	case args[0] == "kill":
		s.kill()
	case args[0] == "exits" && len(args) == 2:
		code, err := s.exit()
		ts.Check(err)
		if strconv.Itoa(code) != args[1] {
			ts.Fatalf("serve: exit code %d, want %s\n%s", code, args[1], ts.ReadFile("serve.log"))
		}
	default:
		ts.Fatalf("usage: serve [flags] | serve hup | serve kill | serve stop | serve exits CODE")
	}
}

func serveScript(ts *testscript.TestScript, flags []string) {
	s, err := startSidecar(ts.Getenv("WORK"), ts.MkAbs("serve.log"), scriptEnv(ts), flags...)
	ts.Check(err)
	ts.Defer(s.kill)
	startedBy(ts).sidecar = s
	ts.Setenv("URL", s.URL)
	for _, m := range siteMetrics.FindAllStringSubmatch(ts.ReadFile("serve.log"), -1) {
		ts.Setenv("METRICS", m[1]) // of the last process
	}
}

// siteMetrics is in the line that says that site serve has started.
var siteMetrics = regexp.MustCompile(`metrics=(http\S+)/metrics`)

// scriptEnv is the environment of the script's commands.
func scriptEnv(ts *testscript.TestScript) []string {
	ts.Check(ts.Exec("sh", "-c", `env -0 >"$WORK/environment"`))
	return strings.Split(strings.TrimSuffix(ts.ReadFile("environment"), "\x00"), "\x00")
}

// scriptGet waits until GET of a path of serve, or of a URL, has a status and, if
// patterns are given, a body that matches them all: get 200 /metrics 'pages{'; after
// ! one that matches none of them. The body is then in $WORK/answer.
func scriptGet(ts *testscript.TestScript, neg bool, args []string) {
	var last string
	err := testbed.Poll(strings.Join(args, " "), func() (bool, error) {
		ok, answer, err := answered(ts, http.MethodGet, neg, args)
		last = answer
		return ok, err
	})
	if err != nil {
		ts.Fatalf("%v\n%s", err, last)
	}
}

// scriptPost is scriptGet with one POST, which must be answered so at once.
func scriptPost(ts *testscript.TestScript, neg bool, args []string) {
	ok, answer, err := answered(ts, http.MethodPost, neg, args)
	ts.Check(err)
	if !ok {
		ts.Fatalf("POST %s: %s", strings.Join(args, " "), answer)
	}
}

// answered reports whether the response matches the arguments of get, and returns it.
func answered(ts *testscript.TestScript, method string, neg bool, args []string) (ok bool, answer string, err error) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	url := args[1]
	if strings.HasPrefix(url, "/") {
		url = startedBy(ts).sidecar.URL + url
	}
	status, body, err := testbed.Ask(context.Background(), method, url)
	answer = fmt.Sprintf("status %d, %v\n%s", status, err, body)
	if err != nil || status != want {
		return false, answer, nil //nolint:nilerr // it may come up
	}
	for _, arg := range args[2:] {
		pattern, err := regexp.Compile("(?m)" + arg)
		ts.Check(err)
		if pattern.MatchString(body) == neg {
			return false, answer, nil
		}
	}
	return true, answer, os.WriteFile(ts.MkAbs("answer"), []byte(body), 0o600)
}

// scriptValue compares a series in a file of metrics with a number, or with the
// same series in another file: value docgauge.prom 'docgauge_pages{…}' = 600,
// value new.prom docgauge_export_last_success_timestamp_seconds > old.prom. The
// series is named as the file has it.
func scriptValue(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: value FILE SERIES =|> NUMBER|FILE")
	}
	got, err := valueIn(ts, args[0], args[1])
	ts.Check(err)
	want, err := strconv.ParseFloat(args[3], 64)
	if err != nil {
		want, err = valueIn(ts, args[3], args[1])
		ts.Check(err)
	}
	if ok := args[2] == "=" && got == want || args[2] == ">" && got > want; !ok {
		ts.Fatalf("%s in %s is %v, want %s %v", args[1], args[0], got, args[2], want)
	}
}

func valueIn(ts *testscript.TestScript, file, name string) (float64, error) {
	all, err := testbed.ParseSeries(ts.ReadFile(file))
	if err != nil {
		return 0, err
	}
	value, ok := all[name]
	if !ok {
		return 0, errors.New(file + " has no " + name)
	}
	return value, nil
}
