package engines

import "testing"

// engine is what every started engine offers to a test's cleanup.
type engine interface {
	Kill() error
	Tail() string
}

// FreePort returns a port for one test, see [Port].
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := Port()
	Need(t, err)
	return port
}

// RunClickHouse starts a server for one test, as [StartClickHouse] does.
func RunClickHouse(t testing.TB, options ...Option) *ClickHouse {
	t.Helper()
	server, err := StartClickHouse(t.TempDir(), options...)
	Need(t, err)
	cleanup(t, server)
	return server
}

// RunCluster starts a cluster for one test, as [StartClusterOf] does.
func RunCluster(t testing.TB, shards, replicas int, options ...Option) *Cluster {
	t.Helper()
	cluster, err := StartClusterOf(t.TempDir(), shards, replicas, options...)
	Need(t, err)
	cleanup(t, cluster)
	return cluster
}

// RunS3 starts a server for one test, as [StartS3] does.
func RunS3(t testing.TB) *S3 {
	t.Helper()
	server, err := StartS3(t.TempDir())
	Need(t, err)
	cleanup(t, server)
	return server
}

// RunPrometheus starts a server for one test, as [StartPrometheus] does.
func RunPrometheus(t testing.TB, c PrometheusConfig) *Prometheus {
	t.Helper()
	server, err := StartPrometheus(t.TempDir(), c)
	Need(t, err)
	cleanup(t, server)
	return server
}

// RunPushgateway starts a server for one test, as [StartPushgateway] does.
func RunPushgateway(t testing.TB) *Pushgateway {
	t.Helper()
	server, err := StartPushgateway(t.TempDir())
	Need(t, err)
	cleanup(t, server)
	return server
}

// RunAlertmanager starts a server for one test, as [StartAlertmanager] does.
func RunAlertmanager(t testing.TB, webhook string) *Alertmanager {
	t.Helper()
	server, err := StartAlertmanager(t.TempDir(), webhook)
	Need(t, err)
	cleanup(t, server)
	return server
}

// RunNodeExporter starts a server for one test, as [StartNodeExporter] does.
func RunNodeExporter(t testing.TB) *NodeExporter {
	t.Helper()
	server, err := StartNodeExporter(t.TempDir())
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
