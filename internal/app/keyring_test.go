package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/config"
)

// logbook is a log that can be read while it is written.
type logbook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func writeText(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKeyFileIsWatched: a key file that changes is read again within ten seconds,
// without a signal. What cannot be a key leaves the former one, and is told once.
func TestKeyFileIsWatched(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	write := func(text string) { t.Helper(); writeText(t, file, text) }
	write("sbx_one")
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(7 * time.Second)
		log := new(logbook)
		var news atomic.Int64
		k := newKeyring("DOCGAUGE_API_KEY", "sbx_one", map[string]string{"DOCGAUGE_API_KEY": file}, isKey)
		ctx, cancel := context.WithCancel(t.Context())
		go k.Watch(ctx, slog.New(slog.NewTextHandler(log, nil)), func() { news.Add(1) })
		for _, step := range []struct {
			change      func()
			key, logged string
			news        int64
		}{
			{func() {}, "sbx_one", "", 0},
			{func() { write("sbx_two\n") }, "sbx_two", "key reloaded", 1},
			{func() { write("no key at all") }, "sbx_two", "does not hold a key: the former one stays in use", 1},
			{func() { write("") }, "sbx_two", "", 1},
			{func() { _ = os.Remove(file) }, "sbx_two", "no such file or directory: the former key stays in use", 1},
			{func() { _ = os.Mkdir(file, 0o700) }, "sbx_two", "is a directory: a secret is read from a regular file", 1},
			{func() { _ = os.Remove(file); write("sbx_six" + strings.Repeat(" ", 64<<10)) }, "sbx_two", "larger than 64 KiB", 1},
			{func() { write("sbx_two") }, "sbx_two", "", 1},
			{func() { write("sbx_one") }, "sbx_one", "key reloaded", 2},
		} {
			before := len(log.String())
			step.change()
			time.Sleep(3*pollFiles + time.Second)
			synctest.Wait()
			said := log.String()[before:]
			if k.Get() != step.key || news.Load() != step.news {
				t.Errorf("the key is %s, new %d times; want %s, %d", k.Get(), news.Load(), step.key, step.news)
			}
			if lines := strings.Count(said, "\n"); !strings.Contains(said, step.logged) || lines > 1 || lines == 0 && step.logged != "" {
				t.Errorf("want one line %q in the log:\n%s", step.logged, said)
			}
			if strings.Contains(said, "sbx_") || strings.Contains(said, "no key at all") {
				t.Errorf("the log has what is in the file:\n%s", said)
			}
		}
		cancel()
	})
}

// TestHeldSecretHasChanged: a secret that serve does not read again by itself is told of,
// once, when its file has another.
func TestHeldSecretHasChanged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dsn")
	c := config.Config{ClickHouseDSN: "clickhouse://a:one@db/x",
		SecretFiles: map[string]string{"DOCGAUGE_CLICKHOUSE_DSN": file}}
	write := func(text string) { t.Helper(); writeText(t, file, text) }
	write("clickhouse://a:one@db/x\n")
	synctest.Test(t, func(t *testing.T) {
		log := new(logbook)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go (&App{Config: c, Log: slog.New(slog.NewTextHandler(log, nil))}).WatchSecrets(ctx)
		for n, step := range []struct {
			change func()
			lines  int
		}{
			{func() {}, 0},
			{func() { write("clickhouse://a:two@db/x\n") }, 1},
			{func() {}, 0},
			{func() { write("") }, 0}, // being written
			{func() { write("clickhouse://a:one@db/x") }, 0},
			{func() { write("clickhouse://a:two@db/x") }, 1},
			{func() { _ = os.Remove(file) }, 0},
		} {
			before := len(log.String())
			step.change()
			time.Sleep(3*pollFiles + time.Second)
			synctest.Wait()
			said := log.String()[before:]
			if strings.Count(said, "variable=DOCGAUGE_CLICKHOUSE_DSN") != step.lines || strings.Count(said, "\n") != step.lines {
				t.Errorf("step %d: want %d lines in the log:\n%s", n, step.lines, said)
			}
			if strings.Contains(said, "db") {
				t.Errorf("the log has what is in the file:\n%s", said)
			}
		}
	})
}
