package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// TestHangupAnswersForEachKey: at SIGHUP serve says of both keys what came of it.
func TestHangupAnswersForEachKey(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 5, Pages: 40})
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
		testbed.Await(t, answer, func() bool {
			text, err := os.ReadFile(daemon.log)
			return err == nil && pattern.Match(text)
		})
	}
}
