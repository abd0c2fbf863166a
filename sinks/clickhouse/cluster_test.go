package clickhouse

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/engines"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// clusterDatabase makes an empty database on every node, dropped at the end.
func clusterDatabase(t *testing.T, c *engines.Cluster) string {
	t.Helper()
	name := fmt.Sprintf("c%d", shared.count.Add(1))
	for _, node := range c.Nodes {
		must(t, node, "CREATE DATABASE "+name)
	}
	t.Cleanup(func() {
		for _, node := range c.Nodes {
			if _, err := node.Exec(context.Background(), "DROP DATABASE "+name); err != nil {
				t.Log(err)
			}
		}
	})
	return name
}

func openOn(t *testing.T, c *engines.Cluster, node int, database string) *Sink {
	t.Helper()
	s, err := New(Config{DSN: c.Nodes[node].DSN(database), Cluster: c.Name, Version: "test", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestClusterContract(t *testing.T) {
	for _, form := range []struct {
		name             string
		shards, replicas int
	}{{"one shard of two replicas", 1, 2}, {"two shards", 2, 1}} {
		t.Run(form.name, func(t *testing.T) {
			c := engines.RunCluster(t, form.shards, form.replicas)
			sinktest.Run(t, func(t *testing.T) (sinks.Sink, sinktest.Reader) {
				name := clusterDatabase(t, c)
				return openOn(t, c, 0, name), newReader(t, c.Nodes[1].DSN(name))
			})
		})
	}
}
