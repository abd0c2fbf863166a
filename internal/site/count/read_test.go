package count

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

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
