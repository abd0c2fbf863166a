package cli

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestHeldSecretHasChanged: a secret that serve does not read again is told of when
// its file has another, once, and at each signal.
func TestHeldSecretHasChanged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dsn")
	c := config{ClickHouseDSN: "clickhouse://a:one@db/x", ClickHouseDSNFile: file}
	write := func(text string) { t.Helper(); writeText(t, file, text) }
	write("clickhouse://a:one@db/x\n")
	synctest.Test(t, func(t *testing.T) {
		log := new(logbook)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		signals := make(chan os.Signal)
		go watchSecrets(ctx, c.heldSecrets(), signals, slog.New(slog.NewTextHandler(log, nil)))
		for n, step := range []struct {
			change func()
			lines  int
		}{
			{func() {}, 0},
			{func() { signals <- os.Interrupt }, 0},
			{func() { write("clickhouse://a:two@db/x\n") }, 1},
			{func() {}, 0},
			{func() { signals <- os.Interrupt }, 1},
			{func() { write("") }, 0}, // being written
			{func() { write("clickhouse://a:one@db/x") }, 0},
			{func() { write("clickhouse://a:two@db/x") }, 1},
			{func() { _ = os.Remove(file) }, 0},
		} {
			before := len(log.String())
			step.change()
			time.Sleep(3*keyPoll + time.Second)
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
