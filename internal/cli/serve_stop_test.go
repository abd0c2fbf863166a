package cli

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// TestStopIsNotHeldUp: a Pushgateway, or a receiver of notifications, that takes a connection
// and never answers holds up neither the export nor a stop.
func TestStopIsNotHeldUp(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"Pushgateway": {"DOCGAUGE_PUSHGATEWAY_URL=http://ops:push-secret@ADDRESS"},
		"notifications": {"DOCGAUGE_API_KEY_EXPIRES=" + testbed.DaysAgo(1).String(),
			"DOCGAUGE_NOTIFY_URL=http://ADDRESS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			check(t, err)
			defer silent.Close()
			env := []string{"DOCGAUGE_SINCE=" + testbed.DaysAgo(2).String(), "DOCGAUGE_WINDOWS=day"}
			for _, s := range settings {
				env = append(env, strings.Replace(s, "ADDRESS", silent.Addr().String(), 1))
			}
			s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 5, Pages: 40})
			daemon := placeFor(t, s, []string{sandbox.DefaultProject}, env...).serve(t, "--once-at-start")
			check(t, silent.(*net.TCPListener).SetDeadline(time.Now().Add(testbed.Patience)))
			conn, err := silent.Accept()
			check(t, err)
			defer conn.Close()
			if name == "notifications" { // a Pushgateway is pushed to after the run
				daemon.awaitRuns(t, "success", 1)
			}
			daemon.stop(t) // in less than the grace of a run, else it would exit with an error
		})
	}
}
