package cli

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/sandbox"
)

// TestHangupAnswersForEachKey: at SIGHUP serve says of both keys what came of it.
func TestHangupAnswersForEachKey(t *testing.T) {
	t.Parallel()
	s := serviceOf(t, sandbox.Config{Seed: 5, Days: 5, Pages: 40})
	file := filepath.Join(t.TempDir(), "key")
	writeText(t, file, sandbox.DefaultAPIKey)
	p := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_WRITE_API_KEY_FILE="+file)
	daemon := p.serve(t)
	daemon.page(t, "/metrics") // it listens to signals by then
	if err := daemon.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []string{
		`msg="key came in the environment,[^"]*" variable=DOCGAUGE_API_KEY\n`, `msg="key is the same as before" variable=DOCGAUGE_WRITE_API_KEY\n`,
	} {
		pattern := regexp.MustCompile(answer)
		await(t, answer, func() bool {
			text, err := os.ReadFile(daemon.log)
			return err == nil && pattern.Match(text)
		})
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
		k := newKeyring("DOCGAUGE_API_KEY", "sbx_one", file)
		ctx, cancel := context.WithCancel(t.Context())
		signals := make(chan os.Signal)
		go k.watch(ctx, signals, slog.New(slog.NewTextHandler(log, nil)), func() { news.Add(1) })
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
			{func() { _ = os.Mkdir(file, 0o700) }, "sbx_two", "is a folder: a secret is read from a regular file", 1},
			{func() { _ = os.Remove(file); write("sbx_six" + strings.Repeat(" ", 64<<10)) }, "sbx_two", "larger than 64 KiB", 1},
			{func() { write("sbx_two") }, "sbx_two", "", 1},
			{func() { signals <- os.Interrupt }, "sbx_two", "key is the same as before", 1},
			{func() { write("sbx_one") }, "sbx_one", "key reloaded", 2},
		} {
			before := len(log.String())
			step.change()
			time.Sleep(3*keyPoll + time.Second)
			synctest.Wait()
			said := log.String()[before:]
			if k.get() != step.key || news.Load() != step.news {
				t.Errorf("the key is %s, new %d times; want %s, %d", k.get(), news.Load(), step.key, step.news)
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
