package cli

import (
	"net"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// TestStopWhileHandingOver: a Pushgateway that does not answer holds up no stop.
func TestStopWhileHandingOver(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 5, Pages: 40})
	p := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_SINCE="+testbed.DaysAgo(2).String(),
		"DOCGAUGE_WINDOWS=day",
		"DOCGAUGE_PUSHGATEWAY_URL=http://ops:push-secret@"+silent.Addr().String())
	daemon := p.serve(t, "--once-at-start")
	if err := silent.(*net.TCPListener).SetDeadline(time.Now().Add(testbed.Patience)); err != nil {
		t.Fatal(err)
	}
	conn, err := silent.Accept() // it pushes, after the run
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	daemon.stop(t) // in less than the grace of a run, else it would exit with an error
}

// TestStopWhileTelling: a receiver that takes a notification and never answers holds up
// neither the export nor a stop.
func TestStopWhileTelling(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 5, Pages: 40})
	p := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_SINCE="+testbed.DaysAgo(2).String(),
		"DOCGAUGE_WINDOWS=day",
		"DOCGAUGE_API_KEY_EXPIRES="+testbed.DaysAgo(1).String(), "DOCGAUGE_NOTIFY_URL=http://"+silent.Addr().String())
	daemon := p.serve(t, "--once-at-start")
	if err := silent.(*net.TCPListener).SetDeadline(time.Now().Add(testbed.Patience)); err != nil {
		t.Fatal(err)
	}
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	daemon.awaitRuns(t, "success", 1)
	daemon.stop(t)
}
