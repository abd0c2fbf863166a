package engines_test

import (
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

const replicated = `CREATE TABLE t ON CLUSTER docgauge (n Int64)
	ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/t', '{replica}') ORDER BY n`

func TestClusterReplicates(t *testing.T) {
	cluster := engines.RunCluster(t, 1, 2)
	first, second := cluster.Nodes[0], cluster.Nodes[1]
	exec(t, first, replicated)
	exec(t, first, "INSERT INTO t VALUES (42)")
	eventually(t, second, "SELECT n FROM t", "42\n")

	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	exec(t, first, "INSERT INTO t VALUES (43)")
	if err := second.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, second, "SELECT n FROM t ORDER BY n", "42\n43\n")
	if err := cluster.Stop(); err != nil {
		t.Error(err)
	}
}

func TestClusterShards(t *testing.T) {
	cluster := engines.RunCluster(t, 2, 1)
	exec(t, cluster.Nodes[0], replicated)
	exec(t, cluster.Nodes[0], "CREATE TABLE all ON CLUSTER docgauge AS t ENGINE = Distributed(docgauge, default, t, n)")
	for i, node := range cluster.Nodes {
		exec(t, node, []string{"INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"}[i])
	}
	for i, node := range cluster.Nodes {
		if got, want := exec(t, node, "SELECT n FROM t"), []string{"1\n", "2\n"}[i]; got != want {
			t.Errorf("shard %d holds %q, want %q", i+1, got, want)
		}
		if got := exec(t, node, "SELECT sum(n) FROM all"); got != "3\n" {
			t.Errorf("the whole from shard %d: %q, want 3", i+1, got)
		}
	}
}

// eventually asks until the answer is as wanted: the end of replication cannot be
// waited for.
func eventually(t *testing.T, server *engines.ClickHouse, sql, want string) {
	t.Helper()
	var got string
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got = exec(t, server, sql); got == want {
			return
		}
	}
	t.Fatalf("%s: %q, want %q", sql, got, want)
}
