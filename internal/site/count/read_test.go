package count

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCores: the report is the same, to the byte, whatever the number of processors and the order of the logs: for plain
// and compressed logs of several formats, a copy of one, more views than Repeats compares, and one address with most.
func TestCores(t *testing.T) {
	t.Chdir(t.TempDir())
	var combined, objects strings.Builder
	for i := range 3 * maxPrints / 2 {
		at, addr := now.Time().Add(time.Duration(i*7)*time.Second), fmt.Sprintf("192.0.%d.%d", i%61, i%97)
		if i%3 > 0 {
			addr = "192.0.2.9"
		}
		path, agent := fmt.Sprintf("/docs/%d", i*i%501), firefox
		switch i % 11 {
		case 0:
			path += ".css"
		case 1:
			agent = "Claude-User"
		case 2:
			agent = fmt.Sprint("curl/", i%50)
		}
		fmt.Fprintf(&combined, `%s - - [%s] "GET %s HTTP/1.1" 200 %d "https://google.com/" "%s"`+"\n", addr,
			at.Format("02/Jan/2006:15:04:05 -0700"), path, i, agent)
		if i%1000 == 0 {
			fmt.Fprintln(&objects, "no line", i)
		}
		if i%4 == 0 {
			fmt.Fprintf(&objects, `{"ts":%d,"request":{"remote_ip":%q,"host":"a.example","method":"GET","uri":%q,`+
				`"headers":{"User-Agent":[%q],"Accept":["text/markdown"]}},"status":200,"size":%d}`+"\n", at.Unix(), addr,
				"/other"+path, agent, i)
		}
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(combined.String())); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	paths := []string{"a.log", "b.log.gz", "c.json", "d.txt"}
	for i, text := range []string{combined.String(), packed.String(), objects.String(), "no log\n"} {
		if err := os.WriteFile(paths[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := rulesOf(t, Settings{})
	var want string
	for _, workers := range []int{1, 2, 8} {
		for range 2 {
			slices.Reverse(paths)
			report := func() *Report {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
				report, err := r.Count(t.Context(), paths, Options{Now: now + 20, ByDay: true, ByAgent: true, BySource: true,
					ByUserAgent: true})
				if err != nil {
					t.Fatal(err)
				}
				return report
			}()
			got, err := json.Marshal(report)
			if err != nil {
				t.Fatal(err)
			}
			if want == "" {
				want = string(got)
				warnings := strings.Join(report.Warnings, "\n")
				for _, text := range []string{"d.txt: no line", "are in a.log too", "3 addresses have about 6"} {
					if !strings.Contains(warnings, text) {
						t.Errorf("warnings have no %q: %s", text, warnings)
					}
				}
			}
			if string(got) != want {
				t.Errorf("%d processors, logs %v: got and want\n%.3000s\n%.3000s", workers, paths, got, want)
			}
		}
	}
}

// TestRepeatsOrder: of three logs with the same views the first two are named, whichever is read first.
func TestRepeatsOrder(t *testing.T) {
	var views Batch
	for i := range 10 {
		views.prints = append(views.prints, print{uint64(i), int64(i)})
	}
	for _, order := range [][]int32{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}} {
		r := NewRepeats()
		for i, name := range []string{"a", "b", "c"} {
			r.log(i, name, name)
		}
		for _, log := range order {
			r.add(log, &views)
		}
		found := r.Findings()
		if len(found[1]) != 1 || !strings.Contains(found[1][0].Text, "of b that were compared are in a") {
			t.Errorf("read in the order %d: %v", order, found)
		}
	}
}

// TestSmallFiles: many small files cost about what their lines do, and no buffers of their own.
func TestSmallFiles(t *testing.T) {
	const files, lines, most = 400, 20, 64 << 10
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector drops what a sync.Pool keeps")
	}
	dir := t.TempDir()
	for i := range files {
		var text strings.Builder
		for n := range lines {
			fmt.Fprintf(&text, `192.0.2.%d - - [20/Oct/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "%s"`+"\n", n, firefox)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	report, err := rulesOf(t, Settings{}).Count(t.Context(), []string{dir}, Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / files; got > most {
		t.Errorf("each file takes %d bytes of memory, want at most %d", got, most)
	}
	if report.Lines != files*lines || report.Totals.Total != lines {
		t.Errorf("%d lines and %v, want %d and %d readers", report.Lines, report.Totals, files*lines, lines)
	}
}
