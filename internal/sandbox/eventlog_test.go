package sandbox

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sandbox/traffic"
)

func line(at, visitor, kind, path string) string {
	return `{"time":"` + at + `","visitor":"` + visitor + `","kind":"` + kind + `","path":"` + path + `"}` + "\n"
}

// logFile is an event log under test. Every change moves its modification time,
// as time does between changes that are not made by a test.
type logFile struct {
	t    *testing.T
	dir  string
	time time.Time
}

func newLogFile(t *testing.T, content string) *logFile {
	f := &logFile{t: t, dir: t.TempDir(), time: noon}
	f.write(os.O_TRUNC, content)
	return f
}

func (f *logFile) name() string { return filepath.Join(f.dir, traffic.EventLogName) }

func (f *logFile) write(mode int, content string) {
	f.t.Helper()
	file, err := os.OpenFile(f.name(), mode|os.O_CREATE|os.O_WRONLY, 0o600)
	check(f.t, err)
	if _, err := file.WriteString(content); err != nil {
		f.t.Fatal(err)
	}
	check(f.t, file.Close())
	f.time = f.time.Add(time.Second)
	check(f.t, os.Chtimes(f.name(), f.time, f.time))
}

func (f *logFile) sandbox(projects ...string) *Sandbox {
	return newTest(f.t, Config{DataDir: f.dir, Projects: projects})
}

const first = "2026-10-05T10:00:00Z"

func totals(t *testing.T, s *Sandbox) analytics.Totals {
	t.Helper()
	return decode(t, get(s, path)).Totals
}

// TestLogIsFollowed: every answer reflects the complete lines of the file at that time. An
// error remains until the file is rewritten.
func TestLogIsFollowed(t *testing.T) {
	lines := func(kind string, visitors ...string) (text string) {
		for _, v := range visitors {
			text += line(first, v, kind, "/x")
		}
		return text
	}
	half := lines("human", "c")
	f := newLogFile(t, lines("human", "a"))
	var said bytes.Buffer
	s := newTest(t, Config{DataDir: f.dir, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	const failed, synthetic = -1, 1000
	for _, step := range []struct {
		name string
		mode int
		text string
		want int64
	}{
		{"one line", os.O_APPEND, "", 1},
		{"three lines", os.O_APPEND, lines("ai", "a", "b"), 2},
		{"half a line", os.O_APPEND, half[:20], 2},
		{"its other half", os.O_APPEND, half[20:], 3},
		{"a line without an end", os.O_APPEND, strings.TrimSuffix(lines("human", "d"), "\n"), 4},
		{"after its end", os.O_APPEND, "\n\n" + lines("human", "e"), 5},
		{"rewritten, shorter", os.O_TRUNC, lines("ai", "c"), 1},
		{"rewritten, longer", os.O_TRUNC, lines("human", "d", "e", "f"), 3},
		{"removed", 0, "", synthetic},
		{"there again", os.O_TRUNC, lines("human", "d"), 1},
		{"a bad line", os.O_APPEND, lines("robot", "b"), failed},
		{"and another line", os.O_APPEND, lines("human", "c"), failed},
		{"mended", os.O_TRUNC, lines("human", "a", "b", "c"), 3},
	} {
		if step.want == synthetic {
			check(t, os.Remove(f.name()))
		} else {
			f.write(step.mode, step.text)
		}
		for range 2 {
			said.Reset()
			w := get(s, path)
			if step.want == failed {
				if w.Code != http.StatusInternalServerError || !strings.Contains(said.String(), traffic.EventLogName+":2: kind") {
					t.Fatalf("%s: %d %s, log %s", step.name, w.Code, w.Body, &said)
				}
			} else if got := decode(t, w).Totals.Total; min(got, synthetic) != step.want {
				t.Errorf("%s: %d visitors, want %d", step.name, got, step.want)
			}
		}
	}
}

func TestLogHasProjectsAndArrivals(t *testing.T) {
	inB := strings.Replace(line(first, "b", "human", "/x"), "{", `{"project":"b",`, 1)
	future := line("2026-10-14T12:00:01Z", "later", "human", "/x") +
		line("2026-10-14T08:59:59-03:00", "now", "human", "/x")
	s := newLogFile(t, line(first, "a", "human", "/x")+inB+inB+future).sandbox(DefaultProject, "b")
	if got := totals(t, s); got.Total != 2 {
		t.Errorf("first project: %+v", got)
	}
	if got := decode(t, get(s, "/v1/analytics/b/visitors")); got.Totals.Total != 1 || len(got.Visitors) != 1 {
		t.Errorf("project b: %+v", got)
	}
}

func TestDriftOnALog(t *testing.T) {
	f := newLogFile(t, "")
	s := newTest(t, Config{DataDir: f.dir, Faults: Faults{DriftEvery: 1}})
	if got := totals(t, s); got.Total != 0 {
		t.Errorf("drift without any page: %+v", got)
	}
	if got := totals(t, newTest(t, Config{DataDir: f.dir, Faults: Faults{Moving: time.Hour}})); got.Total != 0 {
		t.Errorf("latecomers without any page: %+v", got)
	}
	f.write(os.O_APPEND, line(first, "a", "human", "/x"))
	if got := totals(t, s); got.Total != 1+2*2 {
		t.Errorf("two requests later: %+v", got)
	}
}

func TestBadLines(t *testing.T) {
	good := line(first, "a", "human", "/x")
	for bad, rule := range map[string]string{
		"x\n":                                  "line: want one JSON object",
		"[]\n":                                 "line: want one JSON object",
		"{}\n":                                 `time "": want RFC 3339`,
		"{\n":                                  "line: want one JSON object",
		`{"vistor":"a"}` + "\n":                "line: want one JSON object",
		strings.TrimSpace(good) + good:         "line: want one JSON object a line, found more",
		line("2026-10-05", "a", "human", "/x"): `time "2026-10-05": want RFC 3339`,
		line("2026-10-05T10:00:00", "a", "human", "/x"):                              "time ",
		line(first, "", "human", "/x"):                                               "visitor: is missing or empty",
		strings.Replace(good, "{", `{"agent":"curl",`, 1):                            "agent: want it only where",
		strings.Replace(line(first, "a", "ai", "/x"), "{", `{"agent":"Firefox",`, 1): `agent "Firefox": is not in the table`,
		line(first, "a", "bot", "/x"):                                                `kind "bot": want human or ai`,
		line(first, "a", "human", ""):                                                `path "": want /`,
		line(first, "a", "human", "x"):                                               `path "x": want /`,
		line(first, "a", "human", "/"+strings.Repeat("x", 2048)):                     "path ",
		strings.Replace(good, "{", `{"project":"typo",`, 1):                          `project "typo": is not served`,
		"{" + strings.Repeat(" ", 1<<20) + good[1:]:                                  "line: want at most",
	} {
		f := newLogFile(t, good+"\n"+bad+good)
		_, err := New(Config{DataDir: f.dir})
		if err == nil || !strings.Contains(err.Error(), f.name()+":3: "+rule) {
			t.Errorf("%.60q: %v; want %s", bad, err, rule)
		}
	}
}

// Only a last line that could still be finished is waited for.
func TestLastLineWithoutEnd(t *testing.T) {
	good := line(first, "a", "human", "/x")
	for last, ok := range map[string]bool{`{"time":"2026-`: true, "{": true, "x": false, `{"kind":"bot"}`: false} {
		_, err := New(Config{DataDir: newLogFile(t, good+last).dir})
		if (err == nil) != ok {
			t.Errorf("%s: %v", last, err)
		}
	}
}

func TestDataDirectory(t *testing.T) {
	f := newLogFile(t, "")
	if _, err := New(Config{DataDir: f.name()}); err == nil || !strings.Contains(err.Error(), f.name()) {
		t.Errorf("a file: %v", err)
	}
	newTest(t, Config{DataDir: filepath.Join(f.dir, "new")}) // it makes it
	check(t, os.Remove(f.name()))
	if got := totals(t, f.sandbox()); got.Total < 1000 {
		t.Errorf("no event log: %+v, want synthetic traffic", got)
	}
}

// Readers of one reading are not disturbed by the next.
func TestReadingWhileLinesCome(t *testing.T) {
	f := newLogFile(t, line(first, "a", "human", "/x"))
	s := f.sandbox()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			totals(t, s)
		}
	}()
	for i := range 50 {
		f.write(os.O_APPEND, line(first, string(rune('À'+i)), "ai", "/x"))
	}
	<-done
	if got := totals(t, s); got.Total != 51 {
		t.Errorf("%+v", got)
	}
}
