package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/dev/testbed"
)

// step makes a change, waits until the file was checked again, and returns what was logged.
func step(t *testing.T, log *testbed.Log, change func()) string {
	t.Helper()
	before := len(log.String())
	change()
	time.Sleep(3*pollFiles + time.Second)
	synctest.Wait()
	return log.String()[before:]
}

// writer writes texts to a file.
func writer(t *testing.T, file string) func(text string) func() {
	return func(text string) func() {
		return func() {
			check(t, os.WriteFile(file, []byte(text), 0o600))
		}
	}
}

// TestKeyFileIsWatched: a key file that changes is read again within two seconds, without a signal. A
// file without a key leaves the former one, and is logged once.
func TestKeyFileIsWatched(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	write := writer(t, file)
	write("sbx_one")()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(7 * time.Second)
		log := new(testbed.Log)
		var news atomic.Int64
		k := newKeyring("DOCGAUGE_API_KEY", "sbx_one", map[string]string{"DOCGAUGE_API_KEY": file}, isKey)
		ctx, cancel := context.WithCancel(t.Context())
		go k.Watch(ctx, slog.New(slog.NewTextHandler(log, nil)), func() { news.Add(1) })
		for _, tc := range []struct {
			change      func()
			key, logged string
			news        int64
		}{
			{func() {}, "sbx_one", "", 0},
			{write("sbx_two\n"), "sbx_two", "key reloaded", 1},
			{write("no key at all"), "sbx_two", "does not hold a key: the former one stays in use", 1},
			{write(""), "sbx_two", "", 1},
			{func() { _ = os.Remove(file) }, "sbx_two", "no such file or directory: the former key stays in use", 1},
			{func() { _ = os.Mkdir(file, 0o700) }, "sbx_two", "is a directory: a secret is read from", 1},
			{func() { _ = os.Remove(file) }, "sbx_two", "no such file or directory: the former key stays in use", 1},
			{write("sbx_six" + strings.Repeat(" ", 64<<10)), "sbx_two", "larger than 64 KiB", 1},
			{write("sbx_two"), "sbx_two", "", 1},
			{write("sbx_one"), "sbx_one", "key reloaded", 2},
		} {
			said := step(t, log, tc.change)
			if k.get() != tc.key || news.Load() != tc.news {
				t.Errorf("the key is %s, new %d times; want %s, %d", k.get(), news.Load(), tc.key, tc.news)
			}
			lines := strings.Count(said, "\n")
			if !strings.Contains(said, tc.logged) || lines > 1 || lines == 0 && tc.logged != "" {
				t.Errorf("want one line %q in the log:\n%s", tc.logged, said)
			}
			if strings.Contains(said, "sbx_") || strings.Contains(said, "no key at all") {
				t.Errorf("the log has what is in the file:\n%s", said)
			}
		}
		cancel()
	})
}

// TestSecretHasChanged: when the file of a secret that serve does not read again by itself has another
// one, that is logged once.
func TestSecretHasChanged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dsn")
	c := config.Config{ClickHouseDSN: "clickhouse://a:one@db/x",
		SecretFiles: map[string]string{"DOCGAUGE_CLICKHOUSE_DSN": file}}
	write := writer(t, file)
	write("clickhouse://a:one@db/x\n")()
	synctest.Test(t, func(t *testing.T) {
		log := new(testbed.Log)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go (&App{Config: c, Log: slog.New(slog.NewTextHandler(log, nil))}).WatchSecrets(ctx)
		for n, tc := range []struct {
			change func()
			lines  int
		}{
			{func() {}, 0},
			{write("clickhouse://a:two@db/x\n"), 1},
			{func() {}, 0},
			{write(""), 0}, // being written
			{write("clickhouse://a:one@db/x"), 0},
			{write("clickhouse://a:two@db/x"), 1},
			{func() { _ = os.Remove(file) }, 0},
		} {
			said := step(t, log, tc.change)
			named := strings.Count(said, "variable=DOCGAUGE_CLICKHOUSE_DSN")
			if named != tc.lines || strings.Count(said, "\n") != tc.lines {
				t.Errorf("step %d: want %d lines in the log:\n%s", n, tc.lines, said)
			}
			if strings.Contains(said, "db") {
				t.Errorf("the log has what is in the file:\n%s", said)
			}
		}
	})
}
