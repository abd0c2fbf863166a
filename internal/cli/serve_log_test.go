package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// logTypes are the keys that a pipeline of logs knows, and their JSON types.
var logTypes = map[string]string{
	"time": "string", "level": "string", "msg": "string", "error": "string", "reason": "string", "outcome": "string",
	"project": "string", "granularity": "string", "from": "string", "to": "string", "projects": "string",
	"version": "string", "schedule": "string", "next_run": "string", "sinks": "string",
	"state_dir": "string", "url": "string",
	"windows": "number", "open_windows": "number", "rows": "number", "requests": "number", "windows_left": "number",
	"next_request_at": "string", "finished_by": "string", "took_seconds": "number", "up_seconds": "number",
	"wait_seconds": "number",
	"sink":         "string", "variable": "string", "event": "string", "delivery": "string",
	"host": "string", "tries": "number",
	"status": "number", "attempt": "number", "text": "string",
}

// logLines reads a log of JSON lines. Each key has one type in all of them, the known keys the type of the table; no
// duration is in nanoseconds.
func logLines(t *testing.T, text string) (out []map[string]any) {
	t.Helper()
	types := map[string]string{}
	for line := range strings.Lines(text) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("not JSON: %v: %s", err, line)
			continue
		}
		for key, value := range fields {
			kind := map[string]string{"string": "string", "float64": "number",
				"bool": "boolean"}[fmt.Sprintf("%T", value)]
			if known := logTypes[key]; kind == "" || known != "" && known != kind ||
				types[key] != "" && types[key] != kind {
				t.Errorf("%s is a %T here: %s", key, value, line)
			}
			types[key] = kind
			if seconds, ok := value.(float64); ok && strings.HasSuffix(key, "_seconds") && seconds > 3600 {
				t.Errorf("%s: %s", key, line)
			}
			if text, ok := value.(string); ok && strings.Contains(text, "T0KEN") {
				t.Errorf("a secret: %s", line)
			}
		}
		if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(fields["time"])); err != nil || fields["msg"] == "" ||
			fields["level"] == "" || fields["window"] != nil {
			t.Errorf("%v: %s", err, line)
		}
		out = append(out, fields)
	}
	return out
}

// find returns the lines with a message.
func find(t *testing.T, all []map[string]any, msg string, keys ...string) (out []map[string]any) {
	t.Helper()
	for _, fields := range all {
		if fields["msg"] != msg {
			continue
		}
		out = append(out, fields)
		for _, key := range keys {
			if fields[key] == nil {
				t.Errorf("%s lacks %s: %v", msg, key, fields)
			}
		}
	}
	if len(out) == 0 {
		t.Errorf("no line says %q", msg)
	}
	return out
}

// TestServeLog: the whole life of serve in JSON: it starts, exports, is throttled, finds
// a sink down and a receiver dead, is asked to reload, and stops.
func TestServeLog(t *testing.T) {
	t.Parallel()
	good := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 5, Pages: 40})
	limited := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 20, Pages: 40,
		Faults: sandbox.Faults{ThrottleAfter: 2, RetryAfter: time.Hour}})
	p := placeFor(t, good, []string{sandbox.DefaultProject},
		"DOCGAUGE_SINCE="+testbed.DaysAgo(2).String(), "DOCGAUGE_WINDOWS=day",
		"DOCGAUGE_LOG_FORMAT=json", "DOCGAUGE_LOG_LEVEL=debug", "DOCGAUGE_NOTIFY_URL=http://127.0.0.1:1/T0KEN",
		"DOCGAUGE_PING_URL=http://127.0.0.1:1/T0KEN",
		"DOCGAUGE_API_KEY_EXPIRES="+testbed.DaysAgo(1).String(), "DOCGAUGE_CONCURRENCY=1")
	life := func(outcome string, runs float64) {
		daemon := p.serve(t, "--once-at-start")
		daemon.awaitRuns(t, outcome, runs)
		check(t, daemon.cmd.Process.Signal(syscall.SIGHUP))
		testbed.Await(t, "the answer to SIGHUP and the ping", func() bool {
			text, err := os.ReadFile(daemon.log)
			check(t, err)
			life := string(text)[strings.LastIndex(string(text), "serve started"):]
			return strings.Contains(life, "settings reloaded") && strings.Contains(life, "monitor not pinged")
		})
		daemon.stop(t)
	}
	life("success", 1)
	p.env = append(p.env, "DOCGAUGE_BASE_URL="+limited.URL, "DOCGAUGE_SINCE="+testbed.DaysAgo(9).String())
	life("deferred", 1)
	visitors := filepath.Join(p.dir, "data", "visitors")
	check(t, os.Rename(visitors, visitors+".away"))
	check(t, os.WriteFile(visitors, nil, 0o600))
	p.env = append(p.env, "DOCGAUGE_BASE_URL="+good.URL, "DOCGAUGE_STATE_DIR=other")
	life("failed", 1)

	text, err := os.ReadFile(filepath.Join(p.dir, "serve.log"))
	check(t, err)
	all := logLines(t, string(text))
	started := find(t, all, "serve started", "version", "projects", "schedule", "next_run", "sinks", "state_dir", "url")
	if len(started) != 3 || all[0]["msg"] != "serve started" {
		t.Errorf("%d lives, the first line is %v", len(started), all[0])
	}
	find(t, all, "window exported", "project", "granularity", "from", "to", "reason", "took_seconds")
	find(t, all, "running window read", "project", "granularity", "from", "to", "took_seconds")
	ended := find(t, all, "export ended", "outcome", "windows", "open_windows", "rows", "requests",
		"windows_left", "took_seconds")
	if first := ended[0]; first["windows"] != 2.0 || first["open_windows"] != 1.0 {
		t.Errorf("the first run: %v", first)
	}
	if deferred := ended[1]; deferred["next_request_at"] == nil || deferred["windows_left"] == 0.0 {
		t.Errorf("the throttled run: %v", deferred)
	}
	for _, stops := range find(t, all, "serve stops", "reason") {
		if !strings.Contains(stops["reason"].(string), "terminated") {
			t.Errorf("%v", stops)
		}
	}
	find(t, all, "settings reloaded", "projects", "schedule", "next_run", "sinks")
	find(t, all, "notification not delivered", "event", "tries", "error")
	if n := len(find(t, all, "serve stopped", "up_seconds")); n != 3 || all[len(all)-1]["msg"] != "serve stopped" {
		t.Errorf("%d stops, the last line is %v", n, all[len(all)-1])
	}
}

// TestCommandLog: the standard error of single commands is JSON, too.
func TestCommandLog(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 5, Pages: 40})
	base := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_SINCE="+testbed.DaysAgo(2).String(),
		"DOCGAUGE_WINDOWS=day", "DOCGAUGE_LOG_FORMAT=json")
	for _, tc := range []struct {
		name string
		env  []string
		args []string
		code int
		msg  string
	}{
		{"good", []string{"DOCGAUGE_LOG_LEVEL=debug"}, []string{"export"}, exitDone, "window exported"},
		{"refused", []string{"DOCGAUGE_API_KEY=sbx_wrong"},
			[]string{"export", "--from", testbed.DaysAgo(1).String(), "--to", testbed.DaysAgo(0).String()}, exitFailed,
			"export"},
		{"settings", []string{"DOCGAUGE_BUDGET=many", "DOCGAUGE_SETTLE=3"}, []string{"export"},
			exitUsage, "command failed"},
		{"flag", nil, []string{"export", "--nope"}, exitUsage, "command failed"},
		{"remark", nil, []string{"openmetrics", "--from", testbed.DaysAgo(2).String(), "--to",
			testbed.DaysAgo(0).String()}, exitDone, "remark"},
		{"serve", []string{"DOCGAUGE_LISTEN_ADDRESS=192.0.2.1:0"}, []string{"serve"}, exitFailed, "command failed"},
	} {
		code, _, log := place{base.dir, slices.Concat(base.env, tc.env)}.try(t, tc.args...)
		if code != tc.code {
			t.Errorf("%s: exit code %d, want %d\n%s", tc.name, code, tc.code, log)
		}
		find(t, logLines(t, log), tc.msg)
	}
}
