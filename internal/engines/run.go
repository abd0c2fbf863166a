package engines

import "testing"

// engine is what every started engine offers to a test's cleanup.
type engine interface {
	Kill() error
	Tail() string
}

// RunClickHouse starts a server for one test, as [StartClickHouse] does.
func RunClickHouse(t testing.TB, options ...Option) *ClickHouse {
	t.Helper()
	server, err := StartClickHouse(t.TempDir(), options...)
	Need(t, err)
	cleanup(t, server)
	return server
}

// cleanup ends the engine with the test, and shows its error log if the test
// failed. The directory goes with the test, so nothing is lost by a kill.
func cleanup(t testing.TB, e engine) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(e.Tail())
		}
		if err := e.Kill(); err != nil {
			t.Error(err)
		}
	})
}
